//! Refusals of the pool as a whole: setting up, tickets, release by handles, resizing, audit.

use thiserror::Error;

use super::ReadError;
use crate::id::{Generation, OwnerId};
use crate::memory::MemoryError;
use crate::stamp::{OffLimits, PageState};

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
    /// A slot pool of no slot.
    #[error("a pool of 0 slots holds nothing; ask for at least 1")]
    NoSlots,
    /// The memory has fewer pages than the pool should begin with.
    #[error("the pool asks for {pages} pages, the memory has {max_pages}")]
    MoreThanMemory {
        /// Pages asked for.
        pages: u32,
        /// Pages of the memory.
        max_pages: u32,
    },
    /// Pages would retire before their first use.
    #[error("last generation {last_generation} leaves no page or slot a life; allow at least 2")]
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
    /// The memory refused to commit its pages, or to clean them, before their first use.
    #[error("the memory could not be made ready for its first use: {0}")]
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
    /// No process was named for the ticket, so that nobody can be asked whether its holder has ended. Nothing changed.
    #[error("no process is known to be behind {0}; name it when the ticket is given, or vouch for the ticket's end")]
    HolderUnnamed(crate::ticket::TicketId),
    /// A process was named for the ticket before. Nothing changed.
    #[error("{ticket} is held by process {process_id} already; a ticket's holder is named once")]
    HolderNamed {
        /// The ticket.
        ticket: crate::ticket::TicketId,
        /// The process that was named.
        process_id: u32,
    },
    /// The process behind the ticket has not ended, as far as the kernel can tell. Nothing changed.
    #[error("process {process_id}, which holds {ticket}, has not ended; end the process, or wait until it has")]
    HolderAlive {
        /// The ticket.
        ticket: crate::ticket::TicketId,
        /// The process.
        process_id: u32,
    },
    /// Somebody else is on the page: a reader, under a write ticket; a writer, under a read ticket or a detach.
    #[error("page {page} is being read or written by somebody else; try again when that has ended")]
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
    /// A device could not clean the page.
    #[error("page {page} could not be cleaned by the device; release the reservation")]
    CleaningFailed {
        /// The page.
        page: u32,
    },
    /// Nothing of the page is written: an outside reader would see what is not there yet, or is not accepted yet.
    #[error("nothing of page {page} is written; let it be read when it is")]
    Unwritten {
        /// The page.
        page: u32,
    },
    /// The page has other holders, or its tokens are published: nobody writes it.
    #[error("page {page} is shared or published, and is not written again; write past it, or truncate and rewrite")]
    Shared {
        /// The page.
        page: u32,
    },
    /// A window slid past the pages asked for.
    #[error("pages from {from_pages} on were asked for; the reservation slid past those below {first_pages}")]
    Slid {
        /// First page asked for.
        from_pages: u32,
        /// First page that is here still.
        first_pages: u32,
    },
    /// 65,534 tickets and further holders are on the page.
    #[error("page {page} has too many open tickets and holders")]
    TooMany {
        /// The page.
        page: u32,
    },
    /// The pages asked for are not there.
    #[error("pages up to {to_pages} were asked for; the reservation has {pages}")]
    OutOfRange {
        /// End of the range of pages.
        to_pages: u64,
        /// Pages of the reservation.
        pages: u64,
    },
    /// A ticket for no page.
    #[error("a ticket for no page was asked for; name at least one")]
    Empty,
    /// The owner was reclaimed.
    #[error("the reservation was revoked by a reclaim of its owner")]
    Revoked,
}

/// Why a list of pages was not released, or not pinned. None of them was.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The handle at this position does not name a page that the owner holds.
    #[error("handle {position} cannot be used by this owner: {source}")]
    Handle {
        /// Position in the list.
        position: usize,
        /// What is wrong with it; a page released before is `Stale`.
        #[source]
        source: ReadError,
    },
    /// The list names no page, and a ticket needs one.
    #[error("the list names no page")]
    Empty,
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
    /// Admissions wait for their pages, or tickets or steps are open. Pool unchanged.
    #[error(
        "{promised_pages} pages are promised to admissions, {tickets} tickets and {steps} steps are open; end those first"
    )]
    Busy {
        /// Pages promised to admissions that hold none yet.
        promised_pages: u64,
        /// Open tickets.
        tickets: u64,
        /// Open steps.
        steps: u64,
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
    /// The index of free pages by their place differs from the walk.
    #[error("from page {first_page} on, the index of free runs differs from the pages that are free")]
    FreeRuns {
        /// First page of the span that is wrong.
        first_page: u32,
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
    /// The reservations that hold a page do not add up to what is counted beside its stamp.
    #[error("page {page}: {stamped} holders counted, {found} reservations hold it")]
    Holders {
        /// The page.
        page: u32,
        /// Holders counted.
        stamped: u64,
        /// Reservations that hold it.
        found: u64,
    },
    /// A page's mark for being shared or published differs from what it is, or an index names a page that is not whole.
    #[error("page {page} is {state:?}; published: {published}, which its stamp or its extent contradicts")]
    Kept {
        /// The page.
        page: u32,
        /// What its stamp says.
        state: PageState,
        /// Whether a lookup finds it.
        published: bool,
    },
    /// Pages wait for steps that have ended, or are counted wrongly.
    #[error("{waiting} pages wait for {open} open steps, {counted} are counted")]
    Steps {
        /// Pages that wait.
        waiting: u64,
        /// What the count says.
        counted: u64,
        /// Steps that are open.
        open: u64,
    },
    /// What an owner with a quota has differs from the walk.
    #[error("owner {owner}: {counted} pages counted against its quota, {found} found")]
    Quota {
        /// The owner.
        owner: OwnerId,
        /// What the book says.
        counted: u64,
        /// What the walk found.
        found: u64,
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

/// Why a message is about no open handoff. Counted; nothing changed.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransferError {
    /// It ended: accepted, rejected, dropped, or its owner was reclaimed.
    #[error("{0} is over; drop the message")]
    Over(crate::id::TransferId),
    /// This pool neither receives it nor serves it: a sender forgets a transfer when it ends.
    #[error("nobody here receives or serves {0}, or no longer; drop the message")]
    Unknown(crate::id::TransferId),
}

impl TicketError {
    pub(crate) fn off_limits(page: u32, why: OffLimits) -> Self {
        match why {
            OffLimits::Writing => Self::Busy { page },
            OffLimits::Pending => Self::Pending { page },
            OffLimits::Failed => Self::CleaningFailed { page },
            OffLimits::Gone => Self::Revoked,
        }
    }
}
