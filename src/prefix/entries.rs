//! What is kept of each published page, in chunks that are allocated when the first of their pages is published.
//!
//! *Owns* an entry of 32 bytes and the tokens of a page. *Does not know* how pages are found, nor in which order they go.

use std::collections::TryReserveError;
use std::fmt;
use std::num::NonZeroU64;

use super::Retention;

/// No page.
pub(super) const NONE: u32 = u32::MAX;
/// Pages whose entries are allocated together, and bytes of tokens at the most.
const CHUNK_PAGES: usize = 256;
const CHUNK_BYTES: usize = 64 << 10;

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// `None`: the page is not published.
    pub(super) id: Option<NonZeroU64>,
    pub(super) parent: u64,
    pub(super) hash: u32,
    /// Neighbours in its list, while the page is cached.
    pub(super) older: u32,
    pub(super) newer: u32,
    /// Among cached pages, the lower go first.
    pub(super) priority: u8,
    pub(super) flags: u8,
}

/// It continues a namespace, not another page.
pub(super) const ROOT: u8 = 1;
pub(super) const EXTRAS: u8 = 2;
/// It stays when its last holder leaves.
pub(super) const RETAINED: u8 = 4;
/// It stands in a list of cached pages.
pub(super) const CACHED: u8 = 8;
/// A ticket names it, so that it would make no room: it stands apart.
pub(super) const PINNED: u8 = 16;

impl Entry {
    pub(super) const EMPTY: Self =
        Self { id: None, parent: 0, hash: 0, older: NONE, newer: NONE, priority: 0, flags: 0 };

    pub(super) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn set(&mut self, flag: u8, on: bool) {
        self.flags = if on { self.flags | flag } else { self.flags & !flag };
    }

    pub(super) fn retain(&mut self, retention: Retention) {
        self.set(RETAINED, retention != Retention::WhileHeld);
        if let Retention::Cached { priority } = retention {
            self.priority = priority;
        }
    }

    /// How long it stays.
    pub(super) const fn retention(&self) -> Retention {
        if self.has(RETAINED) { Retention::Cached { priority: self.priority } } else { Retention::WhileHeld }
    }
}

struct Chunk {
    entries: Box<[Entry]>,
    tokens: Box<[u32]>,
}

/// See the module. Shows no tokens: prompts are secrets.
pub(super) struct Entries {
    page_tokens: usize,
    chunk_pages: usize,
    chunks: Vec<Option<Chunk>>,
}

impl Entries {
    pub(super) fn new(page_tokens: u32) -> Self {
        let page_tokens = page_tokens as usize;
        let chunk_pages = (CHUNK_BYTES / (page_tokens * size_of::<u32>()).max(1)).clamp(1, CHUNK_PAGES);
        Self { page_tokens, chunk_pages, chunks: Vec::new() }
    }

    fn locate(&self, page: u32) -> (usize, usize) {
        (page as usize / self.chunk_pages, page as usize % self.chunk_pages)
    }

    /// Makes room for a page, so that [`put`](Self::put) needs no memory.
    pub(super) fn try_reserve(&mut self, page: u32) -> Result<(), TryReserveError> {
        let (chunk, _) = self.locate(page);
        if chunk >= self.chunks.len() {
            self.chunks.try_reserve(chunk + 1 - self.chunks.len())?;
            self.chunks.resize_with(chunk + 1, || None);
        }
        if self.chunks[chunk].is_none() {
            let (mut entries, mut tokens) = (Vec::new(), Vec::new());
            entries.try_reserve_exact(self.chunk_pages)?;
            tokens.try_reserve_exact(self.chunk_pages * self.page_tokens)?;
            entries.resize(self.chunk_pages, Entry::EMPTY);
            tokens.resize(self.chunk_pages * self.page_tokens, 0);
            self.chunks[chunk] = Some(Chunk { entries: entries.into(), tokens: tokens.into() });
        }
        Ok(())
    }

    /// The entry of a published page.
    pub(super) fn get(&self, page: u32) -> Option<&Entry> {
        let (chunk, at) = self.locate(page);
        let chunk = self.chunks.get(chunk)?.as_ref()?;
        Some(&chunk.entries[at]).filter(|entry| entry.id.is_some())
    }

    pub(super) fn get_mut(&mut self, page: u32) -> Option<&mut Entry> {
        let (chunk, at) = self.locate(page);
        let chunk = self.chunks.get_mut(chunk)?.as_mut()?;
        Some(&mut chunk.entries[at]).filter(|entry| entry.id.is_some())
    }

    /// Tokens of a published page; none of another.
    pub(super) fn tokens(&self, page: u32) -> &[u32] {
        let (chunk, at) = self.locate(page);
        let chunk = self.chunks.get(chunk).and_then(Option::as_ref);
        chunk.map_or(&[], |chunk| &chunk.tokens[at * self.page_tokens..(at + 1) * self.page_tokens])
    }

    /// Sets the entry of a page that has room.
    pub(super) fn put(&mut self, page: u32, entry: Entry, tokens: &[u32]) {
        let (chunk, at) = self.locate(page);
        if let Some(chunk) = self.chunks.get_mut(chunk).and_then(Option::as_mut) {
            chunk.entries[at] = entry;
            chunk.tokens[at * self.page_tokens..(at + 1) * self.page_tokens].copy_from_slice(tokens);
        }
    }

    /// Takes the entry of a page out. Its tokens are forgotten, as its bytes will be.
    pub(super) fn take(&mut self, page: u32) -> Option<Entry> {
        let (chunk, at) = self.locate(page);
        let chunk = self.chunks.get_mut(chunk)?.as_mut()?;
        let entry = std::mem::replace(&mut chunk.entries[at], Entry::EMPTY);
        entry.id?;
        chunk.tokens[at * self.page_tokens..(at + 1) * self.page_tokens].fill(0);
        Some(entry)
    }
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entries").field("chunks", &self.chunks.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: u64) -> Entry {
        Entry { id: NonZeroU64::new(id), ..Entry::EMPTY }
    }

    #[test]
    fn an_entry_costs_32_bytes() {
        assert_eq!(size_of::<Entry>(), 32);
    }

    // C11
    #[test]
    fn what_is_taken_out_leaves_no_token_behind_and_none_is_shown() {
        let mut entries = Entries::new(4);
        entries.try_reserve(7).expect("small");
        entries.put(7, entry(1), &[11, 22, 33, 44]);
        assert_eq!(entries.tokens(7), [11, 22, 33, 44]);
        assert!(!format!("{entries:?}").contains("33"));
        assert!(entries.take(7).is_some());
        assert_eq!(entries.tokens(7), [0; 4]);
        assert!(entries.take(7).is_none() && entries.get(7).is_none());
        assert!(entries.take(70_000).is_none() && entries.tokens(70_000).is_empty());
    }

    #[test]
    fn one_published_page_never_costs_more_than_a_chunk_of_64_kib_or_its_own_tokens() {
        for (page_tokens, chunk_pages) in [(1, 256), (16, 256), (64, 256), (256, 64), (16_384, 1), (32_767, 1)] {
            let mut entries = Entries::new(page_tokens);
            assert_eq!(entries.chunk_pages, chunk_pages, "{page_tokens}");
            entries.try_reserve(300).expect("small");
            let made: Vec<usize> = entries.chunks.iter().flatten().map(|chunk| chunk.tokens.len() * 4).collect();
            assert_eq!(made.len(), 1);
            assert!(made[0] <= CHUNK_BYTES.max(page_tokens as usize * 4));
        }
    }
}
