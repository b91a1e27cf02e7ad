//! Access by handle: who gets it, who does not, and why not.

use pagestamp::{CapacityError, CapacityPlan, ConfigError, PageState, SlotConfig, SlotError, SlotHandle, SlotPool};

use crate::stage::{Seat, is_stale, made, owner, pool, seated};

// C4, C5
#[test]
fn each_reason_to_refuse_an_access_has_its_own_error() {
    let (mine, theirs) = (owner(1), owner(2));
    let (pool, proof) = pool(4, 2);
    let (other, other_proof) = made(SlotConfig::new(4), 2);
    let handle = pool.claim_one(&proof, mine).unwrap();
    let twin = other.claim_one(&other_proof, mine).unwrap();

    assert!(matches!(pool.read(mine, handle), Err(SlotError::Uninitialised { slot: 0 })));
    assert!(matches!(pool.write(mine, handle), Err(SlotError::Uninitialised { slot: 0 })));
    assert!(
        matches!(pool.read(theirs, handle), Err(SlotError::ForeignOwner { slot: 0, asked_owner }) if asked_owner == theirs)
    );
    assert!(matches!(pool.read(mine, twin), Err(SlotError::ForeignPool { .. })));
    assert!(matches!(pool.release(mine, twin), Err(SlotError::ForeignPool { .. })));
    let far = SlotHandle::from_bits(handle.to_bits() + 4).unwrap();
    assert!(matches!(pool.read(mine, far), Err(SlotError::OutOfRange { slot: 4, slots: 4 })));
    assert!(matches!(pool.release(mine, far), Err(SlotError::OutOfRange { slot: 4, slots: 4 })));

    pool.init(mine, handle, Seat::of(mine, 1)).unwrap();
    let refused = pool.init(mine, handle, Seat::of(mine, 2)).unwrap_err();
    assert!(matches!(refused.error(), SlotError::AlreadyInitialised { slot: 0 }));
    assert_eq!(refused.into_value(), Seat::of(mine, 2), "what was given comes back");
    assert_eq!(*pool.read(mine, handle).unwrap(), Seat::of(mine, 1));

    pool.release(mine, handle).unwrap();
    assert!(is_stale(pool.read(mine, handle), PageState::Free));
    assert!(is_stale(pool.release(mine, handle), PageState::Free));
    assert_eq!(pool.stats().refused, 10);
    assert_eq!(pool.audit(), Ok(()));
}

// C4
#[test]
fn a_handle_with_any_bit_flipped_opens_nothing() {
    let (pool, proof) = pool(4, 2);
    let handle = seated(&pool, &proof, owner(1));
    for bit in 0..128 {
        if let Some(forged) = SlotHandle::from_bits(handle.to_bits() ^ 1 << bit) {
            assert!(pool.read(owner(1), forged).is_err(), "bit {bit}");
            assert!(pool.write(owner(1), forged).is_err(), "bit {bit}");
            assert!(pool.release(owner(1), forged).is_err(), "bit {bit}");
        }
    }
    assert_eq!(pool.with(owner(1), handle, |seat| seat.round), Ok(1));
}

// C12
#[test]
fn readers_share_and_a_writer_is_alone_and_nobody_waits() {
    let (pool, proof) = pool(2, 1);
    let me = owner(1);
    let handle = seated(&pool, &proof, me);
    let (one, two) = (pool.read(me, handle).unwrap(), pool.read(me, handle).unwrap());
    assert!(matches!(pool.write(me, handle), Err(SlotError::Busy { slot: 0, readers: 2 })));
    drop(one);
    assert!(matches!(pool.write(me, handle), Err(SlotError::Busy { slot: 0, readers: 1 })));
    assert_eq!(two.round, 1);
    drop(two);
    let mut alone = pool.write(me, handle).unwrap();
    assert!(matches!(pool.write(me, handle), Err(SlotError::Busy { readers: 0, .. })));
    assert!(matches!(pool.read(me, handle), Err(SlotError::Busy { readers: 0, .. })));
    assert!(matches!(pool.check(me, handle), Err(SlotError::Busy { .. })));
    alone.round = 7;
    drop(alone);
    assert_eq!(pool.with(me, handle, |seat| seat.round), Ok(7));
    assert_eq!(pool.check(me, handle), Ok(()));
}

// C12
#[test]
fn a_slot_that_is_being_initialised_is_busy_for_everybody() {
    let (pool, proof) = pool(2, 1);
    let me = owner(1);
    let handle = pool.claim_one(&proof, me).unwrap();
    let inside = pool.init_with(me, handle, |seat| {
        seat.round = 3;
        (pool.init_with(me, handle, |_| ()), pool.read(me, handle).map(drop), pool.write(me, handle).map(drop))
    });
    let (again, read, write) = inside.unwrap();
    assert!(matches!(again, Err(SlotError::Busy { .. })), "{again:?}");
    assert!(matches!(read, Err(SlotError::Uninitialised { .. })), "{read:?}");
    assert!(matches!(write, Err(SlotError::Uninitialised { .. })), "{write:?}");
    assert_eq!(pool.with(me, handle, |seat| seat.round), Ok(3));
}

