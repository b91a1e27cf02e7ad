//! The same faults where a game keeps its players: slots of a fixed pool.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;

use pagestamp::{
    CapacityPlan, CapacityProof, ClaimError, ClaimToken, Generation, PageState, SecondaryMap, SlotClaimError,
    SlotConfig, SlotError, SlotHandle, SlotPool, Whose,
};

use crate::stage::owner;

/// What a session leaves behind if nobody clears it.
#[derive(Default, Clone, PartialEq, Eq, Debug)]
struct Session {
    player: u64,
    items: Vec<&'static str>,
}

fn session(player: u64) -> Session {
    Session { player, items: vec!["sword", "letter"] }
}

fn pool(slots: u32) -> (SlotPool<Session>, CapacityProof) {
    let pool = SlotPool::new(SlotConfig::new(slots)).unwrap();
    let proof = pool.prove(CapacityPlan::new(u64::from(slots))).unwrap();
    (pool, proof)
}

fn join(pool: &SlotPool<Session>, proof: &CapacityProof, player: u64) -> SlotHandle<Session> {
    let handle = pool.claim_one(proof, owner(player)).unwrap();
    let blank = pool.init_with(owner(player), handle, |slot| std::mem::replace(slot, session(player)));
    assert_eq!(blank, Ok(Session::default()), "what the slot's last session left");
    handle
}

/// A message that names its slot as the wire does.
fn deliver(pool: &SlotPool<Session>, to: u64, message: u128) -> Result<u64, SlotError> {
    let handle = SlotHandle::from_bits(message).unwrap();
    pool.with_mut(owner(to), handle, |session| {
        session.items.push("gift");
        session.player
    })
}

// B43, C3
#[test]
fn a_slot_taken_over_shows_nothing_of_its_last_session() {
    let (pool, proof) = pool(1);
    let first = join(&pool, &proof, 1);
    pool.release(owner(1), first).unwrap();
    let second = pool.claim_one(&proof, owner(2)).unwrap();
    assert!(matches!(pool.read(owner(2), second), Err(SlotError::Uninitialised { .. })), "not even a blank one");
    assert_eq!(pool.init_with(owner(2), second, |slot| slot.clone()), Ok(Session::default()));
}

// B47, C1
#[test]
fn a_slot_given_back_three_times_goes_to_one_player() {
    let (pool, proof) = pool(3);
    let handle = join(&pool, &proof, 1);
    let copy = SlotHandle::from_bits(handle.to_bits()).unwrap();
    pool.release(owner(1), handle).unwrap();
    for again in [handle, copy] {
        assert!(matches!(pool.release(owner(1), again), Err(SlotError::Stale { .. })));
    }
    let mut taken: Vec<u32> = (1..=3).map(|player| join(&pool, &proof, player).index()).collect();
    taken.sort_unstable();
    assert_eq!((taken, pool.audit()), (vec![0, 1, 2], Ok(())));
    assert!(matches!(pool.claim_one(&proof, owner(4)), Err(SlotClaimError::Full { free_slots: 0, .. })));
}

// B46, B48, C1
#[test]
fn a_slot_released_by_an_error_path_is_not_released_again_with_its_group() {
    let (pool, proof) = pool(2);
    let lobby = pool.claim(&proof, owner(1), 2).unwrap();
    lobby.init(0, session(1)).unwrap();
    let failing = AssertUnwindSafe(|| pool.with_mut(owner(1), lobby.handle(0).unwrap(), |_| panic!("too large")));
    assert!(catch_unwind(failing).is_err());
    pool.release(owner(1), lobby.handle(0).unwrap()).unwrap();
    let next = join(&pool, &proof, 2);
    assert_eq!(next.index(), lobby.handle(0).unwrap().index(), "somebody else has it by now");
    let released = lobby.release();
    assert_eq!((released.slots, released.stale_slots), (1, 1));
    assert_eq!(pool.with(owner(2), next, |session| session.player), Ok(2));
    assert_eq!((pool.stats().live_slots, pool.audit()), (1, Ok(())));
}

