//! What a server keeps for a player, and the two ways to keep it.

/// Seats of a match.
pub(crate) const SEATS: usize = 8;
/// Gifts that a player can hold; the next one pushes the oldest out.
const GIFTS: usize = 4;

/// A player's place in a match. All that stands in it names the match that it is of: a leak is found by looking, and no
/// handle is trusted for it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Seat {
    /// The match; 0: none.
    pub(crate) match_id: u64,
    pub(crate) player: u64,
    /// For each gift, the match in which it was given.
    gifts: [u64; GIFTS],
}

impl Seat {
    /// A seat in which a player just sat down.
    pub(crate) fn of(match_id: u64, player: u64) -> Self {
        Self { match_id, player, ..Self::default() }
    }

    pub(crate) fn take_gift(&mut self, match_id: u64) {
        self.gifts.rotate_right(1);
        self.gifts[0] = match_id;
    }

    /// Another match than `match_id` that something here is of.
    pub(crate) fn foreign_to(&self, match_id: u64) -> Option<u64> {
        std::iter::once(self.match_id).chain(self.gifts).find(|of| *of != 0 && *of != match_id)
    }
}

/// Why somebody does not get at a seat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Denied {
    /// It is no longer the seat that was meant.
    Late,
    /// Somebody else is at it this moment.
    Busy,
    /// Nobody sat down yet.
    Empty,
}

/// A pool of seats, as the server uses it.
pub(crate) trait Seats: Sync {
    /// How a message names a seat.
    type Address: Copy + Send;
    /// What a match has for as long as it lasts.
    type Group;

    /// Seats for a match, or none.
    fn open(&self, match_id: u64) -> Option<(Self::Group, [Self::Address; SEATS])>;
    /// One more seat, for somebody who takes the place of one who left.
    fn open_one(&self, match_id: u64) -> Option<Self::Address>;
    /// Sits a player down. Answers what stood in the seat before.
    fn sit(&self, match_id: u64, at: Self::Address, player: u64) -> Result<Seat, Denied>;
    fn look(&self, match_id: u64, at: Self::Address) -> Result<Seat, Denied>;
    /// Changes a seat. Answers what it is then.
    fn change(&self, match_id: u64, at: Self::Address, change: impl FnOnce(&mut Seat)) -> Result<Seat, Denied>;
    fn leave(&self, match_id: u64, at: Self::Address) -> Result<(), Denied>;
    /// Ends a match that has these seats: those of the group without the ones that were left, and those that came one by one.
    fn close(&self, match_id: u64, group: Self::Group, seats: &[Self::Address]);
    /// Cleans up after a match that crashed and had these seats.
    fn crash(&self, match_id: u64, group: Self::Group, seats: &[Self::Address]);
    /// Says what is wrong with the pool once all matches are over.
    fn audit(&self) -> Result<(), String>;
}

#[test]
fn a_seat_tells_what_is_another_matchs() {
    let mut seat = Seat::of(3, 1);
    assert_eq!((Seat::default().foreign_to(3), seat.foreign_to(3), seat.foreign_to(4)), (None, None, Some(3)));
    seat.take_gift(3);
    assert_eq!(seat.foreign_to(3), None);
    seat.take_gift(2);
    assert_eq!(seat.foreign_to(3), Some(2), "a gift from elsewhere");
    (0..GIFTS).for_each(|_| seat.take_gift(3));
    assert_eq!(seat.foreign_to(3), None, "the oldest gift is gone");
}
