//! The stamp of a page: which life it is in and what it is doing, in one word.
//!
//! *Owns* the bit layout, the legal moves between states, and the four words kept per page (24 bytes). *Does not know*
//! pools, locks or bytes.
//!
//! **Who writes.** A stamp changes only under the pool's lock, by a plain store: there is one writer at a time. The
//! extent is written by the one holder of the page. Readers by handle take no lock; they publish a
//! [hazard](crate::hazard) first, then look at the stamp here. `tests/loom/` proves that pairing.
//!
//! **Invariants.** A generation never falls and never wraps. `written <= high <= page_tokens`.

use crate::id::{Generation, OwnerId};
use crate::sync::{AtomicU16, AtomicU32, AtomicU64, Ordering};

/// What a page is doing. Every page is in exactly one of these states.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum PageState {
    /// Zero, and nobody's: the next reservation may take it.
    Free = 0,
    /// Held by one owner.
    Live = 1,
    /// Holds a published prefix that no reservation uses; can be reclaimed.
    Cached = 2,
    /// Released, but a guard, a borrow or a ticket may still touch its bytes.
    Quarantined = 3,
    /// Released and untouched by anyone; waits for its zeroing to end.
    Cleaning = 4,
    /// Taken out of circulation by a resize; comes back when the pool grows.
    Parked = 5,
    /// Taken out of circulation for good: its generations are used up, or it could not be zeroed.
    Retired = 6,
    /// One of the pool's own pages (null, sink).
    Reserved = 7,
}

impl PageState {
    /// Every state, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Free,
        Self::Live,
        Self::Cached,
        Self::Quarantined,
        Self::Cleaning,
        Self::Parked,
        Self::Retired,
        Self::Reserved,
    ];

    /// Says whether a page may move from this state to `to` in one step.
    #[must_use]
    pub const fn may_become(self, to: Self) -> bool {
        use PageState::{Cached, Cleaning, Free, Live, Parked, Quarantined, Retired};
        matches!(
            (self, to),
            (Free, Live | Parked)
                | (Live, Free | Cached | Quarantined | Cleaning | Parked | Retired)
                | (Cached, Live | Quarantined | Cleaning)
                | (Quarantined, Cleaning)
                | (Cleaning, Free | Parked | Retired)
                | (Parked, Free | Cleaning)
        )
    }
}

const HOLDS_MASK: u64 = 0xffff;
const WRITING: u64 = 1 << 16;
const DETACHED: u64 = 1 << 17;
const KEPT: u64 = 1 << 18;
const PENDING: u64 = 1 << 19;
// A slot has other uses for two of the flags: no engine keeps it in arrays of its own, and no device cleans it.
const POISONED: u64 = DETACHED;
const BLANK: u64 = PENDING;
const STATE_SHIFT: u32 = 20;
const STATE_MASK: u64 = 0xf << STATE_SHIFT;
const GENERATION_SHIFT: u32 = 24;
/// What a reader by handle compares: generation, state, and that no outside writer is at work.
const READABLE_MASK: u64 = !(HOLDS_MASK | DETACHED | KEPT);

/// The value of a stamp: generation 40 bits, state 4, flags 4, open tickets 16.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StampWord(u64);

impl StampWord {
    #[inline]
    pub(crate) const fn new(generation: Generation, state: PageState) -> Self {
        Self(generation.get() << GENERATION_SHIFT | (state as u64) << STATE_SHIFT)
    }

    #[inline]
    pub(crate) fn generation(self) -> Generation {
        Generation::new(self.0 >> GENERATION_SHIFT).unwrap_or(Generation::MAX)
    }

    #[inline]
    pub(crate) const fn state(self) -> PageState {
        PageState::ALL[((self.0 & STATE_MASK) >> STATE_SHIFT) as usize & 7]
    }

    /// Open tickets that name the page, and revoked reservations that still borrow it.
    #[inline]
    pub(crate) const fn holds(self) -> u16 {
        (self.0 & HOLDS_MASK) as u16
    }

