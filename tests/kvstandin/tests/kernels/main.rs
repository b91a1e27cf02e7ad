//! What the kernels do, by their PTX: the same as a model in plain Rust says, and as their source does as plain C++; and that
//! these rounds would notice if one instruction were another.

mod arena;
mod check;
mod floats;
mod mutants;
mod native;
mod pages;
mod reader;
mod rng;
mod round;

use kvstandin::ptx::{Launch, Module, Order};
use round::Bench;

const PTX: &str = include_str!("../../../../src/memory/cuda/kernels.ptx");

#[test]
fn kernels_do_what_the_model_says_in_any_order_of_threads() {
    let module = Module::parse(PTX).expect("the PTX that is shipped is known");
    let mut bench = Bench::default();
    for round in round::all() {
        for order in [Order::Forward, Order::Backward] {
            let (after, _) = bench.run(&round, &module, order, Launch::BUDGET).expect("no access fails");
            round.compare(after, &format!("{order:?}"));
        }
    }
}

#[test]
fn kernels_do_what_their_source_does_as_plain_cpp() {
    let Some(native) = native::build() else { return };
    for round in round::all() {
        round.compare(&native.run(&round), "plain C++");
    }
}

/// By its text: in what order a host sees stores, only a device can show.
#[test]
fn a_check_stores_its_round_last_and_behind_a_fence_that_the_host_shares() {
    let check = PTX.split(".visible .entry ").find(|text| text.starts_with("pagestamp_check(")).expect("it is there");
    let stores =
        check.lines().map(str::trim).filter(|line| ["st.", "atom.", "membar."].iter().any(|it| line.contains(it)));
    let stores: Vec<_> = stores.map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    let [.., fence, round] = &stores[..] else { panic!("no store in the check") };
    assert_eq!(fence[..], ["membar.sys;"]);
    assert_eq!(round[0], "st.volatile.global.u64");
    assert!(round[1].ends_with("+64],"), "the round of a fault is at 64, stored at {}", round[1]);
}
