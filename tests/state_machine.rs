//! The pool against a plain model: every sequence of calls, over every memory, mode and geometry.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "state_machine/found.rs"]
mod found;
