//! Refusals of a slot pool.

use thiserror::Error;

use crate::admission::Rejected;
use crate::id::{Generation, OwnerId, PoolId};
use crate::pool::ClaimError;
use crate::stamp::PageState;

/// Why a slot was not accessed, initialised or released. Nothing changed.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlotError {
    /// The handle is of another pool, or of another process image.
    #[error("the handle is of {handle_pool:?}, this is {pool:?} (or a pool of an earlier process)")]
    ForeignPool {
        /// Pool in the handle.
        handle_pool: PoolId,
        /// Pool that was asked.
        pool: PoolId,
    },
    /// No such slot.
    #[error("slot {slot} was asked for; the pool has {slots}")]
    OutOfRange {
        /// Slot asked for.
        slot: u32,
        /// Slots that the pool has.
        slots: u32,
    },
    /// The slot was released since the handle was issued: the match is over, and the message came late. Drop it.
    #[error(
        "the handle names generation {handle_generation} of slot {slot}, which is now {state:?} in generation {generation}"
    )]
    Stale {
        /// The slot.
        slot: u32,
        /// Generation in the handle.
        handle_generation: Generation,
        /// Generation of the slot now.
        generation: Generation,
        /// What the slot does now.
        state: PageState,
    },
    /// The slot belongs to somebody else.
    #[error("slot {slot} does not belong to owner {asked_owner}")]
    ForeignOwner {
        /// The slot.
        slot: u32,
        /// Owner that was named.
        asked_owner: OwnerId,
    },
    /// The slot was claimed and has no value yet.
    #[error("slot {slot} is claimed and not initialised; init it first")]
    Uninitialised {
        /// The slot.
        slot: u32,
    },
    /// The slot has a value already.
    #[error("slot {slot} is initialised already; change it with with_mut")]
    AlreadyInitialised {
        /// The slot.
        slot: u32,
    },
    /// An access is in the way; the call did not wait.
    #[error("slot {slot} is in use by {}; try again when that ended", users(*readers))]
    Busy {
        /// The slot.
        slot: u32,
        /// Readers that are at it; 0 when somebody has it to himself.
        readers: u16,
    },
    /// A panic ended an exclusive access to the slot; its value may be half changed.
    #[error("slot {slot} may be half changed: a panic ended an exclusive access; release it, that resets it")]
    Poisoned {
        /// The slot.
        slot: u32,
    },
    /// The slot left its group: the owner was reclaimed, or the slot released by handle.
    #[error("slot {slot} left the group: its owner was reclaimed, or it was released by handle")]
    Revoked {
        /// The slot.
        slot: u32,
    },
    /// The group has fewer slots.
    #[error("place {place} was asked for; the group has {slots} slots")]
    NoSuchPlace {
        /// Place asked for, from 0.
        place: usize,
        /// Slots of the group.
        slots: usize,
    },
    /// More readers of one slot than can be counted.
    #[error("slot {slot} has 65535 readers; end some, or look for guards that are never dropped")]
    TooManyReaders {
        /// The slot.
        slot: u32,
    },
    /// Nobody's guards are to be forgotten: the slot is not quarantined in that life.
    #[error("slot {slot} is {state:?} in generation {generation}, not quarantined behind a guard of the handle's life")]
    NotQuarantined {
        /// The slot.
        slot: u32,
        /// What the slot does now.
        state: PageState,
        /// Generation of the slot now.
        generation: Generation,
    },
}

fn users(readers: u16) -> String {
    if readers == 0 { "one who has it to himself".to_owned() } else { format!("{readers} readers") }
}

/// Why slots were not claimed. The pool is unchanged.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SlotClaimError {
    /// Not now: too few slots are free.
    #[error(
        "{needed_slots} slots are needed and {free_slots} are free ({pending_slots} more are released and still accessed); \
         try again when slots come back"
    )]
    Full {
        /// Slots needed.
        needed_slots: u64,
        /// Slots that are free.
        free_slots: u64,
        /// Slots quarantined.
        pending_slots: u64,
    },
    /// Never: terminal.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// Slots retired, and the pool no longer covers the plan of the proof.
    #[error(
        "the proof of capacity epoch {proof_epoch} is void in epoch {epoch}: the plan needs {required_slots} slots, \
         {usable_slots} are usable; prove again"
    )]
    ProofVoid {
        /// Epoch in which the proof was made.
        proof_epoch: u64,
        /// Epoch now.
        epoch: u64,
        /// Slots that the plan needs.
        required_slots: u64,
        /// Slots that claims can use now.
        usable_slots: u64,
    },
    /// The proof was made by another pool.
    #[error("the proof is of {proof_pool:?}, this is {pool:?}")]
    ForeignProof {
        /// Pool of the proof.
        proof_pool: PoolId,
        /// Pool that was asked.
        pool: PoolId,
    },
    /// The named claim does not give its slots again.
    #[error(transparent)]
    Claim(#[from] ClaimError),
}
