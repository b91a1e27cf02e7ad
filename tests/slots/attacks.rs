//! What a game's own code may do in the middle of a call: panic, come back to the pool, give up what it stands on.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use pagestamp::{CapacityPlan, CapacityProof, ClaimToken, SlotConfig, SlotError, SlotHandle, SlotPool, Whose};

use crate::stage::{Seat, made, owner, pool, seated};

/// Runs its closure when it is dropped: while a panic is on its way.
struct OnUnwind<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnUnwind<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn while_unwinding(work: impl FnMut()) {
    let unwinding = AssertUnwindSafe(|| {
        let _last = OnUnwind(work);
        panic!("on its way");
    });
    assert!(catch_unwind(unwinding).is_err());
}

// C8, C11
#[test]
fn a_closure_that_panics_while_another_panic_unwinds_poisons_its_slot() {
    let (pool, proof) = pool(2, 2);
    let me = owner(1);
    let changed = seated(&pool, &proof, me);
    let blank = pool.claim_one(&proof, me).unwrap();
    while_unwinding(|| {
        let half_done = |seat: &mut Seat| {
            seat.round = 99;
            panic!("half done");
        };
        assert!(catch_unwind(AssertUnwindSafe(|| pool.with_mut(me, changed, half_done))).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| pool.init_with(me, blank, half_done))).is_err());
    });
    for handle in [changed, blank] {
        assert!(matches!(pool.read(me, handle), Err(SlotError::Poisoned { .. })), "half a change is shown");
    }
    assert_eq!(pool.stats().poisoned_slots, 2);
}

// C8, C11
#[test]
fn a_walk_that_panics_while_another_panic_unwinds_poisons_its_slot() {
    let (pool, proof) = pool(1, 1);
    let handle = seated(&pool, &proof, owner(1));
    while_unwinding(|| {
        let walk = || pool.for_each_mut(Whose::All, |_, _| panic!("half done"));
        assert!(catch_unwind(AssertUnwindSafe(walk)).is_err());
    });
    assert!(matches!(pool.read(owner(1), handle), Err(SlotError::Poisoned { .. })));
}

// C3, C11, C12
#[test]
fn a_closure_that_comes_back_to_the_pool_meets_itself_and_nobody_elses_value() {
    let (pool, proof) = pool(2, 2);
    let me = owner(1);
    let (one, two) = (seated(&pool, &proof, me), seated(&pool, &proof, me));
    pool.with_mut(me, one, |seat| {
        assert!(matches!(pool.read(me, one), Err(SlotError::Busy { readers: 0, .. })));
        assert!(matches!(pool.write(me, one), Err(SlotError::Busy { readers: 0, .. })));
        let visited = pool.for_each_mut(Whose::All, |_, seat| seat.round += 1);
        assert_eq!((visited.slots, visited.busy_slots), (1, 1));
        pool.release(me, one).unwrap();
        assert!(matches!(pool.claim(&proof, me, 1), Err(pagestamp::SlotClaimError::Full { pending_slots: 1, .. })));
        assert_eq!((pool.maintain(9), pool.audit()), (0, Ok(())));
        seat.round = 77; // its own life's, to the end
    })
    .unwrap();
    let next = pool.claim_one(&proof, owner(2)).unwrap();
    assert_eq!(pool.init_with(owner(2), next, |seat| seat.clone()), Ok(Seat::default()));
    // A walk that releases and claims: the slot that it has at hand is not handed out under it.
    let mut seen = Vec::new();
    let visited = pool.for_each(Whose::All, |handle, seat| {
        seen.push((handle.index(), seat.round));
        pool.release(owner(2), handle).unwrap();
        pool.release(me, two).unwrap();
        assert_eq!(pool.claim_one(&proof, owner(3)).unwrap().index(), two.index());
        assert!(pool.claim_one(&proof, owner(3)).is_err());
    });
    assert_eq!((seen, visited.blank_slots), (vec![(0, 0)], 1));
    assert_eq!((pool.maintain(9), pool.audit()), (1, Ok(())));
}

thread_local! {
    static POOL: RefCell<Option<(SlotPool<Nosy>, CapacityProof)>> = const { RefCell::new(None) };
}

/// Does to the pool, when it is dropped, whatever a session's clean-up might.
#[derive(Default)]
struct Nosy {
    mine: Option<SlotHandle<Nosy>>,
    other: Option<SlotHandle<Nosy>>,
}

impl Drop for Nosy {
    fn drop(&mut self) {
        let Some(mine) = self.mine else { return };
        let Some((pool, proof)) = POOL.with_borrow(Clone::clone) else { return };
        assert!(matches!(pool.release(owner(1), mine), Err(SlotError::Stale { .. })), "its own life is over");
        assert!(matches!(pool.read(owner(1), mine), Err(SlotError::Stale { .. })));
        if let Some(other) = self.other {
            pool.release(owner(1), other).unwrap();
        }
        let again = pool.claim_one(&proof, owner(2)).unwrap();
        assert_ne!(again.index(), mine.index(), "C3: handed out before its reset ended");
        pool.release(owner(2), again).unwrap();
        assert_eq!(pool.audit(), Ok(()));
    }
}

