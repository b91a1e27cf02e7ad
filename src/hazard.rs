//! Hazards: how a reader by handle, without a lock and without touching a shared line, keeps a page from being reused.
//!
//! *Owns* the slots in which readers announce the page that they are looking at. *Does not know* what a page is: a
//! hazard is a key (pool, page). One domain serves all pools of the process.
//!
//! **Protocol.** Reader: (1) store the key in a slot of its own, (2) `fence(SeqCst)`, (3) look at the stamp; read only if
//! it still fits, else take the hazard back. Releaser, under the pool's lock: (1) store the bumped stamp, (2)
//! `fence(SeqCst)`, (3) look at all slots; a page that is named in one stays quarantined. The two fences are ordered one
//! way or the other: either the reader sees the bump, or the releaser sees the hazard. The reader's end is a Release
//! store of zero, which the releaser's Acquire load pairs with: every read of the guard is before the zeroing.
//!
//! A pin counted in the stamp itself costs a shared line: 67 ns when two threads read one page, against 7 ns here.
//!
//! **Cost.** A read is one store, one fence, one load. A scan is one cache line for each thread that ever read at once.

use std::sync::OnceLock;

use crate::sync::{AtomicBool, AtomicU64, Ordering, fence};

/// Slots of one block; with the rest of the block they fill two cache lines.
const SLOTS: usize = 13;
/// Blocks at the most: 53,248 guards at once in the process.
const MAX_BLOCKS: u64 = 4096;

/// Slots that one thread at a time may fill. Anyone may empty one (a guard dropped on another thread).
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Block {
    slots: [AtomicU64; SLOTS],
    claimed: AtomicBool,
    next: OnceLock<&'static Block>,
}

impl Block {
    fn new() -> Self {
        Self {
            slots: std::array::from_fn(|_| AtomicU64::new(0)),
            claimed: AtomicBool::new(true),
            next: OnceLock::new(),
        }
    }

    /// Takes an empty slot of this block for `key`. Only the thread that claimed the block may call it.
    #[inline]
    fn announce(&'static self, key: u64) -> Option<Hazard> {
        // Acquire here and Release below carry on the chain from a guard that another thread ended in this very slot:
        // a releaser that sees only the new key is still behind the old guard's reads.
        let slot = self.slots.iter().find(|slot| slot.load(Ordering::Acquire) == 0)?;
        slot.store(key, Ordering::Release);
        fence(Ordering::SeqCst);
        Some(Hazard { slot })
    }

    fn claim(&self) -> bool {
        !self.claimed.load(Ordering::Relaxed)
            && self.claimed.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn unclaim(&self) {
        self.claimed.store(false, Ordering::Release);
    }
}

/// An announced page. Ends when dropped, on any thread.
#[derive(Debug)]
pub(crate) struct Hazard {
    slot: &'static AtomicU64,
}

impl Drop for Hazard {
    #[inline]
    fn drop(&mut self) {
        self.slot.store(0, Ordering::Release);
    }
}

/// All blocks: a list that only grows, so that a scan needs no lock.
#[derive(Debug)]
pub(crate) struct Domain {
    first: OnceLock<&'static Block>,
}

impl Domain {
    pub(crate) const fn new() -> Self {
        Self { first: OnceLock::new() }
    }

    /// Claims a block for the calling thread: one that another thread left, else a new one; `None` at the limit.
    pub(crate) fn claim_block(&self) -> Option<&'static Block> {
        let mut cell = &self.first;
        for _ in 0..MAX_BLOCKS {
            let mut made = false;
            let block: &'static Block = cell.get_or_init(|| {
                made = true;
                Box::leak(Box::new(Block::new()))
            });
            if made || block.claim() {
                return Some(block);
            }
            cell = &block.next;
        }
        None
    }

    /// Calls `seen` with every key that is announced now.
    ///
    /// # Memory ordering
    /// Begins with the releaser's `fence(SeqCst)`: a reader that is not seen here sees every stamp stored before.
    #[inline]
    pub(crate) fn scan(&self, mut seen: impl FnMut(u64)) {
        fence(Ordering::SeqCst);
        let mut next = self.first.get();
        while let Some(block) = next {
            for slot in &block.slots {
                let key = slot.load(Ordering::Acquire);
                if key != 0 {
                    seen(key);
                }
            }
            next = block.next.get();
        }
    }
}

/// Packs pool and page; never zero, since pool ids are not.
#[inline]
pub(crate) const fn key(pool: u32, page: u32) -> u64 {
    (pool as u64) << 32 | page as u64
}

#[cfg(not(loom))]
pub(crate) use thread::{announce, pages_announced};

