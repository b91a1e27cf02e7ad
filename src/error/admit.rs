//! Refusals at the door: proof, admission, reservation, growth.

use thiserror::Error;

use crate::admission::{Rejected, Request};
use crate::id::PoolId;
use crate::quota::Limit;

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
    /// The slot pool cannot hold the largest group with the demanded headroom.
    #[error(
        "{usable_slots} slots are usable, but groups of {largest_group_slots} with headroom {headroom} need \
         {required_slots}; enlarge the pool or advertise smaller groups"
    )]
    TooFewSlots {
        /// Largest group of the plan.
        largest_group_slots: u64,
        /// Headroom of the plan.
        headroom: f64,
        /// Slots that the plan needs.
        required_slots: u64,
        /// Slots that claims can use now.
        usable_slots: u64,
    },
}

/// Why a request was not admitted. Except for `Rejected` the request comes back.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AdmitError {
    /// Not now: too few pages are free. Pool unchanged.
    #[error(
        "{request} needs {needed_pages} pages and {free_pages} are free within {limit} ({pending_pages} more are on their way \
         back, {promised_pages} are promised to others); try again when pages come back, preempt no more than pending covers"
    )]
    Full {
        /// The request, to be tried again.
        request: Request,
        /// Pages needed.
        needed_pages: u64,
        /// Pages neither held nor promised, or what is left of the owner's hard quota if that is the limit.
        free_pages: u64,
        /// Pages quarantined or being cleaned.
        pending_pages: u64,
        /// What the request ran into.
        limit: Limit,
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
    /// The prefix to go on from is of another owner or another pool, or its owner was reclaimed. Pool unchanged.
    #[error("{request}: the prefix is of another owner or pool, or was revoked; look it up anew, for this owner, here")]
    PrefixUnusable {
        /// The request, to be tried again.
        request: Request,
    },
    /// The claim of the request does not give its pages again. Pool unchanged.
    #[error("{request}: {source}")]
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
        "{asked_tokens} tokens ({needed_pages} pages) never fit into {limit}: requests of at most {max_request_tokens} tokens \
         are served, {usable_pages} pages are usable"
    )]
    NeverFits {
        /// Tokens asked for.
        asked_tokens: u64,
        /// Pages that they need.
        needed_pages: u64,
        /// Largest request of the plan.
        max_request_tokens: u64,
        /// Pages that requests can use, or that the owner's hard quota allows if that is the limit.
        usable_pages: u64,
        /// What it does not fit into.
        limit: Limit,
    },
    /// A request for nothing.
    #[error("a request for 0 tokens")]
    ZeroTokens,
    /// More slots at once than the largest group of the plan; they would never fit, however empty the pool.
    #[error(
        "{asked_slots} slots at once never fit: groups of at most {largest_group_slots} are served, {usable_slots} slots \
         are usable"
    )]
    GroupNeverFits {
        /// Slots asked for.
        asked_slots: u64,
        /// Largest group of the plan.
        largest_group_slots: u64,
        /// Slots that claims can use.
        usable_slots: u64,
    },
    /// A claim for no slot.
    #[error("a claim for 0 slots")]
    ZeroSlots,
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
        "growing past the {max_tokens} admitted tokens needs {needed_pages} pages more, {free_pages} are free within {limit} \
         and {pending_pages} pending; release or preempt one victim, then try again"
    )]
    Full {
        /// Tokens that were admitted and cannot fail.
        max_tokens: u64,
        /// Pages needed beyond the promise.
        needed_pages: u64,
        /// Pages neither held nor promised, or what is left of the owner's hard quota if that is the limit.
        free_pages: u64,
        /// Pages quarantined or being cleaned.
        pending_pages: u64,
        /// What it ran into.
        limit: Limit,
    },
    /// More pages than the pool has, or than the owner's hard quota allows.
    #[error("{needed_pages} pages never fit into {limit}: {usable_pages} are usable")]
    NeverFits {
        /// Pages that the reservation would hold.
        needed_pages: u64,
        /// Pages that requests can use, or that the owner's hard quota allows if that is the limit.
        usable_pages: u64,
        /// What it does not fit into.
        limit: Limit,
    },
    /// The owner was reclaimed.
    #[error("the reservation was revoked by a reclaim of its owner")]
    Revoked,
}
