//! What a reservation and the pool share: the header, and the list of pages.
//!
//! *Owns* [`PageList`], a list that never moves what it holds, [`Core`], and [`Lease`], the right to it that ends with its
//! value. *Does not know* states or bytes.
//!
//! The list changes only under the pool's lock. It is read without the lock by the one who holds the reservation, which
//! Rust's borrows order behind its changes. So a reclaim can find the pages of a reservation that was forgotten, and a
//! read costs no lock.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::error::ReserveError;
use crate::header::Header;
use crate::id::OwnerId;
use crate::memory::PageMemory;
use crate::pool::{PagePool, RecordKey, Released};
use crate::step::Exports;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Pages in the first chunk, two cache lines; each later chunk is as large as all before it.
const FIRST_CHUNK: usize = 32;
/// Chunks: 32 * 2^27 pages, as many as an index can name.
const CHUNKS: usize = 28;

type Chunk = Box<[AtomicU32]>;

/// Page indices by ordinal.
#[derive(Debug)]
pub(crate) struct PageList {
    /// Ordinals below it have left: a window slid past them.
    first: AtomicU32,
    /// One past the last ordinal.
    len: AtomicU32,
    /// How often an ordinal got another page, or lost its own.
    changes: AtomicU64,
    chunks: [OnceLock<Chunk>; CHUNKS],
}

/// Chunk and place of an ordinal.
#[inline]
const fn locate(ordinal: usize) -> (usize, usize) {
    if ordinal < FIRST_CHUNK {
        return (0, ordinal);
    }
    let chunk = (ordinal / FIRST_CHUNK).ilog2() as usize + 1;
    (chunk, ordinal - chunk_begin(chunk))
}

#[inline]
const fn chunk_begin(chunk: usize) -> usize {
    if chunk == 0 { 0 } else { FIRST_CHUNK << (chunk - 1) }
}

#[inline]
const fn chunk_len(chunk: usize) -> usize {
    if chunk == 0 { FIRST_CHUNK } else { FIRST_CHUNK << (chunk - 1) }
}

impl PageList {
    fn new() -> Self {
        Self {
            first: AtomicU32::new(0),
            len: AtomicU32::new(0),
            changes: AtomicU64::new(0),
            chunks: [const { OnceLock::new() }; CHUNKS],
        }
    }

