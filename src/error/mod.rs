//! One error enum per operation, and [`enum@Error`] over all of them.
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
//! | [`ReadError::Unwritten`] | no | 500 | the engine reads past what was written: the shape of the incident on the crate's front page |
//! | [`ReadError::Busy`], [`WriteError::Busy`] | yes, after the ticket ends | 503 | an outside writer or reader is still at work; see [`tickets`](crate::PagePool::tickets) and [`overdue_tickets`](crate::PagePool::overdue_tickets) for whose |
//! | [`ReadError::Pending`], [`WriteError::Pending`], [`TicketError::Pending`] | yes, after the fence | 503 | a device is still cleaning the page |
//! | [`ReadError::CleaningFailed`], [`WriteError::CleaningFailed`], [`TicketError::CleaningFailed`] | no; release and admit anew | 503 | the device fails: see `poisoned_pages` |
//! | [`WriteError::Exported`], [`ExtentError::Exported`] | yes, after the step reported | 503 | none; an engine that meets it often forgets to report |
//! | [`ExportError::NotFirst`], [`ExportError::TooMany`] | yes, after the first step reported | 500 | the engine reports out of order, or runs too far ahead |
//! | [`ExportError`] (others) | by what is inside | 500 | the engine's count of tokens, or of its steps |
//! | [`StepError`] | no | 500 | a step ended twice, or was revoked while its engine lived |
//! | [`TableError::Row`] | by its [`RowError`] | 500 | the row that it names must not run: `Page` tells which page, and why |
//! | [`TableError`] (others) | with larger buffers, or a pool with its own pages | 500 | the shapes of the engine's buffers |
//! | [`WriteError::NoFreshPage`] | yes, when pages came back | 503 | a reader pins a page that is rewritten; give the pool headroom |
//! | [`WriteError::PastReserved`], [`ExtentError`] (any but `Busy`, `Exported`, `Shared`), [`ReserveError`], [`AdmitError::PastMax`], [`GrowError::Backward`] | no | 500 | a bug in the engine's counting; the numbers say which |
//! | [`GrowError::NeverFits`] | never | 400 | the request outgrew what it was admitted for, and the pool |
//! | [`GrowError::Revoked`], [`WriteError::Revoked`] | no; ask anew | 503 | the owner was reclaimed, erased or the pool suspended |
//! | [`AdmitError::ForeignProof`] | no | 500 | the engine mixes up its pools |
//! | [`AdmitError::PrefixUnusable`] | after a new lookup | 503 | the owner was reclaimed between lookup and admission, or the engine mixes up owners or pools |
//! | [`PublishError::OffLimits`] | yes, after the ticket or the fence | none | the request goes on; only later hits are lost |
//! | [`PublishError::TooFewTokens`], [`PublishError::OtherTokens`] | no | 500 | the engine's token ids are not those of the request |
//! | [`PublishError`] (others) | no | none | the request goes on, or was revoked; only later hits are lost |
//! | [`ForkError::Admit`] | as the [`AdmitError`] in it | as there | as there |
//! | [`ForkError::ForeignOwner`] | never | 500, and alarm | a beam for another tenant: find who mixed them up |
//! | [`ForkError`] (others) | by what is inside | 503 | an outside party or a device is at work on a page, or it has too many holders |
//! | [`ExtentError::Shared`], [`TicketError::Shared`] | after [`own`](crate::Reservation::own) | 500 | a kernel or a peer was to write what others see |
//! | [`ReadError::Slid`], [`TicketError::Slid`] | no | 500 | the engine asks for tokens that its window has left |
//! | [`AdmitError::Claim`] | by its [`ClaimError`]: `InUse` no, `Ended` under a new token | 409 | a client repeats a request that was answered |
//! | [`TicketError::Busy`] | yes, after the reader or the ticket | 503 | as `ReadError::Busy` |
//! | [`TicketError::HolderAlive`] | yes, after the process ended | none | end the process; its pages stay quarantined until then |
//! | [`TicketError::HolderUnnamed`], [`TicketError::HolderNamed`] | no | 500 | a bug in the engine: a holder is named once, when its ticket is given |
//! | [`ProcessError`] | no | 503 | the holder ended already, or the kernel is too old: without a name its tickets end on trust only |
//! | [`TicketError::Unwritten`] | yes, when it is written | 500 | an offload or a sender begins before the tokens are there |
//! | [`TicketError::Unknown`] | no | none | a completion for a transfer that never was: counted, look at the peer |
//! | [`ReleaseError`] | no | 500 | a double release or a wrong list: nothing was released |
//! | [`ConfigError`], [`GeometryError`], [`LayoutError`], [`MemoryError`] when starting | no | do not serve | the numbers in the message do not fit the machine |
//! | [`ResizeError`], [`SuspendError`], [`CloseError`](crate::CloseError) | after what they name ended | none | end the tickets or admissions they count |
//! | [`AuditError`] | no | stop serving | a defect of this library, or somebody wrote through addresses: keep the process, tell us |
//! | [`TicketError::AlreadyDone`] | no | none | a duplicate completion: harmless, counted |
//! | [`OutboundError`] (any but `Read`, `Land`) | new handoff, with the right offer | 502 | the offer differs from what prefill sealed: the first sign of the incident on the crate's front page |
//! | [`AcceptError::NotYet`] | yes, after what it names came | none | look at [`overdue_transfers`](crate::PagePool::overdue_transfers) for what never comes |
//! | [`MoveError::Digest`] | no; reserve elsewhere | 503 | the target's memory changed what was written: distrust it |
//! | [`MoveError`] (others) | by what it names; the source stays | 500 | the engine moves between pools that do not fit |
//! | [`TransferError`] | no | none | a message that came late, or for nobody: counted, dropped |
//! | [`WriterError::Open`] | after its ticket ended | 503 | one ticket for each writer |
//! | [`WriterError`] (others), [`DigestError`] | no | 500 | plan and engine name different writers, or digests that this build has not |
//! | [`InboundError::Transfer`] | no | none | drop the message: it is about another handoff, and this one is as it was |
//! | [`InboundError::StillWriting`], [`InboundError::Untold`], [`InboundError::UntoldHeld`], [`InboundError::Gap`] | wait for it, or give up | 502 when given up | something is still to come from that writer |
//! | [`InboundError::HeldDigest`] | new handoff without the prefix | 502 | the prefix that this side held is wrong: look here, not at the sender |
//! | [`InboundError::Write`], [`LandError::Write`] | by what it says | 503 | the owner was reclaimed here, or a writer or a device is at work on the page |
//! | [`InboundError`] (others), [`LandError`] (others) | new handoff | 502 | what arrived, or the receipt, is not what was reserved: look at the sender |
//! | [`OutboundError::Read`], [`OutboundError::Land`] | by what is inside | 503 | this side's pages, or the receiver's in this process |
//! | [`WireError`] | no, the same bytes never decode; new handoff | 502 | who sent it? Bytes that are no message, or of another version: look at the peer, and at the field and offset named |
//! | [`SegmentError`] | no | 500 | the places of pages are not those of the model or the sequence: pair again, and look at who keeps the lists |
//! | [`SlotError::Stale`], [`SlotError::Revoked`] | never | none | a message came late, for a match that is over: drop it |
//! | [`SlotError::ForeignOwner`], [`SlotError::ForeignPool`] | never | 500, and alarm | a match tried to reach another's slot |
//! | [`SlotError::Uninitialised`] | after `init` | 500 | a match began before it was ready: the shape of the incident on the crate's front page |
//! | [`SlotError::Busy`] | yes, next tick | none | two systems want one slot in the same tick |
//! | [`SlotError::Poisoned`] | no; release it | 500 | a closure panicked: look at its message |
//! | [`SlotError`] (others) | no | 500 | a bug in the game's bookkeeping; the numbers say which |
//! | [`SlotClaimError::Full`] | yes, after slots came back | 503 or wait in the queue | look at `stats`: quarantined slots name a slow reader |
//! | [`SlotClaimError`] (others) | as [`AdmitError`] of the same name | as there | slots retire when their reset panics: see `reset_panics` |
//! | [`OpenError`], [`SealError`] | no, unless `Pending` or `Busy` | 500 | the pool's pages do not hold the model that was named |

