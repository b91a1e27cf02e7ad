//! Why a handoff did not begin, a part did not land, or a sender refused an offer.
//!
//! What a receiver finds in the end is in [`verdict`](super::verdict).

use std::fmt;
use std::ops::Range;

use thiserror::Error;

use crate::error::{ReadError, WriteError};
use crate::geometry::{LayoutError, ModelLayout, PageGeometry, Slice};
use crate::handoff::Checksum;
use crate::id::{OwnerId, TransferId};

/// Says why the pages of a pool cannot hold a slice of a model.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnfitPool {
    /// The memory has no bytes to send or to receive.
    #[error("memory of kind {memory} holds no bytes to hand over; use one that does")]
    NoBytes {
        /// The memory's name.
        memory: &'static str,
    },
    /// The slice is not of the model.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The pool's pages have another shape.
    #[error(
        "the slice needs {}, the pool has {}; make the pool from `ModelLayout::geometry` of this slice",
        Shape(layout),
        Shape(pool)
    )]
    Geometry {
        /// Shape that the slice needs.
        layout: PageGeometry,
        /// Shape of the pool's pages.
        pool: PageGeometry,
    },
}

/// Says why an inbound was not opened. The reservation comes back; its tokens and extents are as they were.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// The pool's pages do not hold the slice.
    #[error(transparent)]
    Unfit(#[from] UnfitPool),
    /// More is expected than was reserved.
    #[error("{tokens} tokens are expected, {reserved_tokens} are reserved; grow the reservation first")]
    PastReserved {
        /// Tokens expected.
        tokens: u64,
        /// Tokens reserved.
        reserved_tokens: u64,
    },
    /// The reservation holds tokens.
    #[error(
        "{written_tokens} tokens are written; a handoff fills a reservation from its first token, give it an empty one"
    )]
    AlreadyWritten {
        /// Tokens written.
        written_tokens: u64,
    },
    /// The pages cannot be written now, or no more.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Says why a part did not land. Nothing was written, unless the memory refused in the middle.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LandError {
    /// No page with this ordinal is expected.
    #[error("page {page} was sent, pages 0..{expected_pages} are expected")]
    NoSuchPage {
        /// Ordinal that was named.
        page: u32,
        /// Pages expected.
        expected_pages: u32,
    },
    /// The page has no such plane.
    #[error("plane {plane} was sent, the pages have planes 0..{planes}")]
    NoSuchPlane {
        /// Plane that was named.
        plane: usize,
        /// Planes of a page.
        planes: usize,
    },
    /// A part that holds no token.
    #[error("tokens {start_token}..{end_token} of page {page} hold nothing; leave the part out")]
    EmptyPart {
        /// The page's ordinal.
        page: u32,
        /// First token of the page that was named.
        start_token: u32,
        /// One past the last.
        end_token: u32,
    },
    /// Tokens that are not expected in this page.
    #[error("tokens up to {to_tokens} of page {page} were sent, {expected_tokens} are expected there")]
    PastExpected {
        /// The page's ordinal.
        page: u32,
        /// End of the part, in tokens of the page.
        to_tokens: u32,
        /// Tokens expected in the page.
        expected_tokens: u32,
    },
    /// A part of the wrong size.
    #[error(
        "page {page}, plane {plane}: {given_bytes} bytes were sent for {tokens} tokens, which have {expected_bytes}"
    )]
    Length {
        /// The page's ordinal.
        page: u32,
        /// The plane.
        plane: usize,
        /// Tokens of the part.
        tokens: u32,
        /// Bytes given.
        given_bytes: u64,
        /// Bytes expected.
        expected_bytes: u64,
    },
    /// Another part landed on some of these tokens. The handoff can no longer be accepted.
    #[error(
        "page {page}, plane {plane}: tokens {}..{} were sent after {}..{} had landed; parts must not overlap",
        sent.start, sent.end, landed.start, landed.end
    )]
    Overlap {
        /// The page's ordinal.
        page: u32,
        /// The plane.
        plane: usize,
        /// Tokens that landed before.
        landed: Range<u32>,
        /// Tokens of the part that was refused.
        sent: Range<u32>,
    },
    /// The pages cannot be written now, or no more.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Says why a reservation was not sealed. It comes back, unchanged.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SealError {
    /// The pool's pages do not hold the slice.
    #[error(transparent)]
    Unfit(#[from] UnfitPool),
    /// The committed tokens cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Says why a sender refused an offer, or stopped. What was sealed stays sealed.
///
/// Every variant but `Read` and `Land` is found before a byte moves.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutboundError {
    /// The offer is for another owner.
    #[error("owner {expected}'s tokens are sealed, the offer is for owner {found}; nothing was sent")]
    Owner {
        /// Whose tokens are sealed.
        expected: OwnerId,
        /// Whose pages are offered.
        found: OwnerId,
    },
    /// The receiver serves another model, or the same one in another layout.
    #[error("sealed is {}, the offer is for {}; nothing was sent", Named(expected), Named(found))]
    Layout {
        /// What is sealed.
        expected: Box<ModelLayout>,
        /// What is offered.
        found: Box<ModelLayout>,
    },
    /// The receiver expects another part of the model.
    #[error("sealed are {}, the offer is for {}; nothing was sent", Part(expected), Part(found))]
    Slice {
        /// What is sealed.
        expected: Slice,
        /// What is offered.
        found: Slice,
    },
    /// The receiver expects more pages or fewer.
    #[error(
        "{expected_pages} pages ({sealed_tokens} tokens) are sealed, the offer is for {found_pages} pages \
         ({found_tokens} tokens); nothing was sent"
    )]
    Pages {
        /// Pages sealed.
        expected_pages: u64,
        /// Tokens sealed.
        sealed_tokens: u64,
        /// Pages offered.
        found_pages: u64,
        /// Tokens offered.
        found_tokens: u64,
    },
    /// The receiver expects as many pages but more tokens or fewer.
    #[error("{expected_tokens} tokens are sealed, the offer is for {found_tokens}; nothing was sent")]
    Tokens {
        /// Tokens sealed.
        expected_tokens: u64,
        /// Tokens offered.
        found_tokens: u64,
    },
    /// The receiver expects digests of another kind, or none.
    #[error("pages are digested with {expected}, the offer asks for {found}; nothing was sent")]
    Checksum {
        /// How this sender digests.
        expected: Checksum,
        /// What the offer asks for.
        found: Checksum,
    },
    /// The landing is of another handoff than the offer.
    #[error("the offer is of {expected}, the landing of {found}; nothing was sent")]
    Transfer {
        /// Handoff of the offer.
        expected: TransferId,
        /// Handoff of the landing.
        found: TransferId,
    },
    /// The sealed tokens can no longer be read: the owner was reclaimed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A part did not land.
    #[error(transparent)]
    Land(#[from] LandError),
}

/// Says a geometry in a few words.
struct Shape<'a>(&'a PageGeometry);

impl fmt::Display for Shape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(shape) = self;
        let (tokens, planes, bytes) = (shape.page_tokens(), shape.planes().len(), shape.token_bytes());
        write!(f, "pages of {tokens} tokens in {planes} planes of {bytes} bytes a token ({})", shape.fingerprint())
    }
}

/// Says a model layout in a few words.
pub(super) struct Named<'a>(pub(super) &'a ModelLayout);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(model) = self;
        let (name, revision, page_tokens) = (model.model(), model.revision(), model.page_tokens());
        // Names may come from a peer: escaped, so that they cannot break a line of a log.
        let (name, revision) = (name.escape_debug(), revision.escape_debug());
        write!(f, "{name} at {revision}, {page_tokens} tokens a page, layout {}", model.fingerprint())
    }
}

/// Says a slice in a few words.
pub(super) struct Part<'a>(pub(super) &'a Slice);

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (layers, heads) = (self.0.layers(), self.0.heads());
        write!(f, "layers {}..{} and heads {}..{}", layers.start, layers.end, heads.start, heads.end)
    }
}