/// The process-wide domain and each thread's own blocks.
#[cfg(not(loom))]
mod thread {
    use std::cell::{Cell, RefCell};

    use super::{Block, Domain, Hazard, key};
    use crate::id::PoolId;

    static DOMAIN: Domain = Domain::new();

    struct Mine {
        first: Cell<Option<&'static Block>>,
        more: RefCell<Vec<&'static Block>>,
    }

    impl Drop for Mine {
        #[inline]
        fn drop(&mut self) {
            let more = self.more.get_mut().drain(..);
            self.first.take().into_iter().chain(more).for_each(Block::unclaim);
        }
    }

    impl Mine {
        #[inline]
        fn announce(&self, key: u64) -> Option<Hazard> {
            match self.first.get().and_then(|block| block.announce(key)) {
                Some(hazard) => Some(hazard),
                None => self.announce_in_more(key),
            }
        }

        #[cold]
        fn announce_in_more(&self, key: u64) -> Option<Hazard> {
            let mut more = self.more.borrow_mut();
            if let Some(hazard) = more.iter().find_map(|block| block.announce(key)) {
                return Some(hazard);
            }
            // A block that another thread left may still be full of its guards: then the next one. The list ends.
            loop {
                let block = DOMAIN.claim_block()?;
                if self.first.get().is_none() {
                    self.first.set(Some(block));
                } else {
                    more.push(block);
                }
                if let Some(hazard) = block.announce(key) {
                    return Some(hazard);
                }
            }
        }
    }

    thread_local! {
        static MINE: Mine = const { Mine { first: Cell::new(None), more: RefCell::new(Vec::new()) } };
    }

    /// Announces that this thread is about to look at a page; `None` when too many guards are alive in the process.
    #[inline]
    pub(crate) fn announce(pool: PoolId, page: u32) -> Option<Hazard> {
        let key = key(pool.get(), page);
        MINE.try_with(|mine| mine.announce(key)).unwrap_or_else(|_| announce_while_thread_ends(key))
    }

    /// A guard taken in the destructor of another thread-local: the block is claimed for this one announcement.
    #[cold]
    fn announce_while_thread_ends(key: u64) -> Option<Hazard> {
        // Blocks that other threads left may be full of their guards: then the next one. The list ends.
        let mut full = Vec::new();
        let hazard = std::iter::from_fn(|| DOMAIN.claim_block()).find_map(|block| {
            full.push(block);
            block.announce(key)
        });
        full.into_iter().for_each(Block::unclaim);
        hazard
    }

    /// Collects the pages of `pool` that are announced now, after the releaser's fence.
    #[inline]
    pub(crate) fn pages_announced(pool: PoolId, into: &mut Vec<u32>) {
        into.clear();
        DOMAIN.scan(|key| {
            if (key >> 32) as u32 == pool.get() {
                into.push(key as u32);
            }
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::id::PoolId;

    fn announced(pool: PoolId) -> Vec<u32> {
        let mut pages = Vec::new();
        pages_announced(pool, &mut pages);
        pages.sort_unstable();
        pages
    }

    // C7
    #[test]
    fn an_announced_page_is_seen_until_its_guard_ends() {
        let (here, there) = (PoolId::new(0xfff0_0001).expect("id"), PoolId::new(0xfff0_0002).expect("id"));
        let one = announce(here, 7).expect("slot");
        let two = announce(here, 0).expect("slot");
        assert_eq!(announced(here), [0, 7]);
        assert!(announced(there).is_empty(), "a hazard is of one pool");
        drop(one);
        assert_eq!(announced(here), [0]);
        drop(two);
        assert!(announced(here).is_empty());
    }

    #[test]
    fn a_thread_may_hold_more_guards_than_one_block_has_slots() {
        let pool = PoolId::new(0xfff0_0003).expect("id");
        let held: Vec<Hazard> = (0..100).map(|page| announce(pool, page).expect("slot")).collect();
        assert_eq!(announced(pool), (0..100).collect::<Vec<u32>>());
        drop(held);
        assert!(announced(pool).is_empty());
    }

    #[test]
    fn a_guard_outlives_its_thread_and_ends_on_another() {
        let pool = PoolId::new(0xfff0_0004).expect("id");
        let hazard = std::thread::spawn(move || announce(pool, 3).expect("slot")).join().expect("thread");
        assert_eq!(announced(pool), [3]);
        drop(hazard);
        assert!(announced(pool).is_empty());
    }

    #[test]
    fn guards_beyond_the_limit_are_an_error_not_a_wrap() {
        static SMALL: Domain = Domain::new();
        let claimed = (0..=MAX_BLOCKS).filter(|_| SMALL.claim_block().is_some()).count() as u64;
        assert_eq!(claimed, MAX_BLOCKS);
    }
}
