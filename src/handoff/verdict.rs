//! The end of a handoff: whether what arrived is what was reserved.
//!
//! *Owns* what the receiver expects, the comparison with a receipt and with what landed, and the errors. *Does not know*
//! how bytes are reached.

use std::ops::Range;

use thiserror::Error;

use crate::admission::Rejected;
use crate::error::WriteError;
use crate::geometry::{ModelLayout, Slice};
use crate::handoff::coverage::{Coverage, Overlap};
use crate::handoff::error::{Named, Part};
use crate::handoff::{Checksum, Digest, Digester, Receipt, Refusal, Side};
use crate::id::{OwnerId, TransferId};

/// Says in what the arrival differs from the reservation.
///
/// They are looked for in the order in which they stand here, a zero digest after the number of digests; the first one
/// found ends the handoff. After a reclaim of the owner it is [`InboundError::Write`], whatever else is wrong.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InboundError {
    /// The receipt is of another handoff: a late, replayed or misrouted one.
    #[error("the receipt is of {found}, this is {expected}; look who sent it")]
    Transfer {
        /// This handoff.
        expected: TransferId,
        /// Handoff of the receipt.
        found: TransferId,
    },
    /// The receipt is for another owner's tokens.
    #[error("the pages are reserved for owner {expected}, the receipt is for owner {found}; nothing becomes readable")]
    Owner {
        /// Whose pages are reserved.
        expected: OwnerId,
        /// Whose tokens were sent.
        found: OwnerId,
    },
    /// Another model, or the same one in another layout.
    #[error("expected is {}, the receipt is for {}; pair equal layouts", Named(expected), Named(found))]
    Layout {
        /// What is expected.
        expected: Box<ModelLayout>,
        /// What was sent.
        found: Box<ModelLayout>,
    },
    /// Another part of the model.
    #[error("expected are {}, the receipt is for {}; route each rank to its own slice", Part(expected), Part(found))]
    Slice {
        /// What is expected.
        expected: Slice,
        /// What was sent.
        found: Slice,
    },
    /// More pages or fewer. The receipt of the incident on the crate's front page would have ended here.
    #[error("{expected_pages} pages are reserved, the receipt is for {found_pages}; the prompt is not all there")]
    Pages {
        /// Pages expected.
        expected_pages: u32,
        /// Pages of the receipt.
        found_pages: u32,
    },
    /// As many pages, but more tokens or fewer.
    #[error("{expected_tokens} tokens are expected, the receipt is for {found_tokens}; the prompt is not all there")]
    Tokens {
        /// Tokens expected.
        expected_tokens: u64,
        /// Tokens of the receipt.
        found_tokens: u64,
    },
    /// The last page is filled otherwise.
    #[error("the last page should hold {expected_tokens} tokens, the receipt says {found_tokens}")]
    Fill {
        /// Tokens expected in the last page.
        expected_tokens: u32,
        /// Tokens of the receipt.
        found_tokens: u32,
    },
    /// No digest covers the page: none was sent, or a zero.
    #[error("no digest covers page {page}; what is not covered is never accepted")]
    Unverified {
        /// The first page without a digest.
        page: u32,
    },
    /// Digests of another kind than was offered.
    #[error("pages are to be digested with {expected}, the receipt has {found}")]
    Checksum {
        /// What the offer asked for.
        expected: Checksum,
        /// What the receipt has.
        found: Checksum,
    },
    /// More digests than pages, or fewer.
    #[error("{expected_digests} pages need as many digests, the receipt has {found_digests}")]
    DigestCount {
        /// Digests expected.
        expected_digests: u32,
        /// Digests of the receipt.
        found_digests: u64,
    },
    /// Two different parts were sent for the same tokens.
    #[error(
        "page {page}, plane {plane}: tokens {}..{} were sent after {}..{} had landed; the sender's parts overlap",
        sent.start, sent.end, landed.start, landed.end
    )]
    Overlap {
        /// The page's ordinal.
        page: u32,
        /// The plane.
        plane: usize,
        /// Tokens that landed first.
        landed: Range<u32>,
        /// Tokens that were sent on top.
        sent: Range<u32>,
    },
    /// The receipt is for pages that did not land, or not all of them.
    #[error(
        "page {page}, plane {plane}: {landed_tokens} of {expected_tokens} tokens landed ({complete_pages} of \
         {expected_pages} pages are complete), whatever the receipt says"
    )]
    Gap {
        /// Ordinal of the first page with a gap.
        page: u32,
        /// Its first plane with a gap.
        plane: usize,
        /// Tokens expected there.
        expected_tokens: u32,
        /// Tokens that landed there.
        landed_tokens: u32,
        /// Pages expected.
        expected_pages: u32,
        /// Pages that landed whole.
        complete_pages: u32,
    },
    /// The bytes that landed are not those that were sent for this place. The values are kept out of the text.
    #[error(
        "page {page}: the digest of what landed is not the one in the receipt; bytes changed, or are another page's"
    )]
    Digest {
        /// The page's ordinal.
        page: u32,
        /// Digest of what landed.
        expected: Digest,
        /// Digest of the receipt.
        found: Digest,
    },
    /// The pages can no longer be had: the owner was reclaimed, or the memory refused.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Says that a handoff was not accepted: the pages are released, nothing of them was readable, the request is over.
