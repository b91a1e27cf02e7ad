//! Group 12: faults of other pools, worth borrowing: calls that are cancelled, buffers used after release, error texts.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use pagestamp::{
    CapacityProof, CleanMode, HolderId, HostMemory, OwnerId, PagePool, PageState, ReadError, Request, Reservation,
};

use crate::stage::*;

const SECRET: u8 = 0xA7;

/// The next tenant takes every page there is and finds nothing but zeros; a page that is still held comes to nobody.
fn next_tenant_finds_only_zeros(pool: &PagePool<HostMemory>) {
    let stats = settle(pool);
    assert_eq!(stats.free_pages + stats.quarantined_pages, u64::from(pool.max_pages()), "{stats:?}");
    if stats.free_pages > 0 {
        let mut all = take(pool, owner(2), stats.free_pages * P);
        for page in pages(&all) {
            assert!(is_zero(pool, page), "page {page}");
        }
        all.assume_written(stats.free_pages * P).unwrap();
        assert!(is_all(&all, 0));
    }
    assert_sound(pool);
}

fn pools() -> [PagePool<HostMemory>; 2] {
    [CleanMode::OnRelease, CleanMode::Later].map(|mode| host_pool_of(config(4).with_clean_mode(mode)))
}

/// Yields once.
#[derive(Default)]
struct Yield(bool);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// A request as an engine would write it: a yield before, between and after all calls, guards and writers held across some.
async fn request(
    pool: &PagePool<HostMemory>,
    proof: CapacityProof,
    who: OwnerId,
    by_plane: bool,
) -> Reservation<HostMemory> {
    Yield::default().await;
    let admitted = pool.admit(&proof, Request::new(who, 3 * P)).unwrap();
    Yield::default().await;
    let mut kv = admitted.reserve(P).unwrap();
    Yield::default().await;
    if by_plane {
        let mut writer = kv.writer(P).unwrap();
        Yield::default().await;
        writer.plane(1, &[SECRET; 96]).unwrap();
        Yield::default().await;
        writer.plane(0, &[SECRET; 128]).unwrap();
        Yield::default().await;
    } else {
        write(&mut kv, P, SECRET);
        Yield::default().await;
    }
    kv.commit(P).unwrap();
    Yield::default().await;
    let by_handle = pool.read(who, kv.handle(0).unwrap()).unwrap();
    Yield::default().await;
    {
        let guard = kv.read(0..P).unwrap();
        Yield::default().await;
        assert_eq!(guard.tokens(), 0..P);
    }
    kv.grow(3 * P).unwrap();
    Yield::default().await;
    kv.truncate(3).unwrap();
    Yield::default().await;
    // A rewrite while the reader by handle is there: the page moves.
    write(&mut kv, 2 * P, SECRET);
    Yield::default().await;
    drop(by_handle);
    Yield::default().await;
    kv.shrink(2 * P + 3).unwrap();
    Yield::default().await;
    kv
}

/// Polls at most `polls` times; `None` when it was cancelled before it ended.
fn run<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..polls {
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            return Some(value);
        }
    }
    None
}

// B101, C1, C3, C4
#[test]
fn a_request_cancelled_at_any_await_leaves_only_zeros() {
    for by_plane in [false, true] {
        let mut polls = 0;
        let awaits = loop {
            let mut ended = true;
            for pool in pools() {
                let proof = proof(&pool, 3 * P);
                ended &= run(request(&pool, proof, owner(1), by_plane), polls).is_some();
                let stats = pool.stats();
                assert_eq!((stats.live_pages, stats.promised_pages, stats.reservations), (0, 0, 0), "at {polls}");
                next_tenant_finds_only_zeros(&pool);
            }
            if ended {
                break polls;
            }
            polls += 1;
        };
        assert_eq!(awaits, if by_plane { 15 } else { 13 }, "every await was a place of cancellation");
    }
}

// B101, C3, C7
#[test]
fn a_request_forgotten_at_any_await_is_reclaimed_and_leaves_only_zeros() {
    for polls in 0..15 {
        for pool in pools() {
            let pool: &'static PagePool<HostMemory> = Box::leak(Box::new(pool));
            let mut future = Box::pin(request(pool, proof(pool, 3 * P), owner(1), true));
            let mut cx = Context::from_waker(Waker::noop());
            for _ in 0..polls {
                assert!(future.as_mut().poll(&mut cx).is_pending());
            }
            std::mem::forget(future);
            pool.reclaim(owner(1));
            // Pages that a forgotten guard or writer may look at stay in quarantine, for ever and counted.
            assert_eq!((pool.stats().live_pages, pool.stats().promised_pages), (0, 0));
            next_tenant_finds_only_zeros(pool);
        }
    }
}

