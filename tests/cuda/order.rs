//! What the engine's streams hold when a page leaves is over before the page is zeroed and handed out.

use pagestamp::memory::cuda::{GuardError, GuardReason, GuardTable};
use pagestamp::memory::{Lane, MemoryError};
use pagestamp::*;

use crate::driver::{EngineBytes, EngineStream, fail, hold, is_stand_in, release, streams_between, turn};
use crate::guard::{Bench, name};
use crate::life::{P, geometry, owner, pool, read, settle, take, write};

// C3, C7
#[test]
fn a_kernel_that_is_late_ends_before_its_page_is_zeroed_and_handed_out() {
    let _turn = turn();
    if !is_stand_in() {
        return; // a real stream cannot be held
    }
    let pool = pool(2);
    let stream = EngineStream::new();
    // SAFETY: (1) of `PagePool::expose`: the test writes by the addresses of pages that it holds. (2) it cleans nothing.
    let memory = unsafe { pool.expose() };
    // SAFETY: (1) the stream outlives the pool. (2) it is the only one.
    let lane = unsafe { memory.add_lane(stream.0) }.unwrap();
    for round in 0..4 {
        let kv = take(&pool, 1, 2 * P);
        let page = u64::from(kv.handle(0).unwrap().index());
        let address = memory.plane_address(0).unwrap() + page * 64 * P;
        stream.hold();
        stream.fill(address, 0x5E, 64 * P as usize); // the engine's last kernel, queued and late
        kv.release(); // returns at once
        pool.maintain(usize::MAX);
        let stats = pool.stats();
        assert_eq!((stats.free_pages, stats.cleaning_pages, stats.fenced_pages), (0, 2, 2), "round {round}");
        let proof = pool.prove(CapacityPlan::new(2 * P)).unwrap();
        let full = pool.reserve(&proof, Request::new(owner(2), P), P).unwrap_err();
        assert!(matches!(full, AdmitError::Full { pending_pages: 2, .. }));
        if round % 2 == 0 {
            stream.release();
            settle(&pool);
        } else {
            // the lane takes them in front of its fence, and the host keeps off until it is done
            let request = Request::new(owner(2), 2 * P).on_lane(lane);
            let mut theirs = pool.reserve(&proof, request, 2 * P).unwrap();
            theirs.assume_written(2 * P).unwrap();
            assert!(matches!(theirs.read(0..1), Err(ReadError::Pending { .. })));
            stream.release();
            stream.finish();
            for _ in 0..100_000 {
                if theirs.read(0..1).is_ok() {
                    break;
                }
                std::thread::yield_now();
            }
            assert!(read(&theirs).iter().flatten().all(|byte| *byte == 0), "the late kernel's bytes");
            drop(theirs);
            settle(&pool);
        }
        let mut next = take(&pool, 3, 2 * P);
        next.assume_written(2 * P).unwrap();
        assert!(read(&next).iter().flatten().all(|byte| *byte == 0), "round {round}: the late kernel's bytes");
        drop(next);
        settle(&pool);
        pool.audit().unwrap();
        pool.audit_bytes(0..4).unwrap();
    }
}

// C7
#[test]
fn a_lane_that_was_not_named_takes_no_page_that_is_being_cleaned() {
    let _turn = turn();
    if !is_stand_in() {
        return;
    }
    let pool = pool(2);
    let stream = EngineStream::new();
    // SAFETY: (1) of `PagePool::memory`: nothing is written.
    let memory = unsafe { pool.memory() };
    // SAFETY: (1) the stream outlives the pool. (2) it is the only one.
    unsafe { memory.add_lane(stream.0) }.unwrap();
    let mut kv = take(&pool, 1, 2 * P);
    write(&mut kv, 2 * P, 1);
    stream.hold();
    stream.fill(memory.plane_address(0).unwrap(), 1, 1);
    kv.release();
    let proof = pool.prove(CapacityPlan::new(P)).unwrap();
    let strange = Request::new(owner(2), P).on_lane(Lane::from_raw(0xDEAD_BEEF));
    assert!(matches!(pool.reserve(&proof, strange, P), Err(AdmitError::Full { .. })), "it was never called");
    let fence = pagestamp::memory::Fence::from_raw(1);
    let unknown = memory.order_after(pagestamp::memory::Fence::from_raw(9_999), Lane::HOST);
    assert_eq!(unknown, Err(MemoryError::UnknownFence { fence: 9_999 }));
    let _ = fence;
    stream.release();
    settle(&pool);
    assert_eq!(pool.stats().free_pages, 2);
}

