//! A prefix that was found: pages held, until a request goes on from them.

use std::fmt;
use std::num::NonZeroU64;

use crate::id::OwnerId;
use crate::lease::Lease;
use crate::memory::PageMemory;
use crate::pool::PagePool;

/// How many pages of a reservation are in the index, from the first on, and the entry of the last of them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Chain {
    pub(crate) pages: u32,
    pub(crate) parent: Option<NonZeroU64>,
    /// A window slid past a page that nobody published: nothing behind it can be found.
    pub(crate) is_broken: bool,
}

impl Chain {
    /// The chain after a rollback to `pages` full pages: looked up anew if any of it is gone.
    pub(crate) fn truncated(self, pages: u32) -> Self {
        if pages < self.pages { Self::default() } else { self }
    }
}

/// The longest prefix that a [`lookup`](PagePool::lookup) found, in full pages. They stay while it lives; dropping it lets
/// go of them.
///
/// [`reserve_with_prefix`](PagePool::reserve_with_prefix) makes a reservation of it.
#[must_use = "dropping the prefix lets go of its pages"]
pub struct Prefix<M: PageMemory> {
    pub(crate) lease: Lease<M>,
    pub(crate) chain: Chain,
    tokens: u64,
}

impl<M: PageMemory> Prefix<M> {
    pub(crate) fn new(lease: Lease<M>, chain: Chain, tokens: u64) -> Self {
        Self { lease, chain, tokens }
    }

    /// Tokens whose KV is there.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Pages held.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.lease.core().pages.count()
    }

    /// Whose they are.
    #[must_use]
    pub const fn owner(&self) -> OwnerId {
        self.lease.owner()
    }

    /// The pool that the pages are of.
    #[must_use]
    pub const fn pool(&self) -> &PagePool<M> {
        self.lease.pool()
    }
}

impl<M: PageMemory> fmt::Debug for Prefix<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prefix").field("owner", &self.owner()).field("tokens", &self.tokens).finish_non_exhaustive()
    }
}