// B101, C1, C3
#[test]
fn dropping_each_thing_at_each_stage_leaves_only_zeros() {
    // Every value that the API hands out, in both orders against the reservation where Rust allows it.
    let stages: [fn(&PagePool<HostMemory>); 12] = [
        |_| drop(Request::new(owner(1), P).reject("no")),
        |pool| drop(admit(pool, owner(1), 4 * P)),
        |pool| drop(admit(pool, owner(1), 4 * P).reject("no")),
        |pool| drop(admit(pool, owner(1), 4 * P).reserve(0)),
        |pool| drop(admit(pool, owner(1), P).reserve(2 * P).unwrap_err()),
        |pool| drop(take(pool, owner(1), 3 * P)),
        |pool| {
            let mut kv = take(pool, owner(1), P);
            drop(kv.writer(P).unwrap());
        },
        |pool| {
            let mut kv = take(pool, owner(1), P);
            kv.writer(P).unwrap().plane(0, &[SECRET; 128]).unwrap();
        },
        |pool| {
            let kv = take_filled(pool, owner(1), 4 * P, SECRET);
            let handles: Vec<_> = kv.handles().collect();
            let guards: Vec<_> = handles.iter().map(|h| pool.read(owner(1), *h).unwrap()).collect();
            drop(kv);
            let stats = settle(pool);
            assert_eq!((stats.quarantined_pages, stats.free_pages), (4, 0));
            // In any order: here the middle ones first.
            let mut guards: std::collections::VecDeque<_> = guards.into();
            guards.rotate_left(2);
            drop(guards);
        },
        |pool| {
            let kv = take_filled(pool, owner(1), P, SECRET);
            let guard = kv.read(0..P).unwrap();
            pool.reclaim(owner(1));
            assert_eq!(settle(pool).quarantined_pages, 1);
            drop(guard);
            drop(kv);
        },
        |pool| {
            let kv = take_filled(pool, owner(1), P, SECRET);
            let ticket = kv.pin_read(0..1, HolderId(1), None).unwrap();
            drop(kv);
            assert_eq!(settle(pool).quarantined_pages, 1);
            // SAFETY: (1): nobody reads under it.
            unsafe { pool.ticket_revoke(ticket) }.unwrap();
        },
        |pool| {
            let mut kv = take(pool, owner(1), P);
            let ticket = kv.pin_write(0..1, HolderId(1), None).unwrap();
            drop(kv);
            poke(pool, 0, SECRET); // the writer is late, and allowed to be
            assert_eq!(settle(pool).quarantined_pages, 1);
            // SAFETY: (1): it writes no more.
            unsafe { pool.ticket_done(ticket) }.unwrap();
        },
    ];
    for (number, stage) in stages.iter().enumerate() {
        for pool in pools() {
            stage(&pool);
            let stats = settle(&pool);
            assert_eq!((stats.free_pages, stats.reservations, stats.tickets), (4, 0, 0), "stage {number}");
            next_tenant_finds_only_zeros(&pool);
        }
    }
}

// B102, C4, C7
#[test]
fn bytes_that_are_looked_at_by_handle_stay_while_their_page_is_released() {
    let pool = host_pool(1);
    let kv = take_filled(&pool, owner(1), P, SECRET);
    let handle = kv.handle(0).unwrap();
    let view = pool.read(owner(1), handle).unwrap();
    let bytes = view.run(1, 1).unwrap();
    assert_eq!(kv.release().quarantined_pages, 1);
    assert_eq!(state_of(&pool, owner(1), handle), PageState::Quarantined);
    let refused = pool.reserve(&proof(&pool, P), Request::new(owner(2), P), P).unwrap_err();
    assert!(matches!(refused, pagestamp::AdmitError::Full { pending_pages: 1, .. }), "{refused:?}");
    assert!(bytes.iter().all(|byte| *byte == SECRET), "no other client's data appears");
    drop(view);
    let next = take_filled(&pool, owner(2), P, 0x11);
    assert!(is_all(&next, 0x11));
    assert!(matches!(pool.read(owner(1), handle), Err(ReadError::Stale { .. })));
    assert_sound(&pool);
}

// B102, C12
#[test]
fn bytes_that_are_looked_at_never_change_under_the_reader() {
    let pool = host_pool(3);
    let mut kv = take_filled(&pool, owner(1), 10, 0x01);
    kv.grow(P).unwrap();
    let view = pool.read(owner(1), kv.handle(0).unwrap()).unwrap();
    let before = view.run(0, 0).unwrap().to_vec();
    write(&mut kv, 2, 0x02); // an append
    kv.truncate(5).unwrap();
    write(&mut kv, 11, 0x03); // a rewrite
    assert_eq!(view.run(0, 0).unwrap(), before);
    assert!(kv.pin_write(0..1, HolderId(1), None).is_ok(), "the reader is on the page that was left");
    assert_eq!(view.run(0, 0).unwrap(), before);
}

// B103, C11
#[test]
fn errors_of_one_owner_carry_nothing_of_another() {
    let pool = host_pool(2);
    let marker = 0x5EC2_E75E_C2E7_0000u64;
    let kv = take_filled(&pool, owner(marker), P, b'Z');
    let handle = kv.handle(0).unwrap();
    let texts = [
        pool.check(owner(1), handle).unwrap_err().to_string(),
        pool.release_pages(owner(1), &[handle]).unwrap_err().to_string(),
        format!("{:?}", pool.pin(owner(1), &[handle], HolderId(1), None).unwrap_err()),
        format!("{:?}", pool.erase(owner(1))),
        format!("{:?}", pool.reclaim(owner(1))),
    ];
    for text in texts {
        assert!(!text.contains(&marker.to_string()) && !text.contains("ZZ"), "{text}");
    }
    assert!(is_all(&kv, b'Z'));
}

// B103, C3, C11
#[test]
fn a_page_that_moves_is_copied_through_nothing_that_is_kept() {
    let pool = host_pool(3);
    let mut kv = take_filled(&pool, owner(1), P, SECRET);
    let reader = pool.read(owner(1), kv.handle(0).unwrap()).unwrap();
    kv.truncate(9).unwrap();
    write(&mut kv, 7, 0x01);
    drop(reader);
    kv.release();
    settle(&pool);
    // Short copies of the next owner are its own bytes and zeros, however long the buffers before were.
    let mut next = take_filled(&pool, owner(2), 3, 0x02);
    let reader = pool.read(owner(2), next.handle(0).unwrap()).unwrap();
    next.truncate(1).unwrap();
    write(&mut next, 1, 0x03);
    drop(reader);
    assert!((0..3).all(|page| raw_page(&pool, page).iter().all(|b| [0, 2, 3].contains(b))));
    assert_sound(&pool);
}
