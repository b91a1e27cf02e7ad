//! Group 9: generations and handles.

use pagestamp::memory::{HeldControl, HostBytes, Lane};
use pagestamp::{
    CapacityError, CapacityPlan, ClaimToken, CleanMode, Generation, HeldMemory, HolderId, HostMemory, NullMemory,
    PageGeometry, PageHandle, PageMemory, PagePool, PageState, PoolConfig, ReadError, ReleaseError, Request,
    Reservation, Suspended, TicketError,
};

use crate::stage::*;

fn short_lived(pages: u32, last: u64) -> PoolConfig {
    config(pages).with_last_generation(Generation::new(last).unwrap())
}

// B86, C4
#[test]
fn a_worn_out_page_retires_and_its_first_handle_is_stale_for_ever() {
    for last in [2, 3, 255] {
        let pool = host_pool_of(short_lived(2, last));
        let first = take_filled(&pool, owner(1), P, 0x86);
        let h0 = first.handle(0).unwrap();
        drop(first);
        let mut lives = vec![0u64; 2];
        lives[h0.index() as usize] += 1;
        while pool.stats().free_pages > 0 {
            let kv = take_filled(&pool, owner(2), P, 0x87);
            let handle = kv.handle(0).unwrap();
            assert!(handle.generation().get() < last, "the last generation is never issued");
            assert_ne!(handle, h0);
            lives[handle.index() as usize] += 1;
            assert!(is_stale(&pool, owner(1), h0));
            assert!(matches!(pool.check(owner(2), h0), Err(ReadError::Stale { .. })));
            drop(kv);
            assert_sound(&pool);
        }
        assert_eq!(lives, [last - 1; 2]);
        let stats = pool.stats();
        assert_eq!((stats.retired_pages, stats.usable_pages, stats.poisoned_pages), (2, 0, 0));
        assert_eq!(state_of(&pool, owner(1), h0), PageState::Retired);
        assert!((0..2).all(|page| is_zero(&pool, page)));
    }
}

// B86, C9
#[test]
fn a_retired_page_counts_in_what_never_fits() {
    let pool = host_pool_of(short_lived(3, 3));
    let proof = proof(&pool, 3 * P);
    // Two lives of one page.
    for _ in 0..2 {
        take_filled(&pool, owner(1), P, 1).release();
    }
    assert_eq!(pool.stats().retired_pages, 1);
    let error = pool.prove(CapacityPlan::new(3 * P)).unwrap_err();
    assert!(matches!(error, CapacityError::PoolTooSmall { required_pages: 3, usable_pages: 2, .. }), "{error:?}");
    let refused = pool.admit(&proof, Request::new(owner(1), P)).unwrap_err();
    assert!(matches!(refused, pagestamp::AdmitError::ProofVoid { usable_pages: 2, .. }), "{refused:?}");
    assert_sound(&pool);
}

// B86, C4
#[test]
fn pages_without_bytes_retire_as_well() {
    let pool = PagePool::new(short_lived(1, 4), NullMemory::new(geometry(), 1).unwrap()).unwrap();
    for _ in 0..3 {
        take(&pool, owner(1), P).release();
    }
    assert_eq!((pool.stats().retired_pages, pool.stats().free_pages), (1, 0));
    assert_sound(&pool);
}

/// One page of owner 1, full, given back by `leave`; owner 2 has it next. The old handle must open nothing.
fn after<M: HostBytes>(pool: &PagePool<M>, leave: impl FnOnce(Reservation<M>)) {
    let kv = take_filled(pool, owner(1), P, 0x88);
    let old = kv.handle(0).unwrap();
    assert!(pool.check(owner(1), old).is_ok(), "the handle was good");
    leave(kv);
    assert!(is_stale(pool, owner(1), old), "at once, not only after reuse");
    settle(pool);
    let all = pool.stats().free_pages;
    let mut next = take(pool, owner(2), all * P);
    let reused = next.handles().find(|handle| handle.index() == old.index()).expect("the page came back");
    assert!(reused.generation() > old.generation());
    next.assume_written(all * P).unwrap();
    assert!(is_all(&next, 0), "zero for the next owner");
    for who in [1, 2] {
        assert!(is_stale(pool, owner(who), old));
        let error = pool.release_pages(owner(who), &[old]).unwrap_err();
        assert!(matches!(error, ReleaseError::Handle { source: ReadError::Stale { .. }, .. }));
        assert!(pool.pin(owner(who), &[old], HolderId(1), None).is_err());
    }
    drop(next);
    assert_sound(pool);
}

