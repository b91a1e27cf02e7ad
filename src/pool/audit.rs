//! The audit: a full walk of the stamps against every counter and list, with all state changes stopped.
//!
//! *Owns* the check of C1, C2 and the promises of C9 (`audit`) and of C3 in slices (`audit_bytes`). Anything that it
//! finds is a defect of pagestamp; nothing is repaired and nothing is clamped.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::{Inner, PagePool, State, Status};
use crate::error::AuditError;
use crate::id::OwnerId;
use crate::memory::{Fence, FenceState, PageMemory, Scratch};
use crate::stamp::PageState;
use crate::walk::{Census, Listing};

impl<M: PageMemory> PagePool<M> {
    /// Walks all stamps and lists and compares them with the counters.
    ///
    /// # Cost
    ///
    /// O(all pages) under the lock.
    ///
    /// # Errors
    ///
    /// The first [`AuditError`] found.
    pub fn audit(&self) -> Result<(), AuditError> {
        let inner = &*self.inner;
        let state = inner.state.lock();
        inner.audit_counts(&state)?;
        inner.audit_lists(&state)?;
        inner.audit_owners(&state)?;
        inner.audit_kept(&state)?;
        inner.audit_order(&state)?;
        inner.audit_quotas(&state)?;
        inner.audit_tickets(&state)?;
        inner.audit_steps(&state)?;
        let (promised, free) = (state.promised, state.free.len() as u64);
        let of_records: u64 = state.records.values().map(|record| record.promised).sum();
        if promised > free || of_records != promised {
            return Err(AuditError::Promises { promised: promised.max(of_records), free });
        }
        Ok(())
    }

    /// Checks that every free page of a range, and the null page, is zero in every byte.
    ///
    /// Give it a slice at a time: it holds the lock while it reads.
    ///
    /// # Errors
    ///
    /// - [`AuditError::Byte`]: a byte is not zero.
    /// - [`AuditError::Memory`]: the memory could not be read.
    pub fn audit_bytes(&self, pages: Range<u32>) -> Result<(), AuditError> {
        let inner = &*self.inner;
        let state = inner.state.lock();
        if state.suspended {
            return Ok(());
        }
        // A cleaning that failed is looked at: what it left is found.
        let is_pending = |fence: &Fence| inner.memory.poll(*fence) == FenceState::Pending;
        let null_page = self.null_page().filter(|_| !inner.own_pages_clean.get().is_some_and(is_pending));
        let tokens = if M::HAS_BYTES { inner.page_tokens() } else { 0 };
        let mut scratch = Scratch::for_tokens(self.geometry(), tokens);
        for page in pages.start..pages.end.min(self.max_pages()) {
            let word = inner.meta(page).word();
            let should_be_zero = word.state() == PageState::Free || null_page == Some(page);
            if should_be_zero && let Some(plane) = inner.find_soiled_plane(page, &mut scratch)? {
                return Err(AuditError::Byte { page, plane });
            }
        }
        Ok(())
    }
}

impl<M: PageMemory> Inner<M> {
    fn audit_counts(&self, state: &State) -> Result<(), AuditError> {
        let (counted, found) = (state.free.len() as u64, state.free.iter().count() as u64);
        if counted != found {
            return Err(AuditError::Count { state: PageState::Free, counted, found });
        }
        if let Some(first_page) = state.free.find_wrong_span() {
            return Err(AuditError::FreeRuns { first_page });
        }
        let census = Census::of(self.metas.iter().map(|meta| meta.word().state()));
        for kind in PageState::ALL {
            let counted = match kind {
                PageState::Free => state.free.len() as u64,
                PageState::Live => state.live,
                PageState::Cached => state.index.cached(),
                PageState::Quarantined => state.in_quarantine(),
                PageState::Cleaning => state.cleaning(),
                PageState::Parked => state.parked.len() as u64,
                PageState::Retired => state.retired,
                PageState::Reserved => u64::from(self.config.own_page_count()),
            };
            census.check(kind, counted)?;
        }
        Ok(())
    }

    /// Every page stands in at most one list, and its stamp says the same.
    fn audit_lists(&self, state: &State) -> Result<(), AuditError> {
        let mut listing = Listing::new(self.metas.len());
        let mut stands = |page: u32, list: PageState| listing.stands(page, self.meta(page).word().state(), list);
        state.free.iter().try_for_each(|page| stands(page, PageState::Free))?;
        state.dirty.iter().try_for_each(|page| stands(*page, PageState::Cleaning))?;
        let mut fenced = state.fenced.iter().flat_map(|f| &f.pages);
        fenced.try_for_each(|page| stands(*page, PageState::Cleaning))?;
        state.quarantined.iter().try_for_each(|page| stands(*page, PageState::Quarantined))?;
        state.steps.waiting().try_for_each(|page| stands(page, PageState::Quarantined))?;
        state.parked.iter().try_for_each(|page| stands(*page, PageState::Parked))?;
        state
            .index
            .loose_pages()
            .chain(state.index.pinned_pages())
            .try_for_each(|page| stands(page, PageState::Cached))?;
        let holders = count_holders(state);
        holders.keys().try_for_each(|page| stands(*page, PageState::Live))?;
        for (page, found) in holders {
            let stamped = u64::from(self.meta(page).sharers()) + 1;
            if stamped != found {
                return Err(AuditError::Holders { page, stamped, found });
            }
        }
        Ok(())
    }

