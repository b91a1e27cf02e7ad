//! The end of a handoff: whether what arrived is what was reserved.
//!
//! *Owns* what the receiver expects, the comparison of a receipt with it, and the errors. *Does not know* how bytes are
//! reached, nor what landed before.

use std::num::NonZeroU32;
use std::ops::Range;

use thiserror::Error;

use crate::error::WriteError;
use crate::geometry::{Fingerprint, ModelLayout, Slice};
use crate::handoff::error::{Named, Part};
use crate::handoff::{Checksum, Digest, DigestError, DigestKey, Digester, Receipt, SentPart};
use crate::id::{OwnerId, TransferId};
use crate::ticket::{HolderId, TicketId};

/// Says in what the arrival differs from the reservation.
///
/// A receipt is compared in the order in which the variants stand here; the first one found ends the handoff, except for
/// [`InboundError::Transfer`], which is about another one. After a reclaim of the owner it is [`InboundError::Write`] in the
/// end, whatever else is wrong.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InboundError {
    /// The receipt is of another handoff: a late, replayed or misrouted one. This handoff is as it was.
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
    /// Somebody sent who is not expected to.
    #[error("the receipt is of writer {}, which this handoff does not name; route each rank to its own handoff", found.0)]
    Writer {
        /// Who sent.
        found: HolderId,
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
    /// The sender left out more than the receiver holds, or less.
    #[error("{expected_tokens} tokens are held here, the receipt leaves out {found_tokens}")]
    Held {
        /// Tokens that the receiver holds.
        expected_tokens: u64,
        /// Tokens that the sender left out.
        found_tokens: u64,
    },
    /// No digest covers a plane of a page: none was sent, or a zero, or for fewer planes than the page has.
    #[error("no digest covers plane {plane} of page {page}; what is not covered is never accepted")]
    Unverified {
        /// The first page without a digest.
        page: u32,
        /// The first plane, of the slice that was sent, that none covers.
        plane: u32,
    },
    /// Digests of another kind than was offered.
    #[error("pages are to be digested with {expected}, the receipt has {found}")]
    Checksum {
        /// What the offer asked for.
        expected: Checksum,
        /// What the receipt has.
        found: Checksum,
    },
    /// A group of pages that this version does not hand over.
    #[error("group {found} of pages was sent, only group {expected} is expected")]
    Group {
        /// The group expected.
        expected: u32,
        /// The group sent.
        found: u32,
    },
    /// A part of another slice than the writer's.
    #[error(
        "writer {} sends {}, it sent {}; route each rank to its own slice", writer.0, Part(expected), Part(found)
    )]
    Slice {
        /// Who sent.
        writer: HolderId,
        /// The writer's slice: a part has some of its layers and all of its heads.
        expected: Slice,
        /// What was sent.
        found: Slice,
    },
    /// A part of pages that are not expected, or of none.
    #[error("pages {}..{} were sent, pages 0..{expected_pages} are expected", found.start, found.end)]
    NoSuchPages {
        /// Pages expected.
        expected_pages: u32,
        /// Pages of the part.
        found: Range<u32>,
    },
    /// Digests of planes that the slice does not have.
    #[error("planes {}..{} are said to be digested, the slice has planes 0..{expected_planes}", found.start, found.end)]
    NoSuchPlanes {
        /// Planes of the slice.
        expected_planes: u32,
        /// Planes of the part.
        found: Range<u32>,
    },
    /// More digests than pages, or fewer.
    #[error("{expected_digests} pages need as many digests, the part has {found_digests}")]
    DigestCount {
        /// Pages of the part.
        expected_digests: u32,
        /// Digests of the part.
        found_digests: u64,
    },
    /// Two different parts speak for the same layer of the same page.
    #[error("writer {}, page {page}: layer {layer} was sent in two different parts; of two that overlap one is wrong", writer.0)]
    TwoParts {
        /// Who sent.
        writer: HolderId,
        /// The page's ordinal.
        page: u32,
        /// The layer.
        layer: u32,
    },
    /// Two different ranges of bytes landed on the same tokens.
    #[error(
        "writer {}, page {page}, layer {layer}, plane {plane}: tokens {}..{} were sent after {}..{} had landed; its parts overlap",
        writer.0, sent.start, sent.end, landed.start, landed.end
    )]
    Overlap {
        /// Who sent.
        writer: HolderId,
        /// The page's ordinal.
        page: u32,
        /// The layer.
        layer: u32,
        /// The plane of that layer.
        plane: usize,
        /// Tokens that landed first.
        landed: Range<u32>,
        /// Tokens that were sent on top.
        sent: Range<u32>,
    },
    /// A writer may still be writing.
    #[error("writer {} has not stopped: its {ticket} is open; end it when it has", writer.0)]
    StillWriting {
        /// Who.
        writer: HolderId,
        /// Its ticket.
        ticket: TicketId,
    },
    /// No receipt speaks for a layer of a page.
    #[error("writer {} has not said that it sent layer {layer} of page {page}", writer.0)]
    Untold {
        /// Who should have.
        writer: HolderId,
        /// The page's ordinal.
        page: u32,
        /// The first layer that is missing there.
        layer: u32,
    },
    /// Bytes did not land, or not all of them, whatever a receipt says.
    #[error(
        "writer {}, page {page}, layer {layer}, plane {plane}: {landed_tokens} of {expected_tokens} tokens landed ({complete_pages} of \
         {expected_pages} pages are complete), whatever its receipt says", writer.0
    )]
    Gap {
        /// Who should have sent.
        writer: HolderId,
        /// Ordinal of the first page with a gap.
        page: u32,
        /// Its first layer with a gap.
        layer: u32,
        /// The first plane of that layer with a gap.
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
    /// The bytes that are there are not those that were sent for this place. The values are kept out of the text.
    #[error(
        "writer {}, page {page}: the digest of {} is not the one in the receipt; bytes changed, or are another page's",
        writer.0, Part(slice)
    )]
    Digest {
        /// Who sent.
        writer: HolderId,
        /// The page's ordinal.
        page: u32,
        /// The layers and heads that the digest is of.
        slice: Slice,
        /// Digest of the bytes that are there.
        expected: Digest,
        /// Digest in the receipt.
        found: Digest,
    },
    /// The pages can no longer be read or written: the owner was reclaimed, or the memory refused.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// What a receiver reserved and waits for.
