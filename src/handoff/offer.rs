//! The first message: what decode has room for.

use crate::geometry::{ModelLayout, Slice};
use crate::handoff::Checksum;
use crate::id::{OwnerId, PoolId, TransferId};

/// Says what a receiver expects and where it may go: decode to prefill.
///
/// A plain value, which grants nothing: a sender takes it apart by [`Outbound::check`](super::Outbound::check).
/// [`Inbound::offer`](super::Inbound::offer) makes it; `new` is for one that arrived as a message. What is not said
/// counts as nothing, which no sender accepts.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "an offer is a message to the sender"]
pub struct Offer {
    transfer: TransferId,
    owner: OwnerId,
    model: ModelLayout,
    slice: Slice,
    tokens: u64,
    destinations: Vec<u128>,
    checksum: Checksum,
}

impl Offer {
    /// Begins an offer of no tokens.
    pub const fn new(transfer: TransferId, owner: OwnerId, model: ModelLayout, slice: Slice) -> Self {
        Self { transfer, owner, model, slice, tokens: 0, destinations: Vec::new(), checksum: Checksum::Nothing }
    }

    /// Sets the tokens that are expected, and for each page of them the handle of its destination in sequence order, as
    /// [`PageHandle::to_bits`](crate::PageHandle::to_bits) packs it.
    pub fn with_tokens(mut self, tokens: u64, destinations: Vec<u128>) -> Self {
        (self.tokens, self.destinations) = (tokens, destinations);
        self
    }

    /// Sets how pages are to be digested.
    pub const fn with_checksum(mut self, checksum: Checksum) -> Self {
        self.checksum = checksum;
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

    /// Returns the part of the model that the receiver expects.
    #[must_use]
    pub const fn slice(&self) -> &Slice {
        &self.slice
    }

    /// Returns the tokens that are expected.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Returns the handles of the pages that are to be filled, in sequence order, as
    /// [`PageHandle::to_bits`](crate::PageHandle::to_bits) packs them.
    #[must_use]
    pub fn destinations(&self) -> &[u128] {
        &self.destinations
    }

    /// Returns how pages are to be digested.
    #[must_use]
    pub const fn checksum(&self) -> Checksum {
        self.checksum
    }
}
