//! Outside writers and readers against readers by handle, reads by reservation, and releases.

use std::sync::Arc;

use loom::thread;

use crate::id::Generation;
use crate::saw;
use crate::stamp::PageState;
use crate::sync::{AtomicU32, Ordering};
use crate::world::{Plant, TOKENS, World, owner, text};

const FIRST: Generation = Generation::FIRST;

/// What an outside party may do.
#[derive(Clone, Copy)]
enum Access {
    Read,
    Write,
}

/// Releases page 0 of owner 1 and lets owner 2 have it, if that is possible yet.
fn release_and_reissue(world: &World) -> bool {
    assert!(world.release(owner(1), 0, FIRST), "C2: the only releaser wins");
    let early = world.take(owner(2)).is_some();
    saw(if early { "reissued at once" } else { "quarantined" });
    early
}

/// After the outside parties: the page is somewhere once, and somebody has it or can have it.
fn finish(world: &World) {
    world.audit();
    let taken = world.meta(0).word().state() == PageState::Live;
    assert!(taken || world.reserve(owner(2)).is_some(), "C7: the page comes back after the last ticket");
}

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
    release_and_reissue(&world);
    writer.join().expect("writer");
    finish(&world);
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
    release_and_reissue(&world);
    for reader in readers {
        reader.join().expect("reader");
    }
    finish(&world);
}

/// A page is released while an outside reader has it: nobody has it before that reader's end.
// C1, C7
pub(crate) fn loom_release_races_read_ticket_end(plant: Plant) {
    let world = World::with_page(plant, 1, owner(1), 1);
    world.open_read_ticket(0);
    let reader = thread::spawn({
        let world = world.clone();
        move || {
            assert_eq!(world.token(0, 0).get(), text(owner(1), FIRST, 0), "C7: reused under a ticket");
            world.end_ticket(0, None);
        }
    });
    release_and_reissue(&world);
    reader.join().expect("reader");
    finish(&world);
}

/// Two outside writers, each on a part of the page, end in either order while a reader by handle tries.
// C7, C12
pub(crate) fn loom_two_write_ticket_ends_race_read(plant: Plant) {
    let world = World::with_page(plant, 1, owner(1), TOKENS);
    let block = world.block();
    let writers = [0, 1].map(|token| {
        assert!(world.open_write_ticket(0), "C12: a second writer shares the page with the first");
        let world = world.clone();
        thread::spawn(move || {
            world.token(0, token).set(9);
            world.end_ticket(0, None);
        })
    });
    let read = world.open_guard(block, owner(1), 0, FIRST);
    saw(if read.is_some() { "read" } else { "busy" });
    if let Some(guard) = read {
        assert_eq!([0, 1].map(|token| world.read(&guard, token)), [9, 9], "C12: read before the last writer's end");
        world.end_guard(guard);
    }
    for writer in writers {
        writer.join().expect("writer");
    }
    assert!(!world.meta(0).word().is_writing(), "C12: readable again after the last ticket");
}

/// The holder reads its reservation while two write tickets on it end in either order.
// C12
pub(crate) fn loom_two_write_ticket_ends_race_read_by_reservation(plant: Plant) {
    let world = World::with_page(plant, 1, owner(1), TOKENS);
    let core = world.open_record();
    let writers = [0, 1].map(|token| {
        assert!(world.open_write_ticket(0), "C12: a second writer shares the page with the first");
        let ticket = world.register(0, Some(&core));
        let world = world.clone();
        thread::spawn(move || {
            world.token(0, token).set(9);
            assert!(world.end(ticket), "C7: nobody else ends it");
        })
    });
    for token in [0, 1] {
        let read = world.read_reserved(&core, 0, token);
        saw(if read.is_some() { "read" } else { "busy" });
        assert!(read.is_none_or(|value| value == 9), "C12: read before the last writer's end");
    }
    for writer in writers {
        writer.join().expect("writer");
    }
    assert_eq!(core.off_limits.load(Ordering::Acquire), 0, "C1: a ticket that ended is counted");
}

