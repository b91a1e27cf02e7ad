//! Every order in which a release, a reuse, a check, an event and a late kernel can meet on the device.
//!
//! All streams are held, the library's own among them, and run one piece of work at a time. A schedule is an order of the
//! streams, by which always the first runs that has something to run, and a point at which another stream is put in front:
//! mistakes of order need no more than one such point each.

use pagestamp::memory::Lane;
use pagestamp::memory::cuda::{AttentionTable, CudaMemory, GuardTable};
use pagestamp::*;

use crate::driver::{
    EngineBytes, EngineStream, hold_all, is_stand_in, peek, pending, release_all, run_one, streams_between, turn,
};
use crate::guard::name;
use crate::life::{P, owner, pool, settle, take};

/// What the tenants' kernels write.
const OLD: u8 = 0xA1;
const NEW: u8 = 0xB2;
/// Bytes of a page in the first plane.
const BYTES: usize = 64 * P as usize;

/// A pool of one page, two lanes of the engine, and all streams that there are.
struct Stage {
    pool: PagePool<CudaMemory>,
    streams: [EngineStream; 2],
    lanes: [Lane; 2],
    /// The library's for copies that the host waits for, which holds nothing but an event here.
    copies: u64,
    all: Vec<u64>,
    base: u64,
    /// What attention reads by, and what it read: two steps of the old tenant and one of the new.
    cells: [EngineBytes; 3],
    seen: [EngineBytes; 3],
    /// What a kernel of the new tenant reads that checks nothing.
    unchecked: EngineBytes,
    tables: [GuardTable; 3],
}

impl Stage {
    fn new() -> Self {
        let first = EngineStream::new();
        let pool = pool(1);
        let last = EngineStream::new();
        let lanes = [name(&pool, &first), name(&pool, &last)];
        let own = streams_between(&first, &last);
        let all = [&own[1..], &[first.0, last.0]].concat();
        // SAFETY: (1) of `PagePool::memory`: bytes are written by the holder of the page alone, and by the late kernel.
        let base = unsafe { pool.memory() }.plane_address(0).unwrap();
        let table = || GuardTable::new(&pool, 1, 1).unwrap();
        let tables = [table(), table(), table()];
        let bytes = |bytes| [(); 3].map(|()| EngineBytes::new(bytes));
        Self {
            lanes,
            copies: own[0],
            all,
            base,
            cells: bytes(4),
            seen: bytes(BYTES),
            unchecked: EngineBytes::new(BYTES),
            tables,
            streams: [first, last],
            pool,
        }
    }

    /// Checks a table, and reads what its cell names then, as attention would.
    fn attend(&mut self, which: usize, lane: usize, page: u32) {
        let stream = &self.streams[lane];
        stream.put(self.cells[which].0, &page.to_ne_bytes());
        let cells = AttentionTable { address: self.cells[which].0, row_cells: 1 };
        // SAFETY: (1) one cell, which lives as long as the stage.
        unsafe { self.tables[which].check(self.lanes[lane], Some(cells)) }.unwrap();
        let from = self.base + u64::from(page) * BYTES as u64;
        stream.copy(self.seen[which].0, from, BYTES);
    }

    /// Whether a check passed, which must have been made, and what was read behind it.
    fn answer(&mut self, which: usize) -> (bool, Vec<u8>) {
        let passed = self.tables[which].verdict().unwrap().is_clean();
        let page = u32::from_ne_bytes(peek(self.cells[which].0, 4).try_into().unwrap());
        assert_eq!(passed, page != self.pool.null_page().unwrap(), "a refused page is taken out");
        self.tables[which].clear().unwrap();
        (passed, peek(self.seen[which].0, BYTES))
    }
}

/// An order of the streams, and the step at which the one at a place is put in front.
#[derive(Clone, Debug)]
struct Schedule {
    order: Vec<usize>,
    at: usize,
    front: usize,
}

/// Orders of so many things.
fn orders(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let insert = |order: Vec<usize>| {
        (0..=order.len()).map(move |at| [&order[..at], &[count - 1], &order[at..]].concat()).collect::<Vec<_>>()
    };
    orders(count - 1).into_iter().flat_map(insert).collect()
}

impl Schedule {
    /// Runs everything that the streams hold, in this order, and says how many pieces there were.
    fn run(&self, streams: &[u64]) -> usize {
        let mut order: Vec<_> = self.order.iter().map(|at| streams[*at]).collect();
        let mut steps = 0;
        loop {
            if steps == self.at {
                let front = order.remove(self.front);
                order.insert(0, front);
            }
            match order.iter().find(|stream| run_one(**stream)) {
                Some(_) => steps += 1,
                None => break,
            }
        }
        let left: Vec<_> = streams.iter().map(|stream| pending(*stream)).collect();
        assert!(left.iter().all(|left| *left == 0), "streams wait for one another: {left:?}");
        steps
    }