mod admit;
mod extent;
mod pool;
mod prefix;
mod slot;
mod step;
mod table;

use thiserror::Error;

use crate::admission::Rejected;
use crate::geometry::{GeometryError, LayoutError};
use crate::handoff::{
    AcceptError, DigestError, InboundError, LandError, MoveError, NotAccepted, OpenError, OutboundError, SealError,
    SegmentError, UnfitPool, WireError, WriterError,
};
use crate::memory::{MemoryError, PageMemory, ProcessError};
use crate::pool::ClaimError;

pub use admit::{AdmitError, CapacityError, GrowError, RejectReason, ReserveError};
pub use extent::{ExtentError, ReadError, WriteError};
pub use pool::{AuditError, ConfigError, ReleaseError, ResizeError, SuspendError, TicketError, TransferError};
pub use prefix::{ForkError, PublishError};
pub use slot::{SlotClaimError, SlotError};
pub use step::{ExportError, StepError};
pub use table::{RowError, TableError};

/// A call that was refused, with what it would have consumed: nothing is lost.
///
/// `?` into an [`enum@Error`] keeps the reason only: what was handed in is dropped, and its pages go back (those of a claim that was not confirmed are kept until it expires).
///
/// # Examples
///
/// ```
/// use pagestamp::{CapacityPlan, NullMemory, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, Request, ReserveError};
/// let geometry = PageGeometry::new(16, &[Plane::per_token(1, 64)])?;
/// let pool = PagePool::new(PoolConfig::new(6), NullMemory::new(geometry, 6)?)?;
/// let proof = pool.prove(CapacityPlan::new(64))?;
/// let owner = OwnerId::new(7).ok_or("zero")?;
///
/// let admitted = pool.admit(&proof, Request::new(owner, 32))?;
/// let Err(refused) = admitted.reserve(33) else { return Err("more than was admitted".into()) };
/// let (admitted, reason) = refused.into_parts(); // the admission stands: try again with it
/// assert!(matches!(reason, ReserveError::PastMax { asked_tokens: 33, max_tokens: 32 }));
/// assert_eq!(admitted.reserve(32)?.pages(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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

