//! Kernels that use pages by their numbers while steps are open, against releases.

use loom::thread;

use crate::id::Generation;
use crate::saw;
use crate::stamp::PageState;
use crate::world::{Plant, World, owner, text};

const FIRST: Generation = Generation::FIRST;

/// Releases page 0 of owner 1 and lets owner 2 have it and write it, if that is possible yet.
fn release_and_reissue(world: &World) {
    assert!(world.release(owner(1), 0, FIRST), "C2: the only releaser wins");
    let taken = world.take(owner(2));
    saw(if taken.is_some() { "reissued at once" } else { "quarantined" });
    if let Some((page, life)) = taken {
        world.append(page, 0..1, |token| text(owner(2), life, token));
    }
}

/// After all steps: the page is somewhere once, and somebody has it or can have it.
fn finish(world: &World) {
    world.audit();
    let taken = world.meta(0).word().state() == PageState::Live;
    assert!(taken || world.reserve(owner(2)).is_some(), "C7: the page comes back after the last step");
}

/// What a kernel does with a page under a step: reads what is written, writes what is pending.
fn kernel(world: &World) {
    assert_eq!(world.token(0, 0).get(), text(owner(1), FIRST, 0), "C7: a kernel reads another life");
    world.token(0, 1).set(text(owner(1), FIRST, 1));
}

/// A page is released while a step is open and ends: it goes on once, and behind the step's kernels.
// C1, C7
pub(crate) fn loom_step_end_races_release(plant: Plant) {
    let world = World::with_page(plant, 1, owner(1), 1);
    export(&world);
    let step = world.open_step();
    let engine = thread::spawn({
        let world = world.clone();
        move || {
            kernel(&world);
            world.end_step(step);
        }
    });
    release_and_reissue(&world);
    engine.join().expect("engine");
    finish(&world);
}

/// The page waits for both steps, in whatever order they end.
// C1, C7
pub(crate) fn loom_two_step_ends_race_release(plant: Plant) {
    let world = World::with_page(plant, 1, owner(1), 1);
    export(&world);
    let (first, second) = (world.open_step(), world.open_step());
    let engine = thread::spawn({
        let world = world.clone();
        move || {
            let _ = world.token(0, 0).get();
            world.end_step(first);
        }
    });
    let other = thread::spawn({
        let world = world.clone();
        move || {
            kernel(&world);
            world.end_step(second);
        }
    });
    release_and_reissue(&world);
    engine.join().expect("engine");
    other.join().expect("other engine");
    finish(&world);
}

/// A step is opened, and a row of handles is checked, while the page is released: the kernel has the page, or no page.
// C4, C7
pub(crate) fn loom_table_races_release(plant: Plant) {
    let world = World::with_page(plant, 1, owner(1), 1);
    export(&world);
    let engine = thread::spawn({
        let world = world.clone();
        move || {
            let (step, is_good) = world.open_step_and_check(0, FIRST);
            saw(if is_good { "in the table" } else { "refused" });
            if is_good {
                kernel(&world);
            }
            world.end_step(step);
        }
    });
    release_and_reissue(&world);
    engine.join().expect("engine");
    finish(&world);
}

/// As `Reservation::export` of the last token: whoever cleans the page cleans all of it.
fn export(world: &World) {
    let meta = world.meta(0);
    meta.set_extent(meta.extent().with_high(crate::world::TOKENS).whole());
}