    /// All orders of the streams, each without a change and with the changes at every third step, beginning elsewhere for each
    /// order.
    fn all(streams: usize, steps: usize) -> Vec<Self> {
        let mut all = Vec::new();
        for (number, order) in orders(streams).into_iter().enumerate() {
            let at = |at, front| Self { order: order.clone(), at, front };
            all.push(at(usize::MAX, 0));
            let changes = (number % 3..steps).step_by(3).flat_map(|step| (1..streams).map(move |front| (step, front)));
            all.extend(changes.map(|(step, front)| at(step, front)));
        }
        all
    }
}

/// When the old tenant's second check, by its stale table, is queued.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Late {
    /// On the lane of the old tenant, before anybody has the page.
    BeforeReuse,
    AfterReuse,
    /// On the lane that waits for the cleaning.
    OnNewLane,
}

/// Streams that are held, also when a test fails: what is dropped then waits for them.
struct Held;

impl Held {
    fn all() -> Self {
        hold_all();
        Self
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        release_all();
    }
}

/// One meeting, everything queued while all is held: the old tenant's kernels and checks on one lane, the release, the
/// reuse and the new tenant's kernels on the other.
fn meet(stage: &mut Stage, late: Late, schedule: &Schedule) -> usize {
    // The engine's streams change places.
    let (theirs, ours) = (schedule.order[0] % 2, 1 - schedule.order[0] % 2);
    let mut old = take(&stage.pool, 1, P);
    old.assume_written(P).unwrap();
    let page = old.handle(0).unwrap().index();
    let at = stage.base + u64::from(page) * BYTES as u64;
    let held = Held::all();
    stage.tables[0].push(&old, P).unwrap();
    stage.tables[1].push(&old, P).unwrap();
    stage.streams[theirs].fill(at, OLD, BYTES);
    stage.attend(0, theirs, page);
    stage.streams[theirs].fill(at, OLD, BYTES); // late
    old.release();
    stage.pool.maintain(usize::MAX);
    assert_eq!(stage.pool.stats().fenced_pages, 1, "cleaned in front of its last user");
    if late == Late::BeforeReuse {
        stage.attend(1, theirs, page);
    }
    let proof = stage.pool.prove(CapacityPlan::new(P)).unwrap();
    let mut new = stage.pool.reserve(&proof, Request::new(owner(2), P).on_lane(stage.lanes[ours]), P).unwrap();
    assert_eq!(new.handle(0).unwrap().index(), page);
    new.assume_written(P).unwrap();
    stage.streams[ours].copy(stage.unchecked.0, at, BYTES);
    assert!(matches!(new.read(0..1), Err(ReadError::Pending { .. })), "the host reads what is being cleaned");
    if late == Late::OnNewLane {
        stage.attend(1, ours, page);
    }
    stage.tables[2].push(&new, P).unwrap();
    stage.attend(2, ours, page);
    stage.streams[ours].fill(at, NEW, BYTES);
    if late == Late::AfterReuse {
        stage.attend(1, theirs, page);
    }
    while run_one(stage.copies) {}
    let steps = schedule.run(&stage.all);
    let (passed, seen) = stage.answer(0);
    assert!(passed && seen.iter().all(|byte| *byte == OLD), "the old tenant's own step: {passed}, {schedule:?}");
    let unchecked = peek(stage.unchecked.0, BYTES);
    assert!(unchecked.iter().all(|byte| *byte == 0), "the lane is ahead of the cleaning, {late:?} {schedule:?}");
    let (passed, seen) = stage.answer(2);
    assert!(passed, "the new tenant's step is refused, {late:?} {schedule:?}");
    assert!(seen.iter().all(|byte| *byte == 0), "the new tenant reads bytes of before, {late:?} {schedule:?}");
    let (passed, _) = stage.answer(1);
    assert!(!passed, "a stale table passes, {late:?} {schedule:?}");
    let there = peek(at, BYTES);
    assert!(
        there.iter().all(|byte| *byte == NEW),
        "a late kernel or cleaning wrote to the new tenant's page, {late:?} {schedule:?}"
    );
    drop(held);
    stage.pool.maintain(0);
    assert!(new.read(0..1).is_ok());
    drop(new);
    settle(&stage.pool);
    stage.pool.audit().unwrap();
    stage.pool.audit_bytes(0..3).unwrap();
    steps
}

fn meet_in_every_order(late: Late) {
    let mut stage = Stage::new();
    let count = stage.all.len();
    let steps = meet(&mut stage, late, &Schedule { order: (0..count).collect(), at: usize::MAX, front: 0 });
    for schedule in Schedule::all(count, steps) {
        meet(&mut stage, late, &schedule);
    }
}

// C3, C4, C7
#[test]
fn a_stale_check_in_front_of_the_reuse_is_refused_in_every_order() {
    let _turn = turn();
    if is_stand_in() {
        meet_in_every_order(Late::BeforeReuse);
    }
}

// C3, C4, C7
#[test]
fn a_stale_check_behind_the_reuse_is_refused_in_every_order() {
    let _turn = turn();
    if is_stand_in() {
        meet_in_every_order(Late::AfterReuse);
    }
}

// C3, C4, C7
#[test]
fn a_stale_check_on_the_new_tenants_lane_is_refused_in_every_order() {
    let _turn = turn();
    if is_stand_in() {
        meet_in_every_order(Late::OnNewLane);
    }
}