/// Any error of this crate but [`CloseError`](crate::CloseError), for callers that keep one type.
///
/// That one gives the pool back and is generic over its memory: handle it where `close` is called. A [`Refused`] turns
/// into the error inside it; the value that it gave back is dropped, so that its pages go back.
///
/// # Examples
///
/// ```
/// use pagestamp::{CapacityPlan, Error, NullMemory, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, Request};
///
/// fn pages_for(owner: OwnerId, max_tokens: u64, tokens: u64) -> Result<u32, Error> {
///     let geometry = PageGeometry::new(16, &[Plane::per_token(1, 64)])?;
///     let pool = PagePool::new(PoolConfig::new(6), NullMemory::new(geometry, 6)?)?;
///     let proof = pool.prove(CapacityPlan::new(64))?;
///     Ok(pool.admit(&proof, Request::new(owner, max_tokens))?.reserve(tokens)?.pages())
/// }
///
/// let owner = OwnerId::new(7).ok_or("zero")?;
/// assert!(matches!(pages_for(owner, 32, 17), Ok(2)));
/// assert!(matches!(pages_for(owner, 32, 33), Err(Error::Reserve(_))));
/// assert!(matches!(pages_for(owner, 99, 1), Err(Error::Admit(_))));
/// # Ok::<(), &'static str>(())
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// Of [`PoolConfig`](crate::PoolConfig) and [`PagePool::new`](crate::PagePool::new).
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Of the geometry.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Of a model's layout, or of a slice of it.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Of a memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Of the capacity proof.
    #[error(transparent)]
    Capacity(#[from] CapacityError),
    /// Of an admission.
    #[error(transparent)]
    Admit(#[from] AdmitError),
    /// Of a request that was rejected.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// Of a claim.
    #[error(transparent)]
    Claim(#[from] ClaimError),
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
    /// Of naming a process.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// Of a release by handles.
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// Of publishing a prefix.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// Of a fork.
    #[error(transparent)]
    Fork(#[from] ForkError),
    /// Of a step.
    #[error(transparent)]
    Step(#[from] StepError),
    /// Of a table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// Of tokens that a step writes.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// Of a resize.
    #[error(transparent)]
    Resize(#[from] ResizeError),
    /// Of suspend and resume.
    #[error(transparent)]
    Suspend(#[from] SuspendError),
    /// Of an audit.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// Of a handoff message as bytes.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// Of a pool whose pages do not hold a slice of a model.
    #[error(transparent)]
    Unfit(#[from] UnfitPool),
    /// Of an inbound that was not opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Of bytes that did not land.
    #[error(transparent)]
    Land(#[from] LandError),
    /// Of a writer that was not let in.
    #[error(transparent)]
    Writer(#[from] WriterError),
    /// Of digests.
    #[error(transparent)]
    Digest(#[from] DigestError),
    /// Of a message about no open handoff.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// Of a move within the process.
    #[error(transparent)]
    Move(#[from] MoveError),
    /// Of what arrived in a handoff.
    #[error(transparent)]
    Inbound(#[from] InboundError),
    /// Of a handoff that was not accepted.
    #[error(transparent)]
    NotAccepted(#[from] NotAccepted),
    /// Of an outbound that was not sealed.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// Of regions, routes and segments.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// Of an offer, or of sending.
    #[error(transparent)]
    Outbound(#[from] OutboundError),
    /// Of an access to a slot, or its release.
    #[error(transparent)]
    Slot(#[from] SlotError),
    /// Of slots that were not claimed.
    #[error(transparent)]
    SlotClaim(#[from] SlotClaimError),
}

impl<M: PageMemory> From<AcceptError<M>> for Error {
    /// Keeps the reason. An inbound that was not complete is dropped, and its pages go back.
    fn from(error: AcceptError<M>) -> Self {
        Self::NotAccepted(error.give_up())
    }
}

impl<T, E: Into<Error>> From<Refused<T, E>> for Error {
    /// Keeps the reason and drops what was handed in.
    fn from(refused: Refused<T, E>) -> Self {
        refused.error.into()
    }
}
