//! The device refuses what a wrong table names, right before attention reads by it.

use pagestamp::memory::Lane;
use pagestamp::memory::cuda::{AttentionTable, CudaMemory, GuardError, GuardReason, GuardTable};
use pagestamp::*;

use crate::driver::{
    EngineBytes, EngineStream, calls, driver, fail, hold, is_stand_in, peek, release, streams_between, turn,
};
use crate::life::{P, geometry, owner, pool, settle, take, write};

/// A pool, and a stream that is named to it.
pub(crate) struct Bench {
    pub(crate) pool: PagePool<CudaMemory>,
    pub(crate) stream: EngineStream,
    pub(crate) lane: Lane,
}

impl Bench {
    pub(crate) fn new(pages: u32) -> Self {
        let (pool, stream) = (pool(pages), EngineStream::new());
        let lane = name(&pool, &stream);
        Self { pool, stream, lane }
    }

    /// A reservation whose tokens are all written.
    pub(crate) fn filled(&self, id: u64, tokens: u64) -> Reservation<CudaMemory> {
        let mut kv = take(&self.pool, id, tokens);
        write(&mut kv, tokens, id as u8);
        kv
    }

    fn null(&self) -> u32 {
        self.pool.null_page().unwrap()
    }

    /// Checks a table with attention's cells, and answers what is in them afterwards.
    fn check(&self, table: &mut GuardTable, cells: &[u32], row_cells: u32) -> Vec<u32> {
        let there = EngineBytes::words(cells, &self.stream);
        let attention = AttentionTable { address: there.0, row_cells };
        // SAFETY: (1) so many cells are there until `get_words` has waited for the stream.
        unsafe { table.check(self.lane, Some(attention)) }.unwrap();
        there.get_words(&self.stream)
    }
}

pub(crate) fn name(pool: &PagePool<CudaMemory>, stream: &EngineStream) -> Lane {
    // SAFETY: (1) of `PagePool::memory`: nothing is written.
    let memory = unsafe { pool.memory() };
    // SAFETY: (1) streams of the tests live for ever. (2) the tests name each that they use on pages.
    unsafe { memory.add_lane(stream.0) }.unwrap()
}

fn pages<M: PageMemory>(kv: &Reservation<M>) -> Vec<u32> {
    kv.handles().map(|handle| handle.index()).collect()
}

// C4
#[test]
fn right_rows_pass_and_what_no_entry_stands_for_is_the_null_page() {
    let _turn = turn();
    let bench = Bench::new(6);
    let (a, b) = (bench.filled(1, 3 * P), bench.filled(2, P + 1));
    let mut table = GuardTable::new(&bench.pool, 4, 16).unwrap();
    assert!(matches!(table.verdict(), Err(GuardError::NeverChecked)));
    assert_eq!((table.push(&a, 2 * P + 1).unwrap(), table.push(&b, P + 1).unwrap()), (0, 1));
    assert_eq!((table.rows(), table.entries()), (2, 5));
    let (pa, pb, junk) = (pages(&a), pages(&b), 77);
    let cells = [pa[0], pa[1], pa[2], junk, pb[0], pb[1], junk, junk];
    let checked = bench.check(&mut table, &cells, 4);
    let null = bench.null();
    assert_eq!(checked, [pa[0], pa[1], pa[2], null, pb[0], pb[1], null, null]);
    let verdict = table.verdict().unwrap();
    assert!(verdict.is_clean() && verdict.fault().is_none());
    assert_eq!(verdict.flagged().count(), 0);
    assert!(!verdict.is_flagged(1) && verdict.is_flagged(2), "a row that was not checked is no good one");
}