fn pools() -> [PagePool<HostMemory>; 2] {
    [CleanMode::OnRelease, CleanMode::Later].map(|mode| host_pool_of(config(2).with_clean_mode(mode)))
}

// B88, C3, C4
#[test]
fn a_handle_is_stale_after_release() {
    pools().iter().for_each(|pool| after(pool, |kv| assert_eq!(kv.release().pages, 1)));
}

// B88, C3, C4
#[test]
fn a_handle_is_stale_after_drop() {
    pools().iter().for_each(|pool| after(pool, drop));
}

// B88, C3, C4, C6
#[test]
fn a_handle_is_stale_after_reject() {
    pools().iter().for_each(|pool| {
        after(pool, |kv| {
            let rejected = kv.reject("the client is gone");
            assert_eq!((rejected.owner(), rejected.reason().to_string()), (owner(1), "the client is gone".into()));
        });
    });
}

// B88, C3, C4
#[test]
fn a_handle_is_stale_after_clear() {
    pools().iter().for_each(|pool| {
        after(pool, |kv| {
            assert_eq!(pool.clear().pages, 1);
            assert!(kv.is_revoked());
        });
    });
}

// B88, C3, C4
#[test]
fn a_handle_is_stale_after_reclaim_of_a_forgotten_reservation() {
    pools().iter().for_each(|pool| {
        after(pool, |kv| {
            std::mem::forget(kv);
            assert_eq!(pool.reclaim(owner(1)).pages, 1);
        });
    });
}

// B88, C3, C4
#[test]
fn a_handle_is_stale_after_erase_and_the_receipt_names_its_generation() {
    pools().iter().for_each(|pool| {
        after(pool, |kv| {
            let old = kv.handle(0).unwrap();
            let receipt = pool.erase(owner(1));
            assert_eq!(receipt.pages, [(old.index(), old.generation())]);
            assert_eq!((receipt.bytes_zeroed, receipt.in_flight), (geometry().total_page_bytes(), vec![]));
            assert!(is_zero(pool, old.index()), "zero when erase returns");
        });
    });
}

// B88, C3, C4
#[test]
fn an_erasure_that_could_not_zero_a_page_does_not_say_that_it_did() {
    let (pool, control) = held_pool(1);
    let kv = take_filled(&pool, owner(1), P, 0x88);
    let receipt = pool.erase(owner(1));
    assert_eq!(receipt.in_flight, [0], "the device has not zeroed it yet");
    assert!(control.fail_next().is_some());
    let receipt = pool.erase(owner(1));
    assert_eq!(receipt.pages.len(), 1);
    assert_eq!(receipt.in_flight, [0], "it never will be");
    assert!(!is_zero(&pool, 0));
    drop(kv);
    assert_sound(&pool);
}

// B88, C3, C4
#[test]
fn a_handle_past_a_shrink_is_stale_and_one_before_it_lives() {
    for pool in pools() {
        let mut kept = None;
        after(&pool, |kv| {
            let mut longer = kv;
            longer.grow(2 * P).unwrap();
            longer.truncate(0).unwrap();
            let (first, second) = (longer.handle(0).unwrap(), longer.handle(1).unwrap());
            assert_eq!(longer.shrink(P).unwrap().pages, 1);
            assert!(is_stale(&pool, owner(1), second));
            assert!(pool.check(owner(1), first).is_ok());
            assert_eq!(longer.shrink(0).unwrap().pages, 1);
            kept = Some(longer);
        });
        assert_eq!(kept.unwrap().pages(), 0);
    }
}

