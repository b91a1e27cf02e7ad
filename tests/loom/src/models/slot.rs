//! One slot: release against accesses, accesses against each other, late and guessed handles.

use std::sync::Arc;

use loom::thread;

use crate::id::Generation;
use crate::saw;
use crate::slot_world::{SlotWorld, value};
use crate::slots::lane::Lane;
use crate::slots::stamp::{Denied, Ending, Left, Purpose};
use crate::world::{Plant, generation, owner};

const FIRST: Generation = Generation::FIRST;
const LANE: Lane = Lane::new(0);

/// Releases slot 0 of owner 1, and lets owner 2 have and write it, if that is possible yet.
fn release_and_reissue(world: &SlotWorld) {
    let left = world.release(owner(1), 0, FIRST, &LANE);
    assert!(left.is_ok(), "C4: the only releaser wins: {left:?}");
    let reissued = reissue(world);
    assert!(reissued || left == Ok(Left::Accessed), "C7: nobody was at it, and it is not free");
    saw(if reissued { "reissued at once" } else { "quarantined" });
}

fn reissue(world: &SlotWorld) -> bool {
    let Some((slot, life)) = world.claim(owner(2), &LANE) else { return false };
    assert!(life > FIRST, "C3: a slot handed out is in a new life");
    let written = world.write(owner(2), slot, life, Purpose::Initialise, Ending::Initialised);
    assert_eq!(written, Ok(()), "C12: nobody else is at a new slot");
    true
}

/// After all accesses: the old handle is stale, and what was quarantined can be had.
fn finish(world: &SlotWorld) {
    assert!(matches!(world.read(owner(1), 0, FIRST), Err(Denied::Stale(_))), "C4: stale for ever");
    let second = generation(2);
    if world.read(owner(2), 0, second).is_err() {
        assert!(reissue(world), "C7: a slot that nobody is at any more stays in quarantine");
    }
    assert_eq!(world.read(owner(2), 0, second), Ok(value(owner(2), second)), "C2: somebody else's value");
    world.audit();
}

fn read_first(world: &SlotWorld) {
    match world.read(owner(1), 0, FIRST) {
        Ok(seen) => {
            assert_eq!(seen, value(owner(1), FIRST), "C4: a value of another life or owner");
            saw("read");
        }
        Err(why) => {
            assert!(matches!(why, Denied::Stale(_)), "C4: refused for another reason: {why:?}");
            saw("refused");
        }
    }
}

fn spawn(world: &Arc<SlotWorld>, work: impl FnOnce(&SlotWorld) + 'static) -> thread::JoinHandle<()> {
    let world = world.clone();
    thread::spawn(move || work(&world))
}

/// One reader, any number of switches.
// C3, C4, C7
pub(crate) fn loom_slot_release_races_read(plant: Plant) {
    let world = SlotWorld::with_slot(plant, owner(1));
    let reader = spawn(&world, read_first);
    release_and_reissue(&world);
    reader.join().expect("reader");
    finish(&world);
}

/// Two readers: who ends first leaves the slot to the other.
// C3, C4, C7
pub(crate) fn loom_slot_release_races_two_readers(plant: Plant) {
    let world = SlotWorld::with_slot(plant, owner(1));
    let readers = [(); 2].map(|()| spawn(&world, read_first));
    release_and_reissue(&world);
    readers.into_iter().for_each(|reader| reader.join().expect("reader"));
    finish(&world);
}

/// One writer, whose flag and count outlive the release.
// C3, C7, C12
pub(crate) fn loom_slot_release_races_write(plant: Plant) {
    let world = SlotWorld::with_slot(plant, owner(1));
    let writer = spawn(&world, |world| {
        saw(if world.add_one(owner(1), 0, FIRST).is_ok() { "written" } else { "refused" });
    });
    release_and_reissue(&world);
    writer.join().expect("writer");
    finish(&world);
}

/// Two exclusive accesses: no change is lost, and one may be refused.
// C12
pub(crate) fn loom_slot_writers_race(plant: Plant) {
    let world = SlotWorld::with_slot(plant, owner(1));
    let other = thread::spawn({
        let world = world.clone();
        move || world.add_one(owner(1), 0, FIRST)
    });
    let results = [world.add_one(owner(1), 0, FIRST), other.join().expect("writer")];
    let written = results.iter().filter(|result| result.is_ok()).count() as u64;
    let refused = results.iter().all(|result| matches!(result, Ok(()) | Err(Denied::Busy(_))));
    assert!(written > 0 && refused, "C12: {results:?}");
    saw("written");
    if written == 1 {
        saw("busy");
    }
    assert_eq!(world.read(owner(1), 0, FIRST), Ok(value(owner(1), FIRST) + written), "C12: a change is lost");
}

/// A reader sees the value before or after a change, or is refused.
// C12
pub(crate) fn loom_slot_write_races_read(plant: Plant) {
    let world = SlotWorld::with_slot(plant, owner(1));
    let reader = spawn(&world, read_while_changed);
    change(&world);
    reader.join().expect("reader");
}

/// A count that went up and down again between look and swap.
// C12
pub(crate) fn loom_slot_write_races_two_reads(plant: Plant) {
    let world = SlotWorld::with_slot(plant, owner(1));
    let readers = [(); 2].map(|()| spawn(&world, read_while_changed));
    change(&world);
    readers.into_iter().for_each(|reader| reader.join().expect("reader"));
}

