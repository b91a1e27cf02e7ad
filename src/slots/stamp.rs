//! The stamp of a slot: life, state, accesses and owner, in two words.
//!
//! *Owns* every change of these words, and the order of memory around them. *Does not know* values, lists or locks.
//!
//! **The word** is the page's ([`StampWord`]); its count of holders counts accesses, shared ones and the exclusive one
//! alike, and its flags say whether the access is exclusive, the slot uninitialised (*blank*) or poisoned.
//!
//! **Who changes it.** An access begins by one compare-and-swap that checks generation, state, flags and count, and adds
//! itself: nothing can come between the check and the count. It ends by one subtraction. A release is one
//! compare-and-swap too, so that of two one wins. From `Cleaning` on the word belongs to the thread that has the slot in
//! hand, and in `Free` to the lock of the list that the slot stands in.
//!
//! **Invariants.** A generation never falls and never wraps. A slot with accesses is `Live` or `Quarantined`. Whoever
//! takes a slot out of `Quarantined` has seen the end of every access.
//!
//! All of it is proved in `tests/loom/`, over this file.

use crate::id::{Generation, OwnerId};
use crate::stamp::{PageState, StampWord};
use crate::sync::{AtomicU64, Ordering};

/// What an exclusive access adds to the word: itself to the count, and the flag.
const EXCLUSIVE: u64 = {
    let none = StampWord::from_bits(0);
    match none.with_writing(true).held() {
        Some(word) => word.bits(),
        None => none.bits(),
    }
};
/// What a shared access adds.
const SHARED: u64 = 1;
const BLANK: u64 = StampWord::from_bits(0).with_blank(true).bits();
const POISONED: u64 = StampWord::from_bits(0).with_poisoned(true).bits();

/// What an exclusive access is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// To give the slot its first value in this life.
    Initialise,
    /// To change a value.
    Change,
}

/// How an exclusive access ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// The slot has its first value.
    Initialised,
    /// The value was changed, or not.
    Changed,
    /// A panic came in between.
    Panicked,
}

/// Why an access does not begin, or a release does nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Denied {
    /// The slot is in another life, or in none.
    Stale(StampWord),
    /// There is no such slot.
    OutOfRange,
    ForeignOwner,
    Poisoned,
    /// Nobody initialised it.
    Blank,
    /// Somebody did already.
    NotBlank,
    /// An access is in the way.
    Busy(StampWord),
    /// 65,535 accesses are open.
    TooMany,
}

/// What a release found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Left {
    /// Nobody is at it: it is in the hand of the thread that released it.
    InHand,
    /// Somebody is still at it: it is quarantined, and goes on the list.
    Accessed,
}

/// All that is kept per slot beside its value and the free list: 16 bytes.
#[derive(Debug)]
pub(crate) struct SlotStamp {
    word: AtomicU64,
    owner: AtomicU64,
}

impl SlotStamp {
    /// A slot in its first life, free.
    pub(crate) fn new() -> Self {
        let word = StampWord::new(Generation::FIRST, PageState::Free);
        Self { word: AtomicU64::new(word.bits()), owner: AtomicU64::new(0) }
    }

    /// The word as it is now.
    ///
    /// # Memory ordering
    /// Acquire: owner and value are at least as old as the word.
    #[inline]
    pub(crate) fn word(&self) -> StampWord {
        StampWord::from_bits(self.word.load(Ordering::Acquire))
    }

    /// Whose it is, as far as one look can say.
    #[inline]
    pub(crate) fn owner(&self) -> Option<OwnerId> {
        // Acquire, paired with the Release stores: who sees the owner of a later life sees that the earlier one ended.
        OwnerId::new(self.owner.load(Ordering::Acquire))
    }

    /// Hands a free slot to `owner`, blank; only under the lock of its list.
    ///
    /// # Memory ordering
    /// Release: who sees the word sees the owner, and the reset value.
    #[inline]
    pub(crate) fn issue(&self, owner: OwnerId) -> Generation {
        // Relaxed: the last change was made under the lock that the caller holds.
        let word = StampWord::from_bits(self.word.load(Ordering::Relaxed));
        self.owner.store(owner.get(), Ordering::Release);
        self.word.store(word.with_state(PageState::Live).with_blank(true).bits(), Ordering::Release);
        word.generation()
    }

