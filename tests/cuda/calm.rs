//! No call waits for the device or for another thread, and nothing is lost when all work at once.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use pagestamp::memory::Lane;
use pagestamp::memory::cuda::{GuardError, GuardTable};
use pagestamp::*;

use crate::driver::{EngineBytes, EngineStream, hold, is_stand_in, release, streams_between, turn};
use crate::guard::{Bench, name};
use crate::life::{P, owner, read, settle, write};

// C4, C7
#[test]
fn no_thread_waits_for_another_and_no_page_leaks_when_all_work_at_once() {
    let _turn = turn();
    let bench = Bench::new(12);
    let streams: Vec<EngineStream> = (0..3).map(|_| EngineStream::new()).collect();
    let lanes: Vec<Lane> = streams.iter().map(|stream| name(&bench.pool, stream)).collect();
    std::thread::scope(|scope| {
        for (id, (stream, lane)) in (1..).zip(streams.iter().zip(&lanes)) {
            let (pool, lane) = (&bench.pool, *lane);
            scope.spawn(move || {
                let proof = pool.prove(CapacityPlan::new(3 * P)).unwrap();
                let mut table = GuardTable::new(pool, 1, 4).unwrap();
                let mut served = 0;
                while served < 60 {
                    let request = Request::new(owner(id), 3 * P).on_lane(lane);
                    let Ok(mut kv) = pool.reserve(&proof, request, 3 * P) else {
                        pool.maintain(3);
                        continue;
                    };
                    served += 1;
                    kv.assume_written(3 * P).unwrap();
                    table.push(&kv, 3 * P).unwrap();
                    // SAFETY: (1) there are no cells. (2) nothing reads by the table.
                    unsafe { table.check(lane, None) }.unwrap();
                    stream.finish();
                    assert_eq!(table.verdict().unwrap().fault(), None);
                    table.clear().unwrap();
                    let mut at = 0;
                    while kv.read(0..3 * P).is_err() {
                        at += 1;
                        assert!(at < 1_000_000, "pending for ever");
                        std::thread::yield_now();
                    }
                    assert!(read(&kv).iter().flatten().all(|byte| *byte == 0), "bytes of the tenant before");
                    kv.truncate(0).unwrap();
                    write(&mut kv, 3 * P, id as u8);
                    if served % 3 == 0 {
                        pool.reclaim(owner(id));
                    }
                }
            });
        }
    });
    settle(&bench.pool);
    bench.pool.audit().unwrap();
    bench.pool.audit_bytes(0..14).unwrap();
    assert_eq!(bench.pool.stats().free_pages, 12);
}

/// Lets a closure run beside a watch; answers whether it came back without help. If not, `help` is called.
fn comes_back(run: impl FnOnce() + Send, help: impl FnOnce()) -> bool {
    let is_back = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            run();
            is_back.store(true, Ordering::Release);
        });
        for _ in 0..200_000 {
            if is_back.load(Ordering::Acquire) {
                return true;
            }
            std::thread::yield_now();
        }
        help();
        false
    })
}

