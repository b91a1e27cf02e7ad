//! Tickets: the right of a named outside party to read or write pages until it is known to have stopped.
//!
//! *Owns* the words. *Does not know* the registry, which the pool keeps. A ticket never ends by time: a deadline makes it
//! overdue and visible, nothing more.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;

use crate::id::{PoolId, PoolIdentity, pack, unpack};
use crate::lease::Core;
use crate::memory::HolderProcess;

/// Names the outside party that holds a ticket: a peer, a rank, a copy job. The caller's own number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HolderId(pub u64);

/// What the outside party may do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Access {
    /// Read the pages.
    Read,
    /// Write the pages; nobody reads them meanwhile.
    Write,
}

/// Names one ticket. `Copy`, and with a 128-bit form, so that it can travel with a message; never used twice within the
/// life of a pool.
///
/// It holds the pool's id and random part, as a [`TransferId`](crate::TransferId) does: a completion that comes after a
/// restart, or for another pool, is for a ticket that this pool never gave.
///
/// # Examples
///
/// [`ticket_done`](crate::PagePool::ticket_done) shows a ticket's life.
///
/// ```
/// use pagestamp::TicketId;
/// assert!(TicketId::from_bits(0).is_none(), "zero is never a ticket");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TicketId {
    pub(crate) identity: PoolIdentity,
    pub(crate) sequence: NonZeroU64,
}

impl TicketId {
    /// The pool that gave it.
    #[must_use]
    pub const fn pool(&self) -> PoolId {
        self.identity.pool
    }

    /// Its number: the tickets of a pool are counted from 1.
    #[must_use]
    pub const fn sequence(&self) -> u64 {
        self.sequence.get()
    }

    /// Packs the id for C, C++, Python or the wire; never zero.
    ///
    /// From the low bit: sequence 64, pool 32, nonce 24, and 8 bits that are zero. A ticket and a transfer of one pool may
    /// have equal bits: a message says which of them it names.
    #[must_use]
    pub fn to_bits(self) -> u128 {
        pack(self.identity, self.sequence)
    }

    /// Unpacks what [`to_bits`](Self::to_bits) packed. `None` when the pool or the sequence is zero, or one of the 8 high
    /// bits is not. Whether the pool gave such a ticket is seen when it is ended.
    #[must_use]
    pub fn from_bits(bits: u128) -> Option<Self> {
        unpack(bits).map(|(identity, sequence)| Self { identity, sequence })
    }
}

impl fmt::Debug for TicketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ticket {} of {:?}", self.sequence, self.identity.pool)
    }
}

impl fmt::Display for TicketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// An open ticket, as it is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TicketInfo {
    /// Which one.
    pub id: TicketId,
    /// Who holds it.
    pub holder: HolderId,
    /// What for.
    pub access: Access,
    /// Pages that it names.
    pub pages: u32,
    /// When it becomes overdue, in the caller's nanoseconds.
    pub deadline_ns: Option<u64>,
    /// The number of the process behind it, when one was named ([`name_holder`](crate::PagePool::name_holder)).
    pub process_id: Option<u32>,
}

/// An open ticket, as the pool keeps it.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) holder: HolderId,
    pub(crate) access: Access,
    pub(crate) pages: Vec<u32>,
    pub(crate) deadline_ns: Option<u64>,
    /// The process behind it, when it is known.
    pub(crate) process: Option<HolderProcess>,
    /// The reservation whose open write tickets it counts among.
    pub(crate) core: Option<Arc<Core>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::next_pool_identity;

    // C7
    #[test]
    fn the_128_bit_form_of_a_ticket_keeps_every_field_and_refuses_what_is_none() {
        let identity = next_pool_identity().expect("ids are left");
        let id = TicketId { identity, sequence: NonZeroU64::MAX };
        assert_eq!(TicketId::from_bits(id.to_bits()), Some(id));
        assert_eq!(size_of::<Option<TicketId>>(), 16);
        assert_eq!(TicketId::from_bits(0), None);
        assert_eq!(TicketId::from_bits(id.to_bits() >> 64 << 64), None, "sequence 0");
        assert_eq!(TicketId::from_bits(1), None, "pool 0");
        assert_eq!(TicketId::from_bits(id.to_bits() | 1 << 120), None, "a bit that means nothing");
    }
}
