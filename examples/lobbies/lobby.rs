//! One match, from the lobby to its end.

use crate::chance::Chance;
use crate::findings::{Findings, How};
use crate::mail::{Letter, Mail, SLOWEST, Wish};
use crate::seat::{Denied, SEATS, Seats};

/// Ticks for which a match is played, at least and at most.
const SHORTEST: usize = 5;
const LONGEST: usize = 20;

/// A seat of the match, if it has one there, and who sits in it.
#[derive(Clone, Copy)]
struct Place<A> {
    at: Option<A>,
    player: Option<u64>,
}

/// A match, as its worker knows it.
pub(crate) struct Lobby<S: Seats> {
    match_id: u64,
    group: S::Group,
    places: [Place<S::Address>; SEATS],
    /// Players that have sat down since it opened.
    players: u64,
    /// Ticks that are left once the match is played; `None` before everybody is there.
    ticks_left: Option<usize>,
}

/// How a tick of a match ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    GoesOn,
    Over,
    Crashes,
}

/// What a match works with.
pub(crate) struct Around<'a, S: Seats> {
    pub(crate) seats: &'a S,
    pub(crate) mail: &'a Mail<S::Address>,
    pub(crate) chance: &'a mut Chance,
    pub(crate) found: &'a mut Findings,
}

impl<S: Seats> Lobby<S> {
    /// Opens a match, if eight seats are free.
    pub(crate) fn open(match_id: u64, around: &mut Around<'_, S>) -> Option<Self> {
        let Some((group, addresses)) = around.seats.open(match_id) else {
            around.found.full += 1;
            return None;
        };
        around.found.claims += 1;
        let places = addresses.map(|at| Place { at: Some(at), player: None });
        let mut lobby = Self { match_id, group, places, players: 0, ticks_left: None };
        // Only the host is there yet.
        lobby.sit_down(0, around);
        Some(lobby)
    }

    pub(crate) fn tick(&mut self, around: &mut Around<'_, S>) -> Fate {
        self.look_at_all(around);
        if around.chance.once_in(1000) {
            around.found.crashes += 1;
            return Fate::Crashes;
        }
        for place in 0..SEATS {
            if self.places[place].player.is_none() && around.chance.once_in(2) {
                self.sit_down(place, around);
            }
        }
        let everybody = self.places.iter().all(|place| place.player.is_some());
        let ticks_left = match self.ticks_left {
            None if everybody => SHORTEST + around.chance.below(LONGEST - SHORTEST),
            None => return Fate::GoesOn,
            Some(0) => return Fate::Over,
            Some(ticks) => ticks - 1,
        };
        self.ticks_left = Some(ticks_left);
        for place in 0..SEATS {
            self.play(place, around);
        }
        Fate::GoesOn
    }

    /// Gives the seats back.
    pub(crate) fn end(self, fate: Fate, seats: &S) {
        let all: Vec<S::Address> = self.places.iter().filter_map(|place| place.at).collect();
        match fate {
            Fate::Crashes => seats.crash(self.match_id, self.group, &all),
            _ => seats.close(self.match_id, self.group, &all),
        }
    }

    /// What every server does in every tick: goes over all seats of the match, taken or not.
    fn look_at_all(&self, around: &mut Around<'_, S>) {
        for place in self.places {
            let Some(at) = place.at else { continue };
            around.found.looks += 1;
            match around.seats.look(self.match_id, at) {
                Ok(seat) => {
                    around.found.judge(How::Saw, self.match_id, &seat);
                    let is_own = seat.match_id == self.match_id;
                    around.found.lost += u64::from(is_own && place.player.is_some_and(|player| player != seat.player));
                }
                Err(Denied::Busy) => around.found.busy += 1,
                // Nobody sits there yet.
                Err(Denied::Empty) if place.player.is_none() => {}
                Err(Denied::Empty | Denied::Late) => around.found.lost += 1,
            }
        }
    }

    fn sit_down(&mut self, place: usize, around: &mut Around<'_, S>) {
        let at = match self.places[place].at {
            Some(at) => at,
            None => {
                let Some(at) = around.seats.open_one(self.match_id) else {
                    around.found.full += 1;
                    return;
                };
                around.found.claims += 1;
                self.places[place].at = Some(at);
                at
            }
        };
        let player = self.players + 1;
        match around.seats.sit(self.match_id, at, player) {
            Ok(before) => {
                around.found.judge(How::SatOn, self.match_id, &before);
                self.places[place].player = Some(player);
                self.players = player;
            }
            Err(Denied::Busy) => around.found.busy += 1,
            Err(Denied::Empty | Denied::Late) => around.found.lost += 1,
        }
    }

    /// A player gives, or leaves.
    fn play(&mut self, place: usize, around: &mut Around<'_, S>) {
        let (Some(at), Some(_)) = (self.places[place].at, self.places[place].player) else { return };
        if around.chance.once_in(3)
            && let Some(to) = self.places[around.chance.below(SEATS)].at
        {
            let delay_ticks =
                if around.chance.once_in(16) { around.chance.below(SLOWEST) } else { around.chance.below(4) };
            self.post(to, Wish::Gift, delay_ticks, around);
            if around.chance.once_in(16) {
                self.post(to, Wish::Gift, delay_ticks + 1, around);
            }
        } else if around.chance.once_in(100) {
            // The player says goodbye, and the network says it again.
            self.places[place] = Place { at: None, player: None };
            match around.seats.leave(self.match_id, at) {
                Ok(()) => {}
                Err(_) => around.found.lost += 1,
            }
            if around.chance.once_in(4) {
                let delay_ticks = around.chance.below(SLOWEST);
                self.post(at, Wish::Goodbye, delay_ticks, around);
            }
        }
    }

    fn post(&self, at: S::Address, wish: Wish, delay_ticks: usize, around: &mut Around<'_, S>) {
        let worker = around.chance.below(around.mail.workers());
        around.mail.send(worker, Letter { match_id: self.match_id, at, wish, delay_ticks });
    }
}
