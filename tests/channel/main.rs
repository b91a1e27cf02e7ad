//! Handoffs over a bad channel, against a plain model: messages and bytes are lost, doubled, late, out of order and changed,
//! either side stops at any point, and owners are reclaimed meanwhile.
//!
//! After every step the books of all pools are right, nothing is readable that was not accepted, what was accepted and what
//! is sealed are the bytes of exactly that place of that prompt, and later tenants' bytes are theirs. In the end what got all
//! of its messages and bytes is accepted, and no page is missing.
#![expect(unsafe_code, reason = "stores and looks at bytes by address, and ends tickets as their holders would")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod aborts;
mod ops;
mod place;
mod shape;
mod world;

use pagestamp::{CleanMode, HeldMemory, HostMemory};
use proptest::prelude::*;

use ops::{Cuts, Op, cuts, op};
use place::Under;
use shape::{Shape, shape};
use world::World;

type Run = (Shape, Cuts, CleanMode, Vec<Op>, u64);

fn run<D: Under>((shape, cuts, mode, ops, seed): Run) {
    let mut world = World::<D>::new(shape, cuts, mode);
    for op in &ops {
        world.step(op);
    }
    world.finish(seed);
}

fn runs() -> impl Strategy<Value = Run> {
    let mode = prop_oneof![Just(CleanMode::OnRelease), Just(CleanMode::Later)];
    (shape(), cuts(), mode, prop::collection::vec(op(), 1..120), any::<u64>())
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
    #![proptest_config(cases(80))]

    // C1, C3, C4, C5, C6, C7, C10, C11, C12
    #[test]
    fn only_what_was_sent_is_received_over_a_bad_channel(all in runs()) {
        run::<HostMemory>(all);
    }

    // C1, C3, C4, C5, C6, C7, C10, C11, C12
    #[test]
    fn only_what_was_sent_is_received_when_cleaning_takes_its_time(all in runs()) {
        run::<HeldMemory>(all);
    }
}
