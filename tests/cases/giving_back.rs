//! Group 4: double free, counts and pins.

use pagestamp::{
    HolderId, HostMemory, PageHandle, PagePool, PageState, ReadError, ReleaseError, Released, TicketError, TicketId,
    WriteError,
};

use crate::stage::*;

fn done(pool: &PagePool<HostMemory>, id: TicketId) -> Result<(), TicketError> {
    // SAFETY: (1): the outside party is this test, which touches no page under the ticket any more.
    unsafe { pool.ticket_done(id) }
}

fn revoke(pool: &PagePool<HostMemory>, id: TicketId) -> Result<(), TicketError> {
    // SAFETY: (1): as for `done`.
    unsafe { pool.ticket_revoke(id) }
}

/// Pages that the engine keeps in its own arrays.
fn detached(pool: &PagePool<HostMemory>, who: u64, count: u64) -> Vec<PageHandle<HostMemory>> {
    take_filled(pool, owner(who), count * P, 0xD0).into_handles().unwrap()
}

/// Everything that can be reserved now, each page once.
fn drain(pool: &PagePool<HostMemory>) -> Vec<u32> {
    let free = pool.stats().free_pages;
    let mut numbers = pages(&std::mem::ManuallyDrop::new(take(pool, owner(99), free * P)));
    numbers.sort_unstable();
    let count = numbers.len();
    numbers.dedup();
    assert_eq!(numbers.len(), count, "no page twice");
    numbers
}

// B46, C1, C8
#[test]
fn a_batch_that_names_a_page_twice_releases_nothing() {
    let pool = host_pool(4);
    let mut handles = detached(&pool, 1, 3);
    for at in 0..3 {
        handles.push(handles[at]);
        let before = pool.stats();
        assert_eq!(
            pool.release_pages(owner(1), &handles),
            Err(ReleaseError::Twice { position: 3, page: handles[at].index() })
        );
        assert_eq!(pool.stats(), before);
        handles.pop();
    }
    assert!(handles.iter().all(|h| pool.check(owner(1), *h).is_ok()));
    assert_eq!(pool.release_pages(owner(1), &handles).unwrap().pages, 3);
    assert_eq!(drain(&pool), [0, 1, 2, 3]);
    pool.audit().unwrap();
}

// B46, C1, C8
#[test]
fn a_page_with_a_ticket_is_released_once_and_counted_once() {
    let pool = host_pool(2);
    let handles = detached(&pool, 1, 1);
    let ticket = pool.pin(owner(1), &handles, HolderId(1), None).unwrap();
    assert!(pool.release_pages(owner(1), &[handles[0], handles[0]]).is_err());
    let released = pool.release_pages(owner(1), &handles).unwrap();
    assert_eq!((released.pages, released.quarantined_pages), (1, 1));
    assert!(matches!(
        pool.release_pages(owner(1), &handles),
        Err(ReleaseError::Handle { position: 0, source: ReadError::Stale { state: PageState::Quarantined, .. } })
    ));
    done(&pool, ticket).unwrap();
    assert_eq!(settle(&pool).free_pages, 2);
    assert_eq!(drain(&pool), [0, 1]);
    pool.audit().unwrap();
}

// B46, C8
#[test]
fn one_wrong_handle_anywhere_in_a_batch_releases_nothing() {
    let pool = host_pool(6);
    let good = detached(&pool, 1, 3);
    let foreign = detached(&pool, 2, 1)[0];
    let held = take(&pool, owner(1), P);
    let mut stale = detached(&pool, 1, 1)[0];
    pool.release_pages(owner(1), &[stale]).unwrap();
    for at in 0..=good.len() {
        for wrong in [foreign, held.handle(0).unwrap(), stale] {
            let mut batch = good.clone();
            batch.insert(at, wrong);
            let before = pool.stats();
            let error = pool.release_pages(owner(1), &batch).unwrap_err();
            let (ReleaseError::Handle { position, .. } | ReleaseError::Held { position, .. }) = error else {
                panic!("{error:?}")
            };
            assert_eq!((position, pool.stats()), (at, before));
        }
    }
    // A handle that is stale in the same page as a good one is no way to release the good one twice.
    stale = good[0];
    pool.release_pages(owner(1), &good).unwrap();
    assert!(pool.release_pages(owner(1), &[stale]).is_err());
    assert_sound(&pool);
}