    // Relaxed throughout: see the module's words on who reads and who writes.

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len.load(Ordering::Relaxed)
    }

    /// The lowest ordinal that is here still.
    #[inline]
    pub(crate) fn first(&self) -> u32 {
        self.first.load(Ordering::Relaxed)
    }

    /// Pages in the list.
    #[inline]
    pub(crate) fn count(&self) -> u32 {
        // Of a list that a reclaim is just emptying elsewhere the two may be of different times.
        self.len().saturating_sub(self.first())
    }

    /// Drops the ordinals below `first`; only under the pool's lock.
    pub(crate) fn drop_below(&self, first: u32) {
        self.first.store(first.clamp(self.first(), self.len()), Ordering::Relaxed);
    }

    /// Lets an empty list begin at `first`; only under the pool's lock.
    pub(crate) fn begin_at(&self, first: u32) {
        self.note_change();
        self.len.store(first, Ordering::Relaxed);
        self.first.store(first, Ordering::Relaxed);
    }

    #[inline]
    fn chunk(&self, chunk: usize) -> &Chunk {
        let make = || (0..chunk_len(chunk)).map(|_| AtomicU32::new(0)).collect();
        self.chunks[chunk].get_or_init(make)
    }

    /// Makes room, so that `push` allocates nothing under the lock.
    pub(crate) fn make_room(&self, pages: u64) {
        let mut begin = 0u64;
        for chunk in 0..CHUNKS {
            if begin >= pages {
                return;
            }
            self.chunk(chunk);
            begin += chunk_len(chunk) as u64;
        }
    }

    /// Page at an ordinal below the length; `None` where a window slid past.
    #[inline]
    pub(crate) fn get(&self, ordinal: u32) -> Option<u32> {
        if ordinal >= self.len() || ordinal < self.first() {
            return None;
        }
        let (chunk, place) = locate(ordinal as usize);
        self.chunks[chunk].get()?.get(place).map(|page| page.load(Ordering::Relaxed))
    }

    /// A number that rises whenever an ordinal gets another page, or loses its own but by sliding: as long as it stays, so do
    /// the pages that were seen.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    #[inline]
    fn note_change(&self) {
        self.changes.store(self.changes() + 1, Ordering::Relaxed);
    }

    /// Replaces the page at an ordinal below the length; only under the pool's lock.
    #[inline]
    pub(crate) fn set(&self, ordinal: u32, page: u32) {
        let (chunk, place) = locate(ordinal as usize);
        self.chunk(chunk)[place].store(page, Ordering::Relaxed);
        self.note_change();
    }

    /// Appends `pages`; only under the pool's lock.
    #[inline]
    pub(crate) fn extend(&self, pages: impl ExactSizeIterator<Item = u32>) {
        let mut at = self.len() as usize;
        let end = at + pages.len();
        let mut pages = pages;
        while at < end {
            let (chunk, place) = locate(at);
            let slots = &self.chunk(chunk)[place..];
            let slots = &slots[..slots.len().min(end - at)];
            slots.iter().zip(&mut pages).for_each(|(slot, page)| slot.store(page, Ordering::Relaxed));
            at += slots.len();
        }
        self.len.store(end as u32, Ordering::Relaxed);
    }

    /// Shortens the list; only under the pool's lock.
    #[inline]
    pub(crate) fn truncate(&self, len: u32) {
        let len = len.min(self.len());
        self.note_change();
        self.first.store(self.first().min(len), Ordering::Relaxed);
        self.len.store(len, Ordering::Relaxed);
    }

    /// Calls `each` with the pages from ordinal `from` on.
    pub(crate) fn for_each_from(&self, from: u32, mut each: impl FnMut(u32)) {
        self.runs_from(from).flatten().for_each(|page| each(page.load(Ordering::Relaxed)));
    }

    /// The pages from ordinal `from` on, as far as they stand side by side, and so on.
    #[inline]
    pub(crate) fn runs_from(&self, from: u32) -> impl Iterator<Item = &[AtomicU32]> {
        let (mut at, end) = (from.max(self.first()) as usize, self.len() as usize);
        std::iter::from_fn(move || {
            let (chunk, place) = locate(at);
            let run = self.chunks[chunk].get().filter(|_| at < end)?.get(place..)?;
            let run = &run[..run.len().min(end - at)];
            at += run.len();
            Some(run)
        })
    }

    /// Says whether the list has room for more pages than that.
    #[inline]
    pub(crate) fn has_room_past(&self, pages: usize) -> bool {
        self.chunks[locate(pages).0].get().is_some()
    }
}

/// The part of a reservation that outlives its value.
#[derive(Debug)]
pub(crate) struct Core {
    /// The pool's record of it.
    pub(crate) key: RecordKey,
    pub(crate) header: Header,
    pub(crate) pages: PageList,
    /// Open write tickets on pages of this reservation, and lanes that wait for some of them to be clean. Reads look at
    /// each page only while there are some.
    pub(crate) off_limits: AtomicU32,
    /// Tokens that steps are writing.
    pub(crate) exports: Exports,
}

impl Core {
    pub(crate) fn new(key: RecordKey) -> Self {
        Self {
            key,
            header: Header::new(),
            pages: PageList::new(),
            off_limits: AtomicU32::new(0),
            exports: Exports::default(),
        }
    }
}

/// What an admission or a reservation holds of the pool; ends when dropped.
pub(crate) struct Lease<M: PageMemory> {
    pool: PagePool<M>,
    owner: OwnerId,
    /// `None` once it ended.
    core: Option<Arc<Core>>,
}