// C3, C4, C11
#[test]
fn a_value_that_releases_itself_and_others_when_it_is_dropped_does_so_once() {
    let pool = SlotPool::<Nosy>::new(SlotConfig::new(3)).unwrap();
    let proof = pool.prove(CapacityPlan::new(1)).unwrap();
    POOL.set(Some((pool.clone(), proof)));
    let (one, two) = (pool.claim_one(&proof, owner(1)).unwrap(), pool.claim_one(&proof, owner(1)).unwrap());
    pool.init(owner(1), one, Nosy { mine: Some(one), other: Some(two) }).ok().unwrap();
    pool.init(owner(1), two, Nosy { mine: Some(two), other: None }).ok().unwrap();
    pool.release(owner(1), one).unwrap();
    let stats = pool.stats();
    assert_eq!((stats.free_slots, stats.retired_slots, stats.reset_panics), (3, 0, 0));
    POOL.set(None);
}

// C3
#[test]
fn values_of_no_size_of_large_size_and_of_large_alignment_have_their_slots() {
    #[derive(Default)]
    struct Nothing;
    #[derive(Default)]
    #[repr(align(4096))]
    struct Aligned(u8);

    let pool = SlotPool::<Nothing>::new(SlotConfig::new(3)).unwrap();
    let proof = pool.prove(CapacityPlan::new(3)).unwrap();
    let group = pool.claim(&proof, owner(1), 3).unwrap();
    (0..3).for_each(|place| group.init(place, Nothing).ok().unwrap());
    let (a, b) = (group.write(0).unwrap(), group.write(1).unwrap());
    assert!(matches!(group.read(0), Err(SlotError::Busy { .. })) && group.read(2).is_ok());
    drop((a, b));
    assert_eq!((group.release().slots, pool.audit()), (3, Ok(())));

    let pool = SlotPool::<Aligned>::new(SlotConfig::new(3)).unwrap();
    let proof = pool.prove(CapacityPlan::new(3)).unwrap();
    let group = pool.claim(&proof, owner(1), 3).unwrap();
    for place in 0..3 {
        group.init(place, Aligned(place as u8)).ok().unwrap();
        let value = group.read(place).unwrap();
        assert_eq!((std::ptr::from_ref(&*value).addr() % 4096, usize::from(value.0)), (0, place));
    }
}

// C11
#[test]
fn slots_larger_than_the_stack_are_made_and_zeroed_in_their_place() {
    const LARGE: usize = 4 << 20;
    let work = || {
        let pool = SlotPool::<[u8; LARGE]>::zeroing(SlotConfig::new(2)).unwrap();
        let proof = pool.prove(CapacityPlan::new(1)).unwrap();
        for life in 1..4 {
            let handle = pool.claim_one(&proof, owner(life)).unwrap();
            let was_zero = pool.init_with(owner(life), handle, |bytes| {
                let was_zero = bytes.iter().all(|byte| *byte == 0);
                bytes.fill(7);
                was_zero
            });
            assert_eq!(was_zero, Ok(true));
            pool.release(owner(life), handle).unwrap();
        }
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(work).unwrap().join().unwrap();
}

// C1, C2, C8
#[test]
fn lobbies_that_race_for_the_last_slots_have_all_of_theirs_or_none_whatever_else_goes_on() {
    let (pool, proof) = made(SlotConfig::new(12).with_magazines(4), 8);
    let running = AtomicU64::new(3);
    let together = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for id in 1..=3 {
            let (pool, running, together) = (&pool, &running, &together);
            scope.spawn(move || {
                let me = owner(id);
                for round in 0..400 {
                    let token = ClaimToken { id: u128::from(id) << 64 | u128::from(round), expires_at_ns: round };
                    let lobby = match round % 3 {
                        0 => pool.claim_named(&proof, me, 8, token),
                        _ => pool.claim(&proof, me, 8),
                    };
                    let Ok(lobby) = lobby else { continue };
                    assert_eq!(together.fetch_add(1, Ordering::AcqRel), 0, "16 of 12 slots");
                    assert!(lobby.ready().is_err());
                    (0..8).for_each(|place| lobby.init(place, Seat::of(me, round)).unwrap());
                    // A walk may be at one of them.
                    let is_mine =
                        |place| lobby.read(place).map_or(true, |seat| seat.owner == id && seat.items == [round]);
                    assert!((0..8).all(is_mine));
                    lobby.ready().unwrap();
                    together.fetch_sub(1, Ordering::AcqRel);
                    match round % 4 {
                        0 => drop(lobby),
                        1 => std::mem::forget(lobby),
                        2 => lobby.into_handles().into_iter().for_each(|handle| pool.release(me, handle).unwrap()),
                        _ => assert_eq!(lobby.release().slots, 8),
                    }
                    pool.expire_claims(round);
                    pool.reclaim(me);
                }
                running.fetch_sub(1, Ordering::AcqRel);
            });
        }
        scope.spawn(|| {
            while running.load(Ordering::Acquire) > 0 {
                pool.for_each_mut(Whose::All, |_, seat| seat.items.truncate(1));
                pool.for_each(Whose::All, |_, seat| assert_eq!(seat.items, [seat.round], "half a change"));
                let s = pool.stats();
                let sum = s.free_slots + s.live_slots + s.quarantined_slots + s.cleaning_slots + s.retired_slots;
                assert_eq!((sum, pool.audit()), (12, Ok(())));
            }
        });
    });
    pool.expire_claims(u64::MAX);
    pool.maintain(12);
    assert_eq!((pool.stats().free_slots, pool.audit()), (12, Ok(())));
}