// C7, C11
#[test]
fn a_launch_that_fails_is_made_again_and_no_release_waits_for_the_engine() {
    let _turn = turn();
    if !is_stand_in() {
        return;
    }
    for call in ["cuLaunchKernel", "cuEventRecord", "cuMemcpyHtoDAsync_v2"] {
        for nth in 1..6 {
            let (pool, stream) = (pool(2), EngineStream::new());
            name(&pool, &stream);
            let mut kv = take(&pool, 1, 2 * P);
            write(&mut kv, 2 * P, 9);
            stream.hold();
            // SAFETY: (1) of `PagePool::memory`: a kernel of the page's holder.
            stream.fill(unsafe { pool.memory() }.plane_address(0).unwrap(), 0, 1);
            fail(call, nth, 2);
            kv.release(); // returns, though the stream is held
            pool.maintain(usize::MAX);
            assert_eq!(pool.stats().free_pages, 0, "{call} {nth}");
            fail(call, 0, 0);
            stream.release();
            settle(&pool);
            assert_eq!(pool.stats().free_pages, 2, "{call} {nth}: a page is lost");
            pool.audit_bytes(0..4).unwrap();
        }
    }
}

// C4, C7, C11
#[test]
fn stamps_that_were_half_sent_are_waited_for_and_what_they_lie_in_stays() {
    let _turn = turn();
    if !is_stand_in() {
        return;
    }
    for (call, nth) in [("cuLaunchKernel", 1), ("cuEventRecord", 1), ("cuEventRecord", 2)] {
        let first = EngineStream::new();
        let pool = pool(1);
        let stream = EngineStream::new();
        let (lane, stamps) = (name(&pool, &stream), streams_between(&first, &stream)[1]);
        let mut kv = take(&pool, 1, P);
        write(&mut kv, P, 9);
        let mut table = GuardTable::new(&pool, 1, 1).unwrap();
        table.push(&kv, P).unwrap();
        hold(stamps);
        fail(call, nth, 2);
        // SAFETY: (1) there are no cells.
        assert!(matches!(unsafe { table.check(lane, None) }, Err(GuardError::Driver(_))), "{call} {nth}");
        kv.release();
        let is_early = (0..500).any(|_| {
            pool.maintain(usize::MAX);
            std::thread::yield_now();
            pool.stats().free_pages > 0
        });
        release(stamps);
        assert!(!is_early, "{call} {nth}: cleaned in front of a stamp that is on its way");
        settle(&pool);
        let mut next = take(&pool, 2, P);
        write(&mut next, P, 3);
        table.clear().unwrap();
        table.push(&next, P).unwrap();
        // SAFETY: (1) there are no cells.
        unsafe { table.check(lane, None) }.unwrap();
        stream.finish();
        assert!(table.verdict().unwrap().is_clean(), "{call} {nth}");
    }
}

