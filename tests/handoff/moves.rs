//! Moves within a process: all or nothing, verified, and counted in the right pool.

use std::sync::atomic::Ordering;

use pagestamp::geometry::*;
use pagestamp::*;

use crate::watched::Watched;
use crate::world::*;

// C8, C10, B99
#[test]
fn tokens_move_there_and_back_with_their_drafts_and_every_page_is_counted_in_the_right_pool() {
    let world = World::new();
    let held = HeldMemory::new(world.decode.geometry().clone(), POOL_PAGES).expect("a small map");
    let control = held.control();
    let device = PagePool::new(PoolConfig::new(POOL_PAGES), held).expect("a pool");
    let count = |live_here: u64, live_there: u64| {
        let (here, there) = (world.prefill.stats(), device.stats());
        assert_eq!((here.free_pages, here.live_pages), (USABLE - live_here, live_here));
        assert_eq!((there.free_pages, there.live_pages), (USABLE - live_there, live_there));
        world.prefill.audit().expect("the books are right");
        device.audit().expect("the books are right");
    };
    for round in 0..100_u64 {
        let tokens = round % 70 + 1;
        let pages = tokens.div_ceil(u64::from(P));
        let mut kv = reserve(&world.prefill, owner(1), 80, tokens);
        write(&mut kv, round, tokens);
        kv.commit(tokens / 2).expect("written");
        let old: Vec<_> = kv.handles().collect();
        let kv = kv.move_into(reserve(&device, owner(1), 80, tokens)).expect("it moves");
        assert_eq!((kv.written_tokens(), kv.committed_tokens(), kv.pool().id()), (tokens, tokens / 2, device.id()));
        assert!(old.iter().all(|handle| world.prefill.read(owner(1), *handle).is_err()), "stale at once");
        count(0, pages);
        let mut kv = kv.move_into(reserve(&world.prefill, owner(1), 80, tokens)).expect("it moves back");
        control.finish_all();
        device.maintain(usize::MAX);
        kv.commit(tokens).expect("the drafts came along");
        assert_holds(&kv, round, tokens);
        drop(kv);
        count(0, 0);
        assert!(world.prefill.transfers().is_empty() && device.transfers().is_empty());
    }
    assert_untouched(&world.prefill);
}

// C8
#[test]
fn a_move_that_is_refused_gives_both_ends_back_as_they_were() {
    let world = World::new();
    let source = || {
        let mut kv = reserve(&world.prefill, owner(1), 40, 40);
        write(&mut kv, 1, 33);
        kv.commit(20).expect("written");
        kv
    };
    let refuse = |kv: Reservation<HostMemory>, target: Reservation<HostMemory>| {
        let extents = (target.reserved_tokens(), target.written_tokens(), target.pages());
        let ((kv, target), error) = kv.move_into(target).expect_err("it must not move").into_parts();
        assert_eq!((target.reserved_tokens(), target.written_tokens(), target.pages()), extents);
        assert_eq!((kv.written_tokens(), kv.committed_tokens()), (33, 20));
        assert!(world.prefill.transfers().is_empty() && world.decode.transfers().is_empty());
        error
    };
    let error = refuse(source(), reserve(&world.decode, owner(2), 40, 40));
    assert_eq!(error, MoveError::Owner { expected: owner(1), found: owner(2) });
    let error = refuse(source(), reserve(&world.decode, owner(1), 40, 32));
    assert_eq!(error, MoveError::TooSmall { written_tokens: 33, reserved_tokens: 32 });
    let mut full = reserve(&world.decode, owner(1), 40, 40);
    write(&mut full, 2, 1);
    assert_eq!(refuse(source(), full), MoveError::NotEmpty { written_tokens: 1 });
    let other = World::of(model_of(P, "r1", HeadOrder::Hnd));
    let error = refuse(source(), reserve(&other.decode, owner(1), 40, 40));
    assert!(matches!(error, MoveError::Geometry { .. }));
    // somebody outside writes the source
    let mut busy = source();
    let ticket = busy.pin_write(1..2, HolderId(1), None).expect("nobody reads");
    let page = busy.handle(1).expect("a page").index();
    let error = refuse(busy, reserve(&world.decode, owner(1), 40, 40));
    assert_eq!(error, MoveError::Read(ReadError::Busy { page }));
    // SAFETY: (1) of `ticket_done`: there is no outside party.
    unsafe { world.prefill.ticket_done(ticket) }.expect("it was open");
    // either owner was reclaimed
    let (kv, target) = (source(), reserve(&world.decode, owner(1), 40, 40));
    world.decode.reclaim(owner(1));
    assert_eq!(refuse(kv, target), MoveError::Write(WriteError::Revoked));
    let (kv, target) = (source(), reserve(&world.decode, owner(1), 40, 40));
    world.prefill.reclaim(owner(1));
    let ((_kv, target), error) = kv.move_into(target).expect_err("revoked").into_parts();
    assert_eq!((error, target.written_tokens()), (MoveError::Read(ReadError::Revoked), 0));
    drop(target);
    world.prefill.maintain(usize::MAX);
    assert_untouched(&world.decode);
}

