//! The second message: what prefill says it sent.

use crate::geometry::{ModelLayout, Slice};
use crate::handoff::{Checksum, Digest};
use crate::id::{OwnerId, TransferId};

/// Says what a sender sent: prefill to decode.
///
/// A plain value that proves nothing: the receiver compares it with what it reserved and with what landed, in
/// [`Inbound::accept`](super::Inbound::accept). [`Outbound::send`](super::Outbound::send) makes it; `new` is for one that
/// arrived as a message, or for an engine that sends by itself. What is not said counts as nothing, which fits no
/// reservation of tokens.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "a receipt is a message to the receiver"]
pub struct Receipt {
    transfer: TransferId,
    owner: OwnerId,
    model: ModelLayout,
    slice: Slice,
    pages: u32,
    tokens: u64,
    last_page_tokens: u32,
    checksum: Checksum,
    digests: Vec<Digest>,
}

impl Receipt {
    /// Begins a receipt for nothing.
    pub const fn new(transfer: TransferId, owner: OwnerId, model: ModelLayout, slice: Slice) -> Self {
        Self {
            transfer,
            owner,
            model,
            slice,
            pages: 0,
            tokens: 0,
            last_page_tokens: 0,
            checksum: Checksum::Nothing,
            digests: Vec::new(),
        }
    }

    /// Sets what was sent: pages, tokens in all, and tokens in the last page.
    pub const fn with_extent(mut self, pages: u32, tokens: u64, last_page_tokens: u32) -> Self {
        (self.pages, self.tokens, self.last_page_tokens) = (pages, tokens, last_page_tokens);
        self
    }

    /// Sets how pages were digested, and the digest of each page in sequence order.
    pub fn with_digests(mut self, checksum: Checksum, digests: Vec<Digest>) -> Self {
        (self.checksum, self.digests) = (checksum, digests);
        self
    }

    /// Returns which handoff it is.
    #[must_use]
    pub const fn transfer(&self) -> TransferId {
        self.transfer
    }

    /// Returns whose pages were sent.
    #[must_use]
    pub const fn owner(&self) -> OwnerId {
        self.owner
    }

    /// Returns the model whose cache was sent.
    #[must_use]
    pub const fn model(&self) -> &ModelLayout {
        &self.model
    }

    /// Returns the part of the model that was sent.
    #[must_use]
    pub const fn slice(&self) -> &Slice {
        &self.slice
    }

    /// Returns the pages that were sent.
    #[must_use]
    pub const fn pages(&self) -> u32 {
        self.pages
    }

    /// Returns the tokens that were sent.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Returns the tokens in the last page that was sent; 0 when none was.
    #[must_use]
    pub const fn last_page_tokens(&self) -> u32 {
        self.last_page_tokens
    }

    /// Returns how pages were digested.
    #[must_use]
    pub const fn checksum(&self) -> Checksum {
        self.checksum
    }

    /// Returns the digest of each page, in sequence order.
    #[must_use]
    pub fn digests(&self) -> &[Digest] {
        &self.digests
    }
}