    /// Checks that the slot is in that life and `owner`'s.
    #[inline]
    pub(crate) fn look(&self, owner: OwnerId, generation: Generation) -> Result<StampWord, Denied> {
        let word = self.word();
        if !is_alive(word, generation) {
            return Err(Denied::Stale(word));
        }
        if self.owner() != Some(owner) {
            return Err(self.not_owned(generation));
        }
        Ok(word)
    }

    /// The owner was another's: the one of this life, or of one that began since the word was looked at.
    #[cold]
    fn not_owned(&self, generation: Generation) -> Denied {
        let word = self.word();
        if is_alive(word, generation) { Denied::ForeignOwner } else { Denied::Stale(word) }
    }

    /// Begins a shared access.
    ///
    /// # Memory ordering
    /// Acquire: the value is as the last exclusive access left it. Release: a release of the slot that comes behind has
    /// this access's look at the owner before it, so that the owner was this life's.
    #[inline]
    pub(crate) fn share(&self, owner: OwnerId, generation: Generation) -> Result<(), Denied> {
        let mut word = self.look(owner, generation)?;
        loop {
            check_value(word, Purpose::Change)?;
            if word.is_writing() {
                return Err(Denied::Busy(word));
            }
            let shared = word.held().ok_or(Denied::TooMany)?;
            word = match self.swap(word, shared, generation)? {
                None => return Ok(()),
                Some(now) => now,
            };
        }
    }

    /// Ends a shared access.
    ///
    /// # Memory ordering
    /// Release: who sees the count at zero comes behind what this access read.
    #[inline]
    pub(crate) fn end_share(&self) {
        self.word.fetch_sub(SHARED, Ordering::Release);
    }

    /// Begins an exclusive access.
    ///
    /// # Memory ordering
    /// As [`share`](Self::share); Acquire also puts the ends of all earlier accesses before it.
    #[inline]
    pub(crate) fn seize(&self, owner: OwnerId, generation: Generation, purpose: Purpose) -> Result<(), Denied> {
        let mut word = self.look(owner, generation)?;
        loop {
            check_value(word, purpose)?;
            if word.holds() > 0 {
                return Err(Denied::Busy(word));
            }
            let seized = StampWord::from_bits(word.bits() + EXCLUSIVE);
            word = match self.swap(word, seized, generation)? {
                None => return Ok(()),
                Some(now) => now,
            };
        }
    }

    /// Ends an exclusive access, whatever became of the slot meanwhile: a release leaves flags and count alone.
    ///
    /// # Memory ordering
    /// Release: who sees the end sees what was written.
    #[inline]
    pub(crate) fn end_seize(&self, ending: Ending) {
        let ended = match ending {
            Ending::Initialised => EXCLUSIVE + BLANK,
            Ending::Changed => EXCLUSIVE,
            Ending::Panicked => {
                // Relaxed: the subtraction below carries it.
                self.word.fetch_or(POISONED, Ordering::Relaxed);
                EXCLUSIVE
            }
        };
        self.word.fetch_sub(ended, Ordering::Release);
    }

    /// Ends the life: bumps the generation and takes the slot in hand, or leaves it to those who are at it.
    ///
    /// # Memory ordering
    /// Acquire: with the count at zero, what every access read or wrote is before whatever comes next. Release: the
    /// owner that was looked at was this life's, as in [`share`](Self::share).
    #[inline]
    pub(crate) fn leave(&self, owner: OwnerId, generation: Generation) -> Result<Left, Denied> {
        let mut word = self.look(owner, generation)?;
        loop {
            let (left, state) = match word.holds() {
                0 => (Left::InHand, PageState::Cleaning),
                _ => (Left::Accessed, PageState::Quarantined),
            };
            word = match self.swap(word, word.bumped().with_state(state), generation)? {
                None => return Ok(left),
                Some(now) => now,
            };
        }
    }

    /// Takes a quarantined slot in hand once nobody is at it; only under the central lock.
    ///
    /// # Memory ordering
    /// Acquire: the ends of all accesses are before whatever comes next.
    pub(crate) fn collect(&self) -> bool {
        let word = self.word();
        let idle = is_idle(word);
        if idle {
            // Nobody else changes it any more: accesses begin in live slots only. Relaxed: the caller's hand carries it.
            self.word.store(word.with_state(PageState::Cleaning).bits(), Ordering::Relaxed);
        }
        idle
    }