// C12
#[test]
fn readers_are_counted_up_to_their_number() {
    let (pool, proof) = pool(1, 1);
    let handle = seated(&pool, &proof, owner(1));
    let guards: Vec<_> = (0..u16::MAX).map(|_| pool.read(owner(1), handle).unwrap()).collect();
    assert!(matches!(pool.read(owner(1), handle), Err(SlotError::TooManyReaders { slot: 0 })));
    assert!(matches!(pool.write(owner(1), handle), Err(SlotError::Busy { readers: u16::MAX, .. })));
    drop(guards);
    assert!(pool.write(owner(1), handle).is_ok());
}

// C3, C4
#[test]
fn a_slot_comes_back_reset_and_in_another_life() {
    let (pool, proof) = pool(1, 1);
    let old = seated(&pool, &proof, owner(1));
    pool.release(owner(1), old).unwrap();
    let new = pool.claim_one(&proof, owner(2)).unwrap();
    assert_eq!((new.index(), new.generation().get()), (old.index(), old.generation().get() + 1));
    assert_eq!(pool.init_with(owner(2), new, |seat| seat.clone()), Ok(Seat::default()), "nothing of the last life");
    for who in [owner(1), owner(2)] {
        assert!(is_stale(pool.read(who, old), PageState::Live), "a late message");
        assert!(is_stale(pool.write(who, old), PageState::Live));
        assert!(is_stale(pool.release(who, old), PageState::Live));
    }
    assert!(matches!(pool.release(owner(1), new), Err(SlotError::ForeignOwner { .. })));
}

// C7
#[test]
fn a_guard_delays_the_reuse_and_never_who_releases() {
    let (pool, proof) = pool(1, 1);
    let (me, handle) = (owner(1), seated(&pool, &proof, owner(1)));
    for writes in [false, true] {
        let handle = if writes {
            let next = pool.claim_one(&proof, me).unwrap();
            pool.init(me, next, Seat::of(me, 1)).unwrap();
            next
        } else {
            handle
        };
        let (reader, writer) = match writes {
            false => (Some(pool.read(me, handle).unwrap()), None),
            true => (None, Some(pool.write(me, handle).unwrap())),
        };
        pool.release(me, handle).unwrap();
        assert!(is_stale(pool.read(me, handle), PageState::Quarantined), "stale at once");
        assert_eq!((pool.stats().quarantined_slots, pool.maintain(9)), (1, 0));
        assert!(pool.claim_one(&proof, owner(2)).is_err(), "in nobody's hand yet");
        assert_eq!(pool.audit(), Ok(()));
        let seen = reader.as_deref().or(writer.as_deref()).cloned();
        assert_eq!(seen, Some(Seat::of(me, 1)), "the guard still shows its own life");
        drop((reader, writer));
        let stats = pool.stats();
        assert_eq!((stats.quarantined_slots, stats.free_slots), (1, 0), "the end of an access resets nothing");
        let next = pool.claim_one(&proof, owner(2)).unwrap();
        assert_eq!(pool.init_with(owner(2), next, |seat| seat.clone()), Ok(Seat::default()));
        pool.release(owner(2), next).unwrap();
    }
    assert_eq!(pool.audit(), Ok(()));
}

// C4
#[test]
fn a_slot_whose_lives_are_used_up_retires_and_voids_what_it_carried() {
    let config = SlotConfig::new(2).with_last_generation(pagestamp::Generation::new(3).unwrap());
    let (pool, proof) = made(config, 2);
    for _ in 0..2 {
        let handle = seated(&pool, &proof, owner(1));
        pool.release(owner(1), handle).unwrap();
    }
    let stats = pool.stats();
    assert_eq!((stats.retired_slots, stats.usable_slots, stats.epoch, stats.free_slots), (1, 1, 2, 1));
    assert_eq!(stats.reset_panics, 0, "worn out, not broken");
    let error = pool.claim(&proof, owner(1), 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the proof of capacity epoch 1 is void in epoch 2: the plan needs 2 slots, 1 are usable; prove again"
    );
    assert!(matches!(pool.prove(CapacityPlan::new(2)), Err(CapacityError::TooFewSlots { usable_slots: 1, .. })));
    let smaller = pool.prove(CapacityPlan::new(1)).unwrap();
    assert!(pool.claim_one(&smaller, owner(1)).is_ok());
    assert_eq!(pool.audit(), Ok(()));
}

#[test]
fn a_pool_of_nothing_is_not_made() {
    assert!(matches!(SlotPool::<Seat>::new(SlotConfig::new(0)), Err(ConfigError::NoSlots)));
    let none = SlotConfig::new(1).with_last_generation(pagestamp::Generation::FIRST);
    assert!(matches!(SlotPool::<Seat>::new(none), Err(ConfigError::NoGenerations { .. })));
}

