//! Why a handoff did not begin, a part did not land, or a sender refused an offer.
//!
//! What a receiver finds in the end is in [`verdict`](super::verdict).

use std::fmt;
use std::ops::Range;

use thiserror::Error;

use crate::error::{ReadError, TicketError, WriteError};
use crate::geometry::{LayoutError, ModelLayout, PageGeometry, Slice};
use crate::handoff::{DigestError, TilingError};
use crate::id::{OwnerId, TransferId};
use crate::ticket::{HolderId, TicketId};

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
    /// The writers do not send exactly the receiver's slice.
    #[error(transparent)]
    Tiling(#[from] TilingError),
    /// Pages cannot be digested as the plan says.
    #[error(transparent)]
    Digest(#[from] DigestError),
    /// The reservation holds more than is expected.
    #[error("{written_tokens} tokens are written, {tokens} are expected in all; truncate, or expect more")]
    PastExpected {
        /// Tokens written.
        written_tokens: u64,
        /// Tokens expected in all.
        tokens: u64,
    },
    /// The reservation holds tokens that were not accepted.
    #[error(
        "{written_tokens} tokens are written, {committed_tokens} committed; a prefix that is held is committed, commit or \
         truncate first"
    )]
    Drafts {
        /// Tokens written.
        written_tokens: u64,
        /// Tokens committed.
        committed_tokens: u64,
    },
    /// The prefix that is held ends inside a page.
    #[error(
        "{written_tokens} tokens are held, which end inside a page of {page_tokens}; truncate to a page's end, the rest is \
         sent again"
    )]
    PartOfPage {
        /// Tokens written.
        written_tokens: u64,
        /// Tokens of a page.
        page_tokens: u32,
    },
    /// The prefix that is held cannot be read now, or no more.
    #[error(transparent)]
    Read(#[from] ReadError),
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
    /// The receiver holds this page already.
    #[error("page {page} was sent, pages 0..{held_pages} are held here and are only verified")]
    Held {
        /// Ordinal that was named.
        page: u32,
        /// Pages that the receiver holds.
        held_pages: u32,
    },
    /// The writer has no such plane.
    #[error("plane {plane} was sent, the writer's pages have planes 0..{planes}")]
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
        "page {page}, layer {layer}, plane {plane}: tokens {}..{} were sent after {}..{} had landed; parts must not overlap",
        sent.start, sent.end, landed.start, landed.end
    )]
    Overlap {
        /// The page's ordinal.
        page: u32,
        /// The layer.
        layer: u32,
        /// The plane of that layer.
        plane: usize,
        /// Tokens that landed before.
        landed: Range<u32>,
        /// Tokens of the part that was refused.
        sent: Range<u32>,
    },
    /// Nobody of that number sends here.
    #[error(transparent)]
    Writer(#[from] WriterError),
    /// The pages cannot be written now, or no more.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Says why a writer was not let in. Nothing changed.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriterError {
    /// The handoff names no such writer.
    #[error("writer {} is not one of this handoff; name it in the plan", writer.0)]
    Unknown {
        /// Who asked.
        writer: HolderId,
    },
    /// It writes from outside.
    #[error("writer {} has or had a ticket and writes from outside; it cannot land bytes here as well", writer.0)]
    Outside {
        /// Who asked.
        writer: HolderId,
    },
    /// It sends within the process.
    #[error("bytes of writer {} land within the process; it cannot write from outside as well", writer.0)]
    Inside {
        /// Who asked.
        writer: HolderId,
    },
    /// It has an open ticket.
    #[error("writer {} has {ticket} still; end that first", writer.0)]
    Open {
        /// Who asked.
        writer: HolderId,
        /// Its ticket.
        ticket: TicketId,
    },
    /// The pages cannot be pinned.
    #[error(transparent)]
    Ticket(#[from] TicketError),
}

/// Says why a reservation was not sealed. It comes back, unchanged.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SealError {
    /// The pool's pages do not hold the slice.
    #[error(transparent)]
    Unfit(#[from] UnfitPool),
    /// More is to be sent than was admitted.
    #[error("{tokens} tokens are to be sent, the reservation can grow to {max_tokens}; admit the request for more")]
    PastMax {
        /// Tokens to be sent.
        tokens: u64,
        /// Tokens admitted.
        max_tokens: u64,
    },
    /// Fewer tokens are to be sent than are committed.
    #[error("{tokens} tokens are to be sent, {committed_tokens} are committed; truncate first")]
    PastSealed {
        /// Tokens to be sent.
        tokens: u64,
        /// Tokens committed.
        committed_tokens: u64,
    },
    /// The committed tokens cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Says why a sender refused an offer, or stopped. What was sealed stays sealed.
///
/// Every variant but `NotCommitted`, `Read` and `Land` is found before a byte moves.
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
    /// The receiver expects nothing from this sender.
    #[error("the offer names no writer {}; nothing was sent, say which one this is", writer.0)]
    Writer {
        /// Who this sender is.
        writer: HolderId,
    },
    /// The receiver expects a part of the model that is not sealed here, or has no pages for it.
    #[error("sealed are {}, the offer asks for {}; nothing was sent", Part(expected), Part(found))]
    Slice {
        /// What is sealed.
        expected: Slice,
        /// What is asked of this sender.
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
    /// The receiver says that it holds what is no prefix of whole pages.
    #[error(
        "the receiver says that it holds {held_tokens} of {sealed_tokens} tokens, in pages of {page_tokens}; nothing was sent"
    )]
    Held {
        /// Tokens that the receiver says it holds.
        held_tokens: u64,
        /// Tokens sealed.
        sealed_tokens: u64,
        /// Tokens of a page.
        page_tokens: u32,
    },
    /// A destination is no page of the receiver's pool.
    #[error("destination {position} is not a page of the pool that the offer names; nothing was sent")]
    ForeignDestination {
        /// Where it stands in the list.
        position: usize,
    },
    /// A page is offered twice.
    #[error("destinations {first} and {second} are one page; nothing was sent")]
    SameDestination {
        /// Where it stands first.
        first: usize,
        /// Where it stands again.
        second: usize,
    },
    /// The receiver does not want digests, and this sender was not told to do without.
    #[error("the offer asks for pages that are not digested, which this sender was not allowed; nothing was sent")]
    Unverified,
    /// Pages cannot be digested as the offer asks.
    #[error(transparent)]
    Digest(#[from] DigestError),
    /// Another outbound of this pool serves the transfer.
    #[error("{transfer} is served by another outbound of this pool; nothing was sent")]
    Duplicate {
        /// The transfer.
        transfer: TransferId,
    },
    /// This outbound serves as many transfers as one may.
    #[error("this outbound has begun to serve {max_transfers} transfers, which is the most; nothing was sent")]
    TooMany {
        /// Most transfers that one outbound serves.
        max_transfers: usize,
    },
    /// This outbound does not serve the transfer.
    #[error("{transfer} is none that this outbound has begun to serve")]
    NotServed {
        /// The transfer.
        transfer: TransferId,
    },
    /// The landing is of another handoff than the offer.
    #[error("the offer is of {expected}, the landing of {found}; nothing was sent")]
    Transfer {
        /// Handoff of the offer.
        expected: TransferId,
        /// Handoff of the landing.
        found: TransferId,
    },
    /// The landing is of another writer.
    #[error("this sender is writer {}, the landing is of writer {}; nothing was sent", expected.0, found.0)]
    LandingOf {
        /// Who this sender is.
        expected: HolderId,
        /// Whose bytes the landing takes.
        found: HolderId,
    },
    /// Layers that the receiver does not expect from this sender, or pages past what is sealed.
    #[error(
        "layers {}..{} of pages {}..{} were asked for; layers {}..{} of pages 0..{sealed_pages} are to be sent",
        layers.start, layers.end, pages.start, pages.end, expected_layers.start, expected_layers.end
    )]
    NoSuchPart {
        /// Layers asked for.
        layers: Range<u32>,
        /// Pages asked for.
        pages: Range<u32>,
        /// Layers to be sent.
        expected_layers: Range<u32>,
        /// Pages sealed.
        sealed_pages: u32,
    },
    /// These tokens are to be sent, and are not committed yet.
    #[error("tokens up to {to_tokens} were asked for, {committed_tokens} are committed so far; send them later")]
    NotCommitted {
        /// End of the pages asked for.
        to_tokens: u64,
        /// Tokens committed.
        committed_tokens: u64,
    },
    /// The sealed tokens can no longer be read: the owner was reclaimed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A part did not land.
    #[error(transparent)]
    Land(#[from] LandError),
}

/// Says a geometry in a few words.
pub(super) struct Shape<'a>(pub(super) &'a PageGeometry);

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