// B88, C3, C4
#[test]
fn a_handle_is_stale_after_suspend_and_stays_so_after_resume() {
    for pool in pools() {
        after(&pool, |kv| {
            let old = kv.handle(0).unwrap();
            assert!(matches!(pool.suspend().unwrap(), Suspended::Done { revoked: 1 }));
            assert!(kv.is_revoked() && is_stale(&pool, owner(1), old));
            let refused = pool.admit(&proof(&pool, P), Request::new(owner(2), P)).unwrap_err();
            assert!(matches!(refused, pagestamp::AdmitError::Suspended { .. }));
            pool.resume().unwrap();
        });
    }
}

// B88, C3, C4
#[test]
fn a_handle_is_stale_after_its_page_was_parked_and_came_back() {
    for pool in pools() {
        after(&pool, |kv| {
            let old = kv.handle(0).unwrap();
            pool.resize(1).unwrap();
            drop(kv);
            settle(&pool);
            assert!(is_stale(&pool, owner(1), old));
            pool.resize(2).unwrap();
        });
    }
}

// B88, C3, C4
#[test]
fn a_handle_is_stale_after_release_by_handles() {
    for pool in pools() {
        after(&pool, |kv| {
            let handles = kv.into_handles().unwrap();
            assert!(pool.check(owner(1), handles[0]).is_ok(), "the engine keeps it, the life goes on");
            pool.release_pages(owner(1), &handles).unwrap();
        });
        // and of pages that the engine lost
        after(&pool, |kv| {
            assert_eq!(kv.into_handles().unwrap().len(), 1);
            assert_eq!(pool.reclaim(owner(1)).pages, 1);
        });
    }
}

// B88, C3, C4
#[test]
fn a_handle_is_stale_after_its_claim_expired() {
    for pool in pools() {
        let token = ClaimToken { id: 88, expires_at_ns: 5 };
        let mut kv = pool.reserve(&proof(&pool, P), Request::new(owner(1), P).with_claim(token), P).unwrap();
        write(&mut kv, P, 0x88);
        let old = kv.handle(0).unwrap();
        drop(kv);
        assert_eq!(pool.expire_claims(5), 1);
        assert!(is_stale(&pool, owner(1), old));
        settle(&pool);
        assert!(is_zero(&pool, old.index()));
    }
}

// B88, C3, C4, C12
#[test]
fn a_handle_is_stale_after_its_page_moved_away_from_a_reader() {
    for pool in pools() {
        let mut kv = take_filled(&pool, owner(1), P, 0x88);
        let old = kv.handle(0).unwrap();
        let reader = pool.read(owner(1), old).unwrap();
        kv.truncate(4).unwrap();
        write(&mut kv, 12, 0x99);
        assert_eq!(pool.stats().moved_pages, 1);
        assert!(is_stale(&pool, owner(1), old));
        let new = kv.handle(0).unwrap();
        assert_ne!(new.index(), old.index());
        assert!(reader.run(0, 0).unwrap().iter().all(|b| *b == 0x88), "the reader sees what it saw");
        let moved = pool.read(owner(1), new).unwrap().run(0, 0).unwrap().to_vec();
        assert_eq!(moved, [[0x88; 4 * 8].to_vec(), [0x99; 12 * 8].to_vec()].concat());
        drop(reader);
        settle(&pool);
        assert!(is_zero(&pool, old.index()));
        assert_sound(&pool);
    }
}