// C3, C7
#[test]
fn a_copy_that_was_given_up_ends_before_its_page_is_zeroed() {
    let _turn = turn();
    if !is_stand_in() {
        return;
    }
    let first = EngineStream::new();
    let pool = pool(1);
    let last = EngineStream::new();
    let copies = streams_between(&first, &last)[0];
    let mut kv = take(&pool, 1, P);
    hold(copies);
    fail("cuStreamSynchronize", 1, 2);
    let planes = [vec![7; 64 * P as usize], vec![7; 48 * P as usize]];
    assert!(kv.write(P, &[&planes[0], &planes[1]]).is_err(), "nobody could wait for it");
    kv.release();
    let is_early = (0..500).any(|_| {
        pool.maintain(usize::MAX);
        std::thread::yield_now();
        pool.stats().free_pages > 0
    });
    release(copies);
    assert!(!is_early, "zeroed in front of a copy that is on its way");
    settle(&pool);
    let mut next = take(&pool, 2, P);
    next.assume_written(P).unwrap();
    assert!(read(&next).iter().flatten().all(|byte| *byte == 0));
}

// C4, C7
#[test]
fn a_check_that_follows_a_release_passes_nothing_though_the_device_does_not_know_yet() {
    let _turn = turn();
    if !is_stand_in() {
        return;
    }
    let bench = Bench::new(2);
    let (late, scratch) = (EngineStream::new(), EngineBytes::new(1));
    name(&bench.pool, &late);
    let kv = bench.filled(1, 2 * P);
    let mut table = GuardTable::new(&bench.pool, 1, 2).unwrap();
    table.push(&kv, 2 * P).unwrap();
    let check = |table: &mut GuardTable| {
        // SAFETY: (1) there are no cells. (2) nothing reads by the table.
        unsafe { table.check(bench.lane, None) }.unwrap();
        bench.stream.finish();
        table.verdict().unwrap().fault().map(|fault| fault.reason)
    };
    assert_eq!(check(&mut table), None);
    // Another lane is late, so the pages are not cleaned, and the device's stamps not emptied.
    late.hold();
    late.fill(scratch.0, 0, 1);
    kv.release();
    bench.pool.maintain(usize::MAX);
    assert_eq!(bench.pool.stats().fenced_pages, 2);
    assert_eq!(check(&mut table), Some(GuardReason::Released));
    late.release();
    settle(&bench.pool);
    assert_eq!(check(&mut table), Some(GuardReason::Released));
}

// C4, C7
#[test]
fn a_check_in_front_of_a_release_passes_however_late_it_runs() {
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
    kv.release();
    bench.pool.maintain(usize::MAX);
    bench.stream.release();
    settle(&bench.pool);
    assert!(table.verdict().unwrap().is_clean(), "what it stood in front of was right");
}

// C2, C3
#[test]
fn a_move_that_was_given_up_reads_no_next_life_of_the_source() {
    let _turn = turn();
    if !is_stand_in() {
        return;
    }
    const SECRET: u8 = 0x76; // what `write` writes is odd
    let (source, before) = (pool(2), EngineStream::new());
    let target = pool(2);
    let staging = streams_between(&before, &EngineStream::new())[0];
    let mut kv = take(&source, 1, 2 * P);
    write(&mut kv, 2 * P, 1);
    let room = take(&target, 1, 2 * P);
    hold(staging);
    fail("cuStreamSynchronize", 1, 701);
    let (kv, mut room) = kv.move_into(room).unwrap_err().into_parts().0;
    fail("cuStreamSynchronize", 0, 701);
    drop(kv);
    // If the pages come back at all while the copy may read them, somebody else gets them.
    for _ in 0..10_000 {
        source.maintain(usize::MAX);
        std::thread::yield_now();
    }
    let mut theirs = None;
    if source.stats().free_pages == 2 {
        let mut kv = take(&source, 2, 2 * P);
        let planes = geometry()
            .planes()
            .iter()
            .map(|plane| vec![SECRET; (2 * P * plane.token_bytes()) as usize])
            .collect::<Vec<_>>();
        kv.write(2 * P, &planes.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
        theirs = Some(kv);
    }
    release(staging);
    room.assume_written(2 * P).unwrap();
    assert!(read(&room).iter().flatten().all(|byte| *byte != SECRET), "owner 1 reads what owner 2 wrote");
    drop(theirs);
    drop(room);
    settle(&target);
    settle(&source);
}