// B47, C2, C4
#[test]
fn a_page_given_back_three_times_goes_to_one_renter() {
    let pool = host_pool(3);
    let handle = detached(&pool, 1, 1)[0];
    let copy = handle;
    pool.release_pages(owner(1), &[handle]).unwrap();
    for again in [handle, copy, PageHandle::from_bits(handle.to_bits()).unwrap()] {
        let error = pool.release_pages(owner(1), &[again]).unwrap_err();
        assert!(matches!(error, ReleaseError::Handle { position: 0, source: ReadError::Stale { .. } }), "{error:?}");
    }
    let renters: Vec<_> = (1..=3).map(|who| take_filled(&pool, owner(who), P, who as u8)).collect();
    let mut numbers: Vec<u32> = renters.iter().flat_map(pages).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2]);
    assert!(renters.iter().zip(1u8..).all(|(kv, byte)| is_all(kv, byte)));
    // The page is live again, in another life: the old handle still releases nothing.
    assert!(pool.release_pages(owner(1), &[handle]).is_err());
    assert_sound(&pool);
}

// B48, C1, C8
#[test]
fn a_failed_write_leaves_the_reservation_whole_and_released_once() {
    let pool = host_pool(2);
    let mut kv = take(&pool, owner(1), P);
    write(&mut kv, 2, 0x21);
    // Each way for a write to fail, in the middle of a request.
    assert!(matches!(
        kv.write(P, &[&[0; 128], &[0; 96]]),
        Err(WriteError::PastReserved { to_tokens: 18, reserved_tokens: 16 })
    ));
    assert!(matches!(kv.write(1, &[&[0; 8]]), Err(WriteError::PlaneCount { given: 1, planes: 2 })));
    assert!(matches!(
        kv.write(1, &[&[0; 8], &[0; 7]]),
        Err(WriteError::Length { plane: 1, tokens: 1, given_bytes: 7, expected_bytes: 6 })
    ));
    let mut writer = kv.writer(1).unwrap();
    writer.plane(0, &[0xFF; 8]).unwrap();
    assert!(matches!(writer.plane(0, &[0; 8]), Err(WriteError::PlaneTwice { plane: 0 })));
    assert!(matches!(writer.plane(2, &[0; 8]), Err(WriteError::NoSuchPlane { plane: 2, planes: 2 })));
    drop(writer);
    assert_eq!((kv.written_tokens(), kv.pages()), (2, 1));
    assert!(is_all(&kv, 0x21));

    let handle = kv.handle(0).unwrap();
    // The error handler releases; the guard's drop has nothing left to do.
    assert_eq!(kv.release().pages, 1);
    assert!(is_stale(&pool, owner(1), handle));
    let one = take_filled(&pool, owner(2), P, 2);
    let two = take_filled(&pool, owner(3), P, 3);
    assert_ne!(pages(&one), pages(&two));
    assert!(is_all(&one, 2) && is_all(&two, 3));
    assert_sound(&pool);
}

// B48, C1
#[test]
fn a_release_that_comes_second_does_nothing() {
    let pool = host_pool(2);
    let kv = take_filled(&pool, owner(1), P, 1);
    pool.reclaim(owner(1));
    let other = take_filled(&pool, owner(2), 2 * P, 2);
    let before = pool.stats();
    let released = kv.release();
    assert_eq!((released.pages, released.was_revoked), (0, true));
    assert_eq!(pool.stats().live_pages, before.live_pages);
    assert!(is_all(&other, 2));
    assert_sound(&pool);
}

// B50, C1, C7
#[test]
fn whichever_of_release_and_unpin_comes_last_frees_the_page() {
    for unpin_first in [true, false] {
        let pool = host_pool(1);
        let kv = take_filled(&pool, owner(1), P, 0x50);
        let handle = kv.handle(0).unwrap();
        let ticket = kv.pin_read(0..1, HolderId(9), None).unwrap();
        if unpin_first {
            done(&pool, ticket).unwrap();
            assert!(pool.check(owner(1), handle).is_ok(), "the end of a ticket releases nothing");
            assert_eq!(kv.release(), released(1, 0));
        } else {
            assert_eq!(kv.release(), released(1, 1));
            assert_eq!(settle(&pool).quarantined_pages, 1);
            done(&pool, ticket).unwrap();
        }
        assert_eq!(settle(&pool).free_pages, 1);
        let next = take(&pool, owner(2), P).handle(0).unwrap();
        assert!(next.generation() > handle.generation());
        assert_sound(&pool);
    }
}

fn released(pages: u64, quarantined_pages: u64) -> Released {
    let mut released = Released::default();
    released.pages = pages;
    released.quarantined_pages = quarantined_pages;
    released
}

// B50, C7
#[test]
fn a_read_guard_dropped_last_lets_the_page_go() {
    let pool = host_pool(1);
    let kv = take_filled(&pool, owner(1), P, 0x50);
    let guard = pool.read(owner(1), kv.handle(0).unwrap()).unwrap();
    kv.release();
    assert_eq!(settle(&pool).quarantined_pages, 1);
    assert!(guard.run(0, 0).unwrap().iter().all(|b| *b == 0x50), "the reader's bytes stay");
    drop(guard);
    assert_eq!(settle(&pool).free_pages, 1);
    assert_sound(&pool);
}

