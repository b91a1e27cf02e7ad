//! WHAT ENGINES DO, AND WHAT LEAKS. Not part of pagestamp.
//!
//! A plain free list of page indices: last in, first out, no owner, no generation, no zeroing. A block table is a
//! list of indices, and an index is all it takes to read a page. Nothing here is a bug by itself; together it means
//! that a table which covers more tokens than were written shows the last tenant's keys and values. It is unsafe by
//! design, and it is here so that the example can show the leak that the pool refuses.

use std::error::Error;
use std::fmt;

use crate::kv_cache::{Half, KvCache, KvStep, PAGE_TOKENS, store_floats};
use crate::shape::Shape;

/// Pages and the list of those that are free.
#[derive(Debug)]
pub(crate) struct PlainList {
    row_bytes: usize,
    planes: Vec<Vec<u8>>,
    free: Vec<usize>,
}

/// The list has too few pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfPages {
    pub(crate) needed_pages: usize,
    pub(crate) free_pages: usize,
}

impl fmt::Display for OutOfPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pages are needed and {} are free", self.needed_pages, self.free_pages)
    }
}

impl Error for OutOfPages {}

impl PlainList {
    /// All pages free; `free` are the indices `0..pages`, and the last of them is handed out first.
    pub(crate) fn new(shape: &Shape, free: Vec<usize>) -> Self {
        let plane_bytes = free.len() * PAGE_TOKENS * shape.row_bytes();
        Self { row_bytes: shape.row_bytes(), planes: vec![vec![0; plane_bytes]; 2 * shape.layers], free }
    }

    /// Lengthens a block table until it covers `tokens`; the pages come as their last user left them.
    ///
    /// # Errors
    /// [`OutOfPages`]; list and table are unchanged.
    pub(crate) fn extend(&mut self, table: &mut Vec<usize>, tokens: usize) -> Result<(), OutOfPages> {
        let needed_pages = tokens.div_ceil(PAGE_TOKENS).saturating_sub(table.len());
        let left = self.free.len().checked_sub(needed_pages);
        let left = left.ok_or(OutOfPages { needed_pages, free_pages: self.free.len() })?;
        table.extend(self.free.drain(left..).rev());
        Ok(())
    }

    /// Gives back a sequence's pages in order, so that the next sequence gets them backwards.
    ///
    /// Their order does not matter to what leaks: a key's position is baked into it.
    pub(crate) fn free(&mut self, table: Vec<usize>) {
        self.free.extend(table);
    }

    /// The cache of the sequence with this block table.
    pub(crate) fn sequence<'l>(&'l mut self, table: &'l mut Vec<usize>) -> PlainSequence<'l> {
        PlainSequence { list: self, table }
    }

    fn page_bytes(&self) -> usize {
        PAGE_TOKENS * self.row_bytes
    }
}

/// A sequence's view of the list: the cache that the forward pass runs over.
#[derive(Debug)]
pub(crate) struct PlainSequence<'l> {
    list: &'l mut PlainList,
    table: &'l mut Vec<usize>,
}

impl PlainSequence<'_> {
    fn put_plane(&mut self, plane: usize, first: usize, floats: &[f32]) {
        let (row_bytes, page_bytes) = (self.list.row_bytes, self.list.page_bytes());
        for (i, row) in floats.chunks_exact(row_bytes / size_of::<f32>()).enumerate() {
            let token = first + i;
            let start = self.table[token / PAGE_TOKENS] * page_bytes + token % PAGE_TOKENS * row_bytes;
            store_floats(&mut self.list.planes[plane][start..start + row_bytes], row);
        }
    }
}

impl KvCache for PlainSequence<'_> {
    type Error = OutOfPages;
    type Step<'s>
        = &'s mut Self
    where
        Self: 's;

    fn step(&mut self, _first: usize, _tokens: usize) -> Result<&mut Self, OutOfPages> {
        Ok(self)
    }
}

