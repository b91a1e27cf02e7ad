//! Release against readers by handle, against other releases, and against whoever takes the page next.

use loom::thread;

use crate::hazard::Block;
use crate::id::Generation;
use crate::saw;
use crate::world::{Plant, World, generation, owner, text};

const FIRST: Generation = Generation::FIRST;

/// Releases page 0 of owner 1 and lets owner 2 have and write it, if that is possible yet.
fn release_and_reissue(world: &World) -> bool {
    assert!(world.release(owner(1), 0, FIRST), "C2: the only releaser wins");
    let Some((page, life)) = world.take(owner(2)) else { return false };
    assert!(life > FIRST, "C3: a page handed out is in a new life");
    world.append(page, 0..1, |token| text(owner(2), life, token));
    true
}

/// A reader of page 0 in its first life.
fn read_first(world: &World, block: &'static Block) -> Option<u32> {
    let read = world.read_own(block, owner(1), 0, FIRST);
    saw(if read.is_some() { "read" } else { "refused" });
    read
}

/// After the readers: what was quarantined is collected, zeroed and handed out.
fn finish(world: &World, reissued: bool) {
    saw(if reissued { "reissued at once" } else { "quarantined" });
    if !reissued {
        assert!(world.reserve(owner(2)).is_some(), "C7: a page that nobody reads any more stays in quarantine");
    }
    world.audit();
}

/// One reader, any number of switches.
// C3, C4, C7
pub(crate) fn loom_release_races_read(plant: Plant) {
    let world = World::with_page(plant, 1, owner(1), 1);
    let block = world.block();
    let reader = thread::spawn({
        let world = world.clone();
        move || read_first(&world, block)
    });
    let reissued = release_and_reissue(&world);
    let read = reader.join().expect("reader");
    assert!(read.is_none_or(|written| written == 1), "C5: the extent of another life");
    assert_eq!(world.read_own(block, owner(1), 0, FIRST), None, "C4: stale for ever");
    finish(&world, reissued);
}

/// Two readers, each with a block of its own.
// C3, C4, C7
pub(crate) fn loom_release_races_two_readers(plant: Plant) {
    let world = World::with_page(plant, 1, owner(1), 1);
    let readers = [(); 2].map(|()| {
        let (world, block) = (world.clone(), world.block());
        thread::spawn(move || read_first(&world, block))
    });
    let reissued = release_and_reissue(&world);
    for reader in readers {
        reader.join().expect("reader");
    }
    finish(&world, reissued);
}

/// A guard that ended frees the page itself when nobody else holds the lock, else the next reserve does.
// C7
pub(crate) fn loom_quarantine_is_collected_by_reader_and_reserve(plant: Plant) {
    let world = World::with_page(plant, 1, owner(1), 1);
    let (block, other) = (world.block(), world.block());
    let held = world.open_guard(block, owner(1), 0, FIRST).expect("live");
    assert!(world.release(owner(1), 0, FIRST));
    assert!(world.take(owner(2)).is_none(), "C7: the page is read, and nobody has it");
    let reader = thread::spawn({
        let world = world.clone();
        move || {
            assert_eq!(world.read(&held, 0), text(owner(1), FIRST, 0), "C4: bytes of another life or owner");
            world.end_guard(held);
        }
    });
    let late = world.read_own(other, owner(1), 0, FIRST);
    assert_eq!(late, None, "C4: a released page is read by a new guard");
    let reissued = world.reserve(owner(2)).is_some();
    reader.join().expect("reader");
    finish(&world, reissued);
}

/// A slot whose guard ended names another page when the releaser looks: the first guard's reads are still before it.
// C4, C7
pub(crate) fn loom_slot_is_reused_while_a_release_scans(plant: Plant) {
    let world = World::with_page(plant, 2, owner(1), 1);
    let (other, _) = world.take(owner(1)).expect("free");
    world.append(other, 0..1, |token| text(owner(1), FIRST, token));
    let block = world.block();
    let reader = thread::spawn({
        let world = world.clone();
        move || {
            read_first(&world, block);
            world.read_own(block, owner(1), other, FIRST)
        }
    });
    let reissued = release_and_reissue(&world);
    assert_eq!(reader.join().expect("reader"), Some(1), "C4: the other page is live throughout");
    finish(&world, reissued);
}

