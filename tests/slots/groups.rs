//! Groups: all or nothing, through the gate.

use pagestamp::{CapacityError, CapacityPlan, PageState, RejectReason, SlotClaimError, SlotConfig, SlotError};

use crate::stage::{Seat, is_stale, made, owner, pool};

// C8, C9
#[test]
fn a_lobby_takes_eight_slots_or_none() {
    let (pool, proof) = pool(12, 8);
    let red = pool.claim(&proof, owner(1), 8).unwrap();
    let before = pool.stats();
    let full = pool.claim(&proof, owner(2), 8).unwrap_err();
    assert!(matches!(full, SlotClaimError::Full { needed_slots: 8, free_slots: 4, pending_slots: 0 }), "{full}");
    let mut after = pool.stats();
    after.full -= 1;
    assert_eq!(after, before, "nothing was taken");
    let indices: Vec<u32> = red.handles().iter().map(|handle| handle.index()).collect();
    assert_eq!(indices, (0..8).collect::<Vec<_>>());
    assert_eq!(red.release().slots, 8);
    assert_eq!(pool.claim(&proof, owner(2), 8).unwrap().handles().len(), 8);
    assert_eq!(pool.audit(), Ok(()));
}

// C6, C9
#[test]
fn nothing_passes_the_gate_without_a_proof_that_fits() {
    let (pool, proof) = pool(8, 4);
    assert!(matches!(pool.prove(CapacityPlan::new(0)), Err(CapacityError::ZeroTokens)));
    let plan = CapacityPlan::new(5).with_headroom(2.0).unwrap();
    assert!(matches!(
        pool.prove(plan),
        Err(CapacityError::TooFewSlots { largest_group_slots: 5, required_slots: 10, usable_slots: 8, .. })
    ));
    let Err(SlotClaimError::Rejected(rejected)) = pool.claim(&proof, owner(1), 5) else { panic!("past the plan") };
    assert!(matches!(
        rejected.reason(),
        RejectReason::GroupNeverFits { asked_slots: 5, largest_group_slots: 4, usable_slots: 8 }
    ));
    assert_eq!(
        rejected.to_string(),
        "request of owner 1 for 5 slots rejected: 5 slots at once never fit: groups of at most 4 are served, 8 slots are usable"
    );
    assert!(
        matches!(pool.claim(&proof, owner(1), 0), Err(SlotClaimError::Rejected(r)) if matches!(r.reason(), RejectReason::ZeroSlots))
    );
    let (_, foreign) = made(SlotConfig::new(8), 4);
    assert!(matches!(pool.claim(&foreign, owner(1), 1), Err(SlotClaimError::ForeignProof { .. })));
    assert!(matches!(pool.claim_one(&foreign, owner(1)), Err(SlotClaimError::ForeignProof { .. })));
    assert_eq!((pool.stats().rejected, pool.stats().live_slots), (2, 0));
}

// C5
#[test]
fn slots_that_were_reserved_and_never_filled_are_no_players() {
    // The incident, in slots: eight are reserved, the first one is filled, and the match is said to be ready.
    let (pool, proof) = pool(8, 8);
    for _ in 0..2 {
        let lobby = pool.claim(&proof, owner(1), 8).unwrap();
        lobby.init(0, Seat::of(owner(1), 1)).unwrap();
        assert!(matches!(lobby.ready(), Err(SlotError::Uninitialised { .. })));
        for place in 1..8 {
            assert!(matches!(lobby.read(place), Err(SlotError::Uninitialised { .. })), "place {place}");
            assert!(matches!(lobby.write(place), Err(SlotError::Uninitialised { .. })), "place {place}");
        }
        for place in (1..8).rev() {
            lobby.init(place, Seat::of(owner(1), 1)).unwrap();
        }
        assert_eq!(lobby.ready(), Ok(()));
        let _reader = lobby.read(3).unwrap();
        let _writer = lobby.write(4).unwrap();
        assert_eq!(lobby.ready(), Ok(()), "being used is being ready");
    }
}

