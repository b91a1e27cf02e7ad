//! The sender's end: committed tokens that an offer must ask for exactly.

use std::error::Error;
use std::fmt;
use std::ops::Range;

use crate::access::ReadGuard;
use crate::admission::Rejected;
use crate::error::{ReadError, Refused};
use crate::geometry::{Fingerprint, ModelLayout, Slice};
use crate::handle::PageHandle;
use crate::handoff::inbound::check_pool;
use crate::handoff::verdict::{CHECKSUM, tokens_in_page};
use crate::handoff::{Digester, Landing, Offer, OutboundError, Receipt, SealError};
use crate::id::OwnerId;
use crate::memory::{PageMemory, Scratch};
use crate::pool::Released;
use crate::reservation::Reservation;

/// Holds a prefill reservation whose committed tokens are sealed for a handoff.
///
/// The reservation lies inside, so that its pages stay and what is sealed neither grows nor shrinks. Dropping it releases
/// them; [`into_reservation`](Self::into_reservation) goes on with the request.
///
/// A request that was rejected is none that can be sent:
///
/// ```compile_fail,E0308
/// # use pagestamp::{geometry::*, *};
/// fn send_anyway(rejected: Rejected, model: &ModelLayout, slice: &Slice) {
///     let _: Result<Outbound<HostMemory>, _> = Outbound::seal(rejected, model, slice);
/// }
/// ```
#[must_use = "dropping the outbound releases its pages"]
pub struct Outbound<M: PageMemory> {
    reservation: Reservation<M>,
    model: ModelLayout,
    slice: Slice,
    /// fingerprint of model and slice
    meaning: Fingerprint,
}

impl<M: PageMemory> Outbound<M> {
    /// Seals the committed tokens of a reservation. What is written and not committed (drafts) is no part of it.
    ///
    /// # Cost
    ///
    /// O(planes); allocates.
    ///
    /// # Errors
    ///
    /// The reservation comes back, unchanged.
    ///
    /// - [`SealError::Unfit`]: the memory has no bytes, the slice is not of the model, or the pool has other pages.
    /// - [`SealError::Read`]: an outside writer or a device is at work on a page, or the owner was reclaimed.
    pub fn seal(
        reservation: Reservation<M>,
        model: &ModelLayout,
        slice: &Slice,
    ) -> Result<Self, Refused<Reservation<M>, SealError>> {
        match check_seal(&reservation, model, slice) {
            Ok(meaning) => Ok(Self { reservation, model: model.clone(), slice: slice.clone(), meaning }),
            Err(error) => Err(Refused::new(reservation, error)),
        }
    }

    /// Returns whose tokens are sealed.
    #[must_use]
    pub const fn owner(&self) -> OwnerId {
        self.reservation.owner()
    }