    /// Says whether a quarantined slot only waits to be collected.
    pub(crate) fn is_idle(&self) -> bool {
        is_idle(self.word())
    }

    /// Says whether the slot in hand has used up its lives.
    #[inline]
    pub(crate) fn is_spent(&self, last: Generation) -> bool {
        StampWord::from_bits(self.word.load(Ordering::Relaxed)).is_spent(last)
    }

    /// Makes the slot in hand free; only under the lock of the list that it goes to.
    #[inline]
    pub(crate) fn free(&self) {
        let word = StampWord::from_bits(self.word.load(Ordering::Relaxed));
        self.owner.store(0, Ordering::Release);
        debug_assert!(word.state().may_become(PageState::Free), "{:?} may not become free", word.state());
        // Release: who sees the word sees the reset value, and no owner.
        self.word.store(StampWord::new(word.generation(), PageState::Free).bits(), Ordering::Release);
    }

    /// Takes the slot in hand out of circulation, with its owner's name, since its value may be that owner's; only under
    /// the central lock.
    pub(crate) fn retire(&self) {
        let word = StampWord::from_bits(self.word.load(Ordering::Relaxed));
        self.word.store(word.with_state(PageState::Retired).bits(), Ordering::Release);
    }

    /// Forgets the accesses to a quarantined slot, whose ends never come; only under the central lock.
    pub(crate) fn forget_accesses(&self) {
        let word = self.word();
        self.word.store(StampWord::new(word.generation(), word.state()).bits(), Ordering::Release);
    }

    /// Puts `new` in the place of `now`. When another change came first, gives the word to try again with, or says that the
    /// life is over.
    #[inline]
    fn swap(&self, now: StampWord, new: StampWord, generation: Generation) -> Result<Option<StampWord>, Denied> {
        match self.word.compare_exchange_weak(now.bits(), new.bits(), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(None),
            // Still this life: the owner that was looked at is its owner.
            Err(now) if is_alive(StampWord::from_bits(now), generation) => Ok(Some(StampWord::from_bits(now))),
            Err(now) => Err(Denied::Stale(StampWord::from_bits(now))),
        }
    }
}

#[inline]
fn is_alive(word: StampWord, generation: Generation) -> bool {
    word.generation() == generation && word.state() == PageState::Live
}

fn is_idle(word: StampWord) -> bool {
    word.state() == PageState::Quarantined && word.holds() == 0
}

/// What the value allows: a poisoned one nothing, a blank one only its initialisation.
#[inline]
fn check_value(word: StampWord, purpose: Purpose) -> Result<(), Denied> {
    match (word.is_blank(), purpose) {
        _ if word.is_poisoned() => Err(Denied::Poisoned),
        (true, Purpose::Change) => Err(Denied::Blank),
        (false, Purpose::Initialise) => Err(Denied::NotBlank),
        _ => Ok(()),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn owner() -> OwnerId {
        OwnerId::new(7).expect("non-zero")
    }

    impl SlotStamp {
        /// Breaks the stamp, for tests of the audit.
        pub(crate) fn disown(&self) {
            self.owner.store(0, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_slot_costs_16_bytes_of_stamp() {
        assert_eq!(size_of::<SlotStamp>(), 16);
    }

    // C7, C12
    #[test]
    fn flags_and_count_pass_through_a_release_and_end_with_the_slot() {
        let stamp = SlotStamp::new();
        let life = stamp.issue(owner());
        assert_eq!(stamp.seize(owner(), life, Purpose::Initialise), Ok(()));
        assert_eq!(stamp.leave(owner(), life), Ok(Left::Accessed));
        let word = stamp.word();
        assert!(word.is_writing() && word.is_blank() && word.holds() == 1, "{word:?}");
        assert!(!stamp.collect(), "somebody is at it");
        stamp.end_seize(Ending::Initialised);
        assert_eq!(stamp.word(), StampWord::new(word.generation(), PageState::Quarantined));
        assert!(stamp.collect() && !stamp.collect(), "once");
        stamp.free();
        assert_eq!(stamp.word(), StampWord::new(word.generation(), PageState::Free));
        assert_eq!(stamp.owner(), None);
        assert_eq!(stamp.issue(owner()).get(), life.get() + 1);
    }
}