impl KvStep for PlainSequence<'_> {
    type Error = OutOfPages;

    fn put(&mut self, layer: usize, first: usize, keys: &[f32], values: &[f32]) -> Result<(), OutOfPages> {
        let tokens = size_of_val(keys) / self.list.row_bytes;
        self.list.extend(self.table, first + tokens)?;
        self.put_plane(Half::Key.plane(layer), first, keys);
        self.put_plane(Half::Value.plane(layer), first, values);
        Ok(())
    }

    fn scan(
        &self,
        layer: usize,
        half: Half,
        end: usize,
        visit: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), OutOfPages> {
        let page_bytes = self.list.page_bytes();
        let plane = &self.list.planes[half.plane(layer)];
        for first in (0..end).step_by(PAGE_TOKENS) {
            let tokens = PAGE_TOKENS.min(end - first);
            let start = self.table[first / PAGE_TOKENS] * page_bytes;
            visit(first, &plane[start..start + tokens * self.list.row_bytes]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contiguous::Contiguous;
    use crate::kv_cache::load_floats;
    use crate::random::{self, Random, SHAPE};

    #[test]
    fn scattered_pages_give_the_same_logits_as_one_buffer() {
        let model = random::llama(11);
        for seed in 0..8 {
            let mut random = Random::new(seed);
            let tokens: Vec<u32> = (0..1 + random.below(100)).map(|_| random.below(SHAPE.vocab) as u32).collect();
            let mut list = PlainList::new(&SHAPE, random.shuffled(12));
            let mut table = Vec::new();
            let mut paged = list.sequence(&mut table);
            let mut whole = Contiguous::new(&SHAPE);
            let Ok(expected) = model.forward(&mut whole, 0, &tokens);
            assert_eq!(model.forward(&mut paged, 0, &tokens), Ok(expected.clone()));
            let Ok(decoded) = model.decode(&mut whole, tokens.len(), expected.clone(), 20, u32::MAX);
            assert_eq!(model.decode(&mut paged, tokens.len(), expected, 20, u32::MAX), Ok(decoded));
        }
    }

    #[test]
    fn copied_cache_equals_a_prefilled_one() {
        let (model, tokens) = (random::llama(12), [5, 9, 1, 70, 33]);
        let mut whole = Contiguous::new(&SHAPE);
        let Ok(_) = model.forward(&mut whole, 0, &tokens);
        assert_eq!(whole.tokens(), tokens.len());
        let mut list = PlainList::new(&SHAPE, vec![1, 0]);
        let (mut prefilled, mut copied) = (Vec::new(), Vec::new());
        model.forward(&mut list.sequence(&mut prefilled), 0, &tokens).expect("two pages");
        whole.copy_to(&mut list.sequence(&mut copied)).expect("two pages");
        let bytes = 16 * SHAPE.row_bytes();
        for plane in &list.planes {
            assert_eq!(plane[..bytes], plane[bytes..]);
        }
    }

    #[test]
    fn freed_pages_come_back_unzeroed_and_backwards() {
        let mut list = PlainList::new(&SHAPE, vec![2, 1, 0]);
        let mut table = Vec::new();
        let row = vec![1.0; SHAPE.kv_dim()];
        list.sequence(&mut table).put(0, PAGE_TOKENS, &row, &row).expect("three pages are free");
        assert_eq!(table, [0, 1]);
        list.free(table);
        let mut next = Vec::new();
        list.extend(&mut next, 2 * PAGE_TOKENS).expect("three pages are free");
        let mut seen = vec![0.0; SHAPE.kv_dim()];
        list.sequence(&mut next)
            .scan(0, Half::Key, 1, &mut |_, rows| load_floats(&mut seen, rows))
            .expect("token 0 is in the table");
        assert_eq!((next, seen), (vec![1, 0], row));
    }

    #[test]
    fn running_out_leaves_list_and_table_unchanged() {
        let mut list = PlainList::new(&SHAPE, vec![0, 1]);
        let mut table = Vec::new();
        let refused = list.extend(&mut table, 3 * PAGE_TOKENS);
        assert_eq!(refused, Err(OutOfPages { needed_pages: 3, free_pages: 2 }));
        assert_eq!((list.free.len(), table.len()), (2, 0));
    }
}
