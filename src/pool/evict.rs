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
        let leaving = self.inner.evict(&mut state, pages, |_| true);
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
    /// Evicts up to `pages` cached pages that nothing holds, of the owners for whom `whose` says yes: first those of owners
    /// past their soft quota.
    pub(super) fn evict(&self, state: &mut State, pages: u64, whose: impl Fn(OwnerId) -> bool) -> Leaving {
        let most = usize::try_from(pages).unwrap_or(usize::MAX);
        let may_go = |page: &u32, past_soft: bool| {
            let meta = self.meta(*page);
            let is_theirs = |owner| whose(owner) && state.is_past_soft(owner, 0) == past_soft;
            meta.word().holds() == 0 && meta.owner().is_some_and(is_theirs)
        };
        let mut chosen: Vec<u32> = Vec::new();
        if !state.quotas.is_empty() {
            chosen.extend(state.index.cached_pages().filter(|page| may_go(page, true)).take(most));
        }
        let rest = most - chosen.len();
        chosen.extend(state.index.cached_pages().filter(|page| may_go(page, false)).take(rest));
        state.totals.evicted += chosen.len() as u64;
        self.let_go_of_cached(state, &chosen)
    }

    /// Evicts for an owner who needs so many pages more: past its soft quota, nobody else's.
    pub(super) fn evict_for(&self, state: &mut State, owner: OwnerId, needed: u64, pages: u64) -> Leaving {
        let own_only = state.is_past_soft(owner, needed);
        self.evict(state, pages, |whose| !own_only || whose == owner)
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
        self.evict(state, surplus as u64, |_| true)
    }
}