// C7, C11
#[test]
fn no_call_but_copies_waits_for_the_device() {
    let _turn = turn();
    if !is_stand_in() {
        return;
    }
    let first = EngineStream::new();
    let bench = Bench::new(12);
    let scratch = EngineBytes::new(1);
    let mut table = GuardTable::new(&bench.pool, 4, 16).unwrap();
    let kept: Vec<_> = (1..=5).map(|id| bench.filled(id, 2 * P)).collect();
    let ours = streams_between(&first, &EngineStream::new());
    let proof = bench.pool.prove(CapacityPlan::new(2 * P)).unwrap();
    bench.stream.fill(scratch.0, 0, 1);
    ours.iter().for_each(|stream| hold(*stream));
    bench.stream.fill(scratch.0, 0, 1);
    let (pool, lane) = (bench.pool.clone(), bench.lane);
    let let_go = || ours.iter().for_each(|stream| release(*stream));
    let step = AtomicBool::new(false);
    let at = parking_lot::Mutex::new("");
    let said = || *at.lock();
    let run = || {
        let say = |name: &'static str| *at.lock() = name;
        let mut kept = kept.into_iter();
        say("release");
        kept.next().unwrap().release();
        say("drop");
        drop(kept.next());
        say("maintain");
        pool.maintain(usize::MAX);
        say("reserve");
        let mut other = pool.reserve(&proof, Request::new(owner(9), 2 * P), P).unwrap();
        say("grow");
        other.grow(2 * P).unwrap();
        say("reserve on a lane");
        let mut kv = pool.reserve(&proof, Request::new(owner(9), 2 * P).on_lane(lane), 2 * P).unwrap();
        say("assume_written");
        kv.assume_written(2 * P).unwrap();
        say("push");
        table.push(&kv, 2 * P).unwrap();
        say("check");
        // SAFETY: (1) there are no cells. (2) nothing reads by the table.
        unsafe { table.check(lane, None) }.unwrap();
        say("verdict");
        assert!(table.verdict().is_err());
        say("push, clear");
        assert!(table.push(&kv, P).is_err() && table.clear().is_err());
        say("read of a pending page");
        assert!(kv.read(0..1).is_err());
        say("stats, audit");
        let _ = pool.stats();
        pool.audit().unwrap();
        say("reclaim");
        pool.reclaim(owner(9));
        say("resize");
        pool.resize(8).unwrap();
        pool.resize(14).unwrap();
        say("erase");
        let _ = pool.erase(owner(3));
        say("truncate");
        let mut kv = kept.next_back().unwrap();
        kv.truncate(0).unwrap();
        say("suspend");
        let _ = pool.suspend();
        say("drops");
        drop((kv, other, kept));
        say("clear");
        pool.clear();
        step.store(true, Ordering::Release);
    };
    let mut stuck = "";
    let came_back = comes_back(run, || {
        stuck = said();
        let_go();
    });
    if came_back {
        let_go();
    }
    assert!(came_back, "{stuck}: waits for a stream");
    assert!(step.load(Ordering::Acquire));
    let _ = bench.pool.resume();
    settle(&bench.pool);
    drop(table);
    settle(&bench.pool);
    bench.pool.audit().unwrap();
    bench.pool.audit_bytes(0..14).unwrap();
}

// C4, C7
#[test]
fn captures_and_the_pool_go_on_beside_one_another() {
    let _turn = turn();
    let bench = Bench::new(8);
    let streams: Vec<EngineStream> = (0..2).map(|_| EngineStream::new()).collect();
    let lanes: Vec<Lane> = streams.iter().map(|stream| name(&bench.pool, stream)).collect();
    let mut tables: Vec<_> = lanes.iter().map(|_| GuardTable::new(&bench.pool, 1, 4).unwrap()).collect();
    let mut captured = GuardTable::new(&bench.pool, 1, 4).unwrap();
    let running = AtomicU32::new(2);
    std::thread::scope(|scope| {
        for (id, (lane, table)) in (1..).zip(lanes.iter().zip(&mut tables)) {
            let (pool, lane, running) = (&bench.pool, *lane, &running);
            scope.spawn(move || {
                let proof = pool.prove(CapacityPlan::new(3 * P)).unwrap();
                let mut served = 0;
                while served < 60 {
                    let request = Request::new(owner(id), 3 * P).on_lane(lane);
                    let Ok(mut kv) = pool.reserve(&proof, request, 3 * P) else {
                        std::thread::yield_now();
                        continue;
                    };
                    served += 1;
                    kv.assume_written(3 * P).unwrap();
                    table.push(&kv, 3 * P).unwrap();
                    // SAFETY: (1) there are no cells. (2) nothing reads by the table.
                    unsafe { table.check(lane, None) }.unwrap();
                    while matches!(table.verdict(), Err(GuardError::Unfinished)) {
                        std::thread::yield_now();
                    }
                    assert_eq!(table.verdict().unwrap().fault(), None);
                    table.clear().unwrap();
                    while kv.read(0..3 * P).is_err() {
                        std::thread::yield_now();
                    }
                    assert!(read(&kv).iter().flatten().all(|byte| *byte == 0), "bytes of the tenant before");
                    kv.truncate(0).unwrap();
                    write(&mut kv, 3 * P, id as u8);
                }
                running.fetch_sub(1, Ordering::AcqRel);
            });
        }
        while running.load(Ordering::Acquire) > 0 {
            // SAFETY: (1) there are no cells. (2) armed in front of each launch, and nothing reads by the table.
            let graph = bench.stream.capture(|| unsafe { captured.capture(bench.lane, None) }.unwrap());
            captured.arm(bench.lane).unwrap();
            graph.launch(&bench.stream);
            bench.stream.finish();
            assert!(captured.verdict().unwrap().is_clean());
        }
    });
    settle(&bench.pool);
    bench.pool.audit().unwrap();
    bench.pool.audit_bytes(0..10).unwrap();
    assert_eq!(bench.pool.stats().free_pages, 8);
}
