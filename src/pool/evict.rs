//! Eviction: how cached pages make room.
//!
//! *Owns* which cached pages go, and how many. A page with a holder is never cached, so eviction takes nothing from anybody.
//! A page that a ticket names would make no room: it stands apart, and is never looked at here until the ticket ends. For
//! somebody whom it cannot help nothing goes at all.

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
    /// O(pages evicted) under the lock, and as a release; O(cached pages) while an owner is past its soft quota.
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
    /// Evicts up to `pages` cached pages.
    pub(super) fn evict(&self, state: &mut State, pages: u64) -> Leaving {
        let chosen = self.choose(state, pages, None);
        self.evict_chosen(state, &chosen)
    }

    /// Evicts `pages` cached pages for an owner who needs so many pages more, or none if there are fewer. Past its soft
    /// quota nobody else's go.
    pub(super) fn evict_for(&self, state: &mut State, owner: OwnerId, needed: u64, pages: u64) -> Leaving {
        let whose = state.is_past_soft(owner, needed).then_some(owner);
        let chosen = self.choose(state, pages, whose);
        if (chosen.len() as u64) < pages { Leaving::default() } else { self.evict_chosen(state, &chosen) }
    }

    fn evict_chosen(&self, state: &mut State, chosen: &[u32]) -> Leaving {
        state.totals.evicted += chosen.len() as u64;
        self.let_go_of_cached(state, chosen)
    }

    /// Chooses up to `pages` cached pages that may go, of one owner or of all: first those of owners past their soft quota.
    fn choose(&self, state: &State, pages: u64, whose: Option<OwnerId>) -> Vec<u32> {
        let most = usize::try_from(pages.min(state.index.cached())).unwrap_or(usize::MAX);
        if let Some(owner) = whose {
            return self.choose_of(state, &[owner], most);
        }
        let first = state.past_soft();
        let mut chosen = self.choose_of(state, &first, most);
        let owner = |page: &u32| self.meta(*page).owner();
        let is_left = |page: &u32| first.is_empty() || owner(page).is_none_or(|owner| !first.contains(&owner));
        let rest = most - chosen.len();
        chosen.extend(state.index.loose_pages().filter(is_left).take(rest));
        chosen
    }

    /// Chooses among the pages of some owners, and looks no further than the last of them.
    fn choose_of(&self, state: &State, owners: &[OwnerId], most: usize) -> Vec<u32> {
        let there: u64 = owners.iter().map(|owner| state.index.loose_of(*owner)).sum();
        let most = most.min(usize::try_from(there).unwrap_or(usize::MAX));
        let is_theirs = |page: &u32| self.meta(*page).owner().is_some_and(|owner| owners.contains(&owner));
        if most == 0 { Vec::new() } else { state.index.loose_pages().filter(is_theirs).take(most).collect() }
    }

    /// Lets go of all cached pages of one owner, or of everybody; those that a ticket names wait for its end.
    pub(super) fn evict_all_of(&self, state: &mut State, whose: Option<OwnerId>) -> Leaving {
        let is_theirs = |page: &u32| whose.is_none_or(|owner| self.meta(*page).owner() == Some(owner));
        let mut chosen = self.choose(state, u64::MAX, whose);
        chosen.extend(state.index.pinned_pages().filter(is_theirs));
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

    /// Looks at what tickets and borrows held that ended.
    pub(super) fn look_after_holds(&self, state: &mut State) {
        if self.is_crowded(state) {
            let leaving = self.evict_surplus(state);
            self.put_off(state, leaving.batch);
        }
        self.collect_quarantine(state);
    }
}
