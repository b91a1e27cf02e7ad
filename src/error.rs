//! One error enum per operation, and [`Error`] over all of them.
//!
//! Every error tells what was asked, what was there, and what to do. None carries page bytes. What a call consumed comes
//! back in its error wherever it can still be used.
//!
//! # Which error means what
//!
//! | error | retry? | HTTP status for an engine | what an operator does |
//! |---|---|---|---|
//! | [`CapacityError::PoolTooSmall`] | no, not before the pool or the plan changes | do not serve (503 at start) | give the pool more memory, or advertise a smaller context |
//! | [`RejectReason::NeverFits`], [`RejectReason::ZeroTokens`] | never, same request | 400 | nothing; the client asked for too much |
//! | [`AdmitError::Full`] | yes, after pages came back | 503 or wait in the queue | look at `pending_pages` and `stats`: quarantined pages name a slow reader |
//! | [`AdmitError::ProofVoid`] | after a new `prove` | 503 | pages retired or the pool shrank below the plan |
//! | [`AdmitError::Suspended`] | after `resume` | 503 | resume the pool |
//! | [`GrowError::Full`] | yes, or preempt one victim | 503 | admit with the real maximum, then growth is promised |
//! | [`ReadError::Stale`], [`ReadError::Revoked`] | never | 500 | a bug in the engine: it kept a handle past release; look for who |
//! | [`ReadError::ForeignOwner`], [`ReadError::ForeignPool`] | never | 500, and alarm | a request tried to read another tenant's page: find the table it used |
//! | [`ReadError::Unwritten`] | no | 500 | the engine reads past what was written: the seed incident's shape |
//! | [`ReadError::Busy`], [`WriteError::Busy`] | yes, after the ticket ends | 503 | an outside writer or reader is still at work; see `stats` for its age |
//! | [`ReadError::Pending`], [`WriteError::Pending`] | yes, after the fence | 503 | a device is still cleaning the page |
//! | [`TicketError::AlreadyDone`] | no | none | a duplicate completion: harmless, counted |
//! | [`OutboundError`] (any but `Read`, `Land`) | new handoff, with the right offer | 502 | the offer differs from what prefill sealed: the seed incident's first sign |
//! | [`InboundError`] (any) | new handoff | 502 | what arrived, or the receipt, is not what was reserved: look at the sender |
//! | [`OpenError`], [`SealError`] | no, unless `Pending` or `Busy` | 500 | the pool's pages do not hold the model that was named |

use thiserror::Error;

use crate::admission::{Rejected, Request};
use crate::geometry::GeometryError;
use crate::handoff::{InboundError, LandError, NotAccepted, OpenError, OutboundError, SealError};
use crate::id::{Generation, OwnerId, PoolId};
use crate::memory::MemoryError;
use crate::stamp::PageState;

/// Why a pool was not made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No page would be left for reservations.
    #[error("a pool of {pages} pages, {own_pages} of them its own, leaves none to reserve; ask for more pages")]
    NoPages {
        /// Pages asked for.
        pages: u32,
        /// Pages that the pool keeps for itself.
        own_pages: u32,
    },
    /// The memory has fewer pages than the pool should begin with.
    #[error("the pool asks for {pages} pages, the memory has {max_pages}")]
    MoreThanMemory {
        /// Pages asked for.
        pages: u32,
        /// Pages of the memory.
        max_pages: u32,
    },
    /// Pages would retire before their first use.
    #[error("last generation {last_generation} leaves pages no life; allow at least 2")]
    NoGenerations {
        /// The last generation asked for.
        last_generation: Generation,
    },
    /// 2^32 - 1 pools were made in this process; their ids are used up.
    #[error("all pool ids of this process are used up")]
    NoPoolIds,
    /// The bookkeeping could not be allocated.
    #[error("{bytes} bytes of bookkeeping could not be allocated")]
    NoMemory {
        /// Bytes asked of the allocator.
        bytes: usize,
    },
    /// The memory refused to clean its pages before their first use.
    #[error("the memory could not be cleaned before its first use")]
    Memory(#[from] MemoryError),
}

