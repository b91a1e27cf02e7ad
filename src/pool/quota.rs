//! Owner quotas: exact counts for the owners that have one, and no cost for a pool without.
//!
//! *Owns* the books of owners with a quota. Every change of what an owner holds or is promised passes through
//! [`State::count_in`] or [`State::count_out`]; `audit` compares the books with a full walk.

use super::{Inner, PagePool, State};
use crate::error::AuditError;
use crate::id::OwnerId;
use crate::memory::PageMemory;
use crate::quota::{Limit, OwnerQuota, QuotaInfo};
use crate::stamp::PageState;

/// What an owner with a quota has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Book {
    quota: OwnerQuota,
    used: u64,
}

impl Book {
    fn is_past_soft(&self, more: u64) -> bool {
        self.quota.soft_pages.is_some_and(|soft| self.used.saturating_add(more) > soft)
    }
}

impl State {
    /// Notes that an owner holds, or is promised, so many pages more.
    #[inline]
    pub(super) fn count_in(&mut self, owner: OwnerId, pages: u64) {
        if !self.quotas.is_empty() {
            self.recount(owner, |used| used + pages);
        }
    }

    /// Notes that an owner holds, or is promised, so many pages less.
    #[inline]
    pub(super) fn count_out(&mut self, owner: OwnerId, pages: u64) {
        if !self.quotas.is_empty() {
            self.recount(owner, |used| used - pages);
        }
    }

    #[cold]
    fn recount(&mut self, owner: OwnerId, change: impl FnOnce(u64) -> u64) {
        if let Some(book) = self.quotas.get_mut(&owner) {
            book.used = change(book.used);
        }
    }

    /// Pages that an owner may have beyond those it has.
    #[inline]
    pub(super) fn quota_room(&self, owner: OwnerId) -> u64 {
        if self.quotas.is_empty() {
            return u64::MAX;
        }
        let book = self.quotas.get(&owner);
        book.and_then(|book| Some(book.quota.hard_pages?.saturating_sub(book.used))).unwrap_or(u64::MAX)
    }

    /// Pages that an owner may ever have.
    #[inline]
    pub(super) fn hard_quota(&self, owner: OwnerId) -> u64 {
        if self.quotas.is_empty() {
            return u64::MAX;
        }
        self.quotas.get(&owner).and_then(|book| book.quota.hard_pages).unwrap_or(u64::MAX)
    }

    /// Says whether an owner would be past its soft quota with so many pages more.
    pub(super) fn is_past_soft(&self, owner: OwnerId, more: u64) -> bool {
        self.quotas.get(&owner).is_some_and(|book| book.is_past_soft(more))
    }

    /// The owners past their soft quota.
    pub(super) fn past_soft(&self) -> Vec<OwnerId> {
        self.quotas.iter().filter(|(_, book)| book.is_past_soft(0)).map(|(owner, _)| *owner).collect()
    }

    /// What keeps an owner from so many pages more, when the pool has not enough free ones for it.
    pub(super) fn limit_for(&self, owner: OwnerId, more: u64) -> Limit {
        if self.index.cached() > 0 && self.is_past_soft(owner, more) { Limit::SoftQuota } else { Limit::Pool }
    }
}

impl<M: PageMemory> PagePool<M> {
    /// Sets what an owner may have, from now on; [`OwnerQuota::NONE`] forgets it. What it has already stays, even above.
    ///
    /// # Cost
    ///
    /// O(all pages + reservations) under the lock when the owner had no quota. While any owner has one, releases look at
    /// pages one by one.
    pub fn set_quota(&self, owner: OwnerId, quota: OwnerQuota) {
        let mut state = self.inner.state.lock();
        if quota == OwnerQuota::NONE {
            state.quotas.remove(&owner);
            return;
        }
        let used = match state.quotas.get(&owner) {
            Some(book) => book.used,
            None => self.inner.count_used(&state, owner),
        };
        state.quotas.insert(owner, Book { quota, used });
    }

    /// Where an owner stands; `None` when it has no quota.
    #[must_use]
    pub fn quota(&self, owner: OwnerId) -> Option<QuotaInfo> {
        let state = self.inner.state.lock();
        state.quotas.get(&owner).map(|book| QuotaInfo { owner, quota: book.quota, used_pages: book.used })
    }

    /// The owners past their soft quota, the furthest first: whom to preempt.
    #[must_use]
    pub fn owners_past_soft_quota(&self) -> Vec<QuotaInfo> {
        let state = self.inner.state.lock();
        let past = state.quotas.iter().filter(|(_, book)| book.is_past_soft(0));
        let mut past: Vec<QuotaInfo> =
            past.map(|(&owner, book)| QuotaInfo { owner, quota: book.quota, used_pages: book.used }).collect();
        past.sort_unstable_by_key(|info| (std::cmp::Reverse(info.over_soft_pages()), info.owner.get()));
        past
    }
}

impl<M: PageMemory> Inner<M> {
    /// Counts what an owner has, by a full walk.
    fn count_used(&self, state: &State, owner: OwnerId) -> u64 {
        let is_held =
            |page: &&crate::stamp::PageMeta| page.word().state() == PageState::Live && page.owner() == Some(owner);
        let held = self.metas.iter().filter(is_held).count() as u64;
        let records = state.records.values().filter(|record| record.owner == owner);
        held + records.map(|record| record.promised).sum::<u64>()
    }

    /// Compares the books with a full walk.
    pub(super) fn audit_quotas(&self, state: &State) -> Result<(), AuditError> {
        for (&owner, book) in &state.quotas {
            let found = self.count_used(state, owner);
            if book.used != found {
                return Err(AuditError::Quota { owner, counted: book.used, found });
            }
        }
        Ok(())
    }
}
