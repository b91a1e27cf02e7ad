//! Which parts of the expected pages have landed, each exactly once.
//!
//! *Owns* the count of page ordinals, units (one unit of one layer) and token ranges. *Does not know* bytes. A part is O(1)
//! when it is all of a unit of a page, else O(log parts of that page and unit) to find and a move of them to note.

use std::collections::BTreeMap;
use std::ops::Range;

/// What a part is to what landed before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::handoff) enum Part {
    /// None of it landed.
    New,
    /// Exactly this part landed.
    Again,
    /// A part that is not the same landed on some of it.
    Overlap(Overlap),
}

/// Two different parts for the same tokens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::handoff) struct Overlap {
    pub(in crate::handoff) page: u32,
    pub(in crate::handoff) unit: usize,
    pub(in crate::handoff) landed: Range<u32>,
    pub(in crate::handoff) sent: Range<u32>,
}

/// A unit of a page of which something is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::handoff) struct Missing {
    pub(in crate::handoff) page: u32,
    pub(in crate::handoff) unit: usize,
    pub(in crate::handoff) landed_tokens: u32,
}

/// Parts by page and unit.
#[derive(Debug)]
pub(in crate::handoff) struct Coverage {
    units: usize,
    /// landed in one part, whole
    whole: Box<[bool]>,
    /// landed in parts, in order of tokens
    parts: BTreeMap<usize, Vec<Range<u32>>>,
    first_overlap: Option<Overlap>,
}

impl Coverage {
    pub(in crate::handoff) fn new(pages: u32, units: usize) -> Self {
        let whole = vec![false; pages as usize * units].into();
        Self { units, whole, parts: BTreeMap::new(), first_overlap: None }
    }

    fn slot(&self, page: u32, unit: usize) -> usize {
        page as usize * self.units + unit
    }

    /// Compares a part of a page of `page_tokens` expected tokens with what landed, and remembers the first that overlaps.
    /// The part is not empty, and in range.
    pub(in crate::handoff) fn compare(
        &mut self,
        page: u32,
        unit: usize,
        tokens: &Range<u32>,
        page_tokens: u32,
    ) -> Part {
        let slot = self.slot(page, unit);
        let landed = if self.whole[slot] {
            Some(0..page_tokens)
        } else {
            let parts = self.parts.get(&slot).map_or(&[][..], Vec::as_slice);
            let at = parts.partition_point(|part| part.end <= tokens.start);
            parts.get(at).filter(|part| part.start < tokens.end).cloned()
        };
        match landed {
            None => Part::New,
            Some(landed) if landed == *tokens => Part::Again,
            Some(landed) => {
                let overlap = Overlap { page, unit, landed, sent: tokens.clone() };
                self.first_overlap.get_or_insert_with(|| overlap.clone());
                Part::Overlap(overlap)
            }
        }
    }

    /// Compares a part of several units: it is the same again only if it is in each of them.
    pub(in crate::handoff) fn compare_all(
        &mut self,
        page: u32,
        units: impl Iterator<Item = usize>,
        tokens: &Range<u32>,
        page_tokens: u32,
    ) -> Part {
        let (mut new, mut again) = (false, None);
        for unit in units {
            match self.compare(page, unit, tokens, page_tokens) {
                Part::New => new = true,
                Part::Again => again = again.or(Some(unit)),
                overlap @ Part::Overlap(_) => return overlap,
            }
        }
        match again {
            None => Part::New,
            Some(_) if !new => Part::Again,
            Some(unit) => {
                let overlap = Overlap { page, unit, landed: tokens.clone(), sent: tokens.clone() };
                self.first_overlap.get_or_insert_with(|| overlap.clone());
                Part::Overlap(overlap)
            }
        }
    }

    /// The first part that was sent over another one.
    pub(in crate::handoff) const fn first_overlap(&self) -> Option<&Overlap> {
        self.first_overlap.as_ref()
    }

    /// Notes a part that is new.
    pub(in crate::handoff) fn note(&mut self, page: u32, unit: usize, tokens: Range<u32>, page_tokens: u32) {
        let slot = self.slot(page, unit);
        if tokens == (0..page_tokens) {
            self.whole[slot] = true;
            return;
        }
        let parts = self.parts.entry(slot).or_default();
        let at = parts.partition_point(|part| part.start < tokens.start);
        parts.insert(at, tokens);
    }

    /// Tokens that landed of a unit of a page that is not whole.
    fn landed_in_parts(&self, slot: usize) -> u32 {
        self.parts.get(&slot).into_iter().flatten().map(|part| part.end - part.start).sum()
    }

    /// The first unit of a page of which less than `tokens_of(page)` tokens landed.
    pub(in crate::handoff) fn first_missing(&self, tokens_of: impl Fn(u32) -> u32) -> Option<Missing> {
        self.whole.iter().enumerate().filter(|(_, whole)| !**whole).find_map(|(slot, _)| {
            let (page, unit) = ((slot / self.units) as u32, slot % self.units);
            let landed_tokens = self.landed_in_parts(slot);
            (landed_tokens < tokens_of(page)).then_some(Missing { page, unit, landed_tokens })
        })
    }

    /// Says whether every unit of a page landed, whole.
    pub(in crate::handoff) fn is_complete(&self, page: u32, tokens: u32) -> bool {
        let mut slots = (0..self.units).map(|unit| self.slot(page, unit));
        slots.all(|slot| self.whole[slot] || self.landed_in_parts(slot) == tokens)
    }

    /// Pages of which every unit landed, whole.
    pub(in crate::handoff) fn complete_pages(&self, tokens_of: impl Fn(u32) -> u32) -> u32 {
        // as many as the reservation has, which an index counts
        let pages = (self.whole.len() / self.units) as u32;
        (0..pages).filter(|page| self.is_complete(*page, tokens_of(*page))).count() as u32
    }
}
