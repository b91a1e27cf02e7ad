//! Eviction: how cached pages make room.
//!
//! *Owns* which cached pages go, and how many. A page with a holder is never cached, so eviction takes nothing from anybody;
//! a page that a ticket names is passed over, for it would not make room.

use super::release::{Leaving, Parting};
use super::{Inner, PagePool, Released, State};
use crate::id::OwnerId;
use crate::memory::PageMemory;
use crate::prefix::PrefixEvent;

impl<M: PageMemory> PagePool<M> {
    /// Evicts up to `pages` cached pages, those that go first first: those of the lowest priority, of these the least
    /// recently used. Admissions do so by themselves; this is for an engine that wants room ahead of time.
    ///
    /// # Cost
    ///
    /// O(pages) under the lock, and as a release.
    #[expect(clippy::must_use_candidate, reason = "done for its effect; the answer is for reports")]
    pub fn evict(&self, pages: u64) -> Released {
        let mut state = self.inner.state.lock();
        let leaving = self.inner.evict(&mut state, pages);
        self.inner.finish_leaving(state, leaving)
    }

    /// Moves the events about published pages out, oldest first, and answers how many were forgotten because nobody took
    /// them in time: then what a router knows of this pool is void.
    ///
    /// Off unless the pool [keeps events](crate::PoolConfig::with_prefix_events).
    pub fn take_prefix_events(&self, into: &mut Vec<PrefixEvent>) -> u64 {
        self.inner.state.lock().index.events.take(into)
    }
}

impl<M: PageMemory> Inner<M> {
    /// Evicts up to `pages` cached pages that nothing holds.
    pub(super) fn evict(&self, state: &mut State, pages: u64) -> Leaving {
        let is_loose = |page: &u32| self.meta(*page).word().holds() == 0;
        let most = usize::try_from(pages).unwrap_or(usize::MAX);
        let chosen: Vec<u32> = state.index.cached_pages().filter(is_loose).take(most).collect();
        state.totals.evicted += chosen.len() as u64;
        self.let_go_of_cached(state, &chosen)
    }

    /// Lets go of all cached pages of the owners for whom `whose` says yes.
    pub(super) fn evict_where(&self, state: &mut State, whose: &impl Fn(OwnerId) -> bool) -> Leaving {
        let is_theirs = |page: &u32| self.meta(*page).owner().is_some_and(whose);
        let chosen: Vec<u32> = state.index.cached_pages().filter(is_theirs).collect();
        self.let_go_of_cached(state, &chosen)
    }

    /// A cached page leaves as a live one does whose last holder does not keep it.
    fn let_go_of_cached(&self, state: &mut State, pages: &[u32]) -> Leaving {
        pages.iter().for_each(|page| self.revive(state, *page));
        self.let_go(state, pages.iter().copied(), Parting::FOR_GOOD)
    }

    /// Evicts what a shrinking pool has too many of.
    pub(super) fn evict_surplus(&self, state: &mut State) -> Leaving {
        let surplus = (self.metas.len() - state.parked.len()).saturating_sub(state.target as usize);
        self.evict(state, surplus as u64)
    }
}
