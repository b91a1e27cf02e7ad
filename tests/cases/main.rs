//! Faults that people met in other pools, as tests: one module for each group of cases, one test or more for each case.
//!
//! The number of a case stands above its tests; `table.txt` lists all of them and `table.rs` fails on a gap.
#![expect(unsafe_code, reason = "looks at bytes past all checks, and ends tickets as their holders would")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admission;
mod cancelling;
mod counting;
mod giving_back;
mod handles;
mod handoffs;
mod prefixes;
mod resizing;
mod slots;
mod stage;
mod table;
mod threads;
mod transfers;
mod two_pools;
mod zeroing;
