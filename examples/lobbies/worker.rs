//! A thread of the server: its matches, tick by tick, and the letters that come to it.

use crate::chance::Chance;
use crate::findings::{Findings, How};
use crate::lobby::{Around, Fate, Lobby};
use crate::mail::{Letter, Wheel, Wish};
use crate::seat::{Denied, Seats};
use crate::server::Server;

/// Plays matches until there are none left. Gives what it found, and the letters that still are on their way.
pub(crate) fn work<S: Seats>(server: &Server<'_, S>, number: usize) -> (Findings, Wheel<S::Address>) {
    let (mut found, mut chance) = (Findings::default(), Chance::new(number as u64));
    let (mut wheel, mut lobbies, mut next) = (Wheel::new(), Vec::new(), server.next_match());
    while next.is_some() || !lobbies.is_empty() {
        deliver_due(server, number, &mut wheel, &mut found);
        let mut around = Around { seats: server.seats, mail: &server.mail, chance: &mut chance, found: &mut found };
        while let Some(match_id) = next.filter(|_| lobbies.len() < server.open_per_worker) {
            let Some(lobby) = Lobby::open(match_id, &mut around) else { break };
            lobbies.push(lobby);
            next = server.next_match();
        }
        lobbies = lobbies.into_iter().filter_map(|lobby| go_on(server, lobby, &mut around)).collect();
    }
    (found, wheel)
}

/// A tick of a match; `None` when it was its last.
fn go_on<S: Seats>(server: &Server<'_, S>, mut lobby: Lobby<S>, around: &mut Around<'_, S>) -> Option<Lobby<S>> {
    match lobby.tick(around) {
        Fate::GoesOn => Some(lobby),
        fate => {
            lobby.end(fate, around.seats);
            server.one_is_over();
            None
        }
    }
}

/// Delivers what is due in this tick.
pub(crate) fn deliver_due<S: Seats>(
    server: &Server<'_, S>,
    number: usize,
    wheel: &mut Wheel<S::Address>,
    found: &mut Findings,
) {
    server.mail.receive(number).into_iter().for_each(|letter| wheel.keep(letter));
    for letter in wheel.turn() {
        match deliver(server.seats, &letter, found) {
            Ok(()) => found.letters += 1,
            Err(Denied::Late) => {
                found.letters += 1;
                found.stale_refused += 1;
            }
            Err(Denied::Busy) => {
                found.busy += 1;
                wheel.keep(Letter { delay_ticks: 1, ..letter });
            }
            // A gift for somebody who is still on the way is no gift.
            Err(Denied::Empty) => found.letters += 1,
        }
    }
}

fn deliver<S: Seats>(seats: &S, letter: &Letter<S::Address>, found: &mut Findings) -> Result<(), Denied> {
    match letter.wish {
        Wish::Gift => {
            let seat = seats.change(letter.match_id, letter.at, |seat| seat.take_gift(letter.match_id))?;
            found.judge(How::Changed, letter.match_id, &seat);
            Ok(())
        }
        Wish::Goodbye => seats.leave(letter.match_id, letter.at),
    }
}
