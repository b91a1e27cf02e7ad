//! Refusals of reads, writes and extents.

use thiserror::Error;

use crate::header::NoBorrow;
use crate::id::{Generation, OwnerId, PoolId};
use crate::memory::MemoryError;
use crate::stamp::{OffLimits, PageState};

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
    #[error("{given} slices were given; the pool has {planes} planes, and each needs one")]
    PlaneCount {
        /// Slices given.
        given: usize,
        /// Planes of the pool.
        planes: usize,
    },
    /// No such plane.
    #[error("plane {plane} was asked for; the pool has {planes}")]
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
    #[error("page {page} of the pool is under a write ticket; wait until it ends, `tickets` shows whose it is")]
    Busy {
        /// The page.
        page: u32,
    },
    /// Tokens are pending under a step.
    #[error("{step} writes tokens up to {to_tokens} or before; let it report them written or aborted first")]
    Exported {
        /// The first open step that writes.
        step: crate::step::StepId,
        /// Where the pending tokens end.
        to_tokens: u64,
    },
    /// A device is still cleaning the page.
    #[error("page {page} is still being cleaned by the device; try again after its fence")]
    Pending {
        /// The page.
        page: u32,
    },
    /// A device could not clean the page: the host never sees it in this life.
    #[error("page {page} could not be cleaned by the device; release the reservation, it is cleaned anew or retired")]
    CleaningFailed {
        /// The page.
        page: u32,
    },
    /// The page is pinned by a reader, so that its tokens must be rewritten on a fresh page, and none is free.
    #[error(
        "page {page} is pinned by a reader: its tokens are rewritten on a fresh page, {needed_pages} are needed and \
         {free_pages} free; try again when more are"
    )]
    NoFreshPage {
        /// The first pinned page.
        page: u32,
        /// Fresh pages needed, one for each pinned one.
        needed_pages: u64,
        /// Pages neither held nor promised.
        free_pages: u64,
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
    #[error("page {page} of the pool is under a write ticket; wait until it ends, `tickets` shows whose it is")]
    Busy {
        /// The page.
        page: u32,
    },
    /// Tokens are pending under a step.
    #[error("{step} writes tokens up to {to_tokens} or before; let it report them written or aborted first")]
    Exported {
        /// The first open step that writes.
        step: crate::step::StepId,
        /// Where the pending tokens end.
        to_tokens: u64,
    },
    /// The page has other holders, or its tokens are published, and an outside kernel is said to have written it.
    #[error("page {page} is shared or published: `own` a page of your own for the tokens before a kernel writes them")]
    Shared {
        /// The page.
        page: u32,
    },
    /// A window slid past the tokens.
    #[error("token {to_tokens} was asked for; the reservation slid past those below {first_tokens}")]
    Slid {
        /// Extent asked for.
        to_tokens: u64,
        /// First token that is here still.
        first_tokens: u64,
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
    #[error("page {page} was asked for; the pool has {pages}")]
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
    /// A window slid past the tokens.
    #[error("tokens from {from_tokens} on were asked for; the reservation slid past those below {first_tokens}")]
    Slid {
        /// Beginning of the read.
        from_tokens: u64,
        /// First token that is here still.
        first_tokens: u64,
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
    #[error("page {page} of the pool is under a write ticket; wait until it ends, `tickets` shows whose it is")]
    Busy {
        /// The page.
        page: u32,
    },
    /// A device is still cleaning the page.
    #[error("page {page} is still being cleaned by the device; try again after its fence")]
    Pending {
        /// The page.
        page: u32,
    },
    /// A device could not clean the page: the host never sees it in this life.
    #[error("page {page} could not be cleaned by the device; release the reservation, it is cleaned anew or retired")]
    CleaningFailed {
        /// The page.
        page: u32,
    },
    /// The owner was reclaimed.
    #[error("the reservation was revoked by a reclaim of its owner")]
    Revoked,
    /// No such plane.
    #[error("plane {plane} was asked for; the pool has {planes}")]
    NoSuchPlane {
        /// Plane asked for.
        plane: usize,
        /// Planes of the pool.
        planes: usize,
    },
    /// No such run in the plane.
    #[error("run {run} of plane {plane} was asked for; the plane has {runs}")]
    NoSuchRun {
        /// Plane asked for.
        plane: usize,
        /// Run asked for.
        run: u32,
        /// Runs of the plane.
        runs: u32,
    },
    /// A buffer of the wrong size.
    #[error("a buffer of {given_bytes} bytes was given; the tokens have {expected_bytes}")]
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

impl From<NoBorrow> for ReadError {
    fn from(no: NoBorrow) -> Self {
        match no {
            NoBorrow::Revoked => Self::Revoked,
            NoBorrow::TooMany => Self::TooManyGuards,
        }
    }
}

impl From<NoBorrow> for WriteError {
    fn from(no: NoBorrow) -> Self {
        match no {
            NoBorrow::Revoked => Self::Revoked,
            NoBorrow::TooMany => Self::TooManyGuards,
        }
    }
}

impl ReadError {
    pub(crate) fn off_limits(page: u32, why: OffLimits) -> Self {
        match why {
            OffLimits::Writing => Self::Busy { page },
            OffLimits::Pending => Self::Pending { page },
            OffLimits::Failed => Self::CleaningFailed { page },
            OffLimits::Gone => Self::Revoked,
        }
    }
}

impl WriteError {
    pub(crate) fn off_limits(page: u32, why: OffLimits) -> Self {
        match why {
            OffLimits::Writing => Self::Busy { page },
            OffLimits::Pending => Self::Pending { page },
            OffLimits::Failed => Self::CleaningFailed { page },
            OffLimits::Gone => Self::Revoked,
        }
    }
}
