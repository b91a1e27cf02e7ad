//! Graphs: what an engine captures holds the check, and nothing that the library does breaks a capture.

use pagestamp::memory::cuda::{AttentionTable, GuardError, GuardReason, GuardTable};
use pagestamp::*;

use crate::driver::{EngineBytes, EngineStream, is_stand_in, turn};
use crate::guard::{Bench, name};
use crate::life::{P, owner, read, settle, take, write};

fn handles<M: PageMemory>(kv: &Reservation<M>) -> Vec<u32> {
    kv.handles().map(|handle| handle.index()).collect()
}

// C4
#[test]
fn a_captured_check_judges_the_table_of_each_launch() {
    let _turn = turn();
    let bench = Bench::new(4);
    let mut table = GuardTable::new(&bench.pool, 2, 8).unwrap();
    let cells = EngineBytes::words(&[0; 4], &bench.stream);
    let attention = Some(AttentionTable { address: cells.0, row_cells: 2 });
    // SAFETY: (1) two rows of two cells, which outlive the graph. (2) the table is armed below, in front of each launch.
    let graph = bench.stream.capture(|| unsafe { table.capture(bench.lane, attention) }.unwrap());
    assert!(matches!(table.verdict(), Err(GuardError::NeverChecked)), "what is captured does not run");
    let mut step = |kv: &Reservation<_>| {
        let named = handles(kv);
        bench.stream.put(cells.0, &named.iter().flat_map(|page| page.to_ne_bytes()).collect::<Vec<_>>());
        table.arm(bench.lane).unwrap();
        graph.launch(&bench.stream);
        let seen = cells.get_words(&bench.stream);
        let fault = table.verdict().unwrap().fault().map(|fault| fault.reason);
        table.clear().unwrap();
        table.push(kv, 2 * P).unwrap();
        (seen, fault)
    };
    let null = bench.pool.null_page().unwrap();
    let first = bench.filled(1, 2 * P);
    assert_eq!(step(&first), (vec![null; 4], None), "a step without rows");
    let named = handles(&first);
    assert_eq!(step(&first), (vec![named[0], named[1], null, null], None));
    let second = bench.filled(2, 2 * P);
    // the table still has the first one's row, whose cells now name the second's pages
    let (seen, fault) = step(&second);
    assert_eq!((seen, fault), (vec![null; 4], Some(GuardReason::OtherPage)));
    drop(first);
    settle(&bench.pool);
    assert_eq!(step(&second), (vec![handles(&second)[0], handles(&second)[1], null, null], None));
    // released in front of the launch, which the host had no part in: the device finds it
    table.arm(bench.lane).unwrap();
    drop(second);
    settle(&bench.pool);
    graph.launch(&bench.stream);
    assert_eq!(cells.get_words(&bench.stream), [null; 4]);
    let fault = table.verdict().unwrap().fault().unwrap();
    assert_eq!((fault.reason, fault.row), (GuardReason::Stale, 0));
    // and the host, when it is asked again
    table.arm(bench.lane).unwrap();
    graph.launch(&bench.stream);
    bench.stream.finish();
    assert_eq!(table.verdict().unwrap().fault().unwrap().reason, GuardReason::Released);
}

