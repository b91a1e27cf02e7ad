//! The end of a slot's life: release, reclaim, and what was left for later.
//!
//! *Owns* the way from live to free: the life ends at once, the value is reset outside every lock by whoever has the slot
//! in hand, and then the slot goes on a list.

use super::cell::Hand;
use super::stock::Central;
use super::{Inner, SlotHandle, SlotPool, lane};
use crate::error::SlotError;
use crate::id::OwnerId;
use crate::stamp::PageState;
use crate::sync::Ordering;

/// What a release of a group did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct ReleasedSlots {
    /// Slots that left their owner.
    pub slots: u64,
    /// Of these, slots that somebody is still at: they are reset when that ended.
    pub quarantined_slots: u64,
    /// Slots of the group that had left before: released by handle, or reclaimed.
    pub stale_slots: u64,
}

/// What was taken back from an owner.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct ReclaimedSlots {
    /// Slots that left their owner.
    pub slots: u64,
    /// Of these, slots that somebody is still at: they are reset when that ended.
    pub quarantined_slots: u64,
}

impl<T> SlotPool<T> {
    /// Releases one slot: its handles are stale from now on, and its value is reset before this returns, unless somebody is
    /// at it. Then the slot is quarantined, and reset by the first [`maintain`](Self::maintain) or claim that needs it after
    /// that ended.
    ///
    /// # Cost
    ///
    /// One compare-and-swap, the reset outside every lock, one short lock.
    ///
    /// # Errors
    ///
    /// - [`SlotError::Stale`]: it was released before. Of two releases one succeeds.
    /// - [`SlotError::ForeignOwner`], [`SlotError::ForeignPool`], [`SlotError::OutOfRange`]: it is not the owner's.
    ///
    /// Nothing changed, and the refusal is counted.
    pub fn release(&self, owner: OwnerId, handle: SlotHandle<T>) -> Result<(), SlotError> {
        let inner = &*self.inner;
        inner.check_pool(handle)?;
        let leaving = inner.slots.leave(owner, handle.index(), handle.generation());
        match leaving.map_err(|why| inner.refused(owner, handle, why))? {
            Some(mut hand) => {
                if inner.renew(&mut hand) {
                    let slot = std::iter::once(hand.slot());
                    lane::with(|lane| inner.stock.put(inner.slots.stamps(), slot, lane));
                }
            }
            None => inner.stock.central().quarantined.push(handle.index()),
        }
        Ok(())
    }

    /// Takes every slot back from an owner, whatever became of the groups and handles it had.
    ///
    /// A claim that the owner makes at the same time may be missed.
    ///
    /// # Cost
    ///
    /// O(slots of the pool), 16 bytes read for each; the resets outside every lock.
    #[expect(clippy::must_use_candidate, reason = "done for its effect; the answer is for reports")]
    pub fn reclaim(&self, owner: OwnerId) -> ReclaimedSlots {
        let inner = &*self.inner;
        let (mut hands, mut reclaimed) = (Vec::new(), ReclaimedSlots::default());
        for (slot, stamp) in inner.slots.stamps().iter().enumerate() {
            let (slot, word) = (slot as u32, stamp.word());
            if word.state() != PageState::Live || stamp.owner() != Some(owner) {
                continue;
            }
            match inner.slots.leave(owner, slot, word.generation()) {
                Ok(Some(hand)) => hands.push(hand),
                Ok(None) => {
                    inner.stock.central().quarantined.push(slot);
                    reclaimed.quarantined_slots += 1;
                }
                // Somebody else released it first.
                Err(_) => continue,
            }
            reclaimed.slots += 1;
        }
        inner.finish(hands);
        reclaimed
    }

    /// Resets up to `slots` quarantined slots that nobody is at any more, and answers how many left quarantine. For a quiet
    /// moment between ticks; a claim that would find too few free slots does it too.
    ///
    /// # Cost
    ///
    /// O(quarantined slots) under the lock; the resets outside.
    #[expect(clippy::must_use_candidate, reason = "done for its effect; the answer is for reports")]
    pub fn maintain(&self, slots: usize) -> u64 {
        let inner = &*self.inner;
        let hands = inner.collect(&mut inner.stock.central(), slots);
        let collected = hands.len() as u64;
        inner.finish(hands);
        collected
    }
}

impl<T> Inner<T> {
    /// Ends the lives of slots that belong together.
    pub(super) fn release_all(&self, owner: OwnerId, handles: &[SlotHandle<T>]) -> ReleasedSlots {
        let (mut hands, mut released) = (Vec::with_capacity(handles.len()), ReleasedSlots::default());
        for handle in handles {
            match self.slots.leave(owner, handle.index(), handle.generation()) {
                Ok(Some(hand)) => hands.push(hand),
                Ok(None) => {
                    self.stock.central().quarantined.push(handle.index());
                    released.quarantined_slots += 1;
                }
                Err(_) => {
                    released.stale_slots += 1;
                    continue;
                }
            }
            released.slots += 1;
        }
        self.finish(hands);
        released
    }

    /// Takes up to `most` quarantined slots in hand that nobody is at any more.
    pub(super) fn collect<'a>(&'a self, central: &mut Central, most: usize) -> Vec<Hand<'a, T>> {
        let mut hands = Vec::new();
        central.quarantined.retain(|slot| {
            let hand = if hands.len() < most { self.slots.collect(*slot) } else { None };
            let stays = hand.is_none();
            hands.extend(hand);
            stays
        });
        hands
    }

    /// Resets slots in hand, and makes them free.
    pub(super) fn finish(&self, mut hands: Vec<Hand<'_, T>>) {
        hands.retain_mut(|hand| self.renew(hand));
        if !hands.is_empty() {
            lane::with(|lane| self.stock.put(self.slots.stamps(), hands.iter().map(Hand::slot), lane));
        }
    }

    /// Resets the slot in hand; `false` when it retired instead: the reset panicked, or its lives are used up.
    #[inline]
    fn renew(&self, hand: &mut Hand<'_, T>) -> bool {
        let is_reset = hand.reset(self.reset);
        if is_reset && !hand.stamp().is_spent(self.config.last_generation()) {
            return true;
        }
        self.retire(hand, is_reset);
        false
    }

    #[cold]
    fn retire(&self, hand: &Hand<'_, T>, is_reset: bool) {
        let mut central = self.stock.central();
        hand.stamp().retire();
        central.retired += 1;
        drop(central);
        self.counters.reset_panics.fetch_add(u64::from(!is_reset), Ordering::Relaxed);
        // Release: who sees the new epoch finds the slot retired.
        self.retired.fetch_add(1, Ordering::Release);
    }
}