// B88, C8, C12
#[test]
fn a_rewrite_that_finds_too_few_fresh_pages_leaves_pool_unchanged() {
    let pool = host_pool(3);
    let mut kv = take_filled(&pool, owner(1), 2 * P, 0x88);
    let handles: Vec<_> = kv.handles().collect();
    let readers: Vec<_> = handles.iter().map(|h| pool.read(owner(1), *h).unwrap()).collect();
    kv.truncate(0).unwrap();
    let before = pool.stats();
    // Two pages must move, one is free.
    let refused = kv.write(2 * P, &[&[1; 256], &[1; 192]]).unwrap_err();
    assert!(matches!(refused, pagestamp::WriteError::NoFreshPage { .. }), "{refused:?}");
    assert_eq!(kv.handles().collect::<Vec<_>>(), handles, "no generation moved");
    assert_eq!(pool.stats(), before);
    drop(readers);
    write(&mut kv, 2 * P, 0x11);
    assert_eq!(pool.stats().moved_pages, 0);
    assert_sound(&pool);
}

fn lane_pool() -> (PagePool<HeldMemory>, HeldControl) {
    let (pool, control) = held_pool(1);
    take_filled(&pool, owner(9), P, 0x90).release();
    (pool, control)
}

// B88, C3, C4
#[test]
fn a_handle_had_before_its_zeroing_ended_is_stale_after_release() {
    let (pool, control) = lane_pool();
    let request = Request::new(owner(1), P).on_lane(Lane::from_raw(1));
    let kv = pool.reserve(&proof(&pool, P), request, P).unwrap();
    let old = kv.handle(0).unwrap();
    kv.release();
    assert!(is_stale(&pool, owner(1), old));
    control.finish_all();
    assert_eq!(settle(&pool).fenced_pages, 1, "the page is cleaned once more, for itself");
    control.finish_all();
    let next = take_filled(&pool, owner(2), P, 1);
    assert!(is_stale(&pool, owner(1), old) && is_all(&next, 1));
    assert_sound(&pool);
}

// B89, C4
#[test]
fn a_handle_of_one_pool_opens_nothing_in_its_twin() {
    let (one, two) = (host_pool(2), host_pool(2));
    let mine = take_filled(&one, owner(1), P, 0x89);
    let theirs = take_filled(&two, owner(1), P, 0x98);
    let (handle, twin) = (mine.handle(0).unwrap(), theirs.handle(0).unwrap());
    assert_eq!((handle.index(), handle.generation()), (twin.index(), twin.generation()), "same shape, same history");
    assert_ne!(handle, twin);
    let foreign = |e: &ReadError| matches!(e, ReadError::ForeignPool { handle_pool, pool } if *handle_pool == one.id() && *pool == two.id());
    assert!(foreign(&two.check(owner(1), handle).unwrap_err()));
    assert!(foreign(&two.read(owner(1), handle).unwrap_err()));
    for refused in [
        two.release_pages(owner(1), &[handle]).unwrap_err(),
        two.pin(owner(1), &[handle], HolderId(1), None).unwrap_err(),
    ] {
        assert!(matches!(&refused, ReleaseError::Handle { position: 0, source } if foreign(source)), "{refused:?}");
    }
    let ticket = mine.pin_read(0..1, HolderId(1), None).unwrap();
    // SAFETY: (1): nobody uses the ticket.
    assert_eq!(unsafe { two.ticket_done(ticket) }, Err(TicketError::Unknown(ticket)));
    assert_eq!((one.stats().tickets, two.stats().live_pages), (1, 1));
    let proof = proof(&one, P);
    let refused = two.admit(&proof, Request::new(owner(1), P)).unwrap_err();
    assert!(
        matches!(refused, pagestamp::AdmitError::ForeignProof { proof_pool, pool, .. } if proof_pool == one.id() && pool == two.id())
    );
    assert_sound(&two);
}