///
/// An [`Error`](std::error::Error) whose text and source are those of [`error`](Self::error).
#[derive(Debug)]
#[must_use = "a rejection is an answer: tell the client, and the sender"]
pub struct NotAccepted {
    transfer: TransferId,
    error: Box<InboundError>,
    rejected: Rejected,
}

impl NotAccepted {
    pub(super) fn new(transfer: TransferId, error: InboundError, rejected: Rejected) -> Self {
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

impl std::fmt::Display for NotAccepted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for NotAccepted {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&*self.error)
    }
}

/// What a receiver reserved and waits for.
#[derive(Debug)]
pub(super) struct Expected {
    pub(super) transfer: TransferId,
    pub(super) owner: OwnerId,
    pub(super) model: ModelLayout,
    pub(super) slice: Slice,
    pub(super) tokens: u64,
    pub(super) pages: u32,
    pub(super) digester: Digester,
}

/// How pages are digested here.
pub(super) const CHECKSUM: Checksum = Checksum::Xxh3;

/// Tokens in the page with an ordinal, of a sequence of `tokens` tokens; 0 past its end.
pub(super) fn tokens_in_page(tokens: u64, page_tokens: u32, ordinal: u32) -> u32 {
    let first = u64::from(ordinal) * u64::from(page_tokens);
    // at most page_tokens, which is a u32
    tokens.saturating_sub(first).min(u64::from(page_tokens)) as u32
}

impl Expected {
    /// Tokens expected in a page.
    pub(super) fn tokens_in(&self, ordinal: u32) -> u32 {
        tokens_in_page(self.tokens, self.model.page_tokens(), ordinal)
    }

    /// Compares everything but bytes.
    pub(super) fn judge(&self, receipt: &Receipt, coverage: &Coverage) -> Result<(), InboundError> {
        self.judge_names(receipt)?;
        self.judge_extent(receipt)?;
        self.judge_digests(receipt)?;
        if let Some(Overlap { page, plane, landed, sent }) = coverage.first_overlap().cloned() {
            return Err(InboundError::Overlap { page, plane, landed, sent });
        }
        match coverage.first_missing(|page| self.tokens_in(page)) {
            None => Ok(()),
            Some(missing) => Err(InboundError::Gap {
                page: missing.page,
                plane: missing.plane,
                expected_tokens: self.tokens_in(missing.page),
                landed_tokens: missing.landed_tokens,
                expected_pages: self.pages,
                complete_pages: coverage.complete_pages(|page| self.tokens_in(page)),
            }),
        }
    }

    fn judge_names(&self, receipt: &Receipt) -> Result<(), InboundError> {
        if receipt.transfer() != self.transfer {
            return Err(InboundError::Transfer { expected: self.transfer, found: receipt.transfer() });
        }
        if receipt.owner() != self.owner {
            return Err(InboundError::Owner { expected: self.owner, found: receipt.owner() });
        }
        if *receipt.model() != self.model {
            let (expected, found) = (Box::new(self.model.clone()), Box::new(receipt.model().clone()));
            return Err(InboundError::Layout { expected, found });
        }
        if *receipt.slice() != self.slice {
            return Err(InboundError::Slice { expected: self.slice.clone(), found: receipt.slice().clone() });
        }
        Ok(())
    }

    fn judge_extent(&self, receipt: &Receipt) -> Result<(), InboundError> {
        let (expected_pages, found_pages) = (self.pages, receipt.pages());
        if found_pages != expected_pages {
            return Err(InboundError::Pages { expected_pages, found_pages });
        }
        let (expected_tokens, found_tokens) = (self.tokens, receipt.tokens());
        if found_tokens != expected_tokens {
            return Err(InboundError::Tokens { expected_tokens, found_tokens });
        }
        let (expected_tokens, found_tokens) =
            (self.tokens_in(self.pages.saturating_sub(1)), receipt.last_page_tokens());
        if found_tokens != expected_tokens {
            return Err(InboundError::Fill { expected_tokens, found_tokens });
        }
        Ok(())
    }

    fn judge_digests(&self, receipt: &Receipt) -> Result<(), InboundError> {
        let (checksum, digests) = (receipt.checksum(), receipt.digests());
        if self.pages > 0 && (checksum == Checksum::Nothing || digests.is_empty()) {
            return Err(InboundError::Unverified { page: 0 });
        }
        if checksum != CHECKSUM && self.pages > 0 {
            return Err(InboundError::Checksum { expected: CHECKSUM, found: checksum });
        }
        let found_digests = digests.len() as u64;
        if found_digests != u64::from(self.pages) {
            return Err(InboundError::DigestCount { expected_digests: self.pages, found_digests });
        }
        match digests.iter().position(|digest| digest.is_zero()) {
            Some(page) => Err(InboundError::Unverified { page: page as u32 }),
            None => Ok(()),
        }
    }
}