fn read_while_changed(world: &SlotWorld) {
    match world.read(owner(1), 0, FIRST) {
        Ok(seen) => {
            let before = value(owner(1), FIRST);
            assert!(seen == before || seen == before + 1, "C12: half a change");
            saw("read");
        }
        Err(why) => {
            assert!(matches!(why, Denied::Busy(_)), "C12: {why:?}");
            saw("busy");
        }
    }
}

fn change(world: &SlotWorld) {
    saw(if world.add_one(owner(1), 0, FIRST).is_ok() { "written" } else { "busy" });
}

/// A slot that is being initialised shows its value, or none.
// C5
pub(crate) fn loom_slot_init_races_read(plant: Plant) {
    let world = SlotWorld::new(plant, 1, 1);
    let (slot, life) = world.claim(owner(1), &LANE).expect("free");
    let reader = spawn(&world, move |world| match world.read(owner(1), slot, life) {
        Ok(seen) => {
            assert_eq!(seen, value(owner(1), life), "C5: read before it was written");
            saw("read");
        }
        Err(Denied::Blank) => saw("blank"),
        Err(why) => panic!("C5: {why:?}"),
    });
    match world.write(owner(1), slot, life, Purpose::Initialise, Ending::Initialised) {
        Ok(()) => {}
        Err(why) => panic!("C12: nobody can be at a blank slot: {why:?}"),
    }
    saw("busy");
    reader.join().expect("reader");
}

/// Two releases of one handle: one does it, and the slot is free once.
// C1, C4
pub(crate) fn loom_two_releases_of_one_slot(plant: Plant) {
    let world = SlotWorld::with_slot(plant, owner(1));
    let other = thread::spawn({
        let world = world.clone();
        move || world.release(owner(1), 0, FIRST, &LANE).is_ok()
    });
    let here = world.release(owner(1), 0, FIRST, &LANE).is_ok();
    let there = other.join().expect("releaser");
    assert!(here != there, "C4: {}", if here { "both released it" } else { "nobody released it" });
    saw(if here { "here" } else { "there" });
    finish(&world);
}

/// A message that comes two lives late, while the same owner has the slot again.
// C4
pub(crate) fn loom_late_message_to_a_slot(plant: Plant) {
    let world = SlotWorld::with_slot(plant, owner(1));
    let late = spawn(&world, read_first);
    let mut life = FIRST;
    for _ in 0..2 {
        if world.release(owner(1), 0, life, &LANE) != Ok(Left::InHand) {
            break;
        }
        let (slot, next) = world.claim(owner(1), &LANE).expect("free again");
        assert_eq!((slot, next.get()), (0, life.get() + 1), "C4: another life");
        let written = world.write(owner(1), slot, next, Purpose::Initialise, Ending::Initialised);
        assert_eq!(written, Ok(()), "C12: nobody is at a new slot");
        life = next;
    }
    late.join().expect("reader");
    assert!(life == FIRST || world.read(owner(1), 0, FIRST).is_err(), "C4: stale for ever");
}

/// The owner of a life guesses the handle of the next one, which is somebody else's.
// C2
pub(crate) fn loom_guessed_slot_handle_is_refused(plant: Plant) {
    let world = SlotWorld::with_slot(plant, owner(1));
    let guess = spawn(&world, |world| match world.read(owner(1), 0, generation(2)) {
        Ok(_) => panic!("C2: another owner's value"),
        Err(Denied::ForeignOwner) => saw("foreign"),
        Err(_) => saw("refused"),
    });
    assert_eq!(world.release(owner(1), 0, FIRST, &LANE), Ok(Left::InHand), "C2: nobody can be at it");
    assert!(reissue(&world), "C7: nobody was at it");
    guess.join().expect("guesser");
}

/// A panic ends a change: nobody sees what it left.
// C8, C12
pub(crate) fn loom_slot_poisoned_by_a_panic_races_read(plant: Plant) {
    let world = SlotWorld::with_slot(plant, owner(1));
    let reader = spawn(&world, |world| match world.read(owner(1), 0, FIRST) {
        Ok(seen) => {
            assert_eq!(seen, value(owner(1), FIRST), "C8: a value that is half changed");
            saw("read");
        }
        Err(Denied::Busy(_)) => saw("busy"),
        Err(Denied::Poisoned) => saw("poisoned"),
        Err(why) => panic!("C8: {why:?}"),
    });
    let stamp = &world.stamps[0];
    if stamp.seize(owner(1), FIRST, Purpose::Change).is_ok() {
        world.spoil(0);
        stamp.end_seize(Ending::Panicked);
        assert_eq!(world.read(owner(1), 0, FIRST), Err(Denied::Poisoned), "C8: poisoned until the release");
    }
    reader.join().expect("reader");
}

/// A reader that ends, and two threads that look for what can be collected.
// C1, C3, C7
pub(crate) fn loom_quarantined_slot_is_collected_once(plant: Plant) {
    let world = SlotWorld::with_slot(plant, owner(1));
    world.stamps[0].share(owner(1), FIRST).expect("live");
    assert_eq!(world.release(owner(1), 0, FIRST, &LANE), Ok(Left::Accessed), "C7: somebody is at it");
    let other = thread::spawn({
        let world = world.clone();
        move || world.maintain(&LANE)
    });
    let reader = spawn(&world, |world| {
        assert_eq!(world.peek(0), value(owner(1), FIRST), "C7: reset under a reader");
        world.stamps[0].end_share();
    });
    let here = world.maintain(&LANE);
    let there = other.join().expect("collector");
    reader.join().expect("reader");
    assert!(!(here && there), "C1: collected twice");
    saw(match (here, there) {
        (true, _) => "here",
        (_, true) => "there",
        _ => "not yet",
    });
    finish(&world);
}
