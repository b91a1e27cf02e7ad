//! What is measured, ours and the rivals', each behind one face so that they can take turns.
//!
//! kvbm-logical brings 105 packages and is not here.

pub(crate) mod exchange;
pub(crate) mod race;
pub(crate) mod reading;
pub(crate) mod tables;
pub(crate) mod zeroing;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
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

/// Runs `work` on `threads` threads at once for about `operations` each, and answers the time of all of them, and their
/// number. `None` when they did not run side by side: the machine had other things to do.
pub(crate) fn run_on(work: &dyn Work, threads: u32, operations: u64) -> Option<(Duration, u64)> {
    let rounds = operations.div_ceil(STRIDE);
    if threads == 1 {
        let mut left = rounds;
        return Some(work.run(&mut || left.checked_sub(1).map(|less| left = less).is_some()));
    }
    let (ready, stop) = (AtomicU32::new(0), AtomicBool::new(false));
    let one = || {
        ready.fetch_add(1, Ordering::AcqRel);
        while ready.load(Ordering::Acquire) < threads {
            std::hint::spin_loop();
        }
        let mut left = rounds;
        // The thread that is first at the end stops the others: nobody's last rounds are without a rival.
        work.run(&mut || {
            left = left.saturating_sub(1);
            if left == 0 {
                stop.store(true, Ordering::Relaxed);
            }
            !stop.load(Ordering::Relaxed)
        })
    };
    let runs: Vec<(Duration, u64)> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(one)).collect();
        let mine = one();
        others.into_iter().map(|other| other.join().expect("no panic")).chain([mine]).collect()
    });
    let counts = runs.iter().map(|(_, count)| *count);
    // One that did hardly anything was waiting for a processor, not for the lock.
    let side_by_side = counts.clone().min() > counts.clone().max().map(|most| most / 8);
    side_by_side.then(|| (runs.iter().map(|(took, _)| *took).sum(), counts.sum()))
}