// C4
#[test]
fn a_page_in_its_next_life_is_read_as_zeroes_and_its_row_is_flagged() {
    let _turn = turn();
    let bench = Bench::new(2);
    let stale = bench.filled(1, 2 * P);
    let named = pages(&stale);
    let mut table = GuardTable::new(&bench.pool, 2, 8).unwrap();
    table.push(&stale, 2 * P).unwrap();
    stale.release();
    settle(&bench.pool);
    // nobody has them
    assert_eq!(bench.check(&mut table, &named, 2), [bench.null(); 2]);
    let fault = table.verdict().unwrap().fault().unwrap();
    assert_eq!((fault.reason, fault.row, fault.index, fault.page), (GuardReason::Released, 0, 0, named[0]));
    assert_eq!((fault.expected_owner, fault.found_owner, fault.faults), (Some(owner(1)), None, 2));
    // somebody else has them
    let next = bench.filled(2, 2 * P);
    assert_eq!(bench.check(&mut table, &named, 2), [bench.null(); 2]);
    let verdict = table.verdict().unwrap();
    let fault = verdict.fault().unwrap();
    assert_eq!((fault.reason, fault.found_owner, fault.faults), (GuardReason::Released, Some(owner(2)), 2));
    assert!(fault.found_generation > fault.expected_generation);
    assert_eq!((verdict.flagged().collect::<Vec<_>>(), verdict.is_clean()), (vec![0], false));
    // and may read them
    table.clear().unwrap();
    table.push(&next, 2 * P).unwrap();
    assert_eq!(bench.check(&mut table, &pages(&next), 2), pages(&next));
    assert!(table.verdict().unwrap().is_clean(), "the flags of the step before are gone");
}

// C4
#[test]
fn a_cell_that_names_another_page_than_the_reservation_is_taken_out() {
    let _turn = turn();
    let bench = Bench::new(6);
    let (alice, bob) = (bench.filled(1, 2 * P), bench.filled(2, 3 * P));
    let mut table = GuardTable::new(&bench.pool, 4, 16).unwrap();
    table.push(&alice, 2 * P).unwrap();
    table.push(&bob, 3 * P).unwrap();
    // The engine's own table gives Bob a page of Alice, and a page that there is not.
    let (pa, pb, null) = (pages(&alice), pages(&bob), bench.null());
    let checked = bench.check(&mut table, &[pa[0], pa[1], null, pb[0], pa[1], 900], 3);
    assert_eq!(checked, [pa[0], pa[1], null, pb[0], null, null]);
    let verdict = table.verdict().unwrap();
    let fault = verdict.fault().unwrap();
    assert_eq!((fault.reason, fault.row, fault.index), (GuardReason::OtherPage, 1, 3));
    assert_eq!((fault.page, fault.seen, fault.faults), (pb[1], pa[1], 2));
    assert_eq!(verdict.flagged().collect::<Vec<_>>(), [1], "Alice's row is right");
}

// C4
#[test]
fn rows_that_follow_one_another_are_checked_where_the_entries_stand() {
    let _turn = turn();
    let bench = Bench::new(6);
    let (a, b) = (bench.filled(1, 2 * P), bench.filled(2, 2 * P));
    let mut table = GuardTable::new(&bench.pool, 4, 16).unwrap();
    table.push(&a, 2 * P).unwrap();
    table.push(&b, 2 * P).unwrap();
    let (pa, pb) = (pages(&a), pages(&b));
    b.release();
    settle(&bench.pool);
    let checked = bench.check(&mut table, &[pa[0], pa[1], pb[0], pb[1], 55], 0);
    assert_eq!(
        checked,
        [pa[0], pa[1], bench.null(), bench.null(), 55],
        "what is behind the entries is not the table's"
    );
    assert_eq!(table.verdict().unwrap().flagged().collect::<Vec<_>>(), [1]);
}

// C4
#[test]
fn a_row_with_more_pages_than_attention_has_cells_is_flagged() {
    let _turn = turn();
    let bench = Bench::new(4);
    let kv = bench.filled(1, 3 * P);
    let mut table = GuardTable::new(&bench.pool, 1, 8).unwrap();
    table.push(&kv, 3 * P).unwrap();
    let named = pages(&kv);
    assert_eq!(bench.check(&mut table, &named[..2], 2), named[..2]);
    assert_eq!(table.verdict().unwrap().fault().unwrap().reason, GuardReason::NoCell);
}

// C4
#[test]
fn a_stamp_of_another_owner_in_the_right_generation_is_foreign() {
    let _turn = turn();
    let bench = Bench::new(2);
    let kv = bench.filled(1, P);
    let mut table = GuardTable::new(&bench.pool, 1, 2).unwrap();
    table.push(&kv, P).unwrap();
    assert_eq!(bench.check(&mut table, &pages(&kv), 1), pages(&kv));
    // SAFETY: (1) of `PagePool::memory`: no page is written.
    let stamp = unsafe { bench.pool.memory() }.stamps_address() + u64::from(pages(&kv)[0]) * 16;
    bench.stream.put(stamp + 8, &9_u64.to_ne_bytes());
    assert_eq!(bench.check(&mut table, &pages(&kv), 1), [bench.null()]);
    let fault = table.verdict().unwrap().fault().unwrap();
    assert_eq!((fault.reason, fault.found_owner), (GuardReason::Foreign, Some(owner(9))));
    assert_eq!(fault.found_generation, fault.expected_generation);
}

