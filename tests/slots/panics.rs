//! Panics of other people's code: closures, resets, drops.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pagestamp::{CapacityPlan, Reset, SlotConfig, SlotError, SlotPool};

use crate::stage::{Seat, owner, pool, seated};

// C8, C11
#[test]
fn a_closure_that_panics_poisons_its_slot_until_the_release() {
    let (pool, proof) = pool(2, 2);
    let me = owner(1);
    let handle = seated(&pool, &proof, me);
    let half_done = AssertUnwindSafe(|| {
        pool.with_mut(me, handle, |seat| {
            seat.round = 99;
            panic!("half done")
        })
    });
    assert!(catch_unwind(half_done).is_err());
    assert!(matches!(pool.read(me, handle), Err(SlotError::Poisoned { slot: 0 })));
    assert!(matches!(pool.write(me, handle), Err(SlotError::Poisoned { slot: 0 })));
    assert!(matches!(pool.check(me, handle), Err(SlotError::Poisoned { slot: 0 })));
    assert_eq!((pool.stats().poisoned_slots, pool.stats().accessed_slots), (1, 0));
    pool.release(me, handle).unwrap();
    let next = pool.claim_one(&proof, owner(2)).unwrap();
    assert_eq!(pool.init_with(owner(2), next, |seat| seat.clone()), Ok(Seat::default()));
    assert_eq!(pool.audit(), Ok(()));
}

// C5, C11
#[test]
fn an_initialisation_that_panics_gives_no_value() {
    let (pool, proof) = pool(2, 2);
    let lobby = pool.claim(&proof, owner(1), 2).unwrap();
    let handle = lobby.handle(0).unwrap();
    let half_done = AssertUnwindSafe(|| {
        pool.init_with(owner(1), handle, |seat| {
            seat.round = 99;
            panic!("half done")
        })
    });
    assert!(catch_unwind(half_done).is_err());
    assert!(matches!(lobby.read(0), Err(SlotError::Poisoned { .. })));
    assert!(pool.init(owner(1), handle, Seat::default()).is_err());
    assert!(matches!(lobby.ready(), Err(SlotError::Poisoned { .. })));
    assert_eq!(lobby.release().slots, 2);
    assert_eq!((pool.stats().free_slots, pool.audit()), (2, Ok(())));
}

// C12
#[test]
fn a_reader_that_panics_poisons_nothing_and_a_panic_before_is_not_the_writers() {
    let (pool, proof) = pool(1, 1);
    let handle = seated(&pool, &proof, owner(1));
    let look = AssertUnwindSafe(|| pool.with(owner(1), handle, |_| panic!("only looked")));
    assert!(catch_unwind(look).is_err());
    assert_eq!(pool.check(owner(1), handle), Ok(()));

    /// Writes while a panic is on its way.
    struct OnUnwind<F: FnMut()>(F);
    impl<F: FnMut()> Drop for OnUnwind<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    let unwinding = AssertUnwindSafe(|| {
        let _last = OnUnwind(|| pool.with_mut(owner(1), handle, |seat| seat.round = 5).unwrap());
        panic!("before the write");
    });
    assert!(catch_unwind(unwinding).is_err());
    assert_eq!(pool.with(owner(1), handle, |seat| seat.round), Ok(5));
}

// C8, C11
#[test]
fn a_release_in_the_middle_of_a_write_that_panics_leaves_the_next_life_clean() {
    let (pool, proof) = pool(1, 1);
    let handle = seated(&pool, &proof, owner(1));
    let half_done = AssertUnwindSafe(|| {
        pool.with_mut(owner(1), handle, |_| {
            pool.release(owner(1), handle).unwrap();
            panic!("the match ended under the write")
        })
    });
    assert!(catch_unwind(half_done).is_err());
    let next = seated(&pool, &proof, owner(2));
    assert_eq!(*pool.read(owner(2), next).unwrap(), Seat::of(owner(2), 1));
}

thread_local! {
    static RESETS_PANIC: Cell<bool> = const { Cell::new(false) };
}

/// Panics when told to, with something that panics again when it is dropped.
struct Grudge(u64);

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("and again");
        }
    }
}

impl Reset for Grudge {
    fn reset(&mut self) {
        if RESETS_PANIC.get() {
            std::panic::panic_any(Bomb);
        }
        self.0 = 0;
    }
}

