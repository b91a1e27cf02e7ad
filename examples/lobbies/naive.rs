//! The pool that many servers have: a queue of free indices, and seats that go back as they are.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::seat::{Denied, SEATS, Seat, Seats};

/// In C#: `Queue<int> free; Seat[] seats;`, `Rent() => free.Dequeue()`, `Return(i) => free.Enqueue(i)`.
pub(crate) struct Naive {
    free: Mutex<VecDeque<usize>>,
    /// Behind locks, so that what goes wrong here is not the memory but whose it is.
    seats: Vec<Mutex<Seat>>,
}

impl Naive {
    pub(crate) fn new(seats: u32) -> Self {
        let seats = seats as usize;
        Self { free: Mutex::new((0..seats).collect()), seats: (0..seats).map(|_| Mutex::default()).collect() }
    }

    fn free(&self) -> MutexGuard<'_, VecDeque<usize>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seat(&self, at: usize) -> MutexGuard<'_, Seat> {
        self.seats[at].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seats for Naive {
    type Address = usize;
    type Group = ();

    fn open(&self, _match_id: u64) -> Option<((), [usize; SEATS])> {
        let mut free = self.free();
        if free.len() < SEATS {
            return None;
        }
        let mut next = free.drain(..SEATS);
        Some(((), std::array::from_fn(|_| next.next().expect("as many as there are places"))))
    }

    fn open_one(&self, _match_id: u64) -> Option<usize> {
        self.free().pop_front()
    }

    fn sit(&self, match_id: u64, at: usize, player: u64) -> Result<Seat, Denied> {
        let mut seat = self.seat(at);
        let before = *seat;
        // The fields that come to mind; the gifts do not.
        (seat.match_id, seat.player) = (match_id, player);
        Ok(before)
    }

    fn look(&self, _match_id: u64, at: usize) -> Result<Seat, Denied> {
        Ok(*self.seat(at))
    }

    fn change(&self, _match_id: u64, at: usize, change: impl FnOnce(&mut Seat)) -> Result<Seat, Denied> {
        let mut seat = self.seat(at);
        change(&mut seat);
        Ok(*seat)
    }

    fn leave(&self, _match_id: u64, at: usize) -> Result<(), Denied> {
        self.free().push_back(at);
        Ok(())
    }

    fn close(&self, _match_id: u64, _group: (), seats: &[usize]) {
        self.free().extend(seats);
    }

    fn crash(&self, match_id: u64, group: (), seats: &[usize]) {
        self.close(match_id, group, seats);
    }

    fn audit(&self) -> Result<(), String> {
        let free = self.free();
        let different: HashSet<usize> = free.iter().copied().collect();
        let twice = free.len() - different.len();
        if twice == 0 {
            Ok(())
        } else {
            Err(format!("{twice} entries of the free queue name a seat that stands in it already"))
        }
    }
}