    /// An outside party may be writing the page.
    #[inline]
    pub(crate) const fn is_writing(self) -> bool {
        self.0 & WRITING != 0
    }

    /// The engine keeps the page in its own index arrays; no reservation does.
    #[inline]
    pub(crate) const fn is_detached(self) -> bool {
        self.0 & DETACHED != 0
    }

    /// The page has more than one holder, or its tokens are published: nobody rewrites it, and a holder that leaves may
    /// not be the last.
    #[inline]
    pub(crate) const fn is_kept(self) -> bool {
        self.0 & KEPT != 0
    }

    /// Says whether a handle of `generation` may read: live, that very generation, no outside writer.
    #[inline]
    pub(crate) const fn is_readable_as(self, generation: Generation) -> bool {
        self.0 & READABLE_MASK == Self::new(generation, PageState::Live).0
    }

    /// The generation as a number, if a handle of that generation may read.
    #[inline]
    pub(crate) const fn readable_generation(self) -> Option<u64> {
        let flags = self.0 & READABLE_MASK & ((1 << GENERATION_SHIFT) - 1);
        if flags == (PageState::Live as u64) << STATE_SHIFT { Some(self.0 >> GENERATION_SHIFT) } else { None }
    }

    /// A device still cleans the page behind a fence that its lane waits for; the host keeps off.
    #[inline]
    pub(crate) const fn is_pending(self) -> bool {
        self.0 & PENDING != 0
    }

    #[inline]
    pub(crate) fn with_state(self, to: PageState) -> Self {
        debug_assert!(self.state().may_become(to), "{:?} may not become {to:?}", self.state());
        Self(self.0 & !STATE_MASK | (to as u64) << STATE_SHIFT)
    }

    /// The next generation, which ends the life that the page is in. Saturates at the 40 bits' end, where no page is
    /// ever handed out: see [`is_spent`](Self::is_spent).
    #[inline]
    pub(crate) fn bumped(self) -> Self {
        if self.generation() == Generation::MAX { self } else { Self(self.0 + (1 << GENERATION_SHIFT)) }
    }

    /// The next life, before it is sorted: generation bumped, flags gone, tickets still counted.
    #[inline]
    pub(crate) fn released(self) -> Self {
        Self::new(self.bumped().generation(), PageState::Live).with_holds_of(self)
    }

    /// The word of a released page that is free at once; `None` when a ticket names it, its lives are used up, or somebody
    /// has to look who else holds it.
    #[inline]
    pub(crate) fn freed(self, last: Generation) -> Option<Self> {
        let released = self.released();
        (self.0 & (HOLDS_MASK | KEPT) == 0 && !released.is_spent(last)).then(|| released.with_state(PageState::Free))
    }

    /// Says whether the page has used up its lives: generation `last` is reached by a bump, and never issued.
    #[inline]
    pub(crate) fn is_spent(self, last: Generation) -> bool {
        self.generation() >= last
    }

    /// One ticket more; `None` when 65,535 are open. A holder's place is kept among them: see `PageMeta::has_room`.
    #[inline]
    pub(crate) const fn held(self) -> Option<Self> {
        if self.holds() == u16::MAX {
            return None;
        }
        Some(Self(self.0 + 1))
    }

    /// One ticket less; `None` when none was open.
    #[inline]
    pub(crate) const fn unheld(self) -> Option<Self> {
        if self.holds() == 0 {
            return None;
        }
        Some(Self(self.0 - 1))
    }

    /// Why a holder keeps off a page of its own. A page that left while it was borrowed has no flags any more, whoever is
    /// at work on it: what its holder may not do is then no longer known, so it may do nothing.
    pub(crate) fn off_limits(self) -> Option<OffLimits> {
        if self.state() != PageState::Live {
            Some(OffLimits::Gone)
        } else if self.is_writing() {
            Some(OffLimits::Writing)
        } else if !self.is_pending() {
            None
        } else if self.holds() > 0 {
            Some(OffLimits::Pending)
        } else {
            // The wait counts as a ticket until its fence is done, which takes the flag too, or has failed.
            Some(OffLimits::Failed)
        }
    }

