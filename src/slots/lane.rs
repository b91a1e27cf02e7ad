//! A thread's place among the magazines, and whether it met another thread at the central lock lately.

use std::cell::Cell;

use crate::sync::{AtomicU32, Ordering};

/// Calls for which a thread stays with its magazine after it met another at the central lock: at first, and at the most.
const STAY: u32 = 64;
const LONGEST_STAY: u32 = 8192;
/// No thread has this number.
const UNNUMBERED: u32 = u32::MAX;

/// What a thread remembers between calls. A hint: any value of it is correct.
#[derive(Debug)]
pub(crate) struct Lane {
    number: Cell<u32>,
    calls_left: Cell<u32>,
    /// How long to stay the next time: twice as long each time that it met somebody again, and less with each call that it
    /// did not.
    stay: Cell<u32>,
}

impl Lane {
    pub(crate) const fn new(number: u32) -> Self {
        Self { number: Cell::new(number), calls_left: Cell::new(0), stay: Cell::new(STAY) }
    }

    /// Which of `magazines` magazines the thread uses; a power of two.
    pub(crate) fn magazine(&self, magazines: usize) -> usize {
        if self.number.get() == UNNUMBERED {
            self.number.set(next_number());
        }
        self.number.get() as usize & (magazines - 1)
    }

    /// Says whether the thread should keep off the central lock, and counts the call.
    #[inline]
    pub(crate) fn keeps_off(&self) -> bool {
        let left = self.calls_left.get();
        if left > 0 {
            self.calls_left.set(left - 1);
        } else if self.stay.get() > STAY {
            self.stay.set(self.stay.get() - 1);
        }
        left > 0
    }

    /// The central lock was taken.
    #[cold]
    pub(crate) fn met_another(&self) {
        let stay = self.stay.get();
        self.calls_left.set(stay);
        self.stay.set((2 * stay).min(LONGEST_STAY));
    }
}

/// Neighbours in number may share a magazine, at worst: so may the thread that is one in 2^32.
fn next_number() -> u32 {
    static THREADS: AtomicU32 = AtomicU32::new(0);
    THREADS.fetch_add(1, Ordering::Relaxed) & !(1 << 31)
}

/// Runs `work` with the lane of this thread.
#[inline]
pub(crate) fn with<R>(work: impl FnOnce(&Lane) -> R) -> R {
    thread_local! {
        static LANE: Lane = const { Lane::new(UNNUMBERED) };
    }
    LANE.with(work)
}
