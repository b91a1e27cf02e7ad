//! The header of a reservation: borrows counted, revoked or not, in one word on a cache line of its own.
//!
//! *Owns* who may touch a reservation's bytes without the pool's lock, and who hands its pages back after a revocation.
//! *Does not know* pages.
//!
//! **Protocol.** Every access through a reservation (read guard, write) counts a borrow, which fails once the
//! reservation is revoked. `revoke` sets the flag and learns the number of borrows in the same step. With none, the
//! revoker hands the pages back; else the borrow that ends last does, and exactly one does: the count cannot rise
//! again. Nothing here rests on `Drop` of the reservation: a forgotten one can be revoked like any other.

use crate::sync::{AtomicU64, Ordering};

const REVOKED: u64 = 1 << 63;
/// More borrows than this at once are refused, far below the flag.
const MAX_BORROWS: u64 = 1 << 32;

/// Why a borrow was not given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoBorrow {
    Revoked,
    TooMany,
}

/// Who has to hand the pages back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Revocation {
    /// Nothing is borrowed: the caller does, now.
    Mine,
    /// Somebody still borrows: whoever ends last does.
    LastBorrower,
    /// It was revoked before.
    Before,
}

/// One word: the flag and the count.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Header {
    word: AtomicU64,
}

impl Header {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU64::new(0) }
    }

    /// Counts a borrow.
    ///
    /// # Memory ordering
    /// Acquire: behind whatever the thread that made the reservation usable did before.
    #[inline]
    pub(crate) fn borrow(&self) -> Result<(), NoBorrow> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & REVOKED != 0 {
                return Err(NoBorrow::Revoked);
            }
            if word >= MAX_BORROWS {
                return Err(NoBorrow::TooMany);
            }
            match self.word.compare_exchange_weak(word, word + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => word = now,
            }
        }
    }

    /// Ends a borrow; `true` when the caller has to hand the pages back.
    ///
    /// # Memory ordering
    /// Release: the borrower's accesses are before the hand-back. Acquire for the one who does hand back: it is behind
    /// every other borrower.
    #[must_use = "the last borrower of a revoked reservation hands its pages back"]
    #[inline]
    pub(crate) fn end_borrow(&self) -> bool {
        self.word.fetch_sub(1, Ordering::AcqRel) == REVOKED | 1
    }

    /// Revokes.
    ///
    /// # Memory ordering
    /// AcqRel: with no borrow left, all ended borrows are before what the caller does next.
    pub(crate) fn revoke(&self) -> Revocation {
        let before = self.word.fetch_or(REVOKED, Ordering::AcqRel);
        if before & REVOKED != 0 {
            Revocation::Before
        } else if before == 0 {
            Revocation::Mine
        } else {
            Revocation::LastBorrower
        }
    }

    /// Borrows now, as a number to show.
    #[inline]
    pub(crate) fn borrows(&self) -> u64 {
        self.word.load(Ordering::Acquire) & !REVOKED
    }

    #[inline]
    pub(crate) fn is_revoked(&self) -> bool {
        self.word.load(Ordering::Acquire) & REVOKED != 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    // C7
    #[test]
    fn a_revoked_header_gives_no_borrow_and_the_last_one_hands_back() {
        let header = Header::new();
        header.borrow().expect("fresh");
        header.borrow().expect("fresh");
        assert_eq!(header.revoke(), Revocation::LastBorrower);
        assert_eq!(header.revoke(), Revocation::Before);
        assert_eq!(header.borrow(), Err(NoBorrow::Revoked));
        assert!(!header.end_borrow());
        assert!(header.end_borrow(), "the second of two hands back");
    }

    #[test]
    fn an_unborrowed_header_is_handed_back_by_the_revoker() {
        let header = Header::new();
        header.borrow().expect("fresh");
        assert!(!header.end_borrow());
        assert_eq!(header.revoke(), Revocation::Mine);
    }

    #[test]
    fn borrows_beyond_the_limit_are_an_error_not_a_wrap() {
        let header = Header { word: AtomicU64::new(MAX_BORROWS) };
        assert_eq!(header.borrow(), Err(NoBorrow::TooMany));
        assert_eq!(header.borrows(), MAX_BORROWS);
    }
}