    /// The tickets of another word of the same page; its flags are left behind.
    #[inline]
    pub(crate) const fn with_holds_of(self, other: Self) -> Self {
        Self(self.0 & !HOLDS_MASK | other.0 & HOLDS_MASK)
    }

    #[inline]
    pub(crate) const fn with_writing(self, on: bool) -> Self {
        self.with_flag(WRITING, on)
    }

    #[inline]
    pub(crate) const fn with_detached(self, on: bool) -> Self {
        self.with_flag(DETACHED, on)
    }

    #[inline]
    pub(crate) const fn with_kept(self, on: bool) -> Self {
        self.with_flag(KEPT, on)
    }

    /// The word of a published page whose last holder left: the next generation, so that every handle is stale.
    pub(crate) fn cached(self) -> Self {
        self.with_state(PageState::Cached).bumped()
    }

    #[inline]
    pub(crate) const fn with_pending(self, on: bool) -> Self {
        self.with_flag(PENDING, on)
    }

    /// Nobody has initialised the slot in this life.
    #[inline]
    pub(crate) const fn is_blank(self) -> bool {
        self.0 & BLANK != 0
    }

    #[inline]
    pub(crate) const fn with_blank(self, on: bool) -> Self {
        self.with_flag(BLANK, on)
    }

    /// A panic ended an exclusive access to the slot: its value may be half changed.
    #[inline]
    pub(crate) const fn is_poisoned(self) -> bool {
        self.0 & POISONED != 0
    }

    #[inline]
    pub(crate) const fn with_poisoned(self, on: bool) -> Self {
        self.with_flag(POISONED, on)
    }

    /// The word as the atomic holds it.
    #[inline]
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline]
    const fn with_flag(self, flag: u64, on: bool) -> Self {
        Self(if on { self.0 | flag } else { self.0 & !flag })
    }
}

/// Why a holder keeps off a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OffLimits {
    /// An outside party holds a write ticket.
    Writing,
    /// A device still cleans it.
    Pending,
    /// A device could not clean it.
    Failed,
    /// It left its owner: the reservation was revoked under a borrow.
    Gone,
}

const EXTENT_BITS: u32 = 15;
const EXTENT_MASK: u32 = (1 << EXTENT_BITS) - 1;
const WHOLE: u32 = 1 << 30;

/// How far a page is written, in tokens of the page.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Extent(u32);

impl Extent {
    /// Nothing is written, anything may be in the bytes: a page of foreign memory before its first cleaning.
    pub(crate) const DIRTY: Self = Self(WHOLE);

    /// Tokens that may be read.
    #[inline]
    pub(crate) const fn written(self) -> u32 {
        self.0 & EXTENT_MASK
    }

    /// Tokens that may ever have been written in this life of the page.
    #[inline]
    pub(crate) const fn high(self) -> u32 {
        (self.0 >> EXTENT_BITS) & EXTENT_MASK
    }

    /// Bytes anywhere in the page may have been written, padding included.
    #[inline]
    pub(crate) const fn is_whole(self) -> bool {
        self.0 & WHOLE != 0
    }

    /// Nothing was ever written: the page is still zero.
    #[inline]
    pub(crate) const fn is_untouched(self) -> bool {
        self.high() == 0 && !self.is_whole()
    }

    /// Tokens to zero: `page_tokens` when the whole page is suspect.
    #[inline]
    pub(crate) const fn dirty_tokens(self, page_tokens: u32) -> u32 {
        if self.is_whole() { page_tokens } else { self.high() }
    }

    #[inline]
    pub(crate) const fn with_written(self, tokens: u32) -> Self {
        let high = if tokens > self.high() { tokens } else { self.high() };
        Self(self.0 & WHOLE | high << EXTENT_BITS | tokens)
    }

    #[inline]
    pub(crate) const fn with_high(self, tokens: u32) -> Self {
        let high = if tokens > self.high() { tokens } else { self.high() };
        Self(self.0 & (WHOLE | EXTENT_MASK) | high << EXTENT_BITS)
    }

    #[inline]
    pub(crate) const fn whole(self) -> Self {
        Self(self.0 | WHOLE)
    }
}

