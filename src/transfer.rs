//! Handoffs that are open in a pool, as they are shown.
//!
//! *Owns* the words. *Does not know* the registry, which the pool keeps, nor the protocol, which is
//! [`handoff`](crate::handoff).

use std::fmt;

use crate::id::{OwnerId, TransferId};
use crate::pool::RecordKey;

/// Names one end of a handoff.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Side {
    /// The one that has the bytes: prefill.
    Sender,
    /// The one that wants them: decode.
    Receiver,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Sender => "sender",
            Side::Receiver => "receiver",
        })
    }
}

/// An open handoff of a pool.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TransferInfo {
    /// Which one. The number of a sender is its own pool's; those of the offers that it serves are in `serves`.
    pub id: TransferId,
    /// Which end the pool is.
    pub side: Side,
    /// Whose pages they are.
    pub owner: OwnerId,
    /// Pages that it holds, those reserved beyond what is handed over included.
    pub pages: u32,
    /// Transfers of receivers that a sender has begun to serve.
    pub serves: Vec<TransferId>,
    /// When it began, in the caller's nanoseconds.
    pub begun_ns: Option<u64>,
    /// When it becomes overdue.
    pub deadline_ns: Option<u64>,
}

impl TransferInfo {
    /// How long it has been open.
    #[must_use]
    pub fn age_ns(&self, now_ns: u64) -> Option<u64> {
        self.begun_ns.map(|begun_ns| now_ns.saturating_sub(begun_ns))
    }
}

/// Most transfers of receivers that one sender serves. Their numbers come in messages, and are kept and searched.
pub(crate) const MAX_SERVED: usize = 1024;

/// Whether a sender serves a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Serving {
    /// It does, from now on or as before.
    Now,
    /// Another sender of the pool does.
    Elsewhere,
    /// It serves as many as it may.
    TooMany,
}

/// An open handoff, as the pool keeps it.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) key: RecordKey,
    pub(crate) side: Side,
    pub(crate) serves: Vec<TransferId>,
    pub(crate) begun_ns: Option<u64>,
    pub(crate) deadline_ns: Option<u64>,
}
