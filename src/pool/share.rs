//! Pages with more than one holder, or whose tokens are published.
//!
//! *Owns* the count of holders and the flag *kept* in the stamp, which says that a page is one of these. Everything is done
//! under the pool's lock. A kept page is never rewritten: who needs other bytes there [moves](super::tickets) to a fresh page.
//!
//! **Room.** Each holder may turn into a hold of the stamp (it is revoked while it is borrowed), so holders and holds
//! together stay within what the stamp counts.

use super::release::Parting;
use super::{Inner, State};
use crate::memory::PageMemory;
use crate::stamp::PageState;

impl<M: PageMemory> Inner<M> {
    /// Lists the pages that became cached in the release at hand. The last page of a prefix counts as the oldest, so that it
    /// goes before what it continues.
    #[cold]
    pub(super) fn list_just_cached(&self, state: &mut State) {
        while let Some(page) = state.just_cached.pop() {
            let meta = self.meta(page);
            if let Some(owner) = meta.owner() {
                state.index.cache(page, owner, meta.word().holds() > 0);
            }
        }
    }

    /// Says whether a page has room for one more holder or ticket.
    pub(super) fn has_room(&self, page: u32) -> bool {
        let meta = self.meta(page);
        u32::from(meta.word().holds()) + u32::from(meta.sharers()) + 1 < u32::from(u16::MAX)
    }

    /// Adds a holder to a live page that has room, or makes a cached page live for its first one.
    pub(super) fn hold_page(&self, state: &mut State, page: u32) {
        let meta = self.meta(page);
        let word = meta.word();
        if word.state() != PageState::Cached {
            meta.set_sharers(meta.sharers() + 1);
            meta.publish(word.with_kept(true));
            return;
        }
        self.revive(state, page);
        if M::MIRRORS_STAMPS
            && let Some(owner) = meta.owner()
        {
            self.memory.issued(page, word.generation(), owner);
        }
    }

    /// Makes a cached page live, with one holder.
    pub(super) fn revive(&self, state: &mut State, page: u32) {
        let meta = self.meta(page);
        meta.publish(meta.word().with_state(PageState::Live));
        state.live += 1;
        if let Some(owner) = meta.owner() {
            state.index.uncache(page, owner);
            state.count_in(owner, 1);
        }
    }

    /// Notes against its owner's quota that a page is live no more. Called while it still has its owner.
    #[inline]
    pub(super) fn count_page_out(&self, state: &mut State, page: u32) {
        if !state.quotas.is_empty()
            && let Some(owner) = self.meta(page).owner()
        {
            state.count_out(owner, 1);
        }
    }

    /// One holder of a kept page leaves. `true` when the page stays with its owner: others hold it, or it is cached now.
    /// Else it is an ordinary page of its last holder.
    #[cold]
    pub(super) fn stays(&self, state: &mut State, page: u32, parting: Parting) -> bool {
        let meta = self.meta(page);
        let word = meta.word();
        let held = if parting.borrowed { word.held().unwrap_or(word) } else { word };
        if meta.sharers() > 0 {
            meta.set_sharers(meta.sharers() - 1);
            meta.publish(held.with_kept(meta.sharers() > 0 || state.index.is_published(page)));
            return true;
        }
        let next_is_spent = word.bumped().is_spent(self.config.last_generation());
        if parting.caches && state.index.is_retained(page) && !next_is_spent && !self.is_crowded(state) {
            self.count_page_out(state, page);
            meta.publish(held.cached());
            state.live -= 1;
            state.just_cached.push(page);
            return true;
        }
        self.unpublish(state, page);
        false
    }

    /// Takes a page out of the index; nobody finds it any more.
    pub(super) fn unpublish(&self, state: &mut State, page: u32) {
        let meta = self.meta(page);
        if let Some(owner) = meta.owner() {
            state.index.remove(page, owner);
        }
        meta.publish(meta.word().with_kept(meta.sharers() > 0));
    }
}