// B50, C7
#[test]
fn whichever_of_release_and_read_ends_last_lets_the_slot_go() {
    for release_first in [true, false] {
        let (pool, proof) = pool(1);
        let handle = join(&pool, &proof, 1);
        let reader = pool.read(owner(1), handle).unwrap();
        if release_first {
            pool.release(owner(1), handle).unwrap();
            drop(reader);
        } else {
            drop(reader);
            pool.release(owner(1), handle).unwrap();
        }
        let next = join(&pool, &proof, 2);
        assert_eq!(next.generation().get(), handle.generation().get() + 1);
        assert_eq!((pool.stats().accessed_slots, pool.audit()), (0, Ok(())));
    }
}

// B53, C7
#[test]
fn slots_taken_back_together_leave_what_is_read_to_the_reader() {
    let (pool, proof) = pool(3);
    let handles = [(); 3].map(|()| join(&pool, &proof, 1));
    let reader = pool.read(owner(1), handles[1]).unwrap();
    let reclaimed = pool.reclaim(owner(1));
    assert_eq!((reclaimed.slots, reclaimed.quarantined_slots), (3, 1));
    assert!(matches!(
        pool.claim(&proof, owner(2), 3),
        Err(SlotClaimError::Full { free_slots: 2, pending_slots: 1, .. })
    ));
    let two = pool.claim(&proof, owner(2), 2).unwrap();
    two.init(0, session(2)).unwrap();
    assert_eq!(*reader, session(1), "unchanged");
    drop((reader, two));
    assert_eq!((pool.maintain(9), pool.stats().free_slots), (1, 3));
}

// B83, C8
#[test]
fn a_lobby_asked_for_again_after_a_lost_answer_is_the_same_lobby() {
    let (pool, proof) = pool(8);
    let token = ClaimToken { id: 83, expires_at_ns: 50 };
    let ask = || pool.claim_named(&proof, owner(1), 4, token);
    let lost = ask().unwrap().handles().to_vec();
    assert_eq!(ask().unwrap().handles(), lost);
    assert_eq!((pool.expire_claims(49), pool.stats().live_slots), (0, 4));
    assert_eq!((pool.expire_claims(50), pool.stats().live_slots), (1, 0), "nobody asked any more");
    assert!(matches!(ask(), Err(SlotClaimError::Claim(ClaimError::Ended))));
    assert!(lost.iter().all(|handle| pool.check(owner(1), *handle).is_err()));
}

// B86, C4
#[test]
fn a_worn_out_slot_retires_and_its_first_handle_is_stale_for_ever() {
    let config = SlotConfig::new(2).with_last_generation(Generation::new(256).unwrap());
    let pool = SlotPool::<Session>::new(config).unwrap();
    let proof = pool.prove(CapacityPlan::new(1)).unwrap();
    let first = join(&pool, &proof, 1);
    pool.release(owner(1), first).unwrap();
    for _ in 0..254 {
        let next = join(&pool, &proof, 1);
        assert_eq!(next.index(), first.index());
        assert!(matches!(pool.read(owner(1), first), Err(SlotError::Stale { .. })));
        pool.release(owner(1), next).unwrap();
    }
    assert_eq!((pool.stats().retired_slots, pool.stats().usable_slots), (1, 1));
    assert_ne!(join(&pool, &proof, 1).index(), first.index());
    assert!(matches!(pool.read(owner(1), first), Err(SlotError::Stale { state: PageState::Retired, .. })));
}

