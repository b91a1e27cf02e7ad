//! The holder's writes against readers by handle: bytes inside the written extent do not change under a guard.

use loom::thread;

use crate::id::Generation;
use crate::saw;
use crate::world::{Plant, TOKENS, World, owner, text};

const FIRST: Generation = Generation::FIRST;

/// Tokens are appended past what a reader reads.
// C5, C12
pub(crate) fn loom_append_races_read(plant: Plant) {
    let world = World::with_page(plant, 1, owner(1), 1);
    let block = world.block();
    let reader = thread::spawn({
        let world = world.clone();
        move || world.read_own(block, owner(1), 0, FIRST)
    });
    world.append(0, 1..TOKENS, |token| text(owner(1), FIRST, token));
    let read = reader.join().expect("reader");
    saw(if read == Some(1) { "before" } else { "after" });
    assert!(matches!(read, Some(1 | TOKENS)), "C5: a live page is readable as far as it is written");
}

/// A token is taken back and written anew: in place if nobody looks, else on a fresh page.
// C12
pub(crate) fn loom_rewrite_races_read(plant: Plant) {
    let world = World::with_page(plant, 2, owner(1), TOKENS);
    let block = world.block();
    let (old, new) = (text(owner(1), FIRST, 1), text(owner(1), FIRST, 1) + (1 << 48));
    let reader = thread::spawn({
        let world = world.clone();
        move || {
            let Some(guard) = world.open_guard(block, owner(1), 0, FIRST) else { return saw("refused") };
            assert_eq!(world.read(&guard, 0), text(owner(1), FIRST, 0), "C12: what was kept has changed");
            if guard.written == TOKENS {
                let first = world.read(&guard, 1);
                assert_eq!(first, world.read(&guard, 1), "C12: bytes change under a guard");
                assert!(first == old || first == new, "C12: mixed bytes");
                saw(if first == old { "before" } else { "after" });
            } else {
                saw("between");
            }
            world.end_guard(guard);
        }
    });
    let page = world.rewrite(owner(1), 0, 1, |_| new);
    reader.join().expect("reader");
    let life = world.meta(page).word().generation();
    let guard = world.open_guard(block, owner(1), page, life).expect("live");
    assert_eq!((world.read(&guard, 0), world.read(&guard, 1)), (text(owner(1), FIRST, 0), new), "C12: lost bytes");
    world.end_guard(guard);
    let moved = page != 0;
    saw(if moved { "moved" } else { "in place" });
    if moved {
        assert!(world.reserve(owner(2)).is_some(), "C7: the page that was moved from comes back");
    }
    world.audit();
}