/// `done` comes for a ticket that is being revoked, on a page that another ticket holds: one of the two ends it.
fn revoke_races_done(plant: Plant, access: Access, revoke: fn(&World, usize) -> bool) {
    let world = World::with_page(plant, 1, owner(1), 1);
    let core = world.open_record();
    let open = || match access {
        Access::Read => {
            world.open_read_ticket(0);
            world.register(0, None)
        }
        Access::Write => {
            assert!(world.open_write_ticket(0), "C12: a second writer shares the page with the first");
            world.register(0, Some(&core))
        }
    };
    let (ended, other) = (open(), open());
    let done = thread::spawn({
        let world = world.clone();
        move || world.end(ended)
    });
    let outside = thread::spawn({
        let world = world.clone();
        move || {
            match access {
                Access::Read => drop(world.token(0, 0).get()),
                Access::Write => world.token(0, 0).set(9),
            }
            assert!(world.end(other), "C7: nobody else ends it");
        }
    });
    let revoked = revoke(&world, ended);
    let early = release_and_reissue(&world);
    let done = done.join().expect("done");
    assert!(revoked != done, "C7: exactly one of two ends ends a ticket");
    saw(if revoked { "by revoke" } else { "by done" });
    outside.join().expect("outside party");
    finish(&world);
    assert!(early || core.off_limits.load(Ordering::Acquire) == 0, "C1: each end is counted once");
}

// C1, C7
pub(crate) fn loom_revoke_races_done_of_a_read_ticket(plant: Plant) {
    revoke_races_done(plant, Access::Read, World::end);
}

// C1, C7
pub(crate) fn loom_revoke_races_done_of_a_write_ticket(plant: Plant) {
    revoke_races_done(plant, Access::Write, World::end);
}

/// The kernel said that the holder is dead, and its last `done` is being worked on.
// C1, C7
pub(crate) fn loom_proven_end_races_done(plant: Plant) {
    revoke_races_done(plant, Access::Write, World::end_dead_holder);
}

/// A reservation is released while its last write ticket ends; the next takes its record, and a write ticket of its own.
// C1, C12
pub(crate) fn loom_release_of_a_reservation_races_its_last_write_ticket_end(plant: Plant) {
    let world = World::with_page(plant, 2, owner(1), 1);
    let core = world.open_record();
    assert!(world.open_write_ticket(0), "C12: nobody is on the page");
    let ticket = world.register(0, Some(&core));
    let writer = thread::spawn({
        let world = world.clone();
        move || {
            world.token(0, 1).set(9);
            assert!(world.end(ticket), "C7: nobody else ends it");
        }
    });
    world.release_reservation(core, 0);
    let (page, _) = world.take(owner(2)).expect("C7: a second page is free");
    let next = world.open_record();
    assert_eq!(next.off_limits.load(Ordering::Acquire), 0, "C1: a new reservation counts a ticket of another");
    world.append(page, 0..1, |_| 5);
    assert!(world.open_write_ticket(page), "C12: nobody is on the page");
    let own = world.register(page, Some(&next));
    writer.join().expect("writer");
    saw(if page == 0 { "same page" } else { "other page" });
    assert_eq!(world.read_reserved(&next, page, 0), None, "C12: read beside an outside writer");
    assert!(world.end(own), "C7: nobody else ends it");
    assert_eq!(world.read_reserved(&next, page, 0), Some(5), "C12: readable again after the last ticket");
    world.reserve(owner(3));
    world.audit();
}

/// The owner is reclaimed while it reads its reservation and the last write ticket on that ends.
// C1, C7, C12
pub(crate) fn loom_reclaim_races_the_last_write_ticket_end(plant: Plant) {
    let world = World::with_page(plant, 1, owner(1), TOKENS);
    let core = world.open_record();
    assert!(world.open_write_ticket(0), "C12: nobody is on the page");
    let ticket = world.register(0, Some(&core));
    let writer = thread::spawn({
        let world = world.clone();
        move || {
            world.token(0, 0).set(9);
            assert!(world.end(ticket), "C7: nobody else ends it");
        }
    });
    let holder = thread::spawn({
        let (world, core) = (world.clone(), core.clone());
        move || {
            let read = world.read_reserved(&core, 0, 0);
            saw(if read.is_some() { "read" } else { "refused" });
            assert!(
                read.is_none_or(|value| value == 9),
                "C7: taken back under a borrow, or read before the writer's end"
            );
        }
    });
    world.reclaim(&core, 0);
    let early = world.reserve(owner(2)).is_some();
    saw(if early { "reissued at once" } else { "quarantined" });
    writer.join().expect("writer");
    holder.join().expect("holder");
    assert!(core.header.borrow().is_err(), "C4: a revoked reservation gives a borrow");
    assert!(early || world.reserve(owner(2)).is_some(), "C7: the page comes back after the last ticket");
    world.audit();
}