#[test]
fn a_config_keeps_what_it_was_given_within_its_limits() {
    let config = SlotConfig::new(9);
    assert_eq!((config.slots(), config.last_generation()), (9, pagestamp::Generation::MAX));
    assert!(config.validate().is_ok());
    assert!(config.magazines().is_power_of_two() && config.magazines() <= 64);
    let magazines = |asked| config.clone().with_magazines(asked).magazines();
    assert_eq!([0, 1, 3, 64, 65, u32::MAX].map(magazines), [1, 1, 4, 64, 64, 64]);
    let pool = SlotPool::<Seat>::new(config.clone().with_magazines(3)).unwrap();
    assert_eq!((pool.slots(), pool.config().magazines()), (9, 4));
}

// C8
#[test]
fn a_refused_value_comes_back_with_its_reason() {
    let (pool, proof) = pool(1, 1);
    let handle = seated(&pool, &proof, owner(1));
    let refuse = || pool.init(owner(1), handle, Seat::of(owner(1), 2)).unwrap_err();
    let reason = SlotError::AlreadyInitialised { slot: 0 };
    assert_eq!(refuse().to_string(), reason.to_string());
    assert_eq!(refuse().into_parts(), (Seat::of(owner(1), 2), reason.clone()));
    assert_eq!(SlotError::from(refuse()), reason);
    assert!(matches!(pagestamp::Error::from(refuse()), pagestamp::Error::Slot(why) if why == reason));
}

// C4
#[test]
fn a_pool_its_groups_handles_and_guards_say_whose_they_are() {
    let (pool, proof) = pool(2, 2);
    let group = pool.claim(&proof, owner(7), 1).unwrap();
    group.init(0, Seat::of(owner(7), 1)).unwrap();
    let handle = group.handle(0).unwrap();
    assert_eq!((group.owner(), group.pool().id(), handle.pool()), (owner(7), pool.id(), pool.id()));
    assert_eq!(group.read(0).unwrap().handle(), handle);
    assert_eq!(group.write(0).unwrap().handle(), handle);
    assert_eq!((group.handle(1), pool.clone().id()), (None, pool.id()));
    pool.release(owner(7), handle).unwrap();
    assert!(matches!(group.write(0), Err(SlotError::Revoked { slot: 0 })));
}

// C1
#[test]
fn stats_count_what_a_live_slot_is_and_not_what_a_released_one_was() {
    let (pool, proof) = pool(2, 1);
    let blank = pool.claim_one(&proof, owner(1)).unwrap();
    let stopped = std::panic::AssertUnwindSafe(|| {
        pool.init_with(owner(1), blank, |_| {
            assert_eq!((pool.stats().blank_slots, pool.stats().accessed_slots), (1, 1));
            pool.release(owner(1), blank).unwrap();
            assert_eq!((pool.stats().blank_slots, pool.stats().accessed_slots), (0, 1));
            panic!("poisons what nobody has any more")
        })
    });
    assert!(std::panic::catch_unwind(stopped).is_err());
    let stats = pool.stats();
    assert_eq!((stats.blank_slots, stats.poisoned_slots, stats.quarantined_slots, stats.live_slots), (0, 0, 1, 0));
    assert_eq!((stats.slots_issued, stats.slots_returned, pool.maintain(1)), (1, 0, 1));
    assert_eq!(pool.stats().slots_returned, 1);
}

#[test]
fn pool_group_and_handle_go_to_other_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<SlotPool<Seat>>();
    shared::<pagestamp::SlotGroup<Seat>>();
    shared::<SlotHandle<Seat>>();
}

// C3
#[test]
fn a_zeroing_pool_writes_zeros_over_padding_too() {
    let pool = SlotPool::<[u32; 3]>::zeroing(SlotConfig::new(1)).unwrap();
    let proof = pool.prove(CapacityPlan::new(1)).unwrap();
    let handle = pool.claim_one(&proof, owner(1)).unwrap();
    pool.init(owner(1), handle, [7; 3]).unwrap();
    pool.release(owner(1), handle).unwrap();
    let handle = pool.claim_one(&proof, owner(2)).unwrap();
    assert_eq!(pool.init_with(owner(2), handle, |value| *value), Ok([0; 3]));
}

// C3
#[test]
fn a_resetting_pool_keeps_what_the_reset_keeps() {
    struct Log(Vec<u64>);
    impl pagestamp::Reset for Log {
        fn reset(&mut self) {
            self.0.clear();
        }
    }
    let pool = SlotPool::resetting(SlotConfig::new(1), || Log(Vec::with_capacity(99))).unwrap();
    let proof = pool.prove(CapacityPlan::new(1)).unwrap();
    let handle = pool.claim_one(&proof, owner(1)).unwrap();
    pool.init_with(owner(1), handle, |log| log.0.push(7)).unwrap();
    let address = pool.with(owner(1), handle, |log| log.0.as_ptr()).unwrap();
    pool.release(owner(1), handle).unwrap();
    let handle = pool.claim_one(&proof, owner(2)).unwrap();
    let seen = pool.init_with(owner(2), handle, |log| (log.0.len(), log.0.capacity(), log.0.as_ptr()));
    assert_eq!(seen, Ok((0, 99, address)));
}
