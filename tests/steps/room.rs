//! Whoever waits for room is called once, outside every lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::*;
use pagestamp::{CleanMode, HeldMemory, HolderId};

/// Counts calls.
#[derive(Clone, Default)]
struct Calls(Arc<AtomicU64>);

impl Calls {
    fn one(&self) -> impl FnOnce() + Send + 'static {
        let calls = self.clone();
        move || {
            calls.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn so_far(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

// C11
#[test]
fn a_callback_comes_once_when_there_is_room_for_it() {
    let pool = null(4);
    let (two, three) = (Calls::default(), Calls::default());
    let mut held: Vec<_> = (0..4).map(|who| take(&pool, who + 1, P)).collect();
    pool.on_room(2, two.one()).unwrap();
    pool.on_room(3, three.one()).unwrap();
    assert_eq!(pool.stats().room_waiters, 2);
    for expected in [(0, 0), (1, 0), (1, 1), (1, 1)] {
        held.pop();
        assert_eq!((two.so_far(), three.so_far()), expected);
    }
    assert_eq!(pool.stats().room_waiters, 0);
    assert!(pool.on_room(4, || unreachable!("there is room")).is_none());
}

/// Every way in which pages come.
// C11
#[test]
fn whatever_brings_the_pages_calls_back() {
    type Way = (&'static str, fn(&PagePool<HostMemory>, &dyn Fn(&str)));
    let ways: [Way; 9] = [
        ("an admission is dropped", |pool, check| {
            let admitted = pool.admit(&proof(pool), Request::new(owner(1), 4 * P)).unwrap();
            check("promised");
            drop(admitted);
        }),
        ("shrink", |pool, check| {
            let mut kv = pool.reserve(&proof(pool), Request::new(owner(1), 4 * P), P).unwrap();
            check("held and promised");
            kv.shrink(0).unwrap();
            std::mem::forget(kv);
        }),
        ("slide", |pool, check| {
            let mut kv = take(pool, 1, 4 * P);
            kv.assume_written(4 * P).unwrap();
            check("held");
            kv.slide(3 * P).unwrap();
            std::mem::forget(kv);
        }),
        ("reclaim", |pool, check| {
            std::mem::forget(take(pool, 1, 4 * P));
            check("held");
            pool.reclaim(owner(1));
        }),
        ("the end of a ticket", |pool, check| {
            let mut kv = take(pool, 1, 4 * P);
            write(&mut kv, 4 * P, 7);
            let ticket = kv.pin_read(0..4, HolderId(1), None).unwrap();
            kv.release();
            check("read outside");
            // SAFETY: (1) nobody reads.
            unsafe { pool.ticket_done(ticket) }.unwrap();
        }),
        ("the end of a step", |pool, check| {
            let step = pool.open_step();
            take(pool, 1, 4 * P).release();
            check("behind a step");
            end(pool, step);
        }),
        ("a resize", |pool, check| {
            pool.resize(1).unwrap();
            check("small");
            pool.resize(4).unwrap();
        }),
        ("maintain after a guard", |pool, check| {
            let mut kv = take(pool, 1, 4 * P);
            write(&mut kv, 4 * P, 7);
            let guards: Vec<_> = kv.handles().map(|handle| pool.read(owner(1), handle).unwrap()).collect();
            kv.release();
            check("read by handle");
            drop(guards);
            pool.maintain(4);
        }),
        ("cached pages", |pool, check| {
            use pagestamp::{PrefixTokens, Retention};
            let mut kv = take(pool, 1, 4 * P);
            write(&mut kv, 4 * P, 7);
            kv.commit(4 * P).unwrap();
            kv.publish(&PrefixTokens::new(&[5; 16]), Retention::default()).unwrap();
            check("held");
            kv.release();
        }),
    ];
    for (name, way) in ways {
        let pool = host(4);
        let calls = Calls::default();
        way(&pool, &|why| {
            assert!(pool.on_room(3, calls.one()).is_some(), "{name}: {why}");
            assert_eq!(calls.so_far(), 0, "{name}: {why}");
        });
        assert_eq!(calls.so_far(), 1, "{name}");
        take(&pool, 2, 3 * P).release();
    }
}

#[test]
fn a_fence_that_is_done_calls_back_by_whoever_looks_at_it() {
    let memory = HeldMemory::new(geometry(), 4).unwrap();
    let control = memory.control();
    let pool = PagePool::new(config(4), memory).unwrap();
    let calls = Calls::default();
    let mut kv = take(&pool, 1, 4 * P);
    write(&mut kv, 4 * P, 7);
    kv.release();
    pool.on_room(4, calls.one()).unwrap();
    for fence in control.open_fences() {
        control.finish(fence).unwrap();
    }
    assert_eq!(calls.so_far(), 0);
    pool.maintain(0);
    assert_eq!(calls.so_far(), 1);
}

// A scrubber sleeps on the pool's lock, which is no unlocking that anybody sees.
#[test]
fn a_scrubber_calls_back_for_what_it_zeroed() {
    let pool =
        PagePool::new(config(4).with_clean_mode(CleanMode::Later), HostMemory::new(geometry(), 4).unwrap()).unwrap();
    let mut kv = take(&pool, 1, 4 * P);
    write(&mut kv, 4 * P, 7);
    let guard = pool.read(owner(1), kv.handle(0).unwrap()).unwrap();
    kv.release();
    let (wake, woken) = std::sync::mpsc::channel();
    pool.on_room(4, move || wake.send(()).unwrap_or_default()).unwrap();
    let scrubber = pool.start_scrubber().unwrap();
    drop(guard);
    woken.recv().unwrap();
    drop(scrubber);
}

// C11: a scrubber that found pages behind a fence that is done, and has nothing to zero.
#[test]
fn a_scrubber_calls_back_before_it_sleeps() {
    let memory = HeldMemory::new(geometry(), 4).unwrap();
    let control = memory.control();
    let pool = PagePool::new(config(4), memory).unwrap();
    let mut kv = take(&pool, 1, 4 * P);
    write(&mut kv, 4 * P, 7);
    kv.release();
    let (wake, woken) = std::sync::mpsc::channel();
    pool.on_room(4, move || wake.send(()).unwrap_or_default()).unwrap();
    let scrubber = pool.start_scrubber().unwrap();
    for fence in control.open_fences() {
        control.finish(fence).unwrap();
    }
    woken.recv().unwrap();
    drop(scrubber);
}

// C11: dirty pages are room: an admission zeroes them by itself.
#[test]
fn pages_that_wait_for_zeroing_are_room() {
    let pool =
        PagePool::new(config(4).with_clean_mode(CleanMode::Later), HostMemory::new(geometry(), 4).unwrap()).unwrap();
    let calls = Calls::default();
    let mut kv = take(&pool, 1, 4 * P);
    write(&mut kv, 4 * P, 7);
    pool.on_room(4, calls.one()).unwrap();
    kv.release();
    assert_eq!((calls.so_far(), pool.stats().free_pages), (1, 0));
    take(&pool, 2, 4 * P).release();
}

// C11: what pages that come back behind a step cover is waited for, not evicted for: or a loop of tries would spin.
#[test]
fn cached_pages_are_no_room_for_a_request_that_others_on_their_way_cover() {
    use pagestamp::{PrefixTokens, Retention};
    let pool = null(4);
    let mut cached = take(&pool, 1, 2 * P);
    cached.assume_written(2 * P).unwrap();
    cached.commit(2 * P).unwrap();
    cached.publish(&PrefixTokens::new(&[5; 8]), Retention::default()).unwrap();
    cached.release();
    let step = pool.open_step();
    take(&pool, 1, 2 * P).release();
    assert!(ask(&pool, 2, 2 * P).is_err());
    let calls = Calls::default();
    pool.on_room(2, calls.one()).unwrap();
    assert_eq!((pool.stats().cached_pages, calls.so_far()), (2, 0));
    end(&pool, step);
    assert_eq!(calls.so_far(), 1);
}

// C11
#[test]
fn a_callback_that_is_cancelled_never_comes_and_is_dropped_outside_the_lock() {
    struct AsksOnDrop(PagePool<NullMemory>, Calls);
    impl Drop for AsksOnDrop {
        fn drop(&mut self) {
            self.0.audit().unwrap();
            self.1.one()();
        }
    }
    let pool = null(4);
    let kv = take(&pool, 1, 4 * P);
    let calls = Calls::default();
    let asks = AsksOnDrop(pool.clone(), calls.clone());
    let id = pool.on_room(1, move || panic!("cancelled: {}", asks.0.id().get())).unwrap();
    assert!(pool.cancel_on_room(id));
    assert_eq!(calls.so_far(), 1);
    assert!(!pool.cancel_on_room(id));
    kv.release();
    // There is room, and nobody is called.
    let asks = AsksOnDrop(pool.clone(), calls.clone());
    assert!(pool.on_room(1, move || panic!("there was room: {}", asks.0.id().get())).is_none());
    assert_eq!(calls.so_far(), 2);
}

// C11: no user code under the lock, no nesting, and no call is lost by that.
#[test]
fn a_callback_may_call_the_pool_and_what_comes_due_by_it_comes_after_it() {
    let pool = null(4);
    let order = Arc::new(Mutex::new(Vec::new()));
    let kv = Arc::new(Mutex::new(Some(take(&pool, 1, 2 * P))));
    let other = take(&pool, 2, 2 * P);
    let note = |what: &'static str| {
        let order = Arc::clone(&order);
        move || order.lock().unwrap().push(what)
    };
    let (again, late) = (note("in the first"), note("second"));
    let (held, inside) = (Arc::clone(&kv), pool.clone());
    pool.on_room(2, move || {
        inside.audit().unwrap();
        drop(held.lock().unwrap().take());
        inside.maintain(1);
        assert!(inside.on_room(9, || ()).is_some());
        again();
    })
    .unwrap();
    pool.on_room(4, late).unwrap();
    other.release();
    assert_eq!(*order.lock().unwrap(), ["in the first", "second"]);
    assert_eq!(pool.stats().free_pages, 4);
}

// C11: a callback during a resize would meet the lock of the resize.
#[test]
fn a_callback_of_a_resize_may_resize() {
    let pool = host(4);
    pool.resize(1).unwrap();
    let inside = pool.clone();
    let calls = Calls::default();
    let call = calls.one();
    pool.on_room(3, move || {
        inside.resize(2).unwrap();
        call();
    })
    .unwrap();
    pool.resize(4).unwrap();
    assert_eq!((calls.so_far(), pool.stats().free_pages), (1, 2));
}

// C11
#[test]
fn a_callback_that_panics_harms_nobody() {
    let pool = host(4);
    let calls = Calls::default();
    let mut kv = take(&pool, 1, 4 * P);
    write(&mut kv, 4 * P, 7);
    pool.on_room(1, || panic!("on purpose")).unwrap();
    pool.on_room(1, calls.one()).unwrap();
    kv.release();
    assert_eq!((calls.so_far(), pool.stats().callback_panics, pool.stats().free_pages), (1, 1, 4));
    pool.on_room(9, calls.one()).unwrap();
    assert_sound(&pool);
    drop(pool.close().unwrap());
}

// C11: threads that take and give back, and one that waits.
#[test]
fn no_call_is_lost_between_threads() {
    let pool = null(2);
    std::thread::scope(|scope| {
        for who in 1..=3_u64 {
            let pool = &pool;
            scope.spawn(move || {
                let mut served = 0;
                while served < 300 {
                    match ask(pool, who, 2 * P) {
                        Ok(kv) => {
                            served += 1;
                            kv.release();
                        }
                        Err(AdmitError::Full { .. }) => {
                            let (wake, woken) = std::sync::mpsc::channel();
                            if pool.on_room(2, move || wake.send(()).unwrap_or_default()).is_some() {
                                woken.recv().unwrap();
                            }
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
            });
        }
    });
    assert_sound(&pool);
}
