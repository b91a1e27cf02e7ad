//! Tickets: the right of a named outside party to read or write pages until it is known to have stopped.
//!
//! *Owns* the words. *Does not know* the registry, which the pool keeps. A ticket never ends by time: a deadline makes it
//! overdue and visible, nothing more.

use std::fmt;
use std::sync::Arc;

use crate::id::PoolId;
use crate::lease::Core;
use crate::pool::TicketKey;

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

/// Names one ticket. `Copy`, so that it can travel with a message; never used twice within the life of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TicketId {
    pub(crate) pool: PoolId,
    pub(crate) sequence: u64,
    pub(crate) key: TicketKey,
}

impl TicketId {
    /// The pool that gave it.
    #[must_use]
    pub const fn pool(&self) -> PoolId {
        self.pool
    }

    /// Its number: the tickets of a pool are counted from 1.
    #[must_use]
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }
}

impl fmt::Debug for TicketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ticket {} of {:?}", self.sequence, self.pool)
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
}

/// An open ticket, as the pool keeps it.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) sequence: u64,
    pub(crate) holder: HolderId,
    pub(crate) access: Access,
    pub(crate) pages: Vec<u32>,
    pub(crate) deadline_ns: Option<u64>,
    /// The reservation whose open write tickets it counts among.
    pub(crate) core: Option<Arc<Core>>,
}
