//! The server: matches for its workers, until enough were played.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::arguments::Plan;
use crate::findings::Findings;
use crate::mail::{Mail, SLOWEST};
use crate::report::Run;
use crate::seat::{SEATS, Seats};
use crate::worker;

/// Matches that are open at once, on all workers together.
const OPEN: usize = 2048;

/// What the workers share.
pub(crate) struct Server<'a, S: Seats> {
    pub(crate) seats: &'a S,
    pub(crate) mail: Mail<S::Address>,
    pub(crate) open_per_worker: usize,
    matches: u64,
    opened: AtomicU64,
    over: AtomicU64,
}

impl<S: Seats> Server<'_, S> {
    /// The number of the next match, from 1.
    pub(crate) fn next_match(&self) -> Option<u64> {
        let number = 1 + self.opened.fetch_add(1, Ordering::Relaxed);
        (number <= self.matches).then_some(number)
    }

    pub(crate) fn one_is_over(&self) {
        self.over.fetch_add(1, Ordering::Relaxed);
    }
}

/// Seats that the server needs: for all matches that are open at once, and few more, so that each is soon used again.
pub(crate) fn seats(plan: &Plan) -> u32 {
    (SEATS * open_per_worker(plan) * plan.threads + SEATS) as u32
}

fn open_per_worker(plan: &Plan) -> usize {
    let matches = usize::try_from(plan.matches).unwrap_or(usize::MAX);
    OPEN.min(matches).div_ceil(plan.threads)
}

/// Plays all matches, delivers what comes late, and looks at the pool.
pub(crate) fn run<S: Seats>(seats: &S, plan: &Plan) -> Run {
    let server = Server {
        seats,
        mail: Mail::new(plan.threads),
        open_per_worker: open_per_worker(plan),
        matches: plan.matches,
        opened: AtomicU64::new(0),
        over: AtomicU64::new(0),
    };
    let started = Instant::now();
    let mut found = Findings::default();
    let (ended, took) = thread::scope(|scope| {
        let server = &server;
        let workers: Vec<_> =
            (0..plan.threads).map(|number| scope.spawn(move || worker::work(server, number))).collect();
        watch(server, &workers);
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join().expect("a worker does not panic")).collect();
        (ended, started.elapsed())
    });
    // All matches are over: whatever comes now is late.
    for (number, (of_one, mut wheel)) in ended.into_iter().enumerate() {
        found.add(of_one);
        for _ in 0..=SLOWEST + 1 {
            worker::deliver_due(&server, number, &mut wheel, &mut found);
        }
    }
    Run { found, took, audit: seats.audit() }
}

/// Draws how far it is, where there is a terminal.
fn watch<S: Seats, R>(server: &Server<'_, S>, workers: &[thread::ScopedJoinHandle<'_, R>]) {
    if !io::stderr().is_terminal() {
        return;
    }
    while !workers.iter().all(|worker| worker.is_finished()) {
        let over = server.over.load(Ordering::Relaxed);
        // A line that cannot be drawn is no reason to fail.
        let _ = write!(io::stderr(), "\r{over} of {} matches played", server.matches);
        thread::sleep(Duration::from_millis(50));
    }
    let _ = write!(io::stderr(), "\r\x1b[K");
}
