//! A prefix that was found: pages held, until a request goes on from them.

use std::fmt;
use std::num::NonZeroU64;

use super::Retention;
use crate::id::OwnerId;
use crate::lease::Lease;
use crate::memory::PageMemory;
use crate::pool::PagePool;

/// The entry of a published page, while the page still has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Link {
    pub(crate) id: NonZeroU64,
    pub(crate) page: u32,
}

/// How many pages of a reservation are in the index, from the first on, and where a walk goes on from there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Chain {
    pub(crate) pages: u32,
    /// The namespace that they are in.
    pub(crate) root: Option<NonZeroU64>,
    /// The last of them: of this reservation, or of another that published the same tokens before.
    pub(crate) end: Option<Link>,
    /// All of them stay at least as long.
    pub(crate) least: Retention,
    /// A window slid past a page that nobody published: nothing behind it can be found.
    pub(crate) is_broken: bool,
}

impl Default for Chain {
    fn default() -> Self {
        let least = Retention::Cached { priority: u8::MAX };
        Self { pages: 0, root: None, end: None, least, is_broken: false }
    }
}

impl Chain {
    /// The chain with one page more.
    pub(crate) fn extended(self, end: Link, retention: Retention) -> Self {
        Self { pages: self.pages + 1, end: Some(end), least: self.least.min(retention), ..self }
    }

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
