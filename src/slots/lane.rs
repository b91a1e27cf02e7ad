//! A thread's place among the magazines, and whether it met another thread at the central lock lately.

use std::cell::Cell;

use crate::sync::{AtomicU32, Ordering};

/// Calls for which a thread stays with its magazine after it met another at the central lock.
const STAY: u32 = 64;

/// What a thread remembers between calls. A hint: any value of it is correct.
#[derive(Debug)]
pub(crate) struct Lane {
    number: u32,
    calls_left: Cell<u32>,
}

impl Lane {
    pub(crate) const fn new(number: u32) -> Self {
        Self { number, calls_left: Cell::new(0) }
    }

    /// Which of `magazines` magazines the thread uses; a power of two.
    pub(crate) fn magazine(&self, magazines: usize) -> usize {
        self.number as usize & (magazines - 1)
    }

    /// Says whether the thread should keep off the central lock, and counts the call.
    #[inline]
    pub(crate) fn keeps_off(&self) -> bool {
        let left = self.calls_left.get();
        self.calls_left.set(left.saturating_sub(1));
        left > 0
    }

    /// The central lock was taken.
    pub(crate) fn met_another(&self) {
        self.calls_left.set(STAY);
    }
}

/// Runs `work` with the lane of this thread.
#[inline]
pub(crate) fn with<R>(work: impl FnOnce(&Lane) -> R) -> R {
    static THREADS: AtomicU32 = AtomicU32::new(0);
    thread_local! {
        // Relaxed: neighbours in number may share a magazine, at worst.
        static LANE: Lane = Lane::new(THREADS.fetch_add(1, Ordering::Relaxed));
    }
    LANE.with(work)
}