    /// Returns the tokens that are sealed.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.reservation.committed_tokens()
    }

    /// Returns the pages that the sealed tokens take.
    #[must_use]
    pub fn pages(&self) -> u32 {
        // at most the pages of the reservation, which an index counts
        self.reservation.pool().geometry().pages_for_tokens(self.tokens()) as u32
    }

    /// Returns the model whose cache is sealed.
    #[must_use]
    pub const fn model(&self) -> &ModelLayout {
        &self.model
    }

    /// Returns the part of the model that is sealed.
    #[must_use]
    pub const fn slice(&self) -> &Slice {
        &self.slice
    }

    /// Lists the handles of the pages that hold the sealed tokens, in sequence order; none when the owner was reclaimed.
    /// For an engine that moves the bytes itself: the n-th goes to the n-th destination of the offer.
    pub fn handles(&self) -> impl Iterator<Item = PageHandle<M>> {
        self.reservation.handles().take(self.pages() as usize)
    }

    /// Reads sealed tokens, as [`Reservation::read`]: for an engine that moves the bytes itself. Digest what was read here
    /// and not what was sent, or a receipt proves nothing.
    ///
    /// # Errors
    ///
    /// - [`ReadError::Unwritten`]: past what is sealed; drafts are no part of it.
    /// - [`ReadError::Backward`], [`ReadError::Busy`], [`ReadError::Pending`], [`ReadError::Revoked`]: as there.
    pub fn read(&self, tokens: Range<u64>) -> Result<ReadGuard<'_, M>, ReadError> {
        let written_tokens = self.tokens();
        if tokens.end > written_tokens {
            return Err(ReadError::Unwritten { to_tokens: tokens.end, written_tokens });
        }
        self.reservation.read(tokens)
    }

    /// Checks that an offer asks for what is sealed, no more and no less. [`send`](Self::send) does so too; an engine that
    /// moves the bytes itself calls this before it moves any.
    ///
    /// # Errors
    ///
    /// [`OutboundError::Owner`], [`OutboundError::Layout`], [`OutboundError::Slice`], [`OutboundError::Pages`],
    /// [`OutboundError::Tokens`], [`OutboundError::Checksum`]: the first in which the offer differs. Nothing is sent; answer
    /// with a [`Refusal`](super::Refusal).
    pub fn check(&self, offer: &Offer) -> Result<(), OutboundError> {
        if offer.owner() != self.owner() {
            return Err(OutboundError::Owner { expected: self.owner(), found: offer.owner() });
        }
        if *offer.model() != self.model {
            let (expected, found) = (Box::new(self.model.clone()), Box::new(offer.model().clone()));
            return Err(OutboundError::Layout { expected, found });
        }
        if *offer.slice() != self.slice {
            return Err(OutboundError::Slice { expected: self.slice.clone(), found: offer.slice().clone() });
        }
        let (sealed_tokens, found_tokens) = (self.tokens(), offer.tokens());
        let (expected_pages, found_pages) = (u64::from(self.pages()), offer.destinations().len() as u64);
        if found_pages != expected_pages {
            return Err(OutboundError::Pages { expected_pages, sealed_tokens, found_pages, found_tokens });
        }
        if found_tokens != sealed_tokens {
            return Err(OutboundError::Tokens { expected_tokens: sealed_tokens, found_tokens });
        }
        if offer.checksum() != CHECKSUM {
            return Err(OutboundError::Checksum { expected: CHECKSUM, found: offer.checksum() });
        }
        Ok(())
    }

    /// Copies what is sealed into an inbound of this process, and says what was sent. Digests in the same pass.
    ///
    /// # Cost
    ///
    /// O(bytes): two copies (through one plane of a page) and one digest.
    ///
    /// # Errors
    ///
    /// - As [`check`](Self::check), and [`OutboundError::Transfer`] when the landing is of another offer: before a byte moves.
    /// - [`OutboundError::Read`]: the owner was reclaimed.
    /// - [`OutboundError::Land`]: the receiver did not take a part. What landed before stays there, unreadable.
    pub fn send<N: PageMemory>(&self, offer: &Offer, landing: &mut Landing<'_, N>) -> Result<Receipt, OutboundError> {
        self.check(offer)?;
        if landing.transfer() != offer.transfer() {
            return Err(OutboundError::Transfer { expected: offer.transfer(), found: landing.transfer() });
        }
        let (tokens, pages) = (self.tokens(), self.pages());
        let geometry = self.reservation.pool().geometry();
        let digester = Digester::over(offer.transfer(), self.meaning);
        let guard = self.reservation.read(0..tokens)?;
        let mut digests = Vec::with_capacity(pages as usize);
        let mut scratch = Scratch::for_tokens(geometry, tokens_in_page(tokens, geometry.page_tokens(), 0));
        for (ordinal, view) in (0..pages).zip(guard.pages()) {
            let filled = view.tokens();
            let mut digest = digester.page(ordinal, filled.end);
            for (plane, shape) in geometry.planes().iter().enumerate() {
                let bytes = scratch.take((u64::from(filled.end) * shape.token_bytes()) as usize);
                view.copy(plane, bytes)?;
                digest.update(bytes);
                landing.put(ordinal, plane, filled.clone(), bytes)?;
            }
            digests.push(digest.finish());
        }
        let last_page_tokens = tokens_in_page(tokens, geometry.page_tokens(), pages.saturating_sub(1));
        let receipt = Receipt::new(offer.transfer(), self.owner(), self.model.clone(), self.slice.clone());
        Ok(receipt.with_extent(pages, tokens, last_page_tokens).with_digests(CHECKSUM, digests))
    }

    /// Goes on with the request after the handoff: the seal ends, the pages stay.
    pub fn into_reservation(self) -> Reservation<M> {
        self.reservation
    }

    /// Releases the pages, as [`Reservation::release`].
    #[expect(clippy::must_use_candidate, reason = "done for its effect; the answer is for reports")]
    pub fn release(self) -> Released {
        self.reservation.release()
    }

    /// Releases the pages and ends the request for good: `error` stays with the rejection.
    pub fn reject(self, error: impl Into<Box<dyn Error + Send + Sync>>) -> Rejected {
        self.reservation.reject(error)
    }
}

fn check_seal<M: PageMemory>(
    reservation: &Reservation<M>,
    model: &ModelLayout,
    slice: &Slice,
) -> Result<Fingerprint, SealError> {
    let meaning = check_pool::<M>(reservation.pool().geometry(), model, slice)?;
    drop(reservation.read(0..reservation.committed_tokens())?);
    Ok(meaning)
}

impl<M: PageMemory> fmt::Debug for Outbound<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbound").field("reservation", &self.reservation).finish_non_exhaustive()
    }
}
