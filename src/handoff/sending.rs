//! An offer that a sender has checked: which of its pages go where.

use std::num::NonZeroU32;
use std::ops::Range;

use crate::geometry::Slice;
use crate::handoff::{Checksum, Offer};
use crate::id::TransferId;

/// What one sender sends for one offer: its slice, page by page, in batches that the receiver allows.
///
/// A plain value, made by [`Outbound::start`](super::Outbound::start) from an offer that fits what is sealed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "what was started is sent by `copy`, or by the engine itself"]
pub struct Sending {
    transfer: TransferId,
    slice: Slice,
    held_tokens: u64,
    held_pages: u32,
    destinations: Vec<u128>,
    checksum: Checksum,
    batch_pages: NonZeroU32,
}

impl Sending {
    /// The caller checked the offer.
    pub(super) fn new(offer: &Offer, slice: Slice, held_pages: u32) -> Self {
        Self {
            transfer: offer.transfer(),
            slice,
            held_tokens: offer.held_tokens(),
            held_pages,
            destinations: offer.destinations().to_vec(),
            checksum: offer.checksum(),
            batch_pages: offer.batch_pages(),
        }
    }

    /// Returns which handoff it is.
    #[must_use]
    pub const fn transfer(&self) -> TransferId {
        self.transfer
    }

    /// Returns the layers and heads that this sender sends.
    #[must_use]
    pub const fn slice(&self) -> &Slice {
        &self.slice
    }

    /// Returns the tokens that the receiver holds: they are digested and not sent.
    #[must_use]
    pub const fn held_tokens(&self) -> u64 {
        self.held_tokens
    }

    /// Returns the ordinals of all pages, those that the receiver holds included.
    #[must_use]
    pub fn all_pages(&self) -> Range<u32> {
        // as many as the sender has, which an index counts
        0..self.destinations.len() as u32
    }

    /// Returns the ordinals of the pages that are to be sent.
    #[must_use]
    pub fn pages(&self) -> Range<u32> {
        self.held_pages..self.all_pages().end
    }

    /// Cuts the pages that are to be sent into batches: no more than one may be on its way at once.
    pub fn batches(&self) -> impl Iterator<Item = Range<u32>> + use<> {
        let Range { start, end } = self.pages();
        let most = self.batch_pages.get();
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
        self.destinations.get(ordinal as usize).copied()
    }

    /// Returns how pages are digested.
    #[must_use]
    pub const fn checksum(&self) -> Checksum {
        self.checksum
    }
}