/// Why the live pool does not prove a plan.
#[derive(Debug, Error, Clone, PartialEq)]
#[non_exhaustive]
pub enum CapacityError {
    /// A plan for requests of no tokens.
    #[error("a plan for requests of 0 tokens proves nothing; give the largest request that is served")]
    ZeroTokens,
    /// Headroom that is not a number of at least 1.
    #[error("headroom {headroom} is not a number between 1 and 1000")]
    BadHeadroom {
        /// What was given.
        headroom: f64,
    },
    /// The pool cannot hold the largest request with the demanded headroom.
    #[error(
        "the pool holds {pool_tokens} tokens ({usable_pages} usable pages), but requests of {max_request_tokens} tokens \
         with headroom {headroom} need {required_pages} pages; enlarge the pool or advertise less"
    )]
    PoolTooSmall {
        /// Largest request of the plan.
        max_request_tokens: u64,
        /// Headroom of the plan.
        headroom: f64,
        /// Pages that the plan needs.
        required_pages: u64,
        /// Pages that requests can use now.
        usable_pages: u64,
        /// Tokens that these pages hold.
        pool_tokens: u64,
    },
}

/// Why a request was not admitted. Except for `Rejected` the request comes back.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AdmitError {
    /// Not now: too few pages are free. Pool unchanged.
    #[error(
        "{request} needs {needed_pages} pages and {free_pages} are free ({pending_pages} more are on their way back, \
         {promised_pages} are promised to others); try again when pages come back, preempt no more than pending covers"
    )]
    Full {
        /// The request, to be tried again.
        request: Request,
        /// Pages needed.
        needed_pages: u64,
        /// Pages neither held nor promised.
        free_pages: u64,
        /// Pages quarantined or being cleaned.
        pending_pages: u64,
        /// Free pages that earlier admissions hold.
        promised_pages: u64,
    },
    /// Never: terminal. Pool unchanged.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// The pool changed and no longer covers the plan of the proof. Pool unchanged.
    #[error(
        "{request}: the proof of capacity epoch {proof_epoch} is void in epoch {epoch}: the plan needs {required_pages} \
         pages, {usable_pages} are usable; prove again"
    )]
    ProofVoid {
        /// The request, to be tried again.
        request: Request,
        /// Epoch in which the proof was made.
        proof_epoch: u64,
        /// Epoch now.
        epoch: u64,
        /// Pages that the plan needs.
        required_pages: u64,
        /// Pages that requests can use now.
        usable_pages: u64,
    },
    /// The proof was made by another pool. Pool unchanged.
    #[error("{request}: the proof is of {proof_pool:?}, this is {pool:?}")]
    ForeignProof {
        /// The request, to be tried again.
        request: Request,
        /// Pool of the proof.
        proof_pool: PoolId,
        /// Pool that was asked.
        pool: PoolId,
    },
    /// The pool is suspended. Pool unchanged.
    #[error("{request}: the pool is suspended; resume it first")]
    Suspended {
        /// The request, to be tried again.
        request: Request,
    },
    /// The claim of the request does not give its pages again. Pool unchanged.
    #[error("{request}")]
    Claim {
        /// The request.
        request: Request,
        /// What is wrong with the claim.
        #[source]
        source: crate::pool::ClaimError,
    },
    /// More tokens were asked for at once than the request may have. Pool unchanged.
    #[error("{request}: {asked_tokens} tokens were asked for at once, the request may have {max_tokens}")]
    PastMax {
        /// The request, to be tried again.
        request: Request,
        /// Tokens asked for.
        asked_tokens: u64,
        /// Tokens that the request may have.
        max_tokens: u64,
    },
}

