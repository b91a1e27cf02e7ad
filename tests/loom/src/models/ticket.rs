//! Outside writers and readers against readers by handle, reads by reservation, and releases.

use std::sync::Arc;

use loom::thread;

use crate::id::Generation;
use crate::saw;
use crate::sync::{AtomicU32, Ordering};
use crate::world::{Plant, TOKENS, World, owner, text};

const FIRST: Generation = Generation::FIRST;

/// A page is hidden for an outside writer, written, and shown again; a reader has the old bytes, the new ones, or `Busy`.
// C7, C12
pub(crate) fn loom_write_ticket_races_read(plant: Plant) {
    let world = World::with_page(plant, 1, owner(1), TOKENS);
    let block = world.block();
    let (old, new) = (text(owner(1), FIRST, 0), text(owner(1), FIRST, 0) + (1 << 48));
    let reader = thread::spawn({
        let world = world.clone();
        move || {
            let Some(guard) = world.open_guard(block, owner(1), 0, FIRST) else { return saw("refused") };
            let first = world.read(&guard, 0);
            assert_eq!(first, world.read(&guard, 0), "C12: bytes change under a guard");
            assert!(first == old || first == new, "C12: mixed bytes");
            saw(if first == old { "before" } else { "after" });
            world.end_guard(guard);
        }
    });
    let opened = world.open_write_ticket(0);
    saw(if opened { "opened" } else { "busy" });
    if opened {
        world.token(0, 0).set(new);
        world.end_ticket(0, None);
    }
    reader.join().expect("reader");
    let guard = world.open_guard(block, owner(1), 0, FIRST).expect("C12: readable again after the ticket");
    assert_eq!(world.read(&guard, 0), if opened { new } else { old }, "C12: lost bytes");
    world.end_guard(guard);
    assert!(world.open_write_ticket(0), "C12: nobody reads, so a writer is let in");
}

/// The holder reads its reservation while the last write ticket ends elsewhere.
// C12
pub(crate) fn loom_read_by_reservation_follows_ticket_end(plant: Plant) {
    let world = World::with_page(plant, 1, owner(1), TOKENS);
    assert!(world.open_write_ticket(0));
    let count = Arc::new(AtomicU32::new(1));
    let writer = thread::spawn({
        let (world, count) = (world.clone(), count.clone());
        move || {
            world.token(0, 0).set(9);
            world.end_ticket(0, Some(&count));
        }
    });
    // As `Reservation::read`: pages are looked at only while there are write tickets.
    let free = count.load(Ordering::Acquire) == 0 || !world.meta(0).word_for_reader().is_writing();
    saw(if free { "read" } else { "busy" });
    if free {
        assert_eq!(world.token(0, 0).get(), 9, "C12: read before the writer's end");
    }
    writer.join().expect("writer");
}

/// A page is released while an outside writer has it: it is zeroed once, and only behind the writer.
// C1, C7
pub(crate) fn loom_release_races_last_ticket_end(plant: Plant) {
    let world = World::with_page(plant, 1, owner(1), 1);
    assert!(world.open_write_ticket(0));
    let writer = thread::spawn({
        let world = world.clone();
        move || {
            world.token(0, 1).set(9);
            world.end_ticket(0, None);
        }
    });
    assert!(world.release(owner(1), 0, FIRST));
    let early = world.take(owner(2)).is_some();
    saw(if early { "reissued at once" } else { "quarantined" });
    writer.join().expect("writer");
    world.audit();
    assert!(early || world.reserve(owner(2)).is_some(), "C7: the page comes back after the last ticket");
}

/// Two tickets on a released page end at once: one of them sends it to cleaning.
// C1, C7
pub(crate) fn loom_two_ticket_ends_race_release(plant: Plant) {
    let world = World::with_page(plant, 1, owner(1), 1);
    world.open_read_ticket(0);
    world.open_read_ticket(0);
    let readers = [(); 2].map(|()| {
        let world = world.clone();
        thread::spawn(move || {
            assert_eq!(world.token(0, 0).get(), text(owner(1), FIRST, 0), "C7: reused under a ticket");
            world.end_ticket(0, None);
        })
    });
    assert!(world.release(owner(1), 0, FIRST));
    let early = world.take(owner(2)).is_some();
    saw(if early { "reissued at once" } else { "quarantined" });
    for reader in readers {
        reader.join().expect("reader");
    }
    world.audit();
    assert!(early || world.reserve(owner(2)).is_some(), "C7: the page comes back after the last ticket");
}
