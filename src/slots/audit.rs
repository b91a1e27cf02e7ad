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