/// Why a request is rejected for good.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RejectReason {
    /// Larger than the plan that the pool proved; it would never fit, however empty the pool.
    #[error(
        "{asked_tokens} tokens ({needed_pages} pages) never fit: requests of at most {max_request_tokens} tokens are \
         served, {usable_pages} pages are usable"
    )]
    NeverFits {
        /// Tokens asked for.
        asked_tokens: u64,
        /// Pages that they need.
        needed_pages: u64,
        /// Largest request of the plan.
        max_request_tokens: u64,
        /// Pages that requests can use.
        usable_pages: u64,
    },
    /// A request for nothing.
    #[error("a request for 0 tokens")]
    ZeroTokens,
    /// Whoever called `reject` gave this error.
    #[error(transparent)]
    Caller(Box<dyn std::error::Error + Send + Sync>),
}

/// Why an admission did not become a reservation.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReserveError {
    /// More than was admitted. The admission stands.
    #[error("{asked_tokens} tokens were asked for, {max_tokens} were admitted")]
    PastMax {
        /// Tokens asked for.
        asked_tokens: u64,
        /// Tokens admitted.
        max_tokens: u64,
    },
    /// The owner was reclaimed; the admission is void.
    #[error("the admission was revoked by a reclaim of its owner; ask for a new one")]
    Revoked,
}

/// Why a reservation did not grow. The reservation is unchanged.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GrowError {
    /// The new size is below the present one.
    #[error("grow to {to_tokens} tokens is below the {reserved_tokens} reserved; use shrink")]
    Backward {
        /// Size asked for.
        to_tokens: u64,
        /// Size now.
        reserved_tokens: u64,
    },
    /// Past what was admitted, and nothing is free beyond promises.
    #[error(
        "growing past the {max_tokens} admitted tokens needs {needed_pages} pages more, {free_pages} are free and \
         {pending_pages} pending; release or preempt one victim, then try again"
    )]
    Full {
        /// Tokens that were admitted and cannot fail.
        max_tokens: u64,
        /// Pages needed beyond the promise.
        needed_pages: u64,
        /// Pages neither held nor promised.
        free_pages: u64,
        /// Pages quarantined or being cleaned.
        pending_pages: u64,
    },
    /// More pages than the pool has.
    #[error("{needed_pages} pages never fit: {usable_pages} are usable")]
    NeverFits {
        /// Pages that the reservation would hold.
        needed_pages: u64,
        /// Pages that requests can use.
        usable_pages: u64,
    },
    /// The owner was reclaimed.
    #[error("the reservation was revoked by a reclaim of its owner")]
    Revoked,
}