/// All that is kept per page beside the free list: 24 bytes.
#[derive(Debug)]
pub(crate) struct PageMeta {
    stamp: AtomicU64,
    owner: AtomicU64,
    extent: AtomicU32,
    heat: AtomicU16,
    /// Reservations that hold the page beyond the first.
    sharers: AtomicU16,
}

impl PageMeta {
    #[inline]
    pub(crate) fn new(word: StampWord, extent: Extent) -> Self {
        Self {
            stamp: AtomicU64::new(word.0),
            owner: AtomicU64::new(0),
            extent: AtomicU32::new(extent.0),
            heat: AtomicU16::new(0),
            sharers: AtomicU16::new(0),
        }
    }

    /// The stamp, for whoever holds the pool's lock.
    #[inline]
    pub(crate) fn word(&self) -> StampWord {
        // Relaxed: all stores are made under the lock that the caller holds.
        StampWord(self.stamp.load(Ordering::Relaxed))
    }

    /// The stamp, for a reader by handle, after its hazard was published.
    ///
    /// # Memory ordering
    /// Acquire, paired with the Release of [`publish`](Self::publish): owner and extent of that life are visible.
    #[inline]
    pub(crate) fn word_for_reader(&self) -> StampWord {
        StampWord(self.stamp.load(Ordering::Acquire))
    }

    /// Stores a stamp; only under the pool's lock.
    ///
    /// # Memory ordering
    /// Release: who sees the stamp sees owner and extent as they were set before.
    #[inline]
    pub(crate) fn publish(&self, word: StampWord) {
        self.stamp.store(word.0, Ordering::Release);
    }

    /// Hands a free page to `owner` and answers its generation; only under the pool's lock.
    #[inline]
    pub(crate) fn issue(&self, owner: OwnerId) -> Generation {
        let word = self.word().with_state(PageState::Live);
        // Relaxed: published by the store of the stamp.
        self.owner.store(owner.get(), Ordering::Relaxed);
        self.publish(word);
        word.generation()
    }

    /// Hands a page to `owner` that a device still cleans, in front of the lane that uses it; only under the pool's lock.
    /// The wait counts as a ticket, so that a release before its end quarantines the page.
    pub(crate) fn issue_pending(&self, owner: OwnerId) {
        let word = self.word().with_state(PageState::Free).with_state(PageState::Live).with_pending(true);
        self.owner.store(owner.get(), Ordering::Relaxed);
        // Its last tenant's bytes are there until the fence is done, and for good should the fence fail.
        self.set_extent(Extent::DIRTY);
        self.publish(word.held().unwrap_or(word));
    }

    /// Makes a released page nobody's; only under the pool's lock.
    #[inline]
    pub(crate) fn free(&self, word: StampWord) {
        // The stamp first: a reader that misses the owner looks at the stamp again, and sees that this life has ended.
        self.publish(word);
        self.clear_owner();
        // Without bytes nothing is cleaned, but what was written was written by this owner.
        self.set_extent(Extent::default());
    }

    #[inline]
    pub(crate) fn owner(&self) -> Option<OwnerId> {
        // Acquire, paired with the Release of `clear_owner`.
        OwnerId::new(self.owner.load(Ordering::Acquire))
    }

    /// As [`owner`](Self::owner), of one that is named.
    #[inline]
    pub(crate) fn is_owned_by(&self, owner: OwnerId) -> bool {
        self.owner.load(Ordering::Acquire) == owner.get()
    }

    #[inline]
    pub(crate) fn clear_owner(&self) {
        // Release: who misses the owner sees the stamp that was published before.
        self.owner.store(0, Ordering::Release);
    }

    /// How far the page is written.
    ///
    /// # Memory ordering
    /// Acquire, paired with [`set_extent`](Self::set_extent): the bytes of the written tokens are visible.
    #[inline]
    pub(crate) fn extent(&self) -> Extent {
        Extent(self.extent.load(Ordering::Acquire))
    }

