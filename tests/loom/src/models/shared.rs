//! Pages with several holders, and pages that are cached: against readers by handle, who know of neither.

use loom::thread;

use crate::hazard::Block;
use crate::id::Generation;
use crate::saw;
use crate::world::{Plant, TOKENS, World, generation, owner, text};

const FIRST: Generation = Generation::FIRST;

/// What the second holder writes where it rolled back.
fn new_text() -> u64 {
    text(owner(1), FIRST, 1) + (1 << 48)
}

/// A reader of page 0 in its first life, whose second token may be written anew.
fn read_shared(world: &World, block: &'static Block) {
    let Some(guard) = world.open_guard(block, owner(1), 0, FIRST) else { return saw("refused") };
    assert_eq!(world.read(&guard, 0), text(owner(1), FIRST, 0), "C12: what was kept has changed");
    if guard.written == TOKENS {
        let first = world.read(&guard, 1);
        assert_eq!(first, world.read(&guard, 1), "C12: bytes change under a guard");
        assert!(first == text(owner(1), FIRST, 1) || first == new_text(), "C12: mixed bytes");
        saw(if first == new_text() { "after" } else { "before" });
    } else {
        saw("between");
    }
    world.end_guard(guard);
}

fn finish_rewrite(world: &World, page: u32) {
    let life = world.meta(page).word().generation();
    let guard = world.open_guard(world.block(), owner(1), page, life).expect("live");
    assert_eq!((world.read(&guard, 0), world.read(&guard, 1)), (text(owner(1), FIRST, 0), new_text()), "C12: lost");
    world.end_guard(guard);
    saw(if page == 0 { "in place" } else { "moved" });
}

/// One of two holders rolls back, the other leaves, and the first writes anew: in place, if nobody looks.
// C12
pub(crate) fn loom_rewrite_by_the_holder_who_is_left_races_read(plant: Plant) {
    let world = World::with_page(plant, 2, owner(1), TOKENS);
    let block = world.block();
    world.share(0);
    let reader = thread::spawn({
        let world = world.clone();
        move || read_shared(&world, block)
    });
    world.roll_back(0, 1);
    world.leave(0, true);
    let page = world.rewrite_shared(owner(1), 0, 1, |_| new_text());
    reader.join().expect("reader");
    finish_rewrite(&world, page);
    if page != 0 {
        assert!(world.reserve(owner(2)).is_some(), "C7: the page that was moved from comes back");
    }
    world.audit();
}

/// The other leaves while the first rolls back and writes: in place, or on a fresh page, which the other then never saw.
// C2, C12
pub(crate) fn loom_rewrite_races_the_leave_of_the_other_holder(plant: Plant) {
    let world = World::with_page(plant, 3, owner(1), TOKENS);
    world.share(0);
    let other = thread::spawn({
        let world = world.clone();
        move || {
            let seen = world.token(0, 1).get();
            assert_eq!(seen, text(owner(1), FIRST, 1), "C12: a shared page was rewritten under its other holder");
            world.leave(0, true);
        }
    });
    world.roll_back(0, 1);
    let page = world.rewrite_shared(owner(1), 0, 1, |_| new_text());
    other.join().expect("other");
    finish_rewrite(&world, page);
    world.audit();
}

/// A page is cached, evicted, and the next owner's, while somebody reads it by a handle of its last life.
// C3, C4, C7
pub(crate) fn loom_eviction_of_a_cached_page_races_read(plant: Plant) {
    let world = World::with_page(plant, 1, owner(1), 1);
    let block = world.block();
    world.publish(0);
    let reader = thread::spawn({
        let world = world.clone();
        move || world.read_own(block, owner(1), 0, FIRST)
    });
    world.leave(0, true);
    world.evict(0);
    let reissued = world.take(owner(2));
    if let Some((page, life)) = reissued {
        world.append(page, 0..1, |token| text(owner(2), life, token));
    }
    let read = reader.join().expect("reader");
    saw(if read.is_some() { "read" } else { "refused" });
    saw(if reissued.is_some() { "reissued at once" } else { "quarantined" });
    if reissued.is_none() {
        assert!(world.reserve(owner(2)).is_some(), "C7: a page that nobody reads any more stays in quarantine");
    }
    world.audit();
}

/// A cached page is found again: the handles of its last life stay stale, and its bytes are what they were.
// C4
pub(crate) fn loom_lookup_of_a_cached_page_races_read(plant: Plant) {
    let world = World::with_page(plant, 1, owner(1), 1);
    let (block, mine) = (world.block(), world.block());
    world.publish(0);
    let reader = thread::spawn({
        let world = world.clone();
        move || {
            let read = world.open_guard(block, owner(1), 0, FIRST).map(|guard| {
                assert_eq!(world.read(&guard, 0), text(owner(1), FIRST, 0), "C4: bytes of another life or owner");
                world.end_guard(guard);
            });
            saw(if read.is_some() { "read" } else { "refused" });
        }
    });
    world.leave(0, true);
    world.lookup(0);
    assert!(world.open_guard(mine, owner(1), 0, FIRST).is_none(), "C4: a handle lives on in the next life of its page");
    let guard = world.open_guard(mine, owner(1), 0, generation(FIRST.get() + 1)).expect("found");
    assert_eq!(world.read(&guard, 0), text(owner(1), FIRST, 0), "C5: found with other bytes");
    world.end_guard(guard);
    // And goes: the reader of the first life may still be there.
    let batch = world.leave(0, false);
    reader.join().expect("reader");
    saw(if batch { "freed" } else { "quarantined" });
    assert!(world.reserve(owner(2)).is_some(), "C7: a page that nobody reads any more stays in quarantine");
    world.audit();
}

/// A lookup and a release at once: whoever is left holds the page, and nobody else gets it.
// C2, C7
pub(crate) fn loom_lookup_races_the_release_of_the_last_holder(plant: Plant) {
    let world = World::with_page(plant, 1, owner(1), 1);
    world.publish(0);
    let finder = thread::spawn({
        let world = world.clone();
        move || {
            let was_live = world.lookup(0);
            saw(if was_live { "live" } else { "cached" });
            assert_eq!(world.token(0, 0).get(), text(owner(1), FIRST, 0), "C2: a page that is held went to another");
        }
    });
    world.leave(0, true);
    assert!(world.take(owner(2)).is_none(), "C2: a page that is held, or cached, is free");
    finder.join().expect("finder");
    assert!(!world.evict(0), "C7: a page with a holder was evicted");
    assert!(world.leave(0, false), "C1: the last holder frees it");
    assert!(world.take(owner(2)).is_some(), "C1: it is nobody's");
    world.audit();
}
