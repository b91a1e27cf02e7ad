//! The lists of free slots: claim and free from two threads, with magazines.

use std::sync::Arc;

use loom::thread;

use crate::saw;
use crate::slot_world::{SlotWorld, value};
use crate::slots::lane::Lane;
use crate::slots::stamp::{Ending, Left, Purpose};
use crate::world::{Plant, owner};

/// Claims a slot, fills it, looks at it, frees it.
fn claim_and_free(world: &SlotWorld, id: u64, lane: &Lane) {
    let me = owner(id);
    let Some((slot, life)) = world.claim(me, lane) else { return saw("none") };
    assert_eq!(world.write(me, slot, life, Purpose::Initialise, Ending::Initialised), Ok(()), "C2: somebody is at it");
    assert_eq!(world.read(me, slot, life), Ok(value(me, life)), "C2: somebody else's value");
    assert_eq!(world.release(me, slot, life, lane), Ok(Left::InHand), "C4: released by somebody else");
    saw("claimed");
}

fn two_threads(plant: Plant, slots: u32) {
    let world = SlotWorld::new(plant, slots, 2);
    let other = thread::spawn({
        let world = Arc::clone(&world);
        move || claim_and_free(&world, 2, &Lane::new(1))
    });
    claim_and_free(&world, 1, &Lane::new(0));
    other.join().expect("claimer");
    world.audit();
}

/// One slot for two: never both.
// C1, C2, C3
pub(crate) fn loom_two_threads_claim_and_free_one_slot(plant: Plant) {
    two_threads(plant, 1);
}

/// Two slots, so that both may have one, and magazines come into play.
// C1, C2, C3
pub(crate) fn loom_two_threads_claim_and_free_two_slots(plant: Plant) {
    two_threads(plant, 2);
}

/// A slot goes into one magazine and another leaves a second one, while a third thread looks for one: at every moment
/// one was free, so it must find one.
// C9
pub(crate) fn loom_gather_races_free(plant: Plant) {
    let world = SlotWorld::new(plant, 2, 2);
    let lanes = [Lane::new(0), Lane::new(1)];
    let (held, life) = world.claim(owner(1), &Lane::new(0)).expect("free");
    // The other slot lies in the second magazine.
    lanes[1].met_another();
    let (other, other_life) = world.claim(owner(1), &lanes[1]).expect("free");
    assert_eq!(world.release(owner(1), other, other_life, &lanes[1]), Ok(Left::InHand), "C4: its only owner");
    let mover = thread::spawn({
        let world = Arc::clone(&world);
        move || {
            lanes[0].met_another();
            assert_eq!(world.release(owner(1), held, life, &lanes[0]), Ok(Left::InHand), "C4: its only owner");
            assert!(world.claim(owner(1), &lanes[1]).is_some(), "C9: two were free, and one is asked for");
        }
    });
    assert!(world.claim(owner(2), &Lane::new(0)).is_some(), "C9: full is said while a slot is free");
    saw("gathered");
    mover.join().expect("mover");
    world.audit();
}
