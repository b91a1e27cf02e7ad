//! The check before attention: by entries, with and without attention's own table, beside a launch that does nothing.

use pagestamp::memory::Lane;
use pagestamp::memory::cuda::{AttentionTable, CudaMemory, GuardTable};
use pagestamp::{CapacityPlan, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, Request, Reservation};

use crate::Scale;
use crate::engine::{Engine, Stream, settle};
use crate::race::{Course, Work};
use crate::report::{Report, Row};

const PAGE_TOKENS: u64 = 16;
/// The check reads stamps, not pages: these are small.
const TOKEN_BYTES: u32 = 16;

pub(crate) fn measure(engine: &Engine, scale: Scale, report: &mut Report) {
    let (entries, sequences): (&[u32], &[u32]) =
        if scale == Scale::Full { (&[1 << 10, 4 << 10, 16 << 10, 64 << 10], &[16, 256]) } else { (&[64, 256], &[8]) };
    for &sequences in sequences {
        for &entries in entries {
            size(engine, scale, report, entries, sequences);
        }
    }
}

fn size(engine: &Engine, scale: Scale, report: &mut Report, entries: u32, sequences: u32) {
    let geometry = PageGeometry::new(PAGE_TOKENS as u32, &[Plane::per_token(1, TOKEN_BYTES)]).unwrap();
    let memory = CudaMemory::new(&engine.driver, 0, geometry, entries + 2).unwrap();
    let stream = engine.stream();
    // SAFETY: (1) the stream is never destroyed. (2) it is the only one.
    let lane = unsafe { memory.add_lane(stream as u64) }.unwrap();
    let pool = PagePool::new(PoolConfig::new(entries + 2), memory).unwrap();
    settle(&pool);

    let row_cells = entries / sequences;
    let mut batch = batch(&pool, sequences, row_cells, lane);
    let cells: Vec<u32> = batch.iter().flat_map(|kv| kv.handles().map(|handle| handle.index())).collect();
    let address = engine.allocate(cells.len() * size_of::<u32>());
    engine.upload(address, &cells, stream);
    let attention = AttentionTable { address, row_cells };

    let mut with = Checked::new(&pool, &batch, lane, Some(attention));
    let mut without = Checked::new(&pool, &batch, lane, None);
    let mut nothing = Nothing { engine, stream };
    let course = Course { from: stream, to: stream, scale };
    let times = course.race(engine, &mut [&mut with, &mut without, &mut nothing]);
    assert!(with.table.verdict().unwrap().is_clean() && without.table.verdict().unwrap().is_clean());

    // Times of a check that does not check mean nothing.
    drop(batch.pop());
    settle(&pool);
    with.queue();
    engine.finish(stream);
    let flagged: Vec<u32> = with.table.verdict().unwrap().flagged().collect();
    assert_eq!(flagged, [sequences - 1], "what is stale is let through");

    let sizes = [("entries", u64::from(entries)), ("sequences", u64::from(sequences))];
    let names = ["pagestamp, with attention's table", "pagestamp", "an empty launch"];
    for (who, time) in names.into_iter().zip(&times) {
        let base = (who != "an empty launch").then_some(("an empty launch", times[2]));
        report.row(&Row { what: "check", who, sizes: &sizes, times: *time, base, bytes: None });
    }
}

/// A batch that is decoded: each sequence has its pages, written to the end.
fn batch(pool: &PagePool<CudaMemory>, sequences: u32, pages: u32, lane: Lane) -> Vec<Reservation<CudaMemory>> {
    let tokens = u64::from(pages) * PAGE_TOKENS;
    let proof = pool.prove(CapacityPlan::new(tokens)).unwrap();
    let mut sequence = |id| {
        let request = Request::new(OwnerId::new(id).unwrap(), tokens).on_lane(lane);
        let mut kv = pool.reserve(&proof, request, tokens).unwrap();
        kv.assume_written(tokens).unwrap();
        kv
    };
    (1..=u64::from(sequences)).map(&mut sequence).collect()
}

struct Checked {
    table: GuardTable,
    lane: Lane,
    attention: Option<AttentionTable>,
}

impl Checked {
    fn new(
        pool: &PagePool<CudaMemory>,
        batch: &[Reservation<CudaMemory>],
        lane: Lane,
        attention: Option<AttentionTable>,
    ) -> Self {
        let entries = batch.iter().map(|kv| kv.handles().count() as u32).sum();
        let mut table = GuardTable::new(pool, batch.len() as u32, entries).unwrap();
        for kv in batch {
            table.push(kv, kv.written_tokens()).unwrap();
        }
        Self { table, lane, attention }
    }
}

impl Work for Checked {
    fn queue(&mut self) {
        // SAFETY: (1) attention's table has the rows and cells that it is said to, and is never freed.
        unsafe { self.table.check(self.lane, self.attention) }.unwrap();
    }
}

struct Nothing<'e> {
    engine: &'e Engine,
    stream: Stream,
}

impl Work for Nothing<'_> {
    fn queue(&mut self) {
        self.engine.launch_nothing(self.stream);
    }
}