/// Why bytes were not written. No token counts as written that did not before.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    /// Past the reservation.
    #[error("writing up to token {to_tokens} passes the {reserved_tokens} reserved; grow first")]
    PastReserved {
        /// End of the write.
        to_tokens: u64,
        /// Tokens reserved.
        reserved_tokens: u64,
    },
    /// Not one slice for each plane.
    #[error("{given} slices for {planes} planes")]
    PlaneCount {
        /// Slices given.
        given: usize,
        /// Planes of the pool.
        planes: usize,
    },
    /// No such plane.
    #[error("plane {plane} of {planes}")]
    NoSuchPlane {
        /// Plane asked for.
        plane: usize,
        /// Planes of the pool.
        planes: usize,
    },
    /// The same plane twice in one write.
    #[error("plane {plane} was written already; what is written stays as it is")]
    PlaneTwice {
        /// The plane.
        plane: usize,
    },
    /// A slice of the wrong size.
    #[error("plane {plane}: {given_bytes} bytes for {tokens} tokens, {expected_bytes} expected")]
    Length {
        /// Plane of the slice.
        plane: usize,
        /// Tokens of the write.
        tokens: u64,
        /// Bytes given.
        given_bytes: u64,
        /// Bytes expected.
        expected_bytes: u64,
    },
    /// An outside party holds a write ticket on the page.
    #[error("page {page} has an open write ticket; wait until it ends")]
    Busy {
        /// The page.
        page: u32,
    },
    /// A device is still cleaning the page.
    #[error("page {page} is still being cleaned by the device")]
    Pending {
        /// The page.
        page: u32,
    },
    /// The page is pinned by a reader, so that its tokens must be rewritten on a fresh page, and none is free.
    #[error("page {page} is pinned by a reader and no page is free to rewrite it on; try again when one is")]
    NoFreshPage {
        /// The pinned page.
        page: u32,
    },
    /// The owner was reclaimed.
    #[error("the reservation was revoked by a reclaim of its owner")]
    Revoked,
    /// More borrows of one reservation than can be counted.
    #[error("too many guards are alive")]
    TooManyGuards,
    /// The memory refused.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Why an extent was not moved. The reservation is unchanged.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExtentError {
    /// Past the reservation.
    #[error("{to_tokens} tokens pass the {reserved_tokens} reserved; grow first")]
    PastReserved {
        /// Extent asked for.
        to_tokens: u64,
        /// Tokens reserved.
        reserved_tokens: u64,
    },
    /// More would be committed than was written.
    #[error("{to_tokens} tokens pass the {written_tokens} written; only written tokens are committed")]
    PastWritten {
        /// Extent asked for.
        to_tokens: u64,
        /// Tokens written.
        written_tokens: u64,
    },
    /// Below the present extent.
    #[error("{to_tokens} tokens lie below the present {now_tokens}; use truncate to roll back")]
    Backward {
        /// Extent asked for.
        to_tokens: u64,
        /// Extent now.
        now_tokens: u64,
    },
    /// Truncation that would lengthen.
    #[error("truncate to {to_tokens} tokens, only {written_tokens} are written; truncation never lengthens")]
    Upward {
        /// Extent asked for.
        to_tokens: u64,
        /// Tokens written.
        written_tokens: u64,
    },
    /// An outside party holds a write ticket on a page concerned.
    #[error("page {page} has an open write ticket; wait until it ends")]
    Busy {
        /// The page.
        page: u32,
    },
    /// The owner was reclaimed.
    #[error("the reservation was revoked by a reclaim of its owner")]
    Revoked,
}

/// Why nothing was read.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// The handle is of another pool, or of another process image.
    #[error("the handle is of {handle_pool:?}, this is {pool:?} (or a pool of an earlier process)")]
    ForeignPool {
        /// Pool in the handle.
        handle_pool: PoolId,
        /// Pool that was asked.
        pool: PoolId,
    },
    /// No such page.
    #[error("page {page} of {pages}")]
    OutOfRange {
        /// Page asked for.
        page: u32,
        /// Pages that the pool has.
        pages: u32,
    },
    /// The page was released since the handle was issued.
    #[error(
        "the handle names generation {handle_generation} of page {page}, which is now {state:?} in generation {generation}"
    )]
    Stale {
        /// The page.
        page: u32,
        /// Generation in the handle.
        handle_generation: Generation,
        /// Generation of the page now.
        generation: Generation,
        /// What the page does now.
        state: PageState,
    },
    /// The page belongs to somebody else.
    #[error("page {page} does not belong to owner {asked_owner}")]
    ForeignOwner {
        /// The page.
        page: u32,
        /// Owner that was named.
        asked_owner: OwnerId,
    },
    /// Past what was written.
    #[error("tokens up to {to_tokens} were asked for, {written_tokens} are written")]
    Unwritten {
        /// End of the read, in tokens.
        to_tokens: u64,
        /// Tokens written.
        written_tokens: u64,
    },
    /// A range whose end lies before its beginning.
    #[error("a read from token {from_tokens} to {to_tokens} runs backward")]
    Backward {
        /// Beginning of the read.
        from_tokens: u64,
        /// End of the read.
        to_tokens: u64,
    },
    /// An outside party holds a write ticket on the page.
    #[error("page {page} has an open write ticket; wait until it ends")]
    Busy {
        /// The page.
        page: u32,
    },
    /// A device is still cleaning the page.
    #[error("page {page} is still being cleaned by the device")]
    Pending {
        /// The page.
        page: u32,
    },
    /// The owner was reclaimed.
    #[error("the reservation was revoked by a reclaim of its owner")]
    Revoked,
    /// No such plane.
    #[error("plane {plane} of {planes}")]
    NoSuchPlane {
        /// Plane asked for.
        plane: usize,
        /// Planes of the pool.
        planes: usize,
    },
    /// No such run in the plane.
    #[error("run {run} of {runs} in plane {plane}")]
    NoSuchRun {
        /// Plane asked for.
        plane: usize,
        /// Run asked for.
        run: u32,
        /// Runs of the plane.
        runs: u32,
    },
    /// A buffer of the wrong size.
    #[error("a buffer of {given_bytes} bytes, {expected_bytes} expected")]
    Length {
        /// Bytes given.
        given_bytes: u64,
        /// Bytes expected.
        expected_bytes: u64,
    },
    /// More guards are alive than can be counted.
    #[error("too many guards are alive in this process")]
    TooManyGuards,
    /// The memory refused.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Why no ticket was given, or a ticket did not end.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TicketError {
    /// The ticket ended before. Counted; nothing changed.
    #[error("{0} ended before")]
    AlreadyDone(crate::ticket::TicketId),
    /// This pool never gave such a ticket. Counted; nothing changed.
    #[error("{0} was never given by this pool")]
    Unknown(crate::ticket::TicketId),
    /// A reader is on a page that an outside party wants to write.
    #[error("page {page} is being read; a write ticket needs it alone")]
    Busy {
        /// The page.
        page: u32,
    },
    /// 65,535 tickets are open on the page.
    #[error("page {page} has too many open tickets")]
    TooMany {
        /// The page.
        page: u32,
    },
    /// The pages asked for are not there.
    #[error("pages up to {to_pages} of {pages}")]
    OutOfRange {
        /// End of the range of pages.
        to_pages: u64,
        /// Pages of the reservation.
        pages: u64,
    },
    /// A ticket for no page.
    #[error("a ticket for no page")]
    Empty,
    /// The owner was reclaimed.
    #[error("the reservation was revoked by a reclaim of its owner")]
    Revoked,
}

