//! What a writer said that it sent, each layer of each page exactly once.
//!
//! *Owns* the grid of layers and pages of one writer, and the parts that were taken. *Does not know* bytes: a part that is
//! told is a claim until its digests are compared. O(layers * pages) bits, O(cells + log parts) for a part.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::handoff::SentPart;

/// What a part is to those told before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::handoff) enum Told {
    /// None of it was told.
    New,
    /// Exactly this part was told, digests and all.
    Again,
    /// Another part spoke for some of it: the first layer and page.
    Overlap { layer: u32, page: u32 },
}

/// The cells of one writer: its layers, and all pages of the handoff.
#[derive(Debug)]
pub(in crate::handoff) struct Grid {
    layers: Range<u32>,
    pages: u32,
    /// One bit a cell, page by page of a layer. Empty until the first part comes.
    cells: Vec<u64>,
    told_cells: u64,
    /// By their first layer and page: no two that were taken have a cell in common.
    parts: BTreeMap<(u32, u32), SentPart>,
}

impl Grid {
    pub(in crate::handoff) fn new(layers: Range<u32>, pages: u32) -> Self {
        Self { layers, pages, cells: Vec::new(), told_cells: 0, parts: BTreeMap::new() }
    }

    /// The parts that were taken, in order of layers, then pages.
    pub(in crate::handoff) fn parts(&self) -> impl Iterator<Item = &SentPart> {
        self.parts.values()
    }

    fn cell(&self, layer: u32, page: u32) -> u64 {
        u64::from(layer - self.layers.start) * u64::from(self.pages) + u64::from(page)
    }

    fn is_told(&self, layer: u32, page: u32) -> bool {
        let cell = self.cell(layer, page);
        self.cells.get((cell / 64) as usize).is_some_and(|word| word >> (cell % 64) & 1 == 1)
    }

    fn cell_count(&self) -> u64 {
        u64::from(self.layers.end - self.layers.start) * u64::from(self.pages)
    }

    /// Takes a part that lies within the grid, or says what it is.
    pub(in crate::handoff) fn take(&mut self, part: &SentPart) -> Told {
        let told = |layer| part.pages().find(|page| self.is_told(layer, *page)).map(|page| (layer, page));
        if let Some((layer, page)) = part.slice().layers().find_map(told) {
            let before = self.parts.get(&first_cell(part));
            return if before == Some(part) { Told::Again } else { Told::Overlap { layer, page } };
        }
        if self.cells.is_empty() {
            self.cells = vec![0; self.cell_count().div_ceil(64) as usize];
        }
        for layer in part.slice().layers() {
            for page in part.pages() {
                let cell = self.cell(layer, page);
                self.cells[(cell / 64) as usize] |= 1 << (cell % 64);
                self.told_cells += 1;
            }
        }
        self.parts.insert(first_cell(part), part.clone());
        Told::New
    }

    /// The first layer and page that no part spoke for.
    pub(in crate::handoff) fn first_untold(&self) -> Option<(u32, u32)> {
        if self.told_cells == self.cell_count() {
            return None;
        }
        let untold = |layer| (0..self.pages).find(|page| !self.is_told(layer, *page)).map(|page| (layer, page));
        self.layers.clone().find_map(untold)
    }
}

fn first_cell(part: &SentPart) -> (u32, u32) {
    (part.slice().layers().start, part.pages().start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Slice;
    use crate::handoff::Digest;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn part(layers: Range<u32>, pages: Range<u32>) -> SentPart {
        let digests = pages.clone().map(|page| Digest::from_bytes([page as u8 + 1; 16])).collect();
        SentPart::new(Slice::new(layers, 0..1).expect("not empty"), pages).with_digests(0..2, digests)
    }

    // C10
    #[test]
    fn the_same_part_counts_once_and_another_one_on_it_is_an_overlap() {
        let mut grid = Grid::new(3..5, 70);
        assert_eq!(grid.first_untold(), Some((3, 0)));
        assert_eq!(grid.take(&part(3..4, 0..70)), Told::New);
        assert_eq!(grid.take(&part(3..4, 0..70)), Told::Again);
        assert_eq!(grid.first_untold(), Some((4, 0)));
        assert_eq!(grid.take(&part(3..5, 69..70)), Told::Overlap { layer: 3, page: 69 });
        assert_eq!(grid.take(&part(4..5, 66..70)), Told::New);
        let other = part(4..5, 66..70).with_digests(0..2, vec![Digest::from_bytes([9; 16]); 4]);
        assert_eq!(grid.take(&other), Told::Overlap { layer: 4, page: 66 }, "other digests for the same pages");
        assert_eq!(grid.first_untold(), Some((4, 0)));
        assert_eq!(grid.take(&part(4..5, 0..66)), Told::New);
        assert_eq!((grid.first_untold(), grid.parts().count()), (None, 3));
    }

    proptest! {
        // C10
        #[test]
        fn a_grid_knows_what_was_told_as_a_set_of_cells_does(
            boxes in prop::collection::vec((2u32..6, 1u32..4, 0u32..9, 1u32..6), 0..12),
        ) {
            let mut grid = Grid::new(2..6, 9);
            let (mut cells, mut taken) = (BTreeSet::new(), Vec::new());
            for (layer, layers, page, pages) in boxes {
                let part = part(layer..(layer + layers).min(6), page..(page + pages).min(9));
                let new: BTreeSet<(u32, u32)> =
                    part.slice().layers().flat_map(|layer| part.pages().map(move |page| (layer, page))).collect();
                let expected = match cells.intersection(&new).min().copied() {
                    None => Told::New,
                    Some(_) if taken.contains(&part) => Told::Again,
                    Some((layer, page)) => Told::Overlap { layer, page },
                };
                prop_assert_eq!(grid.take(&part), expected);
                if expected == Told::New {
                    cells.extend(new);
                    taken.push(part);
                }
                let untold = (2..6).flat_map(|layer| (0..9).map(move |page| (layer, page)));
                prop_assert_eq!(grid.first_untold(), untold.into_iter().find(|cell| !cells.contains(cell)));
            }
        }
    }
}
