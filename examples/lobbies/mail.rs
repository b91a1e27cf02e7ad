//! The network: letters that take their time, come twice, or come when their match is over.

use std::sync::{Mutex, PoisonError};

/// Ticks that a letter takes at the most.
pub(crate) const SLOWEST: usize = 96;

/// What a letter asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wish {
    /// A gift for who has the seat.
    Gift,
    /// The player has left: give the seat back.
    Goodbye,
}

/// A message about a seat, from a match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Letter<A> {
    pub(crate) match_id: u64,
    pub(crate) at: A,
    pub(crate) wish: Wish,
    /// Ticks of the receiver until it is delivered; at most [`SLOWEST`].
    pub(crate) delay_ticks: usize,
}

/// Letters on their way to each worker.
#[derive(Debug)]
pub(crate) struct Mail<A> {
    boxes: Vec<Mutex<Vec<Letter<A>>>>,
}

impl<A> Mail<A> {
    pub(crate) fn new(workers: usize) -> Self {
        Self { boxes: (0..workers).map(|_| Mutex::default()).collect() }
    }

    pub(crate) fn workers(&self) -> usize {
        self.boxes.len()
    }

    pub(crate) fn send(&self, worker: usize, letter: Letter<A>) {
        self.boxes[worker].lock().unwrap_or_else(PoisonError::into_inner).push(letter);
    }

    /// What came for a worker since it asked last.
    pub(crate) fn receive(&self, worker: usize) -> Vec<Letter<A>> {
        std::mem::take(&mut *self.boxes[worker].lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A worker's letters, by the tick in which each is delivered.
#[derive(Debug)]
pub(crate) struct Wheel<A> {
    days: Vec<Vec<Letter<A>>>,
    now: usize,
}

impl<A> Wheel<A> {
    pub(crate) fn new() -> Self {
        Self { days: (0..=SLOWEST).map(|_| Vec::new()).collect(), now: 0 }
    }

    pub(crate) fn keep(&mut self, letter: Letter<A>) {
        let day = (self.now + letter.delay_ticks) % self.days.len();
        self.days[day].push(letter);
    }

    /// The letters of this tick. The next one begins.
    pub(crate) fn turn(&mut self) -> Vec<Letter<A>> {
        let due = std::mem::take(&mut self.days[self.now]);
        self.now = (self.now + 1) % self.days.len();
        due
    }
}

#[test]
fn letters_come_in_the_tick_that_they_take() {
    let mut wheel = Wheel::new();
    let letter = |delay_ticks| Letter { match_id: delay_ticks as u64, at: (), wish: Wish::Gift, delay_ticks };
    for round in 0..3 {
        [0, 2, SLOWEST].into_iter().for_each(|delay| wheel.keep(letter(delay)));
        let came: Vec<(usize, u64)> = (0..=SLOWEST)
            .flat_map(|tick| wheel.turn().into_iter().map(move |letter| (tick, letter.match_id)))
            .collect();
        assert_eq!(came, [(0, 0), (2, 2), (SLOWEST, SLOWEST as u64)], "round {round}");
    }
}