/// Why a list of pages was not released. None of them was.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The handle at this position does not name a page that the owner holds.
    #[error("handle {position}")]
    Handle {
        /// Position in the list.
        position: usize,
        /// What is wrong with it; a page released before is `Stale`.
        #[source]
        source: ReadError,
    },
    /// The same page stands twice in the list.
    #[error("handle {position} names page {page} a second time")]
    Twice {
        /// Position in the list.
        position: usize,
        /// The page.
        page: u32,
    },
    /// The page is held by a reservation, which alone releases it.
    #[error("handle {position}: page {page} is held by a reservation; release that, or detach it first")]
    Held {
        /// Position in the list.
        position: usize,
        /// The page.
        page: u32,
    },
}

/// Why a pool did not resize. Pool unchanged.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResizeError {
    /// More pages than were fixed at construction.
    #[error("{pages} pages were asked for, the memory was made for {max_pages}")]
    PastMax {
        /// Pages asked for.
        pages: u32,
        /// Pages of the memory.
        max_pages: u32,
    },
    /// No page would be left for reservations.
    #[error("{pages} pages, {own_pages} of them the pool's own, leave none to reserve")]
    NoPages {
        /// Pages asked for.
        pages: u32,
        /// Pages that the pool keeps for itself.
        own_pages: u32,
    },
    /// The pool is suspended.
    #[error("the pool is suspended; resume it first")]
    Suspended,
    /// The memory refused.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Why a pool was not suspended or resumed.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SuspendError {
    /// Admissions wait for their pages, or tickets are open. Pool unchanged.
    #[error("{promised_pages} pages are promised to admissions and {tickets} tickets are open; end those first")]
    Busy {
        /// Pages promised to admissions that hold none yet.
        promised_pages: u64,
        /// Open tickets.
        tickets: u64,
    },
    /// The memory refused; the pool stays as it is.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Not suspended.
    #[error("the pool is not suspended")]
    NotSuspended,
}