// B89, C4
#[test]
fn a_raw_handle_with_any_bit_flipped_opens_nothing() {
    let pool = host_pool(2);
    let kv = take_filled(&pool, owner(1), P, 0x89);
    let other = take_filled(&pool, owner(2), P, 0x98);
    let good = kv.handle(0).unwrap().to_bits();
    for bit in 0..128 {
        let Some(forged) = PageHandle::<HostMemory>::from_bits(good ^ 1 << bit) else { continue };
        assert!(pool.check(owner(1), forged).is_err(), "bit {bit}");
        assert!(pool.release_pages(owner(1), &[forged]).is_err());
    }
    assert!(is_all(&other, 0x98) && pool.check(owner(1), kv.handle(0).unwrap()).is_ok());
}

// B90, C4
#[test]
fn a_reused_page_has_another_handle_and_only_the_new_one_lives() {
    let pool = host_pool(1);
    let mut seen = std::collections::HashSet::new();
    let mut last: Option<PageHandle<HostMemory>> = None;
    for _ in 0..100 {
        let kv = take(&pool, owner(1), P);
        let handle = kv.handle(0).unwrap();
        assert!(seen.insert(handle.to_bits()));
        assert!(pool.check(owner(1), handle).is_ok());
        if let Some(last) = last {
            assert_eq!(handle.index(), last.index());
            assert_eq!(handle.generation().get(), last.generation().get() + 1);
            assert!(is_stale(&pool, owner(1), last));
        }
        last = Some(handle);
    }
}

/// Session slots of a game server.
fn slots(count: u32) -> PagePool<HostMemory> {
    PagePool::new(config(count), HostMemory::new(PageGeometry::bytes(100).unwrap(), count).unwrap()).unwrap()
}

/// Delivers a message to the session that it was sent to, and to no other.
fn deliver<M: PageMemory>(pool: &PagePool<M>, to: u64, message: u128) -> Result<(), ReadError> {
    let Some(handle) = PageHandle::from_bits(message) else { panic!("a message carries its handle") };
    pool.read(owner(to), handle).map(drop)
}

// B92, C4
#[test]
fn a_delayed_message_to_a_recycled_slot_is_dropped_and_counted() {
    let pool = slots(1);
    let first = take(&pool, owner(1), 1);
    let message = first.handle(0).unwrap().to_bits();
    deliver(&pool, 1, message).unwrap();
    first.release();
    let second = take(&pool, owner(2), 1);
    assert_eq!(second.handle(0).unwrap().index(), message as u32, "the same slot");
    for to in [1, 2] {
        assert!(matches!(deliver(&pool, to, message), Err(ReadError::Stale { .. })));
    }
    assert_eq!(pool.stats().refused_reads, 2);
    // The slot number alone is no address.
    assert!(PageHandle::<HostMemory>::from_bits(u128::from(message as u32)).is_none());
}

// B93, C3, C4
#[test]
fn a_new_match_on_the_same_slots_starts_from_nothing() {
    let pool = slots(4);
    let mut sessions: Vec<_> = (1..=4).map(|player| take(&pool, owner(player), 1)).collect();
    for session in &mut sessions {
        session.write(1, &[&[0x93; 100]]).unwrap();
    }
    let events: Vec<u128> = sessions.iter().map(|s| s.handle(0).unwrap().to_bits()).collect();
    // The match ends without draining its events, and the host forgets to drop its sessions.
    sessions.into_iter().for_each(std::mem::forget);
    assert_eq!(pool.clear().pages, 4);
    assert_eq!(pool.stats().live_pages, 0);

    let mut sessions: Vec<_> = (11..=14).map(|player| take(&pool, owner(player), 1)).collect();
    for session in &mut sessions {
        assert_eq!(session.written_tokens(), 0);
        session.assume_written(1).unwrap();
        assert!(is_all(session, 0), "the payload is the default");
    }
    for (event, old, new) in events.iter().zip(1..).zip(11..).map(|((event, old), new)| (event, old, new)) {
        assert!(matches!(deliver(&pool, old, *event), Err(ReadError::Stale { .. })));
        assert!(matches!(deliver(&pool, new, *event), Err(ReadError::Stale { .. })));
    }
    assert_sound(&pool);
}
