//! The reservation's header: a revocation against borrows.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use loom::thread;

use crate::bytes::Token;
use crate::header::{Header, Revocation};
use crate::id::Generation;
use crate::saw;
use crate::stamp::{Extent, OffLimits, PageMeta, PageState, StampWord};
use crate::world::Plant;

const TEXT: u64 = 5;

/// A reservation of one token, and how often its pages were handed back. The count is no part of what is modelled.
struct Lease {
    plant: Plant,
    header: Header,
    bytes: Token,
    handed_back: AtomicUsize,
}

impl Lease {
    fn new(plant: Plant) -> Arc<Self> {
        let bytes = Token::default();
        bytes.set(TEXT);
        Arc::new(Self { plant, header: Header::new(), bytes, handed_back: AtomicUsize::new(0) })
    }

    fn hand_back(&self) {
        self.handed_back.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.bytes.set(0);
    }

    /// As `access::Borrow`: from its making to its drop.
    fn read(&self) {
        if self.header.borrow().is_err() {
            saw("refused");
        } else {
            saw("read");
            assert_eq!(self.bytes.get(), TEXT, "C7: taken back under a borrow");
            assert_eq!(self.bytes.get(), TEXT, "C7: taken back under a borrow");
            if self.header.end_borrow() {
                saw("by a borrower");
                self.hand_back();
            }
        }
    }

    fn revoke(&self) -> Revocation {
        let whose = self.header.revoke();
        if whose == Revocation::Mine || (self.plant == Plant::BothHandBack && whose == Revocation::LastBorrower) {
            saw("by the revoker");
            self.hand_back();
        }
        whose
    }

    fn check(&self) {
        let times = self.handed_back.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(times, 1, "C1: the pages of a revoked reservation are handed back once");
        assert_eq!(self.bytes.get(), 0, "C3: handed back and not zero");
        assert!(self.header.borrow().is_err(), "C4: a revoked reservation gives a borrow");
        assert_eq!(self.header.borrows(), 0, "C1: a borrow is still counted");
    }
}

/// One borrower.
// C1, C7
pub(crate) fn loom_revoke_races_borrow(plant: Plant) {
    let lease = Lease::new(plant);
    let borrower = thread::spawn({
        let lease = lease.clone();
        move || lease.read()
    });
    assert_ne!(lease.revoke(), Revocation::Before, "C1: nobody else revokes");
    borrower.join().expect("borrower");
    lease.check();
}

/// Two borrowers: who ends last is behind the other's reads.
// C1, C7
pub(crate) fn loom_revoke_races_two_borrowers(plant: Plant) {
    let lease = Lease::new(plant);
    let borrowers = [(); 2].map(|()| {
        let lease = lease.clone();
        thread::spawn(move || lease.read())
    });
    lease.revoke();
    for borrower in borrowers {
        borrower.join().expect("borrower");
    }
    lease.check();
}

/// Two revocations and a borrower: one of the three hands back.
// C1, C7
pub(crate) fn loom_two_revocations_race_borrow(plant: Plant) {
    let lease = Lease::new(plant);
    let borrower = thread::spawn({
        let lease = lease.clone();
        move || lease.read()
    });
    let other = thread::spawn({
        let lease = lease.clone();
        move || lease.revoke()
    });
    let here = lease.revoke();
    let there = other.join().expect("revoker");
    assert!((here == Revocation::Before) != (there == Revocation::Before), "C1: exactly one revocation is the first");
    borrower.join().expect("borrower");
    lease.check();
}

/// A borrower looks whether an outside party is at work on its page while a revocation takes the page, flags and all.
// C7, C12
pub(crate) fn loom_revoke_races_a_look_at_the_flags(_: Plant) {
    let word = StampWord::new(Generation::FIRST, PageState::Live).held().expect("room").with_writing(true);
    let page = Arc::new((Header::new(), PageMeta::new(word, Extent::default()), Token::default()));
    let borrower = thread::spawn({
        let page = page.clone();
        move || {
            let (header, meta, bytes) = &*page;
            if header.borrow().is_err() {
                return saw("refused");
            }
            match meta.word_for_reader().off_limits() {
                None => drop(bytes.get()),
                Some(OffLimits::Gone) => saw("gone"),
                Some(_) => saw("busy"),
            }
            let _ = header.end_borrow();
        }
    });
    let outside = thread::spawn({
        let page = page.clone();
        move || page.2.set(TEXT)
    });
    // As `Inner::revoke` and `let_go_of_page`.
    if page.0.revoke() == Revocation::LastBorrower {
        page.1.publish(page.1.word().released().with_state(PageState::Quarantined).held().expect("room"));
    }
    borrower.join().expect("borrower");
    outside.join().expect("outside party");
}
