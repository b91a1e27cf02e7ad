//! The receiver's end: a reservation that becomes readable when everything fits.

use std::error::Error;
use std::fmt;

use crate::access::WriteBorrow;
use crate::admission::Rejected;
use crate::error::Refused;
use crate::filling::Filling;
use crate::geometry::{Fingerprint, ModelLayout, PageGeometry, Slice};
use crate::handoff::coverage::Coverage;
use crate::handoff::verdict::{CHECKSUM, Expected};
use crate::handoff::{
    Digester, InboundError, LandError, Landing, NotAccepted, Offer, OpenError, Receipt, Refusal, Side, UnfitPool,
};
use crate::id::{OwnerId, TransferId};
use crate::memory::{PageMemory, Scratch};
use crate::reservation::Reservation;

/// Holds a decode reservation while another pool fills it. Nobody can read it until it is accepted.
///
/// Dropping it releases the pages (those of a [claim](crate::Request::with_claim) that nobody confirmed wait for the next
/// try, unreadable): the handoff is over, and a receipt that comes later fits nothing.
///
/// A request that was rejected is none that can be received:
///
/// ```compile_fail,E0308
/// # use pagestamp::{geometry::*, *};
/// fn receive_anyway(rejected: Rejected, model: &ModelLayout, slice: &Slice) {
///     let _: Result<Inbound<HostMemory>, _> = Inbound::open(rejected, model, slice, 1);
/// }
/// ```
#[must_use = "dropping the inbound releases its pages"]
pub struct Inbound<M: PageMemory> {
    filling: Filling<M>,
    expected: Expected,
    coverage: Coverage,
}

impl<M: PageMemory> Inbound<M> {
    /// Opens a handoff into an empty reservation, for the first `tokens` tokens of it. What is reserved beyond stays
    /// local, empty and zero.
    ///
    /// The pool's pages must have the shape of the slice. Each call names a new transfer.
    ///
    /// # Cost
    ///
    /// O(pages + planes); allocates.
    ///
    /// # Errors
    ///
    /// The reservation comes back, with the extents that it had.
    ///
    /// - [`OpenError::Unfit`]: the memory has no bytes, the slice is not of the model, or the pool has other pages.
    /// - [`OpenError::PastReserved`]: more is expected than was reserved.
    /// - [`OpenError::AlreadyWritten`]: the reservation is not empty.
    /// - [`OpenError::Write`]: an outside writer or a device is at work on a page, or the owner was reclaimed.
    pub fn open(
        reservation: Reservation<M>,
        model: &ModelLayout,
        slice: &Slice,
        tokens: u64,
    ) -> Result<Self, Refused<Reservation<M>, OpenError>> {
        let meaning = match check_open(&reservation, model, slice, tokens) {
            Ok(meaning) => meaning,
            Err(error) => return Err(Refused::new(reservation, error)),
        };
        let filling = Filling::begin(reservation, tokens).map_err(|refused| {
            let (reservation, error) = refused.into_parts();
            Refused::new(reservation, error.into())
        })?;
        let pool = filling.reservation().pool();
        let (transfer, owner) = (pool.inner.next_transfer(), filling.reservation().owner());
        let geometry = pool.geometry();
        // at most the pages of the reservation, which an index counts
        let pages = geometry.pages_for_tokens(tokens) as u32;
        let coverage = Coverage::new(pages, geometry.planes().len());
        let (model, slice) = (model.clone(), slice.clone());
        let digester = Digester::over(transfer, meaning);
        let expected = Expected { transfer, owner, model, slice, tokens, pages, digester };
        Ok(Self { filling, expected, coverage })
    }

    /// Returns which handoff it is.
    #[must_use]
    pub const fn transfer(&self) -> TransferId {
        self.expected.transfer
    }

    /// Returns whose pages they are.
    #[must_use]
    pub const fn owner(&self) -> OwnerId {
        self.expected.owner
    }

