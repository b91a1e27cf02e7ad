//! The pool against a plain model: every sequence of calls, over every memory, mode, placement and geometry.
//!
//! After every call the stats equal the model's numbers, every byte of every page is what the model says, the audits
//! pass, every handle whose page has left its owner is refused, and every guard shows what it showed at first.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(feature = "cuda")]
#[path = "state_machine/device.rs"]
mod device;
#[path = "state_machine/found.rs"]
mod found;
#[path = "state_machine/memory.rs"]
mod memory;
#[path = "state_machine/model.rs"]
mod model;
#[path = "state_machine/ops.rs"]
mod ops;
#[cfg(feature = "cuda")]
#[path = "cuda/standin.rs"]
mod standin;
#[path = "state_machine/world.rs"]
mod world;

use pagestamp::{HeldMemory, HostMemory, NullMemory, Placement};
use proptest::prelude::*;

use memory::Under;
use ops::{Op, op};
use world::{World, configs, geometries};

/// Pages of the memory; pools begin with fewer, so that a resize can go up.
const MAX_PAGES: u32 = 9;

fn run<M: Under>(config: usize, geometry: usize, ops: &[Op], seed: u8) {
    let (configs, geometries) = (configs(), geometries());
    for placement in [Placement::HotFirst, Placement::Contiguous] {
        let config = configs[config % configs.len()].clone().with_placement(placement);
        let mut world = World::<M>::new(&config, geometries[geometry % 4].clone(), MAX_PAGES);
        for op in ops {
            world.step(op);
        }
        world.finish(seed);
    }
}

fn sequence() -> impl Strategy<Value = (usize, usize, Vec<Op>, u8)> {
    (0usize..8, 0usize..4, proptest::collection::vec(op(), 1..80), any::<u8>())
}

fn cases(most: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig {
        max_shrink_iters: 20_000,
        failure_persistence: None,
        ..ProptestConfig::with_cases(asked.unwrap_or(most))
    }
}

proptest! {
    #![proptest_config(cases(800))]

    // C1, C2, C3, C4, C5, C6, C7, C8, C9, C12
    #[test]
    fn host_memory_does_what_the_model_says((config, geometry, ops, seed) in sequence()) {
        run::<HostMemory>(config, geometry, &ops, seed);
    }

    // C1, C2, C4, C5, C6, C7, C8, C9
    #[test]
    fn null_memory_does_what_the_model_says((config, geometry, ops, seed) in sequence()) {
        run::<NullMemory>(config, geometry, &ops, seed);
    }

    // C1, C2, C3, C4, C5, C6, C7, C8, C9, C12
    #[test]
    fn held_memory_does_what_the_model_says((config, geometry, ops, seed) in sequence()) {
        run::<HeldMemory>(config, geometry, &ops, seed);
    }
}

#[cfg(feature = "cuda")]
proptest! {
    #![proptest_config(cases(40))]

    // C1, C2, C3, C4, C5, C6, C7, C8, C9, C12
    #[test]
    fn a_device_does_what_the_model_says((config, geometry, ops, seed) in sequence()) {
        run::<device::SettledCuda>(config, geometry, &ops, seed);
    }
}
