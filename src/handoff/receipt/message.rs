//! The second message: what prefill says it sent.

use crate::geometry::ModelLayout;
use crate::handoff::{Checksum, SentPart};
use crate::id::{OwnerId, TransferId};
use crate::ticket::HolderId;

/// Says what one writer sent: prefill to decode.
///
/// A plain value that proves nothing: the receiver compares it with what it reserved, with what landed and with the receipts
/// before it, in [`Inbound::receive`](crate::handoff::Inbound::receive). A writer that streams sends several, each for other parts;
/// the head is the same in all of them. What is not said counts as nothing, which fits no reservation of tokens.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "a receipt is a message to the receiver"]
pub struct Receipt {
    transfer: TransferId,
    owner: OwnerId,
    model: ModelLayout,
    writer: HolderId,
    tokens: u64,
    held_tokens: u64,
    pages: u32,
    last_page_tokens: u32,
    checksum: Checksum,
    parts: Vec<SentPart>,
}

impl Receipt {
    /// Begins a receipt for nothing.
    pub const fn new(transfer: TransferId, owner: OwnerId, model: ModelLayout, writer: HolderId) -> Self {
        Self {
            transfer,
            owner,
            model,
            writer,
            tokens: 0,
            held_tokens: 0,
            pages: 0,
            last_page_tokens: 0,
            checksum: Checksum::BytesUnverified,
            parts: Vec::new(),
        }
    }

    /// Sets what the sender sealed: pages, tokens in all, and tokens in the last page. It is the same in each receipt of a
    /// handoff, however much of it was sent so far.
    pub const fn with_extent(mut self, pages: u32, tokens: u64, last_page_tokens: u32) -> Self {
        (self.pages, self.tokens, self.last_page_tokens) = (pages, tokens, last_page_tokens);
        self
    }

    /// Sets the tokens that were not sent, since the receiver holds them.
    pub const fn with_held_tokens(mut self, held_tokens: u64) -> Self {
        self.held_tokens = held_tokens;
        self
    }

    /// Sets how pages were digested, and what was sent.
    pub fn with_parts(mut self, checksum: Checksum, parts: Vec<SentPart>) -> Self {
        (self.checksum, self.parts) = (checksum, parts);
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

    /// Returns who sent.
    #[must_use]
    pub const fn writer(&self) -> HolderId {
        self.writer
    }

    /// Returns the pages that are sealed.
    #[must_use]
    pub const fn pages(&self) -> u32 {
        self.pages
    }

    /// Returns the tokens that are sealed.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Returns the tokens that were not sent, since the receiver holds them.
    #[must_use]
    pub const fn held_tokens(&self) -> u64 {
        self.held_tokens
    }

    /// Returns the tokens in the last page that is sealed; 0 when none is.
    #[must_use]
    pub const fn last_page_tokens(&self) -> u32 {
        self.last_page_tokens
    }

    /// Returns how pages were digested.
    #[must_use]
    pub const fn checksum(&self) -> Checksum {
        self.checksum
    }

    /// Returns what was sent.
    pub fn parts(&self) -> &[SentPart] {
        &self.parts
    }
}