/// What a full walk of the stamps found that the counters do not say. Any of these is a defect of pagestamp.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuditError {
    /// A counter differs from the walk.
    #[error("{state:?}: counted {counted}, found {found}")]
    Count {
        /// The state.
        state: PageState,
        /// What the counter says.
        counted: u64,
        /// What the walk found.
        found: u64,
    },
    /// A page stands in a list that its stamp contradicts, or twice.
    #[error("page {page} is {state:?} but stands in the list of {list:?}")]
    Listed {
        /// The page.
        page: u32,
        /// What its stamp says.
        state: PageState,
        /// The list.
        list: PageState,
    },
    /// A page belongs to nobody although it is live, or to somebody although it is not.
    #[error("page {page} is {state:?} and its owner is {owner:?}")]
    Owner {
        /// The page.
        page: u32,
        /// What its stamp says.
        state: PageState,
        /// Its owner.
        owner: Option<OwnerId>,
    },
    /// More is promised than is free.
    #[error("{promised} pages are promised, {free} are free")]
    Promises {
        /// Pages promised.
        promised: u64,
        /// Pages free.
        free: u64,
    },
    /// The open tickets do not add up to what the stamps carry.
    #[error("page {page}: {stamped} tickets in its stamp, {open} open")]
    Tickets {
        /// The page.
        page: u32,
        /// Count in the stamp.
        stamped: u64,
        /// Tickets that name it.
        open: u64,
    },
    /// A byte outside the written extent is not zero.
    #[error("page {page}, plane {plane}: a byte that nobody wrote is not zero")]
    Byte {
        /// The page.
        page: u32,
        /// The plane.
        plane: usize,
    },
    /// The memory could not be read.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// A call that was refused, with what it would have consumed: nothing is lost.
#[derive(Debug)]
pub struct Refused<T, E> {
    value: Box<T>,
    error: E,
}

impl<T, E> Refused<T, E> {
    pub(crate) fn new(value: T, error: E) -> Self {
        Self { value: Box::new(value), error }
    }

    /// Why it was refused.
    pub const fn error(&self) -> &E {
        &self.error
    }

    /// Gives back what was handed in, unchanged.
    #[must_use]
    pub fn into_value(self) -> T {
        *self.value
    }

    /// Gives back what was handed in, and the reason.
    #[must_use]
    pub fn into_parts(self) -> (T, E) {
        (*self.value, self.error)
    }
}

impl<T, E: std::fmt::Display> std::fmt::Display for Refused<T, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl<T: std::fmt::Debug, E: std::error::Error> std::error::Error for Refused<T, E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

/// Any error of this crate, for callers that keep one type.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// Of [`PoolConfig`](crate::PoolConfig) and [`PagePool::new`](crate::PagePool::new).
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Of the geometry.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Of a memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Of the capacity proof.
    #[error(transparent)]
    Capacity(#[from] CapacityError),
    /// Of an admission.
    #[error(transparent)]
    Admit(#[from] AdmitError),
    /// Of a reservation.
    #[error(transparent)]
    Reserve(#[from] ReserveError),
    /// Of growth.
    #[error(transparent)]
    Grow(#[from] GrowError),
    /// Of a write.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Of an extent.
    #[error(transparent)]
    Extent(#[from] ExtentError),
    /// Of a read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Of a ticket.
    #[error(transparent)]
    Ticket(#[from] TicketError),
    /// Of a release by handles.
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// Of a resize.
    #[error(transparent)]
    Resize(#[from] ResizeError),
    /// Of suspend and resume.
    #[error(transparent)]
    Suspend(#[from] SuspendError),
    /// Of an audit.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// Of an inbound that was not opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Of bytes that did not land.
    #[error(transparent)]
    Land(#[from] LandError),
    /// Of what arrived in a handoff.
    #[error(transparent)]
    Inbound(#[from] InboundError),
    /// Of a handoff that was not accepted.
    #[error(transparent)]
    NotAccepted(#[from] NotAccepted),
    /// Of an outbound that was not sealed.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// Of an offer, or of sending.
    #[error(transparent)]
    Outbound(#[from] OutboundError),
}