// C4
#[test]
fn a_table_without_attentions_cells_is_judged_too() {
    let _turn = turn();
    let bench = Bench::new(4);
    let (a, b) = (bench.filled(1, P), bench.filled(2, P));
    let mut table = GuardTable::new(&bench.pool, 2, 2).unwrap();
    table.push(&a, P).unwrap();
    table.push(&b, P).unwrap();
    a.release();
    settle(&bench.pool);
    // SAFETY: (1) there are no cells.
    unsafe { table.check(bench.lane, None) }.unwrap();
    bench.stream.finish();
    assert_eq!(table.verdict().unwrap().flagged().collect::<Vec<_>>(), [0]);
    let flags = table.flags_address() as *const u8;
    // SAFETY: two bytes of pinned memory, and the check is done.
    assert_eq!(unsafe { std::slice::from_raw_parts(flags, 2) }, [1, 0]);
}

// C4
#[test]
fn a_check_that_has_not_run_is_no_verdict_and_its_table_is_not_touched() {
    let _turn = turn();
    if !is_stand_in() {
        return; // a real stream cannot be held
    }
    let bench = Bench::new(4);
    let kv = bench.filled(1, P);
    let mut table = GuardTable::new(&bench.pool, 2, 4).unwrap();
    table.push(&kv, P).unwrap();
    for _ in 0..2 {
        bench.stream.hold();
        // SAFETY: (1) there are no cells.
        unsafe { table.check(bench.lane, None) }.unwrap();
        assert!(matches!(table.verdict(), Err(GuardError::Unfinished)));
        assert_eq!(table.push(&kv, P), Err(GuardError::Unfinished));
        assert_eq!(table.clear(), Err(GuardError::Unfinished));
        assert_eq!(table.arm(bench.lane), Err(GuardError::Unfinished));
        bench.stream.release();
        bench.stream.finish();
        assert!(table.verdict().unwrap().is_clean());
    }
    // dropped while it is in use: it waits, and what the device writes is there until then
    bench.stream.hold();
    // SAFETY: (1) there are no cells.
    unsafe { table.check(bench.lane, None) }.unwrap();
    std::thread::scope(|scope| {
        let dropping = scope.spawn(|| drop(table));
        bench.stream.release();
        dropping.join().unwrap();
    });
    bench.stream.finish();
}