// C7
#[test]
fn pages_that_leave_while_a_lane_is_captured_wait_for_its_end_and_break_nothing() {
    let _turn = turn();
    let bench = Bench::new(4);
    let kv = bench.filled(1, 2 * P);
    let named = kv.handle(0).unwrap();
    let graph = bench.stream.capture(|| {
        // another thread of the engine goes on meanwhile
        std::thread::scope(|scope| {
            scope.spawn(|| {
                kv.release();
                for _ in 0..3 {
                    bench.pool.maintain(usize::MAX);
                }
                let stats = bench.pool.stats();
                assert_eq!(
                    (stats.fenced_pages, stats.free_pages),
                    (2, 2),
                    "cleaned ahead of what the lane may still hold"
                );
                assert!(matches!(bench.pool.read(owner(1), named), Err(ReadError::Stale { .. })));
                // a device is written, read and asked during a capture of somebody else
                let mut other = take(&bench.pool, 2, 2 * P);
                write(&mut other, 2 * P, 7);
                assert!(read(&other).iter().flatten().any(|byte| *byte != 0));
                let proof = bench.pool.prove(CapacityPlan::new(P)).unwrap();
                // a lane that is captured can be made to wait for nothing
                let request = Request::new(owner(3), P).on_lane(bench.lane);
                assert!(matches!(
                    bench.pool.reserve(&proof, request, P),
                    Err(AdmitError::Full { pending_pages: 2, .. })
                ));
                let mut table = GuardTable::new(&bench.pool, 1, 2).unwrap();
                table.push(&other, P).unwrap();
                // SAFETY: (1) there are no cells.
                let refused = unsafe { table.check(bench.lane, None) };
                assert_eq!(refused, Err(GuardError::Capturing { lane: bench.lane }));
                assert!(matches!(table.verdict(), Err(GuardError::NeverChecked)));
                // SAFETY: (1) there are no cells. (2) the graph is launched once, below, without it.
                drop(table);
            });
        });
    });
    graph.launch(&bench.stream);
    settle(&bench.pool);
    assert_eq!(bench.pool.stats().free_pages, 4);
    let mut next = take(&bench.pool, 3, 4 * P);
    next.assume_written(4 * P).unwrap();
    assert!(read(&next).iter().flatten().all(|byte| *byte == 0));
    drop(next);
    settle(&bench.pool);
    bench.pool.audit().unwrap();
}

// C7
#[test]
fn a_capture_on_one_lane_holds_back_pages_that_only_others_used_and_they_come_back() {
    let _turn = turn();
    let bench = Bench::new(2);
    let second = EngineStream::new();
    let lane = name(&bench.pool, &second);
    let kv = take(&bench.pool, 1, P);
    let graph = second.capture(|| drop(kv));
    let proof = bench.pool.prove(CapacityPlan::new(P)).unwrap();
    for id in [2, 3] {
        // with the capture over, the other lane takes the page in front of its fence, or after it
        let mut kv = bench.pool.reserve(&proof, Request::new(owner(id), P).on_lane(lane), P).unwrap();
        kv.assume_written(P).unwrap();
        second.finish();
    }
    settle(&bench.pool);
    graph.launch(&second);
    second.finish();
    bench.pool.audit().unwrap();
}

// C4
#[test]
fn a_check_is_captured_by_a_capture_alone() {
    let _turn = turn();
    let bench = Bench::new(2);
    let table = GuardTable::new(&bench.pool, 2, 4).unwrap();
    // SAFETY: (1) there are no cells. (2) nothing is launched.
    assert!(unsafe { table.capture(bench.lane, None) }.is_err(), "it ran at once, over a table that nobody armed");
    bench.stream.finish();
}

// C7
#[test]
fn a_table_that_is_dropped_during_a_capture_leaves_its_memory_to_what_is_under_way() {
    let turn = turn();
    if !is_stand_in() {
        return;
    }
    let bench = Bench::new(2);
    let (kv, scratch) = (bench.filled(1, 2 * P), EngineBytes::new(1));
    let mut table = GuardTable::new(&bench.pool, 1, 2).unwrap();
    table.push(&kv, 2 * P).unwrap();
    bench.stream.hold();
    bench.stream.fill(scratch.0, 0, 1);
    // SAFETY: (1) there are no cells. (2) nothing reads by the table.
    unsafe { table.check(bench.lane, None) }.unwrap();
    // The last to have the pool, beside the stream.
    let Bench { pool, stream, .. } = bench;
    drop((kv, pool));
    let graph = stream.capture(|| drop(table));
    stream.release();
    stream.finish();
    graph.launch(&stream);
    stream.finish();
    turn.counts_anew();
}
