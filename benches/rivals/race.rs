//! Rivals that take turns in short slices, so that whatever else the machine does hits all of them alike.

use std::time::Duration;

use super::{Work, run_on};

pub(crate) const ROUNDS: usize = 201;
const SLICE: Duration = Duration::from_micros(300);
/// Threads have to start and to meet; a longer slice hides that.
const SLICE_OF_THREADS: Duration = Duration::from_micros(1500);

/// Whether the bar is an upper or a lower one.
#[derive(Clone, Copy)]
pub(crate) enum Bar {
    AtMost(f64),
    AtLeast(f64),
    /// Shown, promised to nobody.
    None,
}

pub(crate) fn report(what: &str, ratio: f64, bar: Bar) {
    let verdict = match bar {
        Bar::AtMost(bar) if ratio <= bar => format!("reached (at most {bar})"),
        Bar::AtLeast(bar) if ratio >= bar => format!("reached (at least {bar})"),
        Bar::AtMost(bar) => format!("MISSED (at most {bar})"),
        Bar::AtLeast(bar) => format!("MISSED (at least {bar})"),
        Bar::None => String::new(),
    };
    println!("{what:<64} {ratio:>6.2}  {verdict}");
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Nanoseconds per operation of each, medians over slices in turns.
pub(crate) fn race(works: &[&dyn Work], threads: u32) -> Vec<f64> {
    let slice = if threads == 1 { SLICE } else { SLICE_OF_THREADS };
    let nanoseconds = |(took, count): (Duration, u64)| took.as_nanos() as f64 / count.max(1) as f64;
    let run = |at: usize, operations| run_on(works[at], threads, operations).map(nanoseconds);
    let all = 0..works.len();
    let guess = |at| run(at, 8192).unwrap_or(1000.0).max(0.1);
    let operations: Vec<u64> = all.clone().map(|at| (slice.as_nanos() as f64 / guess(at)) as u64 + 64).collect();
    let mut times = vec![Vec::with_capacity(ROUNDS); works.len()];
    // Slices in which the threads did not run side by side are thrown away, up to a point.
    for round in 0..3 * ROUNDS {
        for turn in all.clone() {
            let at = (round + turn) % works.len();
            times[at].extend(run(at, operations[at]));
        }
        if times.iter().all(|times| times.len() >= ROUNDS) {
            break;
        }
    }
    times.into_iter().map(median).collect()
}
