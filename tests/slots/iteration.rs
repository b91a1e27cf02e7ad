//! Walks over live slots, and data beside them.

use pagestamp::{SecondaryMap, SlotError, Whose};

use crate::stage::{Seat, made, owner, pool, seated};

// C2, C12
#[test]
fn a_walk_sees_live_slots_in_their_order_and_counts_what_it_leaves_out() {
    let (pool, proof) = pool(12, 4);
    let (red, blue) = (owner(1), owner(2));
    let handles: Vec<_> = (0..8).map(|n| seated(&pool, &proof, if n % 2 == 0 { red } else { blue })).collect();
    let blank = pool.claim_one(&proof, red).unwrap();
    pool.release(blue, handles[3]).unwrap();
    let busy = pool.write(red, handles[4]).unwrap();
    let reader = pool.read(red, handles[6]).unwrap();
    let poisoned = std::panic::AssertUnwindSafe(|| pool.with_mut(blue, handles[7], |_| panic!("poison")));
    assert!(std::panic::catch_unwind(poisoned).is_err());

    let mut seen = Vec::new();
    let visited = pool.for_each(Whose::Owner(red), |handle, seat| seen.push((handle, seat.owner)));
    assert_eq!(seen, [0, 2, 6].map(|n| (handles[n], 1)));
    assert_eq!((visited.slots, visited.busy_slots, visited.blank_slots, visited.poisoned_slots), (3, 1, 1, 0));

    let mut changed = Vec::new();
    let visited = pool.for_each_mut(Whose::All, |handle, seat| {
        seat.round += 1;
        changed.push(handle.index());
    });
    assert_eq!(changed, [0, 1, 2, 5]);
    assert_eq!((visited.slots, visited.busy_slots, visited.blank_slots, visited.poisoned_slots), (4, 2, 1, 1));
    drop((busy, reader));
    assert_eq!(pool.with(red, handles[0], |seat| seat.round), Ok(2));
    assert_eq!(pool.with(red, handles[4], |seat| seat.round), Ok(1));
    assert!(matches!(pool.read(red, blank), Err(SlotError::Uninitialised { .. })));
    assert_eq!(pool.stats().accessed_slots, 0);
}

// C7
#[test]
fn a_walk_may_release_what_it_sees() {
    let (pool, proof) = pool(4, 1);
    let handles: Vec<_> = (0..4).map(|_| seated(&pool, &proof, owner(1))).collect();
    let visited = pool.for_each(Whose::All, |handle, seat| {
        pool.release(owner(1), handle).unwrap();
        assert_eq!(*seat, Seat::of(owner(1), 1), "still there while it is looked at");
    });
    assert_eq!((visited.slots, pool.maintain(9)), (4, 4));
    assert!(handles.iter().all(|handle| pool.read(owner(1), *handle).is_err()));
    assert_eq!(pool.audit(), Ok(()));
}

#[test]
fn values_keep_their_address() {
    let (pool, proof) = pool(3, 1);
    let address = |handle| pool.with(owner(1), handle, |seat| std::ptr::from_ref(seat) as usize).unwrap();
    let handles: Vec<_> = (0..3).map(|_| seated(&pool, &proof, owner(1))).collect();
    let first: Vec<usize> = handles.iter().map(|handle| address(*handle)).collect();
    assert_eq!([first[1] - first[0], first[2] - first[1]], [size_of::<Seat>(); 2], "side by side");
    pool.release(owner(1), handles[1]).unwrap();
    assert_eq!(address(seated(&pool, &proof, owner(1))), first[1]);
}

// C4
#[test]
fn data_beside_a_slot_is_out_of_reach_once_the_slot_is_released() {
    let (pool, proof) = pool(4, 1);
    let me = owner(1);
    let (one, two) = (seated(&pool, &proof, me), seated(&pool, &proof, me));
    let mut map = SecondaryMap::new(&pool);
    assert_eq!(map.insert(one, "one").unwrap(), None);
    assert_eq!(map.insert(two, "two").unwrap(), None);
    assert_eq!(map.insert(one, "uno").unwrap(), Some("one"));
    *map.get_mut(two).unwrap() = "due";
    for (_, value) in map.iter_mut() {
        assert!(["uno", "due"].contains(value));
    }
    pool.release(me, one).unwrap();
    assert_eq!(map.get(one), None);
    assert_eq!(map.get_mut(one), None);
    assert_eq!(map.iter().collect::<Vec<_>>(), [(two, &"due")]);
    let refused = map.insert(one, "again").unwrap_err();
    assert!(matches!(refused.error(), SlotError::Stale { .. }));
    assert_eq!(refused.into_value(), "again");

    let next = seated(&pool, &proof, owner(2));
    assert_eq!((next.index(), map.get(next)), (one.index(), None), "nothing of the last life");
    assert_eq!(map.insert(next, "new").unwrap(), None, "what was there was another life's");
    assert_eq!(map.get(next), Some(&"new"));
    assert_eq!(map.remove(one), None);
    pool.release(me, two).unwrap();
    assert_eq!(map.remove(two), Some("due"), "taken out by who put it there");
    pool.release(owner(2), next).unwrap();
    assert_eq!(map.remove_stale(), 1);
    assert_eq!(map.remove_stale(), 0);
}

// C4
#[test]
fn data_beside_slots_takes_no_handle_of_another_pool() {
    let (pool, proof) = pool(4, 1);
    let (other, other_proof) = made(pool.config().clone(), 1);
    let (mine, twin) = (seated(&pool, &proof, owner(1)), seated(&other, &other_proof, owner(1)));
    assert_eq!((mine.index(), mine.generation()), (twin.index(), twin.generation()));
    let mut map = SecondaryMap::new(&pool);
    assert!(matches!(map.insert(twin, 1).unwrap_err().error(), SlotError::ForeignPool { .. }));
    map.insert(mine, 2).unwrap();
    assert_eq!(map.get(twin), None);
    assert_eq!(map.get_mut(twin), None);
    assert_eq!(map.remove(twin), None);
    assert_eq!(map.get(mine), Some(&2));
}
