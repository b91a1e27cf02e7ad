//! What a run found, by content.

use std::fmt;

use crate::seat::Seat;

/// Leaks of each kind that are told in words.
const EXAMPLES: usize = 2;

/// How one match's data came to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    /// A player sat down on it.
    SatOn,
    /// A match that looked at its own seats saw it.
    Saw,
    /// A message changed it.
    Changed,
}

impl How {
    pub(crate) const ALL: [Self; 3] = [Self::SatOn, Self::Saw, Self::Changed];

    /// What such leaks are, for a table.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::SatOn => "a player got a used seat",
            Self::Saw => "a match saw another's data",
            Self::Changed => "a late message changed another",
        }
    }
}

/// Data of one match where another one was at work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leak {
    how: How,
    match_id: u64,
    of: u64,
    player: u64,
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { how, match_id, of, player } = self;
        match how {
            How::SatOn => {
                write!(f, "match {match_id}: a player sat down and had what player {player} of match {of} left")
            }
            How::Saw => write!(f, "match {match_id}: one of its seats showed player {player} and things of match {of}"),
            How::Changed => {
                write!(f, "match {of}: player {player} was given a gift that was meant for match {match_id}")
            }
        }
    }
}

/// Counts of a worker, or of all.
#[derive(Clone, Default, Debug)]
pub(crate) struct Findings {
    /// Claims: of eight seats together, and of single ones.
    pub(crate) claims: u64,
    pub(crate) letters: u64,
    /// Letters that were refused, since their seat was no longer the one they were meant for.
    pub(crate) stale_refused: u64,
    /// Times that somebody else was at a seat: a letter is delivered a tick later, a look is left out.
    pub(crate) busy: u64,
    /// Matches that waited for room.
    pub(crate) full: u64,
    pub(crate) crashes: u64,
    /// Looks at seats, by their matches.
    pub(crate) looks: u64,
    /// Seats that were taken from a match while it had them.
    pub(crate) lost: u64,
    leaks: [u64; How::ALL.len()],
    examples: Vec<Leak>,
}

impl Findings {
    /// Judges what a match, or a letter of it, had before it.
    pub(crate) fn judge(&mut self, how: How, match_id: u64, seat: &Seat) {
        let Some(of) = seat.foreign_to(match_id) else { return };
        self.leaks[how as usize] += 1;
        if self.leaks[how as usize] <= EXAMPLES as u64 {
            self.examples.push(Leak { how, match_id, of, player: seat.player });
        }
    }

    pub(crate) fn leaks(&self) -> u64 {
        self.leaks.iter().sum()
    }

    pub(crate) fn leaks_by(&self, how: How) -> u64 {
        self.leaks[how as usize]
    }

    /// Some leaks of that kind.
    pub(crate) fn examples(&self, how: How) -> impl Iterator<Item = &Leak> {
        self.examples.iter().filter(move |leak| leak.how == how).take(EXAMPLES)
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.claims += other.claims;
        self.letters += other.letters;
        self.stale_refused += other.stale_refused;
        self.busy += other.busy;
        self.full += other.full;
        self.crashes += other.crashes;
        self.looks += other.looks;
        self.lost += other.lost;
        self.leaks.iter_mut().zip(other.leaks).for_each(|(all, more)| *all += more);
        self.examples.extend(other.examples);
    }
}

#[test]
fn a_leak_is_told_by_what_the_seat_holds() {
    let mut found = Findings::default();
    let mut seat = Seat::of(4, 7);
    found.judge(How::Saw, 4, &seat);
    found.judge(How::SatOn, 9, &Seat::default());
    assert_eq!(found.leaks(), 0);
    found.judge(How::SatOn, 9, &seat);
    seat.take_gift(8);
    found.judge(How::Saw, 4, &seat);
    assert_eq!((found.leaks(), found.leaks_by(How::SatOn), found.leaks_by(How::Saw)), (2, 1, 1));
    let told: Vec<String> = How::ALL.iter().flat_map(|how| found.examples(*how)).map(Leak::to_string).collect();
    assert_eq!(told[0], "match 9: a player sat down and had what player 7 of match 4 left");
    let mut all = Findings::default();
    all.add(found);
    assert_eq!(all.leaks(), 2);
}