// B51, C7
#[test]
fn a_probe_that_is_dropped_unused_pins_nothing() {
    let pool = host_pool(2);
    let kv = take_filled(&pool, owner(1), 2 * P, 0x51);
    let probes: Vec<_> = kv.handles().map(|handle| pool.read(owner(1), handle).unwrap()).collect();
    drop(probes);
    assert_eq!(kv.release().quarantined_pages, 0);
    assert_eq!(drain(&pool), [0, 1]);
}

// B52, C1, C7
#[test]
fn a_ticket_that_ends_twice_takes_nothing_from_another_ticket() {
    let pool = host_pool(1);
    let kv = take_filled(&pool, owner(1), P, 0x52);
    let one = kv.pin_read(0..1, HolderId(1), None).unwrap();
    let two = kv.pin_read(0..1, HolderId(1), None).unwrap();
    kv.release();
    done(&pool, one).unwrap();
    for again in [done, revoke, done] {
        assert_eq!(again(&pool, one), Err(TicketError::AlreadyDone(one)));
        assert_eq!(settle(&pool).quarantined_pages, 1, "the other ticket still holds it");
        pool.audit().unwrap();
    }
    assert_eq!((pool.stats().late_tickets, pool.stats().tickets), (3, 1));
    revoke(&pool, two).unwrap();
    assert_eq!(settle(&pool).free_pages, 1);
    assert_eq!(done(&pool, two), Err(TicketError::AlreadyDone(two)));
    // A ticket of another pool, though it has the same number.
    let other = host_pool(1);
    let theirs = take_filled(&other, owner(1), P, 0x53).pin_read(0..1, HolderId(1), None).unwrap();
    assert_eq!(done(&pool, theirs), Err(TicketError::Unknown(theirs)));
    assert_eq!(other.tickets().len(), 1);
    // One of an earlier process image: the pool's id, another random part. And one that was never given.
    for strange in [theirs.to_bits() ^ 1 << 96, theirs.to_bits() + 1] {
        let strange = TicketId::from_bits(strange).unwrap();
        assert_eq!(done(&other, strange), Err(TicketError::Unknown(strange)));
    }
    done(&other, TicketId::from_bits(theirs.to_bits()).unwrap()).unwrap();
    assert_eq!(other.tickets().len(), 0);
    assert_sound(&pool);
}

// B52, C7
#[test]
fn time_alone_ends_no_ticket() {
    let pool = host_pool(1);
    let kv = take_filled(&pool, owner(1), P, 0x52);
    let ticket = kv.pin_read(0..1, HolderId(4), Some(100)).unwrap();
    kv.release();
    assert!(pool.overdue_tickets(99).is_empty());
    for now in [100, u64::MAX] {
        let overdue = pool.overdue_tickets(now);
        assert_eq!(overdue.iter().map(|t| (t.id, t.holder)).collect::<Vec<_>>(), [(ticket, HolderId(4))]);
        assert_eq!(settle(&pool).quarantined_pages, 1);
    }
    revoke(&pool, ticket).unwrap();
    assert_eq!(settle(&pool).free_pages, 1);
}

// B53, C7
#[test]
fn a_batch_that_takes_pages_back_leaves_what_is_read_to_the_reader() {
    let pool = host_pool(3);
    let mine: Vec<_> = (0..3).map(|n| take_filled(&pool, owner(1), P, 0x30 + n)).collect();
    let handle = mine[0].handle(0).unwrap();
    let by_handle = pool.read(owner(1), handle).unwrap();
    let reclaimed = pool.reclaim(owner(1));
    assert_eq!((reclaimed.revoked, reclaimed.pages, reclaimed.quarantined_pages), (3, 3, 1));
    let stats = settle(&pool);
    assert_eq!((stats.free_pages, stats.quarantined_pages), (2, 1));
    let others = take_filled(&pool, owner(2), 2 * P, 0xFF);
    assert!(by_handle.run(0, 0).unwrap().iter().all(|b| *b == 0x30), "the reader's bytes are unchanged");
    assert!(!pages(&others).contains(&handle.index()));
    drop(by_handle);
    assert_eq!(settle(&pool).free_pages, 1);
    assert_sound(&pool);
}

// B53, C7
#[test]
fn a_batch_of_handles_leaves_what_is_read_to_the_reader() {
    let pool = host_pool(3);
    let handles = detached(&pool, 1, 3);
    let guard = pool.read(owner(1), handles[1]).unwrap();
    let released = pool.release_pages(owner(1), &handles).unwrap();
    assert_eq!((released.pages, released.quarantined_pages), (3, 1));
    assert_eq!(drain(&pool).len(), 2);
    assert!(guard.run(0, 0).unwrap().iter().all(|b| *b == 0xD0));
}
