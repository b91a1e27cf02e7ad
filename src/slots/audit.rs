//! The audit: every stamp against every list and counter.

use super::SlotPool;
use crate::error::AuditError;
use crate::stamp::PageState;
use crate::walk::{Census, Listing};

impl<T> SlotPool<T> {
    /// Walks all stamps and lists and compares them with the counters. In what it finds a page is a slot.
    ///
    /// It takes every lock, so that no slot is issued or comes back meanwhile. A release needs no lock to end a slot's life:
    /// that moves the slot between states that are summed here.
    ///
    /// # Cost
    ///
    /// O(slots) under all locks.
    ///
    /// # Errors
    ///
    /// The first [`AuditError`] found.
    pub fn audit(&self) -> Result<(), AuditError> {
        let inner = &*self.inner;
        let stopped = inner.stock.stop();
        let stamps = inner.slots.stamps();
        let state_of = |slot: u32| stamps[slot as usize].word().state();

        let mut listing = Listing::new(stamps.len());
        for shelf in stopped.shelves() {
            shelf.free.iter().try_for_each(|slot| listing.stands(slot, state_of(slot), PageState::Free))?;
        }
        let mut quarantined = stopped.central.quarantined.iter();
        quarantined.try_for_each(|slot| listing.stands(*slot, state_of(*slot), PageState::Quarantined))?;

        let census = Census::of(stamps.iter().map(|stamp| stamp.word().state()));
        let free = stopped.shelves().map(|shelf| shelf.free.len() as u64).sum();
        census.check(PageState::Free, free)?;
        census.check(PageState::Retired, stopped.central.retired)?;
        // Slots that were issued and did not come back are live, or on their way.
        let issued: u64 = stopped.shelves().map(|shelf| shelf.issued).sum();
        let returned: u64 = stopped.shelves().map(|shelf| shelf.returned).sum();
        let (counted, found) = (
            issued.checked_sub(returned + stopped.central.retired),
            census.found(PageState::Live) + census.found(PageState::Quarantined) + census.found(PageState::Cleaning),
        );
        if counted != Some(found) {
            return Err(AuditError::Count { state: PageState::Live, counted: counted.unwrap_or(u64::MAX), found });
        }
        for (slot, stamp) in stamps.iter().enumerate() {
            let (state, owner) = (stamp.word().state(), stamp.owner());
            let wants_owner = match state {
                PageState::Free => false,
                // Others may come to life or leave it while this looks, but keep their owner until they are free.
                _ => true,
            };
            if owner.is_some() != wants_owner {
                return Err(AuditError::Owner { page: slot as u32, state, owner });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{AuditError, CapacityPlan, OwnerId, PageState, SlotConfig, SlotPool};

    fn pool() -> SlotPool<u64> {
        SlotPool::new(SlotConfig::new(4)).expect("valid")
    }

    // C1
    #[test]
    fn what_lists_and_stamps_disagree_on_is_found() {
        let missing = pool();
        missing.inner.stock.central().shelf.free.drop_top(1);
        assert_eq!(missing.audit(), Err(AuditError::Count { state: PageState::Free, counted: 3, found: 4 }));

        let twice = pool();
        let mut central = twice.inner.stock.central();
        central.shelf.free.drop_top(1);
        central.shelf.free.push(3);
        drop(central);
        assert!(matches!(twice.audit(), Err(AuditError::Listed { page: 3, list: PageState::Free, .. })));

        let stray = pool();
        stray.inner.stock.central().quarantined.push(2);
        assert!(matches!(stray.audit(), Err(AuditError::Listed { page: 2, list: PageState::Quarantined, .. })));

        let uncounted = pool();
        uncounted.inner.stock.central().retired = 1;
        assert_eq!(uncounted.audit(), Err(AuditError::Count { state: PageState::Retired, counted: 1, found: 0 }));
    }

    // C1, C2
    #[test]
    fn a_slot_that_left_without_being_counted_is_found_and_one_without_an_owner() {
        let pool = pool();
        let proof = pool.prove(CapacityPlan::new(1)).expect("fits");
        let handle = pool.claim_one(&proof, OwnerId::new(7).expect("non-zero")).expect("free");
        pool.inner.stock.central().shelf.issued = 0;
        assert_eq!(pool.audit(), Err(AuditError::Count { state: PageState::Live, counted: 0, found: 1 }));
        pool.inner.stock.central().shelf.issued = 1;
        assert_eq!(pool.audit(), Ok(()));

        let stamp = &pool.inner.slots.stamps()[handle.index() as usize];
        stamp.disown();
        assert!(matches!(pool.audit(), Err(AuditError::Owner { page: 0, state: PageState::Live, owner: None })));
    }
}
