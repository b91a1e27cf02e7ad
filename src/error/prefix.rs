//! Refusals of prefix sharing and of forks.

use thiserror::Error;

use super::{AdmitError, ReadError, TicketError};
use crate::admission::Request;
use crate::id::OwnerId;
use crate::memory::MemoryError;

/// Why pages were not published.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PublishError {
    /// Fewer token ids than the reservation has committed in full pages.
    #[error("{given_tokens} token ids were given; {needed_tokens} are committed in full pages, and each needs its id")]
    TooFewTokens {
        /// Token ids given.
        given_tokens: u64,
        /// Token ids needed.
        needed_tokens: u64,
    },
    /// A page was published under other token ids before.
    #[error("page {ordinal} of the reservation is published under other tokens; the same ids name it for good")]
    OtherTokens {
        /// Ordinal of the page in the reservation.
        ordinal: u32,
    },
    /// An outside party writes a page, or a device cleans it.
    #[error("page {page} cannot be published now: {source}")]
    OffLimits {
        /// The page.
        page: u32,
        /// Who is at work.
        #[source]
        source: ReadError,
    },
    /// The index could not grow.
    #[error("no memory for the index of published pages")]
    NoMemory,
    /// The owner was reclaimed.
    #[error("the reservation was revoked by a reclaim of its owner")]
    Revoked,
}

/// Why a reservation was not forked. It is unchanged, and the request is in the error unless it was rejected.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ForkError {
    /// The copy was not admitted.
    #[error(transparent)]
    Admit(#[from] AdmitError),
    /// The request is of another owner: pages are shared within one owner only.
    #[error("{request} cannot fork a reservation of owner {owner}; pages never cross owners")]
    ForeignOwner {
        /// The request, to be tried elsewhere.
        request: Request,
        /// Owner of the reservation.
        owner: OwnerId,
    },
    /// A page cannot be shared or copied now.
    #[error("{request}: {source}")]
    Page {
        /// The request, to be tried again.
        request: Request,
        /// Why.
        #[source]
        source: TicketError,
    },
    /// The partial last page could not be copied.
    #[error("{request}: {source}")]
    Memory {
        /// The request, to be tried again.
        request: Request,
        /// Why.
        #[source]
        source: MemoryError,
    },
}