    /// Sets how far the page is written; only its one holder does, after the bytes are there.
    #[inline]
    pub(crate) fn set_extent(&self, extent: Extent) {
        self.extent.store(extent.0, Ordering::Release);
    }

    /// The tick of the pool's byte clock at which the page was last written. A hint for zeroing, nothing else.
    #[inline]
    pub(crate) fn heat(&self) -> u16 {
        self.heat.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set_heat(&self, tick: u16) {
        self.heat.store(tick, Ordering::Relaxed);
    }

    /// Reservations that hold the page beyond the first; only under the pool's lock.
    #[inline]
    pub(crate) fn sharers(&self) -> u16 {
        // Relaxed: all stores are made under the lock that the caller holds.
        self.sharers.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set_sharers(&self, sharers: u16) {
        self.sharers.store(sharers, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn live(generation: u64) -> StampWord {
        StampWord::new(Generation::new(generation).expect("40 bits"), PageState::Live)
    }

    #[test]
    fn a_page_costs_24_bytes_of_stamp() {
        assert_eq!(size_of::<PageMeta>(), 24);
    }

    #[test]
    fn the_word_keeps_generation_state_and_holds_apart() {
        let mut word = live(Generation::MAX.get());
        for _ in 0..u16::MAX {
            word = word.held().expect("room for a ticket");
        }
        assert_eq!((word.generation(), word.state(), word.holds()), (Generation::MAX, PageState::Live, u16::MAX));
        assert!(word.held().is_none(), "ticket 65,536 is an error, not a wrap");
        assert!(live(1).unheld().is_none(), "a count below zero is an error, not a clamp");
    }

    // C4
    #[test]
    fn the_last_generation_never_wraps_and_is_never_issued() {
        let last = Generation::new(3).expect("small");
        assert!(!live(2).is_spent(last));
        let word = live(1).bumped().bumped();
        assert_eq!(word.generation(), last);
        assert!(word.is_spent(last), "the last generation is reached and never issued");
        let end = live(Generation::MAX.get());
        assert_eq!(end.bumped(), end, "40 bits never wrap");
        assert!(end.is_spent(Generation::MAX));
    }

    // C4
    #[test]
    fn only_the_same_live_generation_is_readable() {
        let five = Generation::new(5).expect("small");
        assert!(live(5).is_readable_as(five));
        assert!(live(5).held().expect("room").is_readable_as(five), "a read ticket does not hide a page");
        assert!(live(5).with_detached(true).is_readable_as(five));
        assert!(!live(6).is_readable_as(five));
        assert!(!live(4).is_readable_as(five));
        assert!(!live(5).with_writing(true).is_readable_as(five), "C12: an outside writer is at work");
        for state in PageState::ALL.into_iter().filter(|s| *s != PageState::Live) {
            assert!(!StampWord::new(five, state).is_readable_as(five), "{state:?}");
        }
    }

    // C1
    #[test]
    fn no_state_is_reached_but_by_a_legal_move() {
        use PageState::{Cleaning, Free, Live, Parked, Quarantined, Reserved, Retired};
        assert!(!Free.may_become(Cleaning) && !Quarantined.may_become(Free) && !Quarantined.may_become(Live));
        assert!(!Cleaning.may_become(Live), "a page is free, that is zero, before it is live again");
        for state in PageState::ALL {
            assert!(!state.may_become(state));
            assert!(!Retired.may_become(state) && !Reserved.may_become(state));
        }
        assert!(Parked.may_become(Free) && Live.may_become(Quarantined));
    }

    #[test]
    fn the_high_mark_never_falls_within_a_life() {
        let extent = Extent::default().with_written(9).with_written(4);
        assert_eq!((extent.written(), extent.high()), (4, 9));
        assert_eq!(extent.dirty_tokens(16), 9);
        assert_eq!(extent.whole().dirty_tokens(16), 16);
        assert!(Extent::default().is_untouched() && !Extent::DIRTY.is_untouched());
        let full = Extent::default().with_high(EXTENT_MASK).with_written(EXTENT_MASK).whole();
        assert_eq!((full.written(), full.high(), full.is_whole()), (32_767, 32_767, true));
    }
}
