//! Group 10: threads. What loom proves of the protocols, on the real pool: seeded by nothing but the scheduler, so every
//! assertion holds for every order.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use pagestamp::{HolderId, PageHandle, ReadError, ReleaseError, TicketError};

use crate::stage::*;

// B94, C4, C12
#[test]
fn a_reader_that_races_a_release_sees_its_own_bytes_whole_or_stale() {
    let pool = host_pool(1);
    let stop = AtomicBool::new(false);
    let shared = std::sync::Mutex::new(None::<(u64, PageHandle<_>)>);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let Some((who, handle)) = *shared.lock().unwrap() else { continue };
                    match pool.read(owner(who), handle) {
                        Ok(guard) => {
                            let run = guard.run(0, 0).unwrap();
                            assert!(run.iter().all(|byte| u64::from(*byte) == who), "another life's bytes");
                            assert_eq!(run.len() as u64, u64::from(guard.written_tokens()) * 8);
                        }
                        Err(ReadError::Stale { handle_generation, generation, .. }) => {
                            assert!(generation > handle_generation);
                        }
                        Err(other) => panic!("{other:?}"),
                    }
                }
            });
        }
        for round in 0..3000u64 {
            let who = 1 + round % 200;
            // The page may still be a reader's: then there is no other, and the pool says so.
            let Ok(mut kv) = pool.reserve(&proof(&pool, P), pagestamp::Request::new(owner(who), P), P) else {
                thread::yield_now();
                continue;
            };
            write(&mut kv, 1 + round % P, who as u8);
            *shared.lock().unwrap() = Some((who, kv.handle(0).unwrap()));
            if round % 3 == 0 {
                thread::yield_now();
            }
            kv.release();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(settle(&pool).free_pages, 1);
    assert_sound(&pool);
}

// B95, C1, C2
#[test]
fn of_two_threads_that_give_back_the_same_pages_one_does() {
    for _ in 0..300 {
        let pool = host_pool(2);
        let handles = take_filled(&pool, owner(1), 2 * P, 1).into_handles().unwrap();
        let start = Barrier::new(2);
        let results: Vec<_> = thread::scope(|scope| {
            let give_back = || {
                start.wait();
                pool.release_pages(owner(1), &handles)
            };
            let threads = [scope.spawn(give_back), scope.spawn(give_back)];
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 1);
        let refused = results.into_iter().find_map(Result::err).unwrap();
        assert!(
            matches!(refused, ReleaseError::Handle { position: 0, source: ReadError::Stale { .. } }),
            "{refused:?}"
        );
        let (one, two) = (take(&pool, owner(2), P), take(&pool, owner(3), P));
        assert_ne!(pages(&one), pages(&two));
        assert_eq!(pool.stats().pages_released, 2);
        assert_sound(&pool);
    }
}

// B95, C1, C7
#[test]
fn a_release_and_the_end_of_the_last_ticket_free_the_page_once() {
    for _ in 0..300 {
        let pool = host_pool(1);
        let kv = take_filled(&pool, owner(1), P, 1);
        let ticket = kv.pin_read(0..1, HolderId(1), None).unwrap();
        let start = Barrier::new(3);
        let ends: Vec<_> = thread::scope(|scope| {
            let end = || {
                start.wait();
                // SAFETY: (1): nobody reads under the ticket.
                unsafe { pool.ticket_done(ticket) }
            };
            let threads = [scope.spawn(end), scope.spawn(end)];
            start.wait();
            kv.release();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert_eq!(ends.iter().filter(|e| e.is_ok()).count(), 1);
        assert!(ends.contains(&Err(TicketError::AlreadyDone(ticket))));
        let stats = settle(&pool);
        assert_eq!((stats.free_pages, stats.pages_released, stats.late_tickets), (1, 1, 1));
        assert_sound(&pool);
    }
}

// B95, C1
#[test]
fn a_release_and_a_reclaim_of_the_same_pages_free_them_once() {
    for _ in 0..300 {
        let pool = host_pool(2);
        let kv = take_filled(&pool, owner(1), 2 * P, 1);
        let start = Barrier::new(2);
        let (released, reclaimed) = thread::scope(|scope| {
            let reclaim = scope.spawn(|| {
                start.wait();
                pool.reclaim(owner(1))
            });
            start.wait();
            (kv.release(), reclaim.join().unwrap())
        });
        assert_eq!(released.pages + reclaimed.pages, 2);
        assert_eq!(released.was_revoked, reclaimed.pages == 2);
        assert_eq!((pool.stats().free_pages, pool.stats().reservations), (2, 0));
        assert_sound(&pool);
    }
}

// B96, C4, C7
#[test]
fn a_pin_after_a_lookup_holds_the_page_that_was_looked_up_or_is_stale() {
    for _ in 0..300 {
        let pool = host_pool(1);
        let looked_up = take_filled(&pool, owner(1), P, 0x96).into_handles().unwrap();
        let start = Barrier::new(2);
        thread::scope(|scope| {
            let evict = scope.spawn(|| {
                start.wait();
                pool.release_pages(owner(1), &looked_up).unwrap();
                let next = pool.reserve(&proof(&pool, P), pagestamp::Request::new(owner(2), P), P);
                next.ok().map(|mut kv| {
                    write(&mut kv, P, 0x69);
                    kv
                })
            });
            start.wait();
            let pinned = pool.pin(owner(1), &looked_up, HolderId(1), None);
            let next = evict.join().unwrap();
            match pinned {
                Ok(ticket) => {
                    assert!(next.is_none(), "the page is pinned, nobody got it");
                    assert!(raw_page(&pool, 0)[..128].iter().all(|b| *b == 0x96), "the holder sees what it looked up");
                    // SAFETY: (1): nobody reads under the ticket any more.
                    unsafe { pool.ticket_done(ticket) }.unwrap();
                }
                Err(ReleaseError::Handle { position: 0, source: ReadError::Stale { .. } }) => assert!(next.is_some()),
                Err(other) => panic!("{other:?}"),
            }
        });
        assert_eq!(settle(&pool).free_pages, 1);
        assert_sound(&pool);
    }
}
