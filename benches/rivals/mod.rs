//! What is measured, ours and the rivals', each behind one face so that they can take turns.
//!
//! kvbm-logical brings 105 packages and belongs to a package of its own; it is not here.

pub(crate) mod exchange;
pub(crate) mod reading;
pub(crate) mod zeroing;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Something to be done over and over, from several threads at once.
pub(crate) trait Work: Sync {
    /// Does it until `go_on` says no, and answers how long that took and how many operations it was.
    fn run(&self, go_on: &mut dyn FnMut() -> bool) -> (Duration, u64);
}

/// Calls of `operation` between two looks at `go_on`, so that the look costs nothing.
const STRIDE: u64 = 64;

/// The loop that every [`Work`] of short operations runs.
#[inline(always)]
pub(crate) fn repeat(go_on: &mut dyn FnMut() -> bool, mut operation: impl FnMut()) -> (Duration, u64) {
    let begin = Instant::now();
    let mut done = 0;
    while go_on() {
        for _ in 0..STRIDE {
            operation();
        }
        done += STRIDE;
    }
    (begin.elapsed(), done)
}

/// Runs `work` on `threads` threads at once for about `operations` each, and answers the time of all of them, and their number.
pub(crate) fn run_on(work: &dyn Work, threads: u32, operations: u64) -> (Duration, u64) {
    let rounds = operations.div_ceil(STRIDE);
    if threads == 1 {
        let mut left = rounds;
        return work.run(&mut || left.checked_sub(1).map(|less| left = less).is_some());
    }
    let (ready, stop) = (AtomicU32::new(0), AtomicBool::new(false));
    let (nanoseconds, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let one = || {
        ready.fetch_add(1, Ordering::AcqRel);
        while ready.load(Ordering::Acquire) < threads {
            std::hint::spin_loop();
        }
        let mut left = rounds;
        // The thread that is first at the end stops the others: nobody's last rounds are without a rival.
        let (took, count) = work.run(&mut || {
            left = left.saturating_sub(1);
            if left == 0 {
                stop.store(true, Ordering::Relaxed);
            }
            !stop.load(Ordering::Relaxed)
        });
        nanoseconds.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
        done.fetch_add(count, Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(one);
        }
        one();
    });
    (Duration::from_nanos(nanoseconds.into_inner()), done.into_inner())
}
