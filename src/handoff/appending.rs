//! What a sender may still do with a reservation that is being handed over: add to it.

use crate::error::{ExtentError, GrowError, WriteError};
use crate::memory::PageMemory;
use crate::plane_writer::PlaneWriter;
use crate::reservation::Reservation;

/// Lends the part of a reservation that lies past what is sealed. Each call is that of [`Reservation`]; there is none that
/// rolls back, shrinks or releases.
#[derive(Debug)]
#[must_use = "it is lent to add tokens"]
pub struct Appending<'a, M: PageMemory> {
    reservation: &'a mut Reservation<M>,
}

impl<'a, M: PageMemory> Appending<'a, M> {
    pub(super) const fn new(reservation: &'a mut Reservation<M>) -> Self {
        Self { reservation }
    }

    /// Returns the reservation, to look at.
    pub const fn reservation(&self) -> &Reservation<M> {
        self.reservation
    }

    /// As [`Reservation::grow`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn grow(&mut self, to_tokens: u64) -> Result<(), GrowError> {
        self.reservation.grow(to_tokens)
    }

    /// As [`Reservation::write`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn write(&mut self, tokens: u64, planes: &[&[u8]]) -> Result<(), WriteError> {
        self.reservation.write(tokens, planes)
    }

    /// As [`Reservation::writer`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn writer(&mut self, tokens: u64) -> Result<PlaneWriter<'_, M>, WriteError> {
        self.reservation.writer(tokens)
    }

    /// As [`Reservation::assume_written`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn assume_written(&mut self, to_tokens: u64) -> Result<(), ExtentError> {
        self.reservation.assume_written(to_tokens)
    }

    /// As [`Reservation::commit`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn commit(&mut self, to_tokens: u64) -> Result<(), ExtentError> {
        self.reservation.commit(to_tokens)
    }
}