    /// Returns the tokens that are expected.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.expected.tokens
    }

    /// Returns the pages that are expected: those of the expected tokens, not all that are reserved.
    #[must_use]
    pub const fn pages(&self) -> u32 {
        self.expected.pages
    }

    /// Returns the pages that have landed in every plane.
    ///
    /// # Cost
    ///
    /// O(pages * planes).
    #[must_use]
    pub fn complete_pages(&self) -> u32 {
        self.coverage.complete_pages(|page| self.expected.tokens_in(page))
    }

    /// Says what is expected and where it may go, for the sender.
    ///
    /// # Cost
    ///
    /// O(pages); allocates. Once the owner was reclaimed it names no pages, and no sender accepts it.
    pub fn offer(&self) -> Offer {
        let Expected { transfer, owner, model, slice, tokens, pages, .. } = &self.expected;
        let handles = self.filling.reservation().handles().take(*pages as usize);
        let destinations = handles.map(|handle| handle.to_bits()).collect();
        Offer::new(*transfer, *owner, model.clone(), slice.clone())
            .with_tokens(*tokens, destinations)
            .with_checksum(CHECKSUM)
    }

    /// Opens the pages for bytes that come within this process.
    ///
    /// # Errors
    ///
    /// - [`LandError::Write`]: the owner was reclaimed.
    pub fn landing(&mut self) -> Result<Landing<'_, M>, LandError> {
        let Self { filling, expected, coverage } = self;
        Ok(Landing { right: filling.right()?, expected, coverage })
    }

    /// Ends the handoff: if the receipt and everything that landed is what was reserved, the tokens become written and
    /// committed, and the reservation is readable.
    ///
    /// The bytes that landed are digested here; the sender's word counts for nothing.
    ///
    /// # Cost
    ///
    /// O(bytes): one read and digest of all that landed. Allocates one plane of a page.
    ///
    /// # Memory ordering
    ///
    /// Release: a reader that sees the new extent sees the bytes that were verified.
    ///
    /// # Errors
    ///
    /// [`NotAccepted`] with the first [`InboundError`]: the pages are released, cleaned as the pool is set up, and nothing
    /// of them was ever readable. The request is [`Rejected`].
    pub fn accept(self, receipt: &Receipt) -> Result<Reservation<M>, NotAccepted> {
        let Self { filling, expected, coverage } = self;
        let verdict = filling.finish(|right| {
            expected.judge(receipt, &coverage)?;
            verify(right, &expected, receipt)
        });
        verdict.map_err(|(reservation, error)| {
            let rejected = reservation.reject(error.clone());
            NotAccepted::new(expected.transfer, error, rejected)
        })
    }

    /// Makes the message that ends the handoff on the other side, for an error found here.
    pub fn refusal(&self, error: &(dyn Error + 'static)) -> Refusal {
        Refusal::new(self.transfer(), Side::Receiver, error)
    }

    /// Releases the pages and ends the request for good: `error` stays with the rejection.
    pub fn reject(self, error: impl Into<Box<dyn Error + Send + Sync>>) -> Rejected {
        self.filling.abandon().reject(error)
    }
}

/// Checks what needs no page touched.
fn check_open<M: PageMemory>(
    reservation: &Reservation<M>,
    model: &ModelLayout,
    slice: &Slice,
    tokens: u64,
) -> Result<Fingerprint, OpenError> {
    let meaning = check_pool::<M>(reservation.pool().geometry(), model, slice)?;
    let (written_tokens, reserved_tokens) = (reservation.written_tokens(), reservation.reserved_tokens());
    if tokens > reserved_tokens {
        return Err(OpenError::PastReserved { tokens, reserved_tokens });
    }
    if written_tokens > 0 {
        return Err(OpenError::AlreadyWritten { written_tokens });
    }
    Ok(meaning)
}

/// Checks that pages of a pool hold a slice of a model, bytes and all, and answers what their bytes mean.
pub(super) fn check_pool<M: PageMemory>(
    pool: &PageGeometry,
    model: &ModelLayout,
    slice: &Slice,
) -> Result<Fingerprint, UnfitPool> {
    if !M::HAS_BYTES {
        return Err(UnfitPool::NoBytes { memory: M::NAME });
    }
    let layout = model.geometry(slice)?;
    if layout != *pool {
        return Err(UnfitPool::Geometry { layout, pool: pool.clone() });
    }
    Ok(model.slice_fingerprint(slice)?)
}

/// Digests what landed, and compares.
fn verify<M: PageMemory>(
    right: &mut WriteBorrow<'_, M>,
    expected: &Expected,
    receipt: &Receipt,
) -> Result<(), InboundError> {
    let planes = right.planes();
    let mut scratch = Scratch::for_tokens(right.geometry(), expected.tokens_in(0));
    for (page, found) in (0..expected.pages).zip(receipt.digests()) {
        let tokens = expected.tokens_in(page);
        let mut digest = expected.digester.page(page, tokens);
        for plane in 0..planes {
            let bytes = scratch.take((u64::from(tokens) * right.token_bytes(plane)) as usize);
            right.load_part(page, plane, 0..tokens, bytes)?;
            digest.update(bytes);
        }
        let (expected, found) = (digest.finish(), *found);
        if expected != found {
            return Err(InboundError::Digest { page, expected, found });
        }
    }
    Ok(())
}

impl<M: PageMemory> fmt::Debug for Inbound<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbound")
            .field("transfer", &self.transfer())
            .field("tokens", &self.tokens())
            .field("reservation", self.filling.reservation())
            .finish_non_exhaustive()
    }
}