// B88, C4
#[test]
fn a_slot_handle_is_stale_whichever_way_its_slot_went_back() {
    type Way = fn(&SlotPool<Session>, &CapacityProof) -> SlotHandle<Session>;
    let ways: [(&str, Way); 6] = [
        ("release", |pool, proof| {
            let handle = join(pool, proof, 1);
            pool.release(owner(1), handle).unwrap();
            handle
        }),
        ("group release", |pool, proof| {
            let group = pool.claim(proof, owner(1), 1).unwrap();
            let handle = group.handle(0).unwrap();
            group.release();
            handle
        }),
        ("group drop", |pool, proof| pool.claim(proof, owner(1), 1).unwrap().handle(0).unwrap()),
        ("reclaim", |pool, proof| {
            let handle = join(pool, proof, 1);
            pool.reclaim(owner(1));
            handle
        }),
        ("expiry", |pool, proof| {
            let token = ClaimToken { id: 1, expires_at_ns: 0 };
            let handle = pool.claim_named(proof, owner(1), 1, token).unwrap().handle(0).unwrap();
            pool.expire_claims(0);
            handle
        }),
        ("release under a reader", |pool, proof| {
            let handle = join(pool, proof, 1);
            let reader = pool.read(owner(1), handle).unwrap();
            pool.release(owner(1), handle).unwrap();
            drop(reader);
            pool.maintain(1);
            handle
        }),
    ];
    for (name, way) in ways {
        let (pool, proof) = pool(1);
        let old = way(&pool, &proof);
        assert!(matches!(pool.read(owner(1), old), Err(SlotError::Stale { .. })), "{name}");
        let new = join(&pool, &proof, 1);
        assert_eq!((new.index(), new == old), (old.index(), false), "{name}");
        assert!(matches!(pool.read(owner(1), old), Err(SlotError::Stale { .. })), "{name}: reused");
        assert_eq!((pool.stats().live_slots, pool.audit()), (1, Ok(())), "{name}");
    }
}

// B89, C4
#[test]
fn a_slot_handle_of_one_pool_opens_nothing_in_its_twin() {
    let ((one, one_proof), (two, two_proof)) = (pool(2), pool(2));
    let (here, there) = (join(&one, &one_proof, 1), join(&two, &two_proof, 1));
    assert_eq!((here.index(), here.generation()), (there.index(), there.generation()));
    assert!(matches!(two.read(owner(1), here), Err(SlotError::ForeignPool { .. })));
    assert!(matches!(two.write(owner(1), here), Err(SlotError::ForeignPool { .. })));
    assert!(matches!(two.release(owner(1), here), Err(SlotError::ForeignPool { .. })));
    assert!(matches!(two.claim(&one_proof, owner(1), 1), Err(SlotClaimError::ForeignProof { .. })));
    assert_eq!(two.with(owner(1), there, |session| session.player), Ok(1));
}

// B90, C4
#[test]
fn a_reused_slot_has_another_handle_and_only_the_new_one_lives() {
    let (pool, proof) = pool(1);
    let old = join(&pool, &proof, 1);
    pool.release(owner(1), old).unwrap();
    let new = join(&pool, &proof, 1);
    assert_ne!(old, new);
    assert_eq!((pool.check(owner(1), old).is_ok(), pool.check(owner(1), new).is_ok()), (false, true));
}

// B92, C4
#[test]
fn a_message_of_an_earlier_match_reaches_nobody_and_is_counted() {
    let (pool, proof) = pool(1);
    let message = join(&pool, &proof, 1).to_bits();
    assert_eq!(deliver(&pool, 1, message), Ok(1));
    pool.reclaim(owner(1));
    let next = join(&pool, &proof, 2);
    assert_eq!(next.index(), message as u32, "the same slot");
    for to in [1, 2] {
        assert!(matches!(deliver(&pool, to, message), Err(SlotError::Stale { .. })));
    }
    assert_eq!(pool.with(owner(2), next, Session::clone), Ok(session(2)), "no gift from another match");
    assert_eq!(pool.stats().refused, 2);
    assert!(SlotHandle::<Session>::from_bits(u128::from(message as u32)).is_none(), "a number alone is no address");
}

// B93, C3, C4
#[test]
fn a_new_match_on_the_same_slots_finds_no_player_item_or_data_of_the_last() {
    let (pool, proof) = pool(4);
    let mut positions = SecondaryMap::new(&pool);
    let last: Vec<_> = (0..4).map(|_| join(&pool, &proof, 1)).collect();
    for handle in &last {
        positions.insert(*handle, (9, 9)).unwrap();
    }
    pool.reclaim(owner(1));
    let seats = pool.claim(&proof, owner(2), 4).unwrap();
    assert_eq!(pool.for_each(Whose::All, |_, _| panic!("a player before anybody joined")).blank_slots, 4);
    for place in 0..4 {
        let handle = seats.handle(place).unwrap();
        assert_eq!(positions.get(handle), None);
        assert_eq!(pool.init_with(owner(2), handle, |slot| slot.clone()), Ok(Session::default()));
    }
    assert_eq!(positions.iter().count(), 0);
    assert!(last.iter().all(|handle| deliver(&pool, 1, handle.to_bits()).is_err()));
}

