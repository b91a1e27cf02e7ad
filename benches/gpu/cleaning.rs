//! Cleaning: scattered pages in one batch, beside one fill of the same bytes and a fill for each page.

use pagestamp::memory::cuda::CudaMemory;
use pagestamp::memory::{CleanPage, Fence, FenceState, Heat, Lane, Span};
use pagestamp::{PageGeometry, PageMemory, Plane};

use crate::Scale;
use crate::engine::{Engine, Stream};
use crate::race::{Course, Work};
use crate::report::{Report, Row};

const PAGE_BYTES: [u32; 5] = [16 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20];
/// Tokens of a page; a page is cleaned as a whole, so it does not matter.
const PAGE_TOKENS: u32 = 16;

pub(crate) fn measure(engine: &Engine, scale: Scale, report: &mut Report) {
    // A large request's pages, and as many bytes as no cache holds.
    let batches: &[u64] = if scale == Scale::Full { &[64 << 20, 1 << 30] } else { &[2 << 20] };
    for &batch_bytes in batches {
        for page_bytes in PAGE_BYTES {
            size(engine, scale, report, page_bytes, batch_bytes);
        }
    }
}

fn size(engine: &Engine, scale: Scale, report: &mut Report, page_bytes: u32, batch_bytes: u64) {
    let pages = (batch_bytes / u64::from(page_bytes)) as u32;
    let geometry = PageGeometry::new(PAGE_TOKENS, &[Plane::per_token(1, page_bytes / PAGE_TOKENS)]).unwrap();
    let memory = CudaMemory::new(&engine.driver, 0, geometry, pages).unwrap();
    let stream = engine.stream();
    // SAFETY: (1) the stream is never destroyed. (2) it is the only one.
    let lane = unsafe { memory.add_lane(stream as u64) }.unwrap();
    let base = memory.plane_address(0).unwrap();

    let batch = scattered(pages);
    let mut ours = Ours { memory: &memory, batch, lane, fence: None };
    ours.prove(engine, stream, base, page_bytes as usize);
    let mut whole = Fills { engine, stream, base, bytes: batch_bytes as usize, count: 1 };
    let mut each = Fills { engine, stream, base, bytes: page_bytes as usize, count: pages };
    let course = Course { from: stream, to: stream, scale };
    let times = course.race(engine, &mut [&mut ours, &mut whole, &mut each]);
    ours.prepare();

    let sizes = [("page_bytes", u64::from(page_bytes)), ("batch_bytes", batch_bytes)];
    let names = ["pagestamp", "one memset", "a memset for each page"];
    for (who, time) in names.into_iter().zip(&times) {
        let base = (who != "one memset").then_some(("one memset", times[1]));
        report.row(&Row { what: "cleaning", who, sizes: &sizes, times: *time, base, bytes: Some(batch_bytes) });
    }
}

/// All pages, in no order that a kernel could profit from.
fn scattered(pages: u32) -> Vec<CleanPage> {
    let clean = |page| CleanPage { page, tokens: PAGE_TOKENS, heat: Heat::Cold };
    let mut batch: Vec<CleanPage> = (0..pages).map(clean).collect();
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    for at in (1..batch.len()).rev() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        batch.swap(at, (random % (at as u64 + 1)) as usize);
    }
    batch
}

struct Ours<'m> {
    memory: &'m CudaMemory,
    batch: Vec<CleanPage>,
    lane: Lane,
    fence: Option<Fence>,
}

impl Ours<'_> {
    /// Times of a cleaning that does not clean mean nothing.
    fn prove(&mut self, engine: &Engine, stream: Stream, base: u64, page_bytes: usize) {
        engine.fill(base, 0x5E, self.batch.len() * page_bytes, stream);
        self.queue();
        engine.finish(stream);
        let mut bytes = vec![1; page_bytes];
        for page in [0, self.batch.len() as u32 / 2, self.batch.len() as u32 - 1] {
            // SAFETY: (1) nobody else has the memory.
            unsafe { self.memory.read(Span { page, plane: 0, offset: 0 }, &mut bytes) }.unwrap();
            assert!(bytes.iter().all(|byte| *byte == 0), "page {page} is not zero");
        }
    }
}

impl Work for Ours<'_> {
    fn prepare(&mut self) {
        if let Some(fence) = self.fence.take() {
            while self.memory.poll(fence) == FenceState::Pending {
                std::hint::spin_loop();
            }
            assert_eq!(self.memory.poll(fence), FenceState::Done);
        }
    }

    fn queue(&mut self) {
        // SAFETY: (1) the pages are nobody's: this memory has no pool. (2) the one stream that was named is live.
        let fence = unsafe { self.memory.clean(&self.batch) }.unwrap();
        self.memory.order_after(fence, self.lane).unwrap();
        self.fence = Some(fence);
    }
}

struct Fills<'e> {
    engine: &'e Engine,
    stream: Stream,
    base: u64,
    bytes: usize,
    count: u32,
}

impl Work for Fills<'_> {
    fn queue(&mut self) {
        for at in 0..u64::from(self.count) {
            self.engine.fill(self.base + at * self.bytes as u64, 0, self.bytes, self.stream);
        }
    }
}
