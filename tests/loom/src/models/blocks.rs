//! Blocks of hazard slots: one thread at a time fills one, and what a thread leaves in it stays announced.

use loom::thread;

use crate::hazard::Block;
use crate::saw;
use crate::world::{Plant, World};

fn address(block: &'static Block) -> usize {
    std::ptr::from_ref(block).addr()
}

fn claim_on_two_threads(world: &std::sync::Arc<World>) {
    let other = thread::spawn({
        let world = world.clone();
        move || address(world.block())
    });
    let here = address(world.block());
    saw("claimed");
    assert_ne!(here, other.join().expect("thread"), "C7: two threads fill one block");
}

/// The first blocks of the process.
// C7
pub(crate) fn loom_two_threads_claim_their_first_blocks(plant: Plant) {
    claim_on_two_threads(&World::new(plant, 1));
}

/// A block is there that a thread left.
// C7
pub(crate) fn loom_two_threads_claim_a_block_that_was_left(plant: Plant) {
    let world = World::new(plant, 1);
    world.block().leave();
    claim_on_two_threads(&world);
}

/// A thread ends and leaves a guard behind; the next one that has its block must not write over it.
// C7
pub(crate) fn loom_block_changes_hands_with_a_guard_in_it(plant: Plant) {
    let world = World::new(plant, 2);
    let threads = [0, 1].map(|page| {
        let world = world.clone();
        thread::spawn(move || {
            let block = world.block();
            std::mem::forget(World::announce(block, page));
            block.leave();
            address(block)
        })
    });
    let [one, other] = threads.map(|thread| thread.join().expect("thread"));
    saw(if one == other { "one block" } else { "two blocks" });
    let mut announced = world.pages_announced();
    announced.sort_unstable();
    assert_eq!(announced, [0, 1], "C7: a guard that lives is not announced");
}