/// A guard made here and ended there; its slot is reused here at once.
// C4, C7
pub(crate) fn loom_guard_ends_on_another_thread(plant: Plant) {
    let world = World::with_page(plant, 2, owner(1), 1);
    let (other, _) = world.take(owner(1)).expect("free");
    world.append(other, 0..1, |token| text(owner(1), FIRST, token));
    let block = world.block();
    let guard = world.open_guard(block, owner(1), 0, FIRST).expect("live");
    let reader = thread::spawn({
        let world = world.clone();
        move || {
            assert_eq!(world.read(&guard, 0), text(owner(1), FIRST, 0), "C4: bytes of another life or owner");
            world.end_guard(guard);
        }
    });
    let releaser = thread::spawn({
        let world = world.clone();
        move || release_and_reissue(&world)
    });
    assert_eq!(world.read_own(block, owner(1), other, FIRST), Some(1), "C4: the other page is live throughout");
    reader.join().expect("reader");
    let reissued = releaser.join().expect("releaser");
    finish(&world, reissued);
}

/// The reader's block is made while the releaser looks.
// C4, C7
pub(crate) fn loom_first_guard_of_a_thread_races_release(plant: Plant) {
    let world = World::with_page(plant, 1, owner(1), 1);
    let reader = thread::spawn({
        let world = world.clone();
        move || read_first(&world, world.block())
    });
    let reissued = release_and_reissue(&world);
    reader.join().expect("reader");
    finish(&world, reissued);
}

/// The page goes through two more lives while a handle of the first is used.
// C4
pub(crate) fn loom_handle_outlives_two_lives(plant: Plant) {
    let world = World::with_page(plant, 1, owner(1), 1);
    let block = world.block();
    let reader = thread::spawn({
        let world = world.clone();
        move || read_first(&world, block)
    });
    let mut life = FIRST;
    for _ in 0..2 {
        assert!(world.release(owner(1), 0, life), "C2: the only releaser wins");
        // The owner is the same again: nothing but the generation tells the lives apart.
        let Some((page, next)) = world.take(owner(1)) else { break };
        world.append(page, 0..1, |token| text(owner(1), next, token) + (next.get() << 40) + 1);
        life = next;
    }
    if life == generation(3) {
        saw("third life");
    }
    reader.join().expect("reader");
}

/// A handle of the next life, guessed before that life began: the old owner is refused, the new one sees its own.
// C2, C4, C5
pub(crate) fn loom_guessed_handle_is_refused(plant: Plant) {
    let world = World::with_page(plant, 1, owner(1), 2);
    let block = world.block();
    let next = generation(2);
    let reader = thread::spawn({
        let world = world.clone();
        move || {
            let theirs = world.open_guard(block, owner(1), 0, next);
            assert!(theirs.is_none(), "C2: a page of owner 2 is read by owner 1");
            let own = world.read_own(block, owner(2), 0, next);
            saw(if own.is_some() { "read" } else { "refused" });
            assert!(own.is_none_or(|written| written <= 1), "C5: the extent of another life");
        }
    });
    let reissued = release_and_reissue(&world);
    reader.join().expect("reader");
    finish(&world, reissued);
}

/// Another owner reserves while the page is being released.
// C3
pub(crate) fn loom_release_races_reserve(plant: Plant) {
    let world = World::with_page(plant, 1, owner(1), 2);
    let taker = thread::spawn({
        let world = world.clone();
        move || {
            let taken = world.take(owner(2));
            if let Some((page, life)) = taken {
                world.append(page, 0..1, |token| text(owner(2), life, token));
                assert_eq!(world.token(page, 0).get(), text(owner(2), life, 0), "C2: zeroed under its owner");
            }
            taken.is_some()
        }
    });
    assert!(world.release(owner(1), 0, FIRST));
    let taken = taker.join().expect("taker");
    saw(if taken { "taken" } else { "not free yet" });
    finish(&world, taken);
}

/// Two threads release one handle: one wins, the other is told that it is stale.
// C1, C2
pub(crate) fn loom_two_releases_of_one_page(plant: Plant) {
    let world = World::with_page(plant, 1, owner(1), 1);
    let other = thread::spawn({
        let world = world.clone();
        move || world.release(owner(1), 0, FIRST)
    });
    let here = world.release(owner(1), 0, FIRST);
    let there = other.join().expect("releaser");
    saw(if here { "here" } else { "there" });
    assert!(here != there, "C2: exactly one release wins");
    assert_eq!(world.meta(0).word().generation(), generation(2), "C4: one release is one life");
    world.audit();
    assert!(world.take(owner(2)).is_some(), "C1: the page is free, once");
}
