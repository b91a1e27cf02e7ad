//! The slot pool, from outside: access, release, groups, claims, panics, threads, and a plain model of all of it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(unsafe_code, reason = "says that guards were forgotten")]

mod access;
mod attacks;
mod claims;
mod forgotten;
mod groups;
mod iteration;
mod model;
mod page;
mod panics;
mod stage;
mod threads;