// C8, C10
#[test]
fn a_memory_that_stores_a_bit_wrong_is_found_and_the_source_is_kept() {
    let world = World::new();
    let memory = Watched::new(world.decode.geometry());
    let stores_until_fault = memory.stores_until_fault.clone();
    let faulty = PagePool::new(PoolConfig::new(POOL_PAGES), memory).expect("a pool");
    let mut kv = reserve(&world.prefill, owner(1), 40, 40);
    write(&mut kv, 1, 40);
    kv.commit(40).expect("written");
    let mut room = reserve(&faulty, owner(1), 40, 40);
    for (fault, page) in [(0, 0), (PLANES as u32, 1), (3 * PLANES as u32 - 1, 2)] {
        stores_until_fault.store(fault, Ordering::Relaxed);
        let error;
        ((kv, room), error) = kv.move_into(room).expect_err("a bit is wrong").into_parts();
        assert_eq!(error, MoveError::Digest { page });
        assert_eq!(room.written_tokens(), 0);
        let handle = room.handle(page).expect("a page");
        assert_eq!(faulty.read(owner(1), handle).expect("its owner asks").written_tokens(), 0, "nothing is readable");
    }
    stores_until_fault.store(u32::MAX, Ordering::Relaxed);
    assert_holds(&kv, 1, 40);
    assert_holds(&kv.move_into(room).expect("a good day"), 1, 40);
    assert_untouched(&world.prefill);
}

// C7, B17
#[test]
fn two_sequences_exchange_their_pages_while_one_is_still_being_copied_out() {
    // X on some pages, Y on others; an outside copy of X is pending while both move, each to where the other may come next
    let world = World::new();
    let pools = [&world.prefill, &world.decode];
    for order in 0..3 {
        let mut x = reserve(pools[0], owner(1), 16 * 16, 16 * 16);
        let mut y = reserve(pools[0], owner(1), 16 * 16, 16 * 16);
        write(&mut x, 5, 16 * 16);
        write(&mut y, 6, 16 * 16);
        x.commit(256).expect("written");
        y.commit(256).expect("written");
        let x_pages: Vec<u32> = x.handles().map(|handle| handle.index()).collect();
        let ticket = x.pin_read(0..16, HolderId(1), None).expect("nobody writes");
        let x = x.move_into(reserve(pools[1], owner(1), 256, 256)).expect("it moves");
        assert_eq!(pools[0].stats().quarantined_pages, 16, "the copy has these pages, in that life");
        if order == 0 {
            // SAFETY: (1) of `ticket_done`: the copy is this test, and reads no more.
            unsafe { pools[0].ticket_done(ticket) }.expect("it was open");
        }
        let y = y.move_into(reserve(pools[1], owner(1), 256, 256)).expect("it moves");
        let x = if order == 0 {
            // the way back may take the very pages that Y just left
            x.move_into(reserve(pools[0], owner(1), 256, 256)).expect("it moves back")
        } else {
            let room = reserve(pools[0], owner(1), 256, 256);
            assert!(room.handles().all(|handle| !x_pages.contains(&handle.index())), "not those that are being copied");
            x.move_into(room).expect("it moves back")
        };
        assert_holds(&x, 5, 256);
        assert_holds(&y, 6, 256);
        if order > 0 {
            for (ordinal, page) in x_pages.iter().enumerate() {
                let raw = raw_page(pools[0], *page);
                let first = ordinal as u64 * 16;
                let expected = plane_bytes(pools[0].geometry(), 5, 0, first..first + 16);
                assert!(raw[..expected.len()] == expected[..], "the copy still sees X, and never Y");
            }
            // SAFETY: (1) of `ticket_done`: as above.
            unsafe { pools[0].ticket_done(ticket) }.expect("it was open");
        }
        drop((x, y));
        pools.iter().for_each(|pool| {
            pool.maintain(usize::MAX);
            assert_untouched(*pool);
        });
    }
}
