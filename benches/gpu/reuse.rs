//! From a release on one stream to the same pages in the hands of another: through the pool, and by hand.

use std::ffi::c_void;

use pagestamp::memory::Lane;
use pagestamp::memory::cuda::CudaMemory;
use pagestamp::{
    CapacityPlan, CapacityProof, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, Request, Reservation,
};

use crate::Scale;
use crate::engine::{Engine, Stream, Timing, settle};
use crate::race::{Course, Work};
use crate::report::{Report, Row};

const PAGE_TOKENS: u64 = 16;

pub(crate) fn measure(engine: &Engine, scale: Scale, report: &mut Report) {
    let (pages, page_bytes): (&[u32], u32) =
        if scale == Scale::Full { (&[1, 64, 1024, 8192], 64 << 10) } else { (&[1, 16], 4 << 10) };
    for &pages in pages {
        size(engine, scale, report, pages, page_bytes);
    }
}

fn size(engine: &Engine, scale: Scale, report: &mut Report, pages: u32, page_bytes: u32) {
    let plane = Plane::per_token(1, page_bytes / PAGE_TOKENS as u32);
    let geometry = PageGeometry::new(PAGE_TOKENS as u32, &[plane]).unwrap();
    // As many as one request takes: the next one gets the same, or none.
    let memory = CudaMemory::new(&engine.driver, 0, geometry, pages + 2).unwrap();
    let streams = [engine.stream(), engine.stream()];
    // SAFETY: (1) the streams are never destroyed. (2) there are no others.
    let lanes = streams.map(|stream| unsafe { memory.add_lane(stream as u64) }.unwrap());
    let pool = PagePool::new(PoolConfig::new(pages + 2), memory).unwrap();
    settle(&pool);

    let bytes = u64::from(pages) * u64::from(page_bytes);
    let proof = pool.prove(CapacityPlan::new(u64::from(pages) * PAGE_TOKENS)).unwrap();
    let tokens = u64::from(pages) * PAGE_TOKENS;
    let mut ours = Ours { pool: &pool, proof, tokens, lanes, held: None, next: None };
    let events = [engine.event(Timing::Off), engine.event(Timing::Off)];
    let address = engine.allocate(bytes as usize);
    let mut by_hand =
        ByHand { engine, streams: [streams[0], engine.stream(), streams[1]], events, address, bytes: bytes as usize };
    let course = Course { from: streams[0], to: streams[1], scale };
    let times = course.race(engine, &mut [&mut ours, &mut by_hand]);
    drop(ours);
    settle(&pool);
    pool.audit().unwrap();

    let sizes = [("pages", u64::from(pages)), ("page_bytes", u64::from(page_bytes))];
    for (who, time) in ["pagestamp", "one memset between two events"].into_iter().zip(&times) {
        let base = (who == "pagestamp").then_some(("one memset", times[1]));
        report.row(&Row { what: "reuse", who, sizes: &sizes, times: *time, base, bytes: Some(bytes) });
    }
}

struct Ours<'p> {
    pool: &'p PagePool<CudaMemory>,
    proof: CapacityProof,
    tokens: u64,
    lanes: [Lane; 2],
    held: Option<Reservation<CudaMemory>>,
    next: Option<Reservation<CudaMemory>>,
}

impl Ours<'_> {
    /// Takes all pages: free ones, or in front of the fences of those that were just released.
    fn reserve(&self, owner: u64, lane: Lane) -> Reservation<CudaMemory> {
        let request = Request::new(OwnerId::new(owner).unwrap(), self.tokens).on_lane(lane);
        self.pool.reserve(&self.proof, request, self.tokens).unwrap()
    }
}

impl Work for Ours<'_> {
    fn prepare(&mut self) {
        drop(self.next.take());
        settle(self.pool);
        self.held = Some(self.reserve(1, self.lanes[0]));
    }

    fn queue(&mut self) {
        self.held.take().unwrap().release();
        self.next = Some(self.reserve(2, self.lanes[1]));
    }
}

/// What an engine without a pool would do for one piece of memory: no list, no stamps, nothing is checked.
struct ByHand<'e> {
    engine: &'e Engine,
    /// The first user's, the one that cleans, the next user's.
    streams: [Stream; 3],
    events: [*mut c_void; 2],
    address: u64,
    bytes: usize,
}

impl Work for ByHand<'_> {
    fn queue(&mut self) {
        let (engine, [user, cleaner, next], [left, clean]) = (self.engine, self.streams, self.events);
        engine.record(left, user);
        engine.wait_for(left, cleaner);
        engine.fill(self.address, 0, self.bytes, cleaner);
        engine.record(clean, cleaner);
        engine.wait_for(clean, next);
    }
}