    /// Published pages are live or cached, written to their end, and marked as kept; so are those with more than one holder,
    /// and no others.
    fn audit_kept(&self, state: &State) -> Result<(), AuditError> {
        let published: HashSet<u32> = state.index.pages().collect();
        for (page, meta) in self.metas.iter().enumerate() {
            let (word, page) = (meta.word(), page as u32);
            let is_published = published.contains(&page);
            let is_here = matches!(word.state(), PageState::Live | PageState::Cached);
            let is_full = meta.extent().written() == self.page_tokens();
            let fits = word.is_kept() == (is_published || meta.sharers() > 0)
                && (!is_published || is_here && is_full)
                && (meta.sharers() == 0 || word.state() == PageState::Live);
            if !fits {
                return Err(AuditError::Kept { page, state: word.state(), published: is_published });
            }
        }
        Ok(())
    }

    /// Every cached page stands in the order in which they go, or apart while a ticket names it, and is counted for its owner.
    fn audit_order(&self, state: &State) -> Result<(), AuditError> {
        let index = &state.index;
        let mut loose: HashMap<OwnerId, u64> = HashMap::new();
        for (page, is_apart) in index.loose_pages().map(|p| (p, false)).chain(index.pinned_pages().map(|p| (p, true))) {
            let meta = self.meta(page);
            if is_apart != (meta.word().holds() > 0) {
                return Err(AuditError::Kept { page, state: meta.word().state(), published: true });
            }
            if let Some(owner) = meta.owner().filter(|_| !is_apart) {
                *loose.entry(owner).or_default() += 1;
            }
        }
        let found = index.loose_pages().count() as u64 + index.pinned_pages().count() as u64;
        let is_counted = loose.iter().all(|(owner, found)| index.loose_of(*owner) == *found);
        if found == index.cached() && is_counted && loose.len() == index.loose_owners() {
            return Ok(());
        }
        Err(AuditError::Count { state: PageState::Cached, counted: index.cached(), found })
    }

    /// Live pages have an owner, the owner of the reservation that holds them; free and parked ones have none, retired ones
    /// only if they are not zero.
    fn audit_owners(&self, state: &State) -> Result<(), AuditError> {
        let mut detached = 0;
        for (page, meta) in self.metas.iter().enumerate() {
            let (word, owner, page) = (meta.word(), meta.owner(), page as u32);
            let fits = match word.state() {
                PageState::Live => owner.is_some(),
                PageState::Free | PageState::Parked | PageState::Reserved => owner.is_none(),
                // One that could not be zeroed keeps the name of whose bytes it has.
                PageState::Retired => owner.is_none() || !meta.extent().is_untouched(),
                _ => true,
            };
            if !fits {
                return Err(AuditError::Owner { page, state: word.state(), owner });
            }
            detached += u64::from(word.state() == PageState::Live && word.is_detached());
        }
        let held = count_holders(state).len() as u64;
        for record in state.records.values().filter(|record| record.status == Status::Reserved) {
            let mut wrong = None;
            record.core.pages.for_each_from(0, |page| {
                let owner = self.meta(page).owner();
                if owner != Some(record.owner) {
                    wrong = Some(AuditError::Owner { page, state: PageState::Live, owner });
                }
            });
            if let Some(wrong) = wrong {
                return Err(wrong);
            }
        }
        if held + detached != state.live || detached != state.detached {
            return Err(AuditError::Count { state: PageState::Live, counted: state.live, found: held + detached });
        }
        Ok(())
    }

    /// The count in each stamp equals the tickets, the waiting lanes and the revoked reservations still borrowed that name the
    /// page.
    fn audit_tickets(&self, state: &State) -> Result<(), AuditError> {
        let mut open: HashMap<u32, u64> = HashMap::new();
        let tickets = state.tickets.values().flat_map(|ticket| &ticket.pages);
        for page in tickets.chain(state.pending.iter().flat_map(|pending| &pending.pages)) {
            *open.entry(*page).or_default() += 1;
        }
        for zombie in state.records.values().filter(|record| record.status == Status::Zombie) {
            zombie.core.pages.for_each_from(0, |page| *open.entry(page).or_default() += 1);
        }
        for (page, meta) in self.metas.iter().enumerate() {
            let (page, stamped) = (page as u32, u64::from(meta.word().holds()));
            let open = open.get(&page).copied().unwrap_or(0);
            if stamped != open {
                return Err(AuditError::Tickets { page, stamped, open });
            }
        }
        Ok(())
    }
}

/// How many reservations hold each page.
fn count_holders(state: &State) -> HashMap<u32, u64> {
    let mut holders = HashMap::new();
    for record in state.records.values().filter(|record| record.status == Status::Reserved) {
        record.core.pages.for_each_from(0, |page| *holders.entry(page).or_default() += 1);
    }
    holders
}

#[cfg(test)]
mod tests {
    use crate::{AuditError, NullMemory, PageGeometry, PagePool, PageState, Placement, PoolConfig};

    // C1
    #[test]
    fn page_that_is_missing_among_the_free_is_found_although_the_count_is_right() {
        let geometry = PageGeometry::bytes(8).expect("valid");
        for placement in [Placement::HotFirst, Placement::Contiguous] {
            let memory = NullMemory::new(geometry.clone(), 99).expect("small");
            let pool = PagePool::new(PoolConfig::new(99).with_placement(placement), memory).expect("valid");
            assert_eq!(pool.audit(), Ok(()));
            let mut state = pool.inner.state.lock();
            let [missing, twice] = state.free.top(2) else { panic!("two were asked for") };
            let twice = [*missing.min(twice); 2];
            state.free.drop_top(2);
            state.free.extend(twice.into_iter());
            state.free.settle();
            drop(state);
            match placement {
                Placement::HotFirst => assert!(matches!(pool.audit(), Err(AuditError::Listed { .. }))),
                Placement::Contiguous => {
                    let wrong = AuditError::Count { state: PageState::Free, counted: 97, found: 96 };
                    assert_eq!(pool.audit(), Err(wrong));
                }
            }
        }
    }
}
