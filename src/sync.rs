//! The one place that names atomics, so that the same protocol code runs under std and under loom.
//!
//! *Owns* the choice of atomics. *Does not know* what they are used for. With `--cfg loom` (only the package
//! `tests/loom/` does that, over the protocol files alone) every load, store and fence becomes a point where the
//! model checker may switch threads.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};