// C2, C4
#[test]
fn a_group_whose_owner_was_reclaimed_has_nothing_any_more() {
    let (pool, proof) = pool(8, 4);
    let (red, blue) = (pool.claim(&proof, owner(1), 3).unwrap(), pool.claim(&proof, owner(2), 2).unwrap());
    red.init(0, Seat::of(owner(1), 1)).unwrap();
    blue.init(0, Seat::of(owner(2), 1)).unwrap();
    let reclaimed = pool.reclaim(owner(1));
    assert_eq!((reclaimed.slots, reclaimed.quarantined_slots), (3, 0));
    assert!(matches!(red.read(0), Err(SlotError::Revoked { .. })));
    assert!(matches!(red.ready(), Err(SlotError::Revoked { .. })));
    let refused = red.init(1, Seat::of(owner(1), 2)).unwrap_err();
    assert!(matches!(refused.error(), SlotError::Revoked { .. }));
    assert!(is_stale(pool.read(owner(1), red.handle(0).unwrap()), PageState::Free));
    assert_eq!(blue.read(0).unwrap().owner, 2, "the other owner has all it had");

    let next = pool.claim(&proof, owner(3), 4).unwrap();
    let released = red.release();
    assert_eq!((released.slots, released.stale_slots), (0, 3), "the late release takes nothing from the next owner");
    assert_eq!(pool.stats().live_slots, 6);
    drop(next);
    assert_eq!(pool.audit(), Ok(()));
}

// C2
#[test]
fn a_group_that_was_forgotten_is_reclaimed() {
    let (pool, proof) = pool(4, 4);
    std::mem::forget(pool.claim(&proof, owner(1), 4).unwrap());
    assert!(pool.claim_one(&proof, owner(2)).is_err());
    assert_eq!(pool.reclaim(owner(1)).slots, 4);
    assert_eq!(pool.claim(&proof, owner(2), 4).unwrap().handles().len(), 4);
}

// C4
#[test]
fn one_slot_of_a_group_may_be_released_by_its_handle() {
    let (pool, proof) = pool(4, 4);
    let lobby = pool.claim(&proof, owner(1), 3).unwrap();
    let gone = lobby.handle(1).unwrap();
    pool.release(owner(1), gone).unwrap();
    assert!(matches!(lobby.read(1), Err(SlotError::Revoked { .. })));
    assert!(matches!(lobby.read(3), Err(SlotError::NoSuchPlace { place: 3, slots: 3 })));
    let released = lobby.release();
    assert_eq!((released.slots, released.stale_slots), (2, 1));
    assert_eq!(pool.stats().free_slots, 4);
}

// C1
#[test]
fn handles_taken_out_of_a_group_stay_claimed() {
    let (pool, proof) = pool(4, 4);
    let handles = pool.claim(&proof, owner(1), 3).unwrap().into_handles();
    assert_eq!(pool.stats().live_slots, 3);
    for handle in handles {
        pool.release(owner(1), handle).unwrap();
    }
    assert_eq!((pool.stats().free_slots, pool.audit()), (4, Ok(())));
}

// C7, C9
#[test]
fn a_claim_resets_what_waits_in_quarantine_before_it_says_full() {
    let (pool, proof) = pool(4, 4);
    let lobby = pool.claim(&proof, owner(1), 4).unwrap();
    (0..4).for_each(|place| lobby.init(place, Seat::of(owner(1), 1)).unwrap());
    let handles = lobby.handles().to_vec();
    let (held, brief) = (pool.read(owner(1), handles[0]).unwrap(), pool.read(owner(1), handles[1]).unwrap());
    assert_eq!(lobby.release().quarantined_slots, 2);
    drop(brief);
    let full = pool.claim(&proof, owner(2), 4).unwrap_err();
    assert!(matches!(full, SlotClaimError::Full { free_slots: 2, pending_slots: 2, .. }), "{full}");
    assert_eq!(pool.stats().quarantined_slots, 2, "a claim that gets nothing resets nothing");
    let three = pool.claim(&proof, owner(2), 3).unwrap();
    for place in 0..3 {
        let handle = three.handle(place).unwrap();
        assert_eq!(pool.init_with(owner(2), handle, |seat| seat.clone()), Ok(Seat::default()));
    }
    assert_eq!(held.owner, 1);
    drop(held);
    assert_eq!(pool.maintain(usize::MAX), 1);
    assert_eq!((pool.stats().free_slots, pool.audit()), (1, Ok(())));
}