// B94, B96, C4, C7
#[test]
fn a_look_that_races_a_release_holds_what_it_looked_at_or_is_stale() {
    let (pool, proof) = pool(1);
    let barrier = Barrier::new(2);
    for _ in 0..300 {
        let handle = join(&pool, &proof, 1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                barrier.wait();
                match pool.check(owner(1), handle).and_then(|()| pool.read(owner(1), handle)) {
                    Ok(guard) => assert_eq!(*guard, session(1)),
                    Err(error) => assert!(matches!(error, SlotError::Stale { .. }), "{error}"),
                }
            });
            barrier.wait();
            pool.release(owner(1), handle).unwrap();
            if let Ok(next) = pool.claim_one(&proof, owner(2)) {
                pool.init(owner(2), next, session(2)).unwrap();
                pool.release(owner(2), next).unwrap();
            }
        });
        pool.maintain(1);
    }
    assert_eq!((pool.stats().free_slots, pool.audit()), (1, Ok(())));
}

// B95, C1
#[test]
fn of_threads_that_give_back_one_slot_one_does() {
    let (pool, proof) = pool(2);
    let barrier = Barrier::new(2);
    for _ in 0..300 {
        let handle = join(&pool, &proof, 1);
        let release = || {
            barrier.wait();
            pool.release(owner(1), handle).is_ok()
        };
        let (here, there) = std::thread::scope(|scope| {
            let other = scope.spawn(release);
            (release(), other.join().unwrap())
        });
        assert!(here != there);
        let (one, two) = (join(&pool, &proof, 2), join(&pool, &proof, 3));
        assert_ne!(one.index(), two.index());
        pool.release(owner(2), one).unwrap();
        pool.release(owner(3), two).unwrap();
    }
    assert_eq!(pool.audit(), Ok(()));
}

// B101, C3
#[test]
fn a_session_cancelled_at_any_step_leaves_a_blank_slot() {
    for step in 0..5 {
        let (pool, proof) = pool(2);
        {
            // Each step may be the last: what is there is dropped.
            let lobby = pool.claim(&proof, owner(1), 2).unwrap();
            if step > 0 {
                lobby.init(0, session(1)).unwrap();
            }
            let reader = (step > 1).then(|| lobby.read(0).unwrap());
            drop(reader);
            let writer = (step > 2).then(|| lobby.write(0).unwrap());
            drop(writer);
            if step > 3 {
                std::mem::forget(lobby);
                pool.reclaim(owner(1));
            }
        }
        for _ in 0..2 {
            join(&pool, &proof, 2);
        }
        assert_eq!(pool.audit(), Ok(()), "step {step}");
    }
}

// B102, C7
#[test]
fn a_value_that_is_looked_at_stays_while_its_slot_is_released() {
    let (pool, proof) = pool(1);
    let handle = join(&pool, &proof, 1);
    let guard = pool.read(owner(1), handle).unwrap();
    let items: &Vec<&str> = &guard.items;
    pool.release(owner(1), handle).unwrap();
    assert!(pool.claim_one(&proof, owner(2)).is_err());
    assert_eq!(*items, ["sword", "letter"]);
}

// B103, C11
#[test]
fn errors_about_one_session_carry_nothing_of_it() {
    let (pool, proof) = pool(1);
    let handle = join(&pool, &proof, 424_242);
    let busy = pool.read(owner(424_242), handle).unwrap();
    let errors = [
        pool.read(owner(1), handle).unwrap_err().to_string(),
        pool.write(owner(424_242), handle).unwrap_err().to_string(),
        format!("{:?}", pool.init(owner(424_242), handle, session(1)).unwrap_err()),
        format!("{busy:?} {pool:?} {:?}", pool.stats()),
    ];
    for error in errors {
        assert!(!error.contains("sword") && !error.contains("424242"), "{error}");
    }
}
