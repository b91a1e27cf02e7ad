//! An offer that a sender has checked: which of its pages go where.

use std::ops::Range;

use crate::geometry::Slice;
use crate::handle::PageHandle;
use crate::handoff::verdict::expected::tokens_in_page;
use crate::handoff::{Checksum, Offer, Receipt, SentPart};
use crate::id::TransferId;
use crate::ticket::HolderId;

/// What one sender sends for one offer: its slice, page by page, in batches that the receiver allows.
///
/// A plain value, made by [`Outbound::start`](crate::handoff::Outbound::start) from an offer that fits what is sealed, and good for
/// that outbound alone.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "what was started is sent by `copy`, or by the engine itself"]
pub struct Sending {
    offer: Offer,
    outbound: TransferId,
    writer: HolderId,
    slice: Slice,
}

impl Sending {
    /// The caller checked the offer.
    pub(in crate::handoff) const fn new(offer: Offer, outbound: TransferId, writer: HolderId, slice: Slice) -> Self {
        Self { offer, outbound, writer, slice }
    }

    /// The outbound that it is for.
    pub(in crate::handoff) const fn outbound(&self) -> TransferId {
        self.outbound
    }

    /// Returns which handoff it is.
    #[must_use]
    pub const fn transfer(&self) -> TransferId {
        self.offer.transfer()
    }

    /// Returns which writer of the offer sends.
    #[must_use]
    pub const fn writer(&self) -> HolderId {
        self.writer
    }

    /// Returns the layers and heads that this sender sends.
    #[must_use]
    pub const fn slice(&self) -> &Slice {
        &self.slice
    }

    /// Returns the offer that is served.
    pub const fn offer(&self) -> &Offer {
        &self.offer
    }

    /// Returns the ordinals of all pages, those that the receiver holds included.
    #[must_use]
    pub fn all_pages(&self) -> Range<u32> {
        // as many as the sender has, which an index counts
        0..self.offer.destinations().len() as u32
    }

    /// Returns the ordinals of the pages that are to be sent.
    #[must_use]
    pub fn pages(&self) -> Range<u32> {
        // whole pages, no more than there are
        let held_pages = self.offer.held_tokens() / u64::from(self.offer.model().page_tokens());
        held_pages as u32..self.all_pages().end
    }

    /// Cuts the pages that are to be sent into batches: no more than one may be on its way at once.
    ///
    /// Pages that the receiver holds are in no batch, and have to be told all the same: give one more part for
    /// `0..pages().start`, which [`Outbound::copy`](crate::Outbound::copy) and [`Outbound::digest`](crate::Outbound::digest)
    /// only digest.
    pub fn batches(&self) -> impl Iterator<Item = Range<u32>> + use<> {
        let Range { start, end } = self.pages();
        let most = self.offer.batch_pages().get();
        let count = (end - start).div_ceil(most);
        (0..count).map(move |batch| {
            let first = start + batch * most;
            first..end.min(first.saturating_add(most))
        })
    }

    /// Returns the handle of the receiver's page with this ordinal, as
    /// [`PageHandle::to_bits`](crate::PageHandle::to_bits) packs it.
    #[must_use]
    pub fn destination(&self, ordinal: u32) -> Option<u128> {
        self.offer.destinations().get(ordinal as usize).copied()
    }

    /// Returns the index in the receiver's pool of every page, in sequence order: what a
    /// [`Stretch`](crate::handoff::Stretch) takes.
    #[must_use]
    pub fn destination_pages(&self) -> Vec<u32> {
        // each was found to be a handle before the transfer began
        let handles = self.offer.destinations().iter().filter_map(|bits| PageHandle::<()>::from_bits(*bits));
        handles.map(|handle| handle.index()).collect()
    }

    /// Returns how pages are digested.
    #[must_use]
    pub const fn checksum(&self) -> Checksum {
        self.offer.checksum()
    }

    /// Says what was sent, in parts that [`Outbound::copy`](crate::handoff::Outbound::copy) or
    /// [`Outbound::digest`](crate::handoff::Outbound::digest) made, or the engine itself. A sender that streams gives several
    /// receipts, each for other parts.
    pub fn receipt(&self, parts: Vec<SentPart>) -> Receipt {
        let (offer, pages) = (&self.offer, self.all_pages().end);
        let last_page_tokens = tokens_in_page(offer.tokens(), offer.model().page_tokens(), pages.saturating_sub(1));
        Receipt::new(offer.transfer(), offer.owner(), offer.model().clone(), self.writer)
            .with_extent(pages, offer.tokens(), last_page_tokens)
            .with_held_tokens(offer.held_tokens())
            .with_parts(offer.checksum(), parts)
    }
}
