//! Numbers about the pool.

use super::SlotPool;
use crate::stamp::PageState;
use crate::sync::Ordering;

/// Slots by state, overlays, and events since the pool was made.
///
/// `free + live + quarantined + cleaning + retired` is the number of slots of the pool.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct SlotStats {
    /// Reset, and nobody's.
    pub free_slots: u64,
    /// Held by owners.
    pub live_slots: u64,
    /// Released, and accessed when they were; those whose last access has ended wait for a `maintain` or a claim.
    pub quarantined_slots: u64,
    /// Released, in the hand of the thread that resets them.
    pub cleaning_slots: u64,
    /// Out of circulation for good.
    pub retired_slots: u64,
    /// Overlay: live slots that nobody initialised.
    pub blank_slots: u64,
    /// Overlay: live slots that a panic left half changed.
    pub poisoned_slots: u64,
    /// Overlay: slots, live or quarantined, with an access: those of forgotten guards stay.
    pub accessed_slots: u64,
    /// Slots that claims can use.
    pub usable_slots: u64,
    /// The capacity epoch.
    pub epoch: u64,
    /// Slots handed out.
    pub slots_issued: u64,
    /// Slots that came back, and were reset.
    pub slots_returned: u64,
    /// Slots retired because their reset panicked.
    pub reset_panics: u64,
    /// Claims that had to wait.
    pub full: u64,
    /// Claims rejected for good.
    pub rejected: u64,
    /// Accesses and releases that were refused: late messages, foreign handles, conflicts.
    pub refused: u64,
    /// Quarantined slots whose guards somebody [said](SlotPool::assume_forgotten) were forgotten.
    pub trusted_ends: u64,
}

impl<T> SlotPool<T> {
    /// Counts.
    ///
    /// # Cost
    ///
    /// O(slots) under all locks, 16 bytes read for each.
    #[must_use]
    pub fn stats(&self) -> SlotStats {
        let inner = &*self.inner;
        let stopped = inner.stock.stop();
        let (epoch, usable_slots) = inner.capacity();
        let counters = &inner.counters;
        let mut stats = SlotStats {
            usable_slots,
            epoch,
            slots_issued: stopped.shelves().map(|shelf| shelf.issued).sum(),
            slots_returned: stopped.shelves().map(|shelf| shelf.returned).sum(),
            reset_panics: counters.reset_panics.load(Ordering::Relaxed),
            full: counters.full.load(Ordering::Relaxed),
            rejected: counters.rejected.load(Ordering::Relaxed),
            refused: counters.refused.load(Ordering::Relaxed),
            trusted_ends: counters.trusted_ends.load(Ordering::Relaxed),
            ..SlotStats::default()
        };
        for stamp in inner.slots.stamps() {
            let word = stamp.word();
            match word.state() {
                PageState::Free => stats.free_slots += 1,
                PageState::Live => stats.live_slots += 1,
                PageState::Quarantined => stats.quarantined_slots += 1,
                PageState::Cleaning => stats.cleaning_slots += 1,
                _ => stats.retired_slots += 1,
            }
            let is_live = word.state() == PageState::Live;
            stats.blank_slots += u64::from(is_live && word.is_blank());
            stats.poisoned_slots += u64::from(is_live && word.is_poisoned());
            stats.accessed_slots += u64::from(word.holds() > 0);
        }
        stats
    }
}