// C4
#[test]
fn a_table_that_is_taken_back_has_no_verdict_and_its_places_are_those_that_the_device_has() {
    let _turn = turn();
    let bench = Bench::new(2);
    let kv = bench.filled(1, 2 * P);
    let mut table = GuardTable::new(&bench.pool, 2, 4).unwrap();
    table.push(&kv, 2 * P).unwrap();
    for _ in 0..2 {
        table.arm(bench.lane).unwrap();
        bench.stream.finish();
        // A kernel of the engine would check here, by what lies there.
        let there = table.on_device();
        let words = |address, bytes| {
            let bytes = bench.stream.get(address, bytes);
            bytes.chunks(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect::<Vec<_>>()
        };
        for (at, handle) in (0..).zip(kv.handles()) {
            let stamp = words(there.stamps + u64::from(handle.index()) * 16, 16);
            assert_eq!(stamp, [handle.generation().get(), 1]);
            let entry = words(there.entries + at * 16, 16);
            assert_eq!((entry[0], entry[1] as u32), (handle.generation().get(), handle.index()));
        }
        assert_eq!(words(there.row_owners, 8), [1]);
        assert_eq!(words(there.row_offsets, 8), [2 << 32], "from 0 to 2");
        assert_eq!((there.max_pages, Some(there.null_page)), (4, bench.pool.null_page()));
        assert!(matches!(table.verdict(), Err(GuardError::Unfinished)));
        // SAFETY: (1) the stream is done with it.
        unsafe { table.take_back() };
        assert!(matches!(table.verdict(), Err(GuardError::NeverChecked)));
    }
    // SAFETY: (1) there are no cells. (2) nothing reads by the table.
    unsafe { table.check(bench.lane, None) }.unwrap();
    bench.stream.finish();
    assert!(table.verdict().unwrap().is_clean());
}

// C11
#[test]
fn a_row_that_does_not_fit_changes_nothing() {
    let _turn = turn();
    let bench = Bench::new(6);
    let kv = bench.filled(1, 3 * P);
    let mut table = GuardTable::new(&bench.pool, 1, 3).unwrap();
    let unwritten = ReadError::Unwritten { to_tokens: 3 * P + 1, written_tokens: 3 * P };
    assert_eq!(table.push(&kv, 3 * P + 1), Err(GuardError::Read(unwritten)));
    let other = Bench::new(2);
    let theirs = other.filled(1, P);
    let (expected, found) = (bench.pool.id(), other.pool.id());
    assert_eq!(table.push(&theirs, P), Err(GuardError::ForeignPool { expected, found }));
    table.push(&kv, P).unwrap();
    assert_eq!(table.push(&kv, P), Err(GuardError::TooManyRows { max_rows: 1 }));
    table.clear().unwrap();
    let mut small = GuardTable::new(&bench.pool, 3, 2).unwrap();
    small.push(&kv, P).unwrap();
    let many = GuardError::TooManyEntries { needed_entries: 4, max_entries: 2 };
    assert_eq!(small.push(&kv, 3 * P), Err(many));
    assert_eq!((small.rows(), small.entries()), (1, 1));
    assert_eq!(small.arm(Lane::from_raw(0xBAD0)), Err(GuardError::UnknownLane { lane: Lane::from_raw(0xBAD0) }));
    bench.pool.reclaim(owner(1));
    assert_eq!(table.push(&kv, P), Err(GuardError::Read(ReadError::Revoked)));
    let memory = CudaMemory::new(driver(), 0, geometry(), 4).unwrap();
    let bare = PagePool::new(PoolConfig::new(4).with_own_pages(OwnPages::None), memory).unwrap();
    assert!(matches!(GuardTable::new(&bare, 1, 1), Err(GuardError::NoNullPage)));
}

// C4
#[test]
fn a_table_that_changed_or_was_not_armed_says_nothing_of_its_last_round() {
    let _turn = turn();
    if !is_stand_in() {
        return;
    }
    let bench = Bench::new(4);
    let (kv, other) = (bench.filled(1, P), bench.filled(2, P));
    let mut table = GuardTable::new(&bench.pool, 2, 4).unwrap();
    table.push(&kv, P).unwrap();
    bench.check(&mut table, &pages(&kv), 1);
    assert!(table.verdict().unwrap().is_clean());
    table.push(&other, P).unwrap();
    assert!(matches!(table.verdict(), Err(GuardError::NeverChecked)), "a row that nobody looked at");
    fail("cuMemcpyHtoDAsync_v2", 1, 999);
    // SAFETY: (1) there are no cells.
    let refused = unsafe { table.check(bench.lane, None) };
    assert!(matches!(refused, Err(GuardError::Driver(_))), "{refused:?}");
    assert!(matches!(table.verdict(), Err(GuardError::NeverChecked)), "the round before is no answer");
    let named = [pages(&kv), pages(&other)].concat();
    assert_eq!(bench.check(&mut table, &named, 1), named);
    assert!(table.verdict().unwrap().is_clean());
}

// C3, C4
#[test]
fn the_null_page_is_zero_before_a_check_puts_it_into_a_table() {
    let _turn = turn();
    if !is_stand_in() {
        return;
    }
    let first = EngineStream::new();
    let memory = CudaMemory::new(driver(), 0, geometry(), 23).unwrap();
    let stream = EngineStream::new();
    let cleaning = streams_between(&first, &stream)[2];
    hold(cleaning);
    let pool = PagePool::new(PoolConfig::new(23), memory).unwrap();
    let lane = name(&pool, &stream);
    let mut table = GuardTable::new(&pool, 1, 1).unwrap();
    // SAFETY: (1) of `PagePool::memory`: nothing is written.
    let base = unsafe { pool.memory() }.plane_address(0).unwrap();
    let (cells, seen) = (EngineBytes::words(&[9], &stream), EngineBytes::new(64));
    let attention = AttentionTable { address: cells.0, row_cells: 1 };
    // SAFETY: (1) a row of one cell, which outlives the graph. (2) armed below. As an engine warms up, before any request.
    let graph = stream.capture(|| unsafe { table.capture(lane, Some(attention)) }.unwrap());
    table.arm(lane).unwrap();
    graph.launch(&stream);
    stream.copy(seen.0, base + u64::from(pool.null_page().unwrap()) * 64 * P, 64);
    release(cleaning);
    assert!(seen.get_words(&stream).iter().all(|word| *word == 0), "what the memory held before is read as padding");
    assert_eq!(cells.get_words(&stream), [pool.null_page().unwrap()]);
    settle(&pool);
}

// C3
#[test]
fn the_null_page_of_a_pool_that_is_made_during_a_capture_is_zero_too() {
    let _turn = turn();
    if !is_stand_in() {
        return;
    }
    let stream = EngineStream::new();
    let memory = CudaMemory::new(driver(), 0, geometry(), 6).unwrap();
    let null_page = memory.plane_address(0).unwrap();
    // SAFETY: (1) the stream outlives the memory. (2) it is the only one.
    unsafe { memory.add_lane(stream.0) }.unwrap();
    let second = EngineStream::new();
    // SAFETY: (1) the stream outlives the memory. (2) as above.
    let lane = unsafe { memory.add_lane(second.0) }.unwrap();
    let mut made = None;
    let graph = stream.capture(|| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let pool = PagePool::new(PoolConfig::new(6), memory).unwrap();
                let mut table = GuardTable::new(&pool, 1, 1).unwrap();
                // Nobody has a page yet, and padding is read as the null page.
                assert!(matches!(table.arm(lane), Err(GuardError::NullPageDirty(_))));
                made = Some(pool);
            });
        });
    });
    let pool = made.unwrap();
    settle(&pool);
    let kv = take(&pool, 1, P);
    assert_eq!(pool.null_page(), Some(0));
    assert!(peek(null_page, 64).iter().all(|byte| *byte == 0), "somebody's bytes in the place of a bad page");
    drop((kv, graph));
    settle(&pool);
}