#[derive(Debug)]
pub(super) struct Expected {
    pub(super) transfer: TransferId,
    pub(super) owner: OwnerId,
    pub(super) model: ModelLayout,
    pub(super) slice: Slice,
    pub(super) tokens: u64,
    pub(super) held_tokens: u64,
    pub(super) pages: u32,
    pub(super) checksum: Checksum,
    pub(super) key: Option<DigestKey>,
    pub(super) batch_pages: NonZeroU32,
}

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

    /// Pages that the receiver holds already.
    pub(super) fn held_pages(&self) -> u32 {
        // whole pages, fewer than the reservation has
        (self.held_tokens / u64::from(self.model.page_tokens())) as u32
    }

    /// Tokens of a page that have to be sent.
    pub(super) fn tokens_to_land(&self, ordinal: u32) -> u32 {
        if ordinal < self.held_pages() { 0 } else { self.tokens_in(ordinal) }
    }

    /// Begins the digests of a slice.
    pub(super) fn digester(&self, meaning: Fingerprint) -> Result<Digester, DigestError> {
        Digester::over(self.checksum, self.key.as_ref(), self.transfer, meaning)
    }

    /// Compares what is the same in all receipts of the handoff.
    pub(super) fn judge_head(&self, receipt: &Receipt) -> Result<(), InboundError> {
        if receipt.owner() != self.owner {
            return Err(InboundError::Owner { expected: self.owner, found: receipt.owner() });
        }
        if *receipt.model() != self.model {
            let (expected, found) = (Box::new(self.model.clone()), Box::new(receipt.model().clone()));
            return Err(InboundError::Layout { expected, found });
        }
        self.judge_extent(receipt)?;
        if self.pages == 0 {
            return Ok(());
        }
        if receipt.parts().is_empty() || receipt.checksum() == Checksum::BytesUnverified && self.is_verified() {
            return Err(InboundError::Unverified { page: 0, plane: 0 });
        }
        if receipt.checksum() != self.checksum {
            return Err(InboundError::Checksum { expected: self.checksum, found: receipt.checksum() });
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
        let (expected_tokens, found_tokens) = (self.held_tokens, receipt.held_tokens());
        if found_tokens != expected_tokens {
            return Err(InboundError::Held { expected_tokens, found_tokens });
        }
        Ok(())
    }

    /// Whether digests are compared at all.
    pub(super) fn is_verified(&self) -> bool {
        self.checksum != Checksum::BytesUnverified
    }

    /// Compares a part with the slice of its writer.
    pub(super) fn judge_part(&self, writer: HolderId, tile: &Slice, part: &SentPart) -> Result<(), InboundError> {
        if part.group() != 0 {
            return Err(InboundError::Group { expected: 0, found: part.group() });
        }
        let (layers, all_layers) = (part.slice().layers(), tile.layers());
        let of_writer = layers.start >= all_layers.start && layers.end <= all_layers.end;
        if !of_writer || part.slice().heads() != tile.heads() {
            let (expected, found) = (tile.clone(), part.slice().clone());
            return Err(InboundError::Slice { writer, expected, found });
        }
        let pages = part.pages();
        if pages.is_empty() || pages.end > self.pages {
            return Err(InboundError::NoSuchPages { expected_pages: self.pages, found: pages });
        }
        if self.is_verified() { self.judge_digests(part) } else { Ok(()) }
    }

    fn judge_digests(&self, part: &SentPart) -> Result<(), InboundError> {
        let (pages, covered) = (part.pages(), part.planes());
        // A slice of the model has planes: that was checked when the part's was found within the writer's.
        let planes = self.model.geometry(part.slice()).map_or(0, |geometry| geometry.planes().len() as u32);
        if covered.start > 0 || covered.end < planes {
            let plane = if covered.start > 0 { 0 } else { covered.end };
            return Err(InboundError::Unverified { page: pages.start, plane });
        }
        if covered.end > planes {
            return Err(InboundError::NoSuchPlanes { expected_planes: planes, found: covered });
        }
        let (expected_digests, found_digests) = (pages.end - pages.start, part.digests().len() as u64);
        if found_digests == 0 {
            return Err(InboundError::Unverified { page: pages.start, plane: 0 });
        }
        if found_digests != u64::from(expected_digests) {
            return Err(InboundError::DigestCount { expected_digests, found_digests });
        }
        match part.digests().iter().position(|digest| digest.is_zero()) {
            Some(at) => Err(InboundError::Unverified { page: pages.start + at as u32, plane: 0 }),
            None => Ok(()),
        }
    }
}