impl<M: PageMemory> Lease<M> {
    #[inline]
    pub(crate) fn new(pool: PagePool<M>, owner: OwnerId, core: Arc<Core>) -> Self {
        Self { pool, owner, core: Some(core) }
    }

    pub(crate) const fn owner(&self) -> OwnerId {
        self.owner
    }

    pub(crate) fn key(&self) -> RecordKey {
        self.core().key
    }

    pub(crate) const fn pool(&self) -> &PagePool<M> {
        &self.pool
    }

    /// The shared part. Only a lease that has ended has none, and nobody can call anything on that.
    pub(crate) fn core(&self) -> &Core {
        match &self.core {
            Some(core) => core,
            None => unreachable!("a lease ends by value"),
        }
    }

    pub(crate) fn take_promised(&self, tokens: u64) -> Result<(), ReserveError> {
        self.pool.inner.take_promised(self, tokens)
    }

    pub(crate) fn take_core(&mut self) -> Option<Arc<Core>> {
        self.core.take()
    }

    #[inline]
    pub(crate) fn end(&mut self) -> Released {
        match self.core.take() {
            Some(core) => self.pool.inner.end_lease(core),
            None => Released::default(),
        }
    }
}

impl<M: PageMemory> Drop for Lease<M> {
    #[inline]
    fn drop(&mut self) {
        self.end();
    }
}

impl<M: PageMemory> fmt::Debug for Lease<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pages = self.core.as_ref().map_or(0, |core| core.pages.len());
        f.debug_struct("Lease").field("owner", &self.owner).field("pages", &pages).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_gives_back_every_page_at_its_ordinal() {
        let list = PageList::new();
        let mut next = 0;
        for count in [0, 1, 7, 1, 30, 500, 3] {
            list.make_room(u64::from(list.len() + count));
            list.extend(next..next + count);
            next += count;
        }
        assert_eq!(list.len(), 542);
        assert!((0..542).all(|i| list.get(i) == Some(i)));
        assert_eq!(list.get(542), None);
        for from in [0, 31, 32, 33, 511, 541, 542] {
            let mut seen = Vec::new();
            list.for_each_from(from, |page| seen.push(page));
            assert_eq!(seen, (from..542).collect::<Vec<u32>>());
        }
        list.truncate(9);
        assert_eq!((list.len(), list.get(8), list.get(9)), (9, Some(8), None));
        list.set(8, 77);
        assert_eq!(list.get(8), Some(77));
    }

    #[test]
    fn a_list_that_slid_keeps_the_ordinals_of_what_is_left() {
        let list = PageList::new();
        list.make_room(100);
        list.extend(0..100);
        list.drop_below(40);
        assert_eq!((list.get(39), list.get(40), list.len(), list.count()), (None, Some(40), 100, 60));
        let mut seen = Vec::new();
        list.for_each_from(7, |page| seen.push(page));
        assert_eq!(seen, (40..100).collect::<Vec<u32>>());
        list.drop_below(3);
        assert_eq!(list.first(), 40, "what left does not come back");
        list.drop_below(200);
        assert_eq!((list.first(), list.count()), (100, 0));
        list.truncate(0);
        assert_eq!((list.first(), list.len()), (0, 0));
        list.begin_at(40);
        list.extend(7..9);
        assert_eq!((list.get(39), list.get(40), list.get(41), list.count()), (None, Some(7), Some(8), 2));
    }

    #[test]
    fn ordinals_fill_chunks_without_gap_or_overlap() {
        let mut expected = (0, 0);
        for ordinal in 0..100_000 {
            assert_eq!(locate(ordinal), expected);
            expected.1 += 1;
            if expected.1 == chunk_len(expected.0) {
                expected = (expected.0 + 1, 0);
            }
        }
        assert!(locate(u32::MAX as usize).0 < CHUNKS);
    }
}