// C11
#[test]
fn a_table_that_no_device_has_room_for_is_refused_before_host_memory_is_pinned() {
    let _turn = turn();
    if !is_stand_in() {
        return;
    }
    let bench = Bench::new(2);
    let before = calls("cuMemHostAlloc");
    assert!(matches!(GuardTable::new(&bench.pool, 1 << 29, 1), Err(GuardError::Driver(_))));
    assert_eq!(calls("cuMemHostAlloc"), before);
    for (rows, entries) in [(0, 0), (0, 4), (4, 0), (1, 1)] {
        let mut table = GuardTable::new(&bench.pool, rows, entries).unwrap();
        // SAFETY: (1) there are no cells. (2) nothing reads by the table.
        unsafe { table.check(bench.lane, None) }.unwrap();
        bench.stream.finish();
        assert!(table.verdict().unwrap().is_clean());
    }
}

// C11
#[test]
fn a_table_outlives_everything_that_it_was_made_of() {
    let _turn = turn();
    if !is_stand_in() {
        return;
    }
    let bench = Bench::new(2);
    let kv = bench.filled(1, 2 * P);
    let mut table = GuardTable::new(&bench.pool, 1, 2).unwrap();
    table.push(&kv, 2 * P).unwrap();
    bench.stream.hold();
    // SAFETY: (1) there are no cells. (2) nothing reads by the table.
    unsafe { table.check(bench.lane, None) }.unwrap();
    bench.pool.reclaim(owner(1));
    let Bench { pool, stream, .. } = bench;
    drop(kv);
    let pool = pool.close().unwrap_err();
    drop(pool);
    stream.release();
    stream.finish();
    assert!(table.verdict().unwrap().is_clean());
    drop(table);
}

// C4
#[test]
fn a_page_whose_lives_are_used_up_passes_no_check() {
    let _turn = turn();
    let memory = CudaMemory::new(driver(), 0, geometry(), 4).unwrap();
    let config = PoolConfig::new(4).with_last_generation(Generation::new(3).unwrap());
    let pool = PagePool::new(config, memory).unwrap();
    settle(&pool);
    let stream = EngineStream::new();
    let lane = name(&pool, &stream);
    let mut table = GuardTable::new(&pool, 8, 16).unwrap();
    let mut lives = 0;
    while pool.stats().usable_pages == 2 {
        let mut kv = take(&pool, 1, 2 * P);
        kv.assume_written(2 * P).unwrap();
        lives += 1;
        table.push(&kv, 2 * P).unwrap();
        drop(kv);
        settle(&pool);
    }
    // SAFETY: (1) there are no cells. (2) nothing reads by the table.
    unsafe { table.check(lane, None) }.unwrap();
    stream.finish();
    let verdict = table.verdict().unwrap();
    assert_eq!(verdict.flagged().count(), lives);
    assert_eq!(verdict.fault().unwrap().faults, 2 * lives as u64);
    pool.audit().unwrap();
}
