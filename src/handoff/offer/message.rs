//! The first message: what decode has room for.

use std::num::NonZeroU32;

use crate::geometry::{ModelLayout, Slice};
use crate::handoff::{Checksum, Writer};
use crate::id::{OwnerId, PoolId, TransferId};

/// Says what a receiver expects and where it may go: decode to prefill.
///
/// A plain value, which grants nothing: a sender takes it apart by [`Outbound::check`](crate::handoff::Outbound::check).
/// [`Inbound::offer`](crate::handoff::Inbound::offer) makes it; `new` is for one that arrived as a message. What is not said
/// counts as nothing, which no sender accepts.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "an offer is a message to the sender"]
pub struct Offer {
    transfer: TransferId,
    owner: OwnerId,
    model: ModelLayout,
    slice: Slice,
    writers: Vec<Writer>,
    tokens: u64,
    held_tokens: u64,
    destinations: Vec<u128>,
    checksum: Checksum,
    batch_pages: NonZeroU32,
}

impl Offer {
    /// Begins an offer of no tokens, to nobody.
    pub const fn new(transfer: TransferId, owner: OwnerId, model: ModelLayout, slice: Slice) -> Self {
        Self {
            transfer,
            owner,
            model,
            slice,
            writers: Vec::new(),
            tokens: 0,
            held_tokens: 0,
            destinations: Vec::new(),
            checksum: Checksum::BytesUnverified,
            batch_pages: NonZeroU32::MAX,
        }
    }

    /// Sets who is expected to send which slice.
    pub fn with_writers(mut self, writers: Vec<Writer>) -> Self {
        self.writers = writers;
        self
    }

    /// Sets the tokens that are expected, and for each page of them the handle of its destination in sequence order, as
    /// [`PageHandle::to_bits`](crate::PageHandle::to_bits) packs it. Pages that the receiver holds are among them.
    pub fn with_tokens(mut self, tokens: u64, destinations: Vec<u128>) -> Self {
        (self.tokens, self.destinations) = (tokens, destinations);
        self
    }

    /// Sets the tokens that the receiver holds already, in whole pages: they are not sent, only digested.
    pub const fn with_held_tokens(mut self, held_tokens: u64) -> Self {
        self.held_tokens = held_tokens;
        self
    }

    /// Sets how pages are to be digested.
    pub const fn with_checksum(mut self, checksum: Checksum) -> Self {
        self.checksum = checksum;
        self
    }

    /// Sets the most pages that may be on their way at once; without limit at first.
    pub const fn with_batch_pages(mut self, batch_pages: NonZeroU32) -> Self {
        self.batch_pages = batch_pages;
        self
    }

    /// Returns which handoff it is.
    #[must_use]
    pub const fn transfer(&self) -> TransferId {
        self.transfer
    }

    /// Returns the pool that receives.
    #[must_use]
    pub const fn pool(&self) -> PoolId {
        self.transfer.pool()
    }

    /// Returns whose pages they are.
    #[must_use]
    pub const fn owner(&self) -> OwnerId {
        self.owner
    }

    /// Returns the model that the receiver serves.
    #[must_use]
    pub const fn model(&self) -> &ModelLayout {
        &self.model
    }

    /// Returns the part of the model that the receiver expects, from all writers together.
    #[must_use]
    pub const fn slice(&self) -> &Slice {
        &self.slice
    }

    /// Returns who is expected to send which slice.
    #[must_use]
    pub fn writers(&self) -> &[Writer] {
        &self.writers
    }

    /// Returns the tokens that are expected, those that the receiver holds included.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Returns the tokens that the receiver holds already.
    #[must_use]
    pub const fn held_tokens(&self) -> u64 {
        self.held_tokens
    }

    /// Returns the handles of the receiver's pages in sequence order, as
    /// [`PageHandle::to_bits`](crate::PageHandle::to_bits) packs them; those that it holds already come first and are not
    /// to be filled.
    #[must_use]
    pub fn destinations(&self) -> &[u128] {
        &self.destinations
    }

    /// Returns how pages are to be digested.
    #[must_use]
    pub const fn checksum(&self) -> Checksum {
        self.checksum
    }

    /// Returns the most pages that may be on their way at once.
    #[must_use]
    pub const fn batch_pages(&self) -> NonZeroU32 {
        self.batch_pages
    }
}
