//! In what an arrival can differ from what was reserved.

use std::ops::Range;

use thiserror::Error;

use crate::error::WriteError;
use crate::geometry::{ModelLayout, Slice};
use crate::handoff::error::{Named, Part};
use crate::handoff::{Checksum, Digest};
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
    /// No receipt speaks for a layer of a page that is held here.
    #[error(
        "writer {} has not told the digest of layer {layer} of page {page}, which is held here and verified all the same",
        writer.0
    )]
    UntoldHeld {
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
        /// Digest of the bytes that are here.
        here: Digest,
        /// Digest in the receipt.
        told: Digest,
    },
    /// What was held here before the handoff is not what the sender has.
    #[error(
        "page {page} was held here before and is not what writer {} has in {}: the local prefix is wrong, or of another \
         prompt",
        writer.0, Part(slice)
    )]
    HeldDigest {
        /// Who sent the digest.
        writer: HolderId,
        /// The page's ordinal.
        page: u32,
        /// The layers and heads that the digest is of.
        slice: Slice,
        /// Digest of the bytes that are here.
        here: Digest,
        /// Digest in the receipt.
        told: Digest,
    },
    /// The pages can no longer be read or written: the owner was reclaimed, or the memory refused.
    #[error(transparent)]
    Write(#[from] WriteError),
}
