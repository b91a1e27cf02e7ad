//! A reservation whose next tokens are filled in any order of pages and planes, before any of them counts as written.
//!
//! *Owns* the reservation meanwhile, so that nobody reads or writes it, and the one step that makes all the tokens written
//! and committed. *Does not know* what the bytes should be: whoever finishes says so.
//!
//! **Invariant** [`WriteBorrow::again`](crate::access::WriteBorrow::again) is sound because a `Filling` exists only after
//! the pages were prepared, keeps the reservation to itself, and ends when the tokens become written.

use std::fmt;
use std::ops::Range;

use crate::access::WriteBorrow;
use crate::error::{Refused, WriteError};
use crate::memory::PageMemory;
use crate::reservation::Reservation;

pub(crate) struct Filling<M: PageMemory> {
    reservation: Reservation<M>,
    tokens: Range<u64>,
}

impl<M: PageMemory> Filling<M> {
    /// Takes a reservation over, to fill the `tokens` tokens after those that are written. The reservation comes back with
    /// an error.
    pub(crate) fn begin(
        mut reservation: Reservation<M>,
        tokens: u64,
    ) -> Result<Self, Refused<Reservation<M>, WriteError>> {
        match reservation.prepare_filling(tokens) {
            Ok(tokens) => Ok(Self { reservation, tokens }),
            Err(error) => Err(Refused::new(reservation, error)),
        }
    }

    pub(crate) const fn reservation(&self) -> &Reservation<M> {
        &self.reservation
    }

    /// The right to store parts, and to look at what was stored.
    pub(crate) fn right(&mut self) -> Result<WriteBorrow<'_, M>, WriteError> {
        self.reservation.right_to_fill(self.tokens.clone())
    }

    /// Makes all the tokens written and committed if `check` finds them good, without letting go in between. Else the
    /// reservation comes back as it was before.
    pub(crate) fn finish<E: From<WriteError>>(
        mut self,
        check: impl FnOnce(&mut WriteBorrow<'_, M>) -> Result<(), E>,
    ) -> Result<Reservation<M>, (Reservation<M>, E)> {
        let checked = self.right().map_err(E::from).and_then(|mut right| {
            check(&mut right)?;
            right.publish();
            Ok(())
        });
        match checked {
            Ok(()) => Ok(self.reservation.filled(self.tokens.end)),
            Err(error) => Err((self.reservation, error)),
        }
    }

    /// Gives the reservation back, with none of the tokens written.
    pub(crate) fn abandon(self) -> Reservation<M> {
        self.reservation
    }
}

impl<M: PageMemory> fmt::Debug for Filling<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filling").field("reservation", &self.reservation).field("tokens", &self.tokens).finish()
    }
}
