//! The three ends of the question whether a handoff is complete: it is, not yet, never.

use std::error::Error;
use std::fmt;

use crate::admission::Rejected;
use crate::handoff::{Inbound, InboundError, Refusal, Side};
use crate::id::TransferId;
use crate::memory::PageMemory;

/// Says why an inbound is no readable reservation.
#[derive(Debug)]
#[must_use = "an inbound that is not complete comes back in the error"]
pub enum AcceptError<M: PageMemory> {
    /// Something is still to come; the inbound comes back.
    NotYet(NotYet<M>),
    /// Something is wrong: the handoff is over.
    Refused(NotAccepted),
}

impl<M: PageMemory> AcceptError<M> {
    /// Returns what is missing, or wrong.
    #[must_use]
    pub fn error(&self) -> &InboundError {
        match self {
            Self::NotYet(not_yet) => not_yet.error(),
            Self::Refused(refused) => refused.error(),
        }
    }

    /// Ends the handoff also when something could still come: for an engine that knows that nothing will.
    pub fn give_up(self) -> NotAccepted {
        match self {
            Self::NotYet(not_yet) => not_yet.give_up(),
            Self::Refused(refused) => refused,
        }
    }
}

impl<M: PageMemory> fmt::Display for AcceptError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.error(), f)
    }
}

impl<M: PageMemory> Error for AcceptError<M> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error().source()
    }
}

/// An inbound for which something is still to come: a writer's end, a receipt, or bytes.
#[derive(Debug)]
#[must_use = "dropping it releases the pages of the inbound"]
pub struct NotYet<M: PageMemory> {
    inbound: Box<Inbound<M>>,
    error: Box<InboundError>,
}

impl<M: PageMemory> NotYet<M> {
    pub(in crate::handoff) fn new(inbound: Inbound<M>, error: InboundError) -> Self {
        Self { inbound: Box::new(inbound), error: Box::new(error) }
    }

    /// Returns the first thing that is missing.
    #[must_use]
    pub fn error(&self) -> &InboundError {
        &self.error
    }

    /// Gives the inbound back, to wait for what is missing.
    pub fn into_inbound(self) -> Inbound<M> {
        *self.inbound
    }

    /// Ends the handoff, with what is missing as its error: for an engine that knows that nothing more will come.
    pub fn give_up(self) -> NotAccepted {
        let (transfer, error) = (self.inbound.transfer(), *self.error);
        let rejected = self.inbound.reject(error.clone());
        NotAccepted::new(transfer, error, rejected)
    }
}

impl<M: PageMemory> fmt::Display for NotYet<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl<M: PageMemory> Error for NotYet<M> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

/// Says that a handoff was not accepted: the pages are released, nothing of them was readable, the request is over. Pages
/// of a writer that has not stopped stay quarantined until it has.
///
/// An [`Error`] whose text and source are those of [`error`](Self::error).
#[derive(Debug)]
#[must_use = "a rejection is an answer: tell the client, and the sender"]
pub struct NotAccepted {
    transfer: TransferId,
    error: Box<InboundError>,
    rejected: Rejected,
}

impl NotAccepted {
    pub(in crate::handoff) fn new(transfer: TransferId, error: InboundError, rejected: Rejected) -> Self {
        Self { transfer, error: Box::new(error), rejected }
    }

    /// Returns which handoff it was.
    #[must_use]
    pub const fn transfer(&self) -> TransferId {
        self.transfer
    }

    /// Returns the first mismatch.
    #[must_use]
    pub fn error(&self) -> &InboundError {
        &self.error
    }

    /// Makes the message that ends the handoff on the other side.
    pub fn refusal(&self) -> Refusal {
        Refusal::new(self.transfer, Side::Receiver, &*self.error)
    }

    /// Gives the request's end, which no function takes as a request. It keeps the mismatch as its reason.
    pub fn into_rejected(self) -> Rejected {
        self.rejected
    }
}

impl fmt::Display for NotAccepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl Error for NotAccepted {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}