// C1, C3, C8
#[test]
fn a_reset_that_panics_retires_its_slot_and_no_other() {
    let pool = SlotPool::resetting(SlotConfig::new(4), || Grudge(0)).unwrap();
    let proof = pool.prove(CapacityPlan::new(2)).unwrap();
    let (me, you) = (owner(1), owner(2));
    let lobby = pool.claim(&proof, me, 2).unwrap();
    let one = pool.claim_one(&proof, me).unwrap();
    let kept = pool.claim_one(&proof, you).unwrap();
    pool.init(you, kept, Grudge(5)).ok().unwrap();
    RESETS_PANIC.set(true);
    pool.release(me, one).unwrap();
    assert_eq!(pool.stats().retired_slots, 1, "the caller's release stands; the slot is gone");
    assert!(matches!(pool.read(me, one), Err(SlotError::Stale { .. })));
    drop(lobby);
    RESETS_PANIC.set(false);
    let stats = pool.stats();
    assert_eq!((stats.retired_slots, stats.reset_panics, stats.usable_slots, stats.epoch), (3, 3, 1, 4));
    assert!(pool.claim_one(&proof, me).is_err(), "the proof is void");
    assert_eq!(pool.with(you, kept, |grudge| grudge.0), Ok(5));
    pool.release(you, kept).unwrap();
    let proof = pool.prove(CapacityPlan::new(1)).unwrap();
    assert_eq!(pool.claim_one(&proof, me).unwrap().index(), kept.index());
    assert_eq!(pool.audit(), Ok(()));
}

// C3, C11
#[test]
fn a_value_that_panics_when_it_is_dropped_retires_its_slot() {
    #[derive(Default)]
    struct Sore(bool);
    impl Drop for Sore {
        fn drop(&mut self) {
            if self.0 {
                panic!("sore");
            }
        }
    }
    let pool = SlotPool::<Sore>::new(SlotConfig::new(2)).unwrap();
    let proof = pool.prove(CapacityPlan::new(1)).unwrap();
    let handle = pool.claim_one(&proof, owner(1)).unwrap();
    pool.init(owner(1), handle, Sore(true)).ok().unwrap();
    pool.release(owner(1), handle).unwrap();
    assert_eq!((pool.stats().retired_slots, pool.stats().reset_panics), (1, 1));
    assert_eq!(pool.audit(), Ok(()));
}

// C11
#[test]
fn resets_run_under_no_lock() {
    thread_local! {
        static POOL: std::cell::RefCell<Option<SlotPool<Nosy>>> = const { std::cell::RefCell::new(None) };
        static SEEN: Cell<u64> = const { Cell::new(0) };
    }
    /// Asks the pool everything while it is reset.
    struct Nosy;
    impl Reset for Nosy {
        fn reset(&mut self) {
            POOL.with_borrow(|pool| {
                let pool = pool.as_ref().unwrap();
                assert_eq!(pool.audit(), Ok(()));
                let proof = pool.prove(CapacityPlan::new(1)).unwrap();
                let group = pool.claim(&proof, owner(9), 1).unwrap();
                std::mem::forget(group);
                pool.maintain(0);
                SEEN.set(SEEN.get() + pool.stats().cleaning_slots);
            });
        }
    }
    let pool = SlotPool::resetting(SlotConfig::new(9), || Nosy).unwrap();
    POOL.set(Some(pool.clone()));
    let proof = pool.prove(CapacityPlan::new(2)).unwrap();
    let one = pool.claim_one(&proof, owner(1)).unwrap();
    pool.release(owner(1), one).unwrap();
    drop(pool.claim(&proof, owner(1), 2).unwrap());
    let handle = pool.claim_one(&proof, owner(1)).unwrap();
    pool.init(owner(1), handle, Nosy).ok().unwrap();
    let reader = pool.read(owner(1), handle).unwrap();
    assert_eq!(pool.reclaim(owner(1)).quarantined_slots, 1);
    drop(reader);
    assert_eq!(pool.maintain(9), 1);
    assert_eq!(SEEN.get(), 1 + 2 + 2 + 1, "every reset saw its slots in hand");
    POOL.set(None);
}
