//! Which free pages are neighbours: one bit per page, and over the bits a tree of spans that knows their longest runs.
//!
//! *Owns* finding a run of free pages and the longest one. *Does not know* stamps, owners, or why a page is free.
//!
//! **Invariants** A span says what a walk over its bits would find. No bit past the pages given is ever set.
//!
//! **Cost** Twice 12 bytes for each 64 pages beside the bits, made once: nothing allocates later. To find a run, to take one
//! and to insert one each climb or descend the tree once for each 64 pages: O(log pages).

use std::collections::TryReserveError;

/// Pages in one word of bits.
const WORD_PAGES: u32 = u64::BITS;

/// The runs of free pages in a span of pages.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Span {
    /// Pages of the run at its front; 0 if the first page is taken.
    front: u32,
    /// Pages of the run at its back.
    back: u32,
    /// Pages of its longest run.
    longest: u32,
}

impl Span {
    fn of_word(word: u64) -> Self {
        Self { front: word.trailing_ones(), back: word.leading_ones(), longest: longest_run(word) }
    }

    /// Two neighbouring spans of `half_pages` pages each as one.
    fn join(left: Self, right: Self, half_pages: u32) -> Self {
        Self {
            front: if left.front == half_pages { half_pages + right.front } else { left.front },
            back: if right.back == half_pages { half_pages + left.back } else { right.back },
            longest: left.longest.max(right.longest).max(left.back + right.front),
        }
    }
}

/// Bits of the longest run in a word, in steps that halve: bit by bit would cost more than all else here.
fn longest_run(word: u64) -> u32 {
    // in the word of step `k` a bit stays where it and the bits behind it, 2^k in all, are set
    let mut runs = [word; WORD_PAGES.ilog2() as usize + 1];
    for step in 1..runs.len() {
        runs[step] = runs[step - 1] & (runs[step - 1] >> (1 << (step - 1)));
    }
    let (mut starts, mut known) = (u64::MAX, 0);
    for (step, run) in runs.iter().enumerate().rev() {
        let longer = starts & run.checked_shr(known).unwrap_or(0);
        if longer != 0 {
            (starts, known) = (longer, known + (1 << step));
        }
    }
    known
}

/// The free pages of a pool by their place.
#[derive(Debug)]
pub(crate) struct FreeRuns {
    /// Bit `p % 64` of word `p / 64` says that page `p` is free. As many words as the tree has leaves.
    words: Vec<u64>,
    /// A binary tree, root at 1, children of `n` at `2n` and `2n + 1`, one leaf per word.
    spans: Vec<Span>,
}

impl FreeRuns {
    /// Makes room for the pages below `max_pages`; none is free at first.
    pub(crate) fn try_new(max_pages: u32) -> Result<Self, TryReserveError> {
        let leaves = (max_pages.div_ceil(WORD_PAGES) as usize).next_power_of_two();
        let (mut words, mut spans) = (Vec::new(), Vec::new());
        words.try_reserve_exact(leaves)?;
        spans.try_reserve_exact(2 * leaves)?;
        words.resize(leaves, 0);
        spans.resize(2 * leaves, Span::default());
        Ok(Self { words, spans })
    }

    /// Inserts pages that became free. Neighbours that come one after the other cost one climb for each word.
    pub(crate) fn insert(&mut self, pages: impl Iterator<Item = u32>) {
        let mut changed = None;
        for page in pages {
            let word = (page / WORD_PAGES) as usize;
            if let Some(before) = changed.replace(word).filter(|before| *before != word) {
                self.refresh(before);
            }
            self.words[word] |= 1 << (page % WORD_PAGES);
        }
        if let Some(word) = changed {
            self.refresh(word);
        }
    }

    /// Takes `pages` pages out and appends them: the first run that holds all of them, else the longest there is, and so
    /// on with the rest. Fewer come when fewer are free.
    pub(crate) fn take(&mut self, pages: usize, out: &mut Vec<u32>) {
        let mut left = u32::try_from(pages).unwrap_or(u32::MAX);
        while left > 0 {
            let run_pages = left.min(self.spans[1].longest);
            let Some(first) = self.first_run(run_pages) else { return };
            self.remove(first, run_pages);
            out.extend(first..first + run_pages);
            left -= run_pages;
        }
    }

    /// Takes the free page with the highest number out.
    pub(crate) fn take_highest(&mut self) -> Option<u32> {
        let leaves = self.words.len();
        let mut node = 1;
        while node < leaves {
            node = 2 * node + usize::from(self.spans[2 * node + 1].longest > 0);
        }
        let word = node - leaves;
        let bit = self.words[word].checked_ilog2()?;
        let page = word as u32 * WORD_PAGES + bit;
        self.remove(page, 1);
        Some(page)
    }

    /// All free pages, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let of_word = |(at, word): (usize, &u64)| {
            let (first, word) = (at as u32 * WORD_PAGES, *word);
            (0..WORD_PAGES).filter(move |bit| word >> bit & 1 != 0).map(move |bit| first + bit)
        };
        self.words.iter().enumerate().filter(|(_, word)| **word != 0).flat_map(of_word)
    }

    /// Walks all spans; the first page of one that does not say what its bits say.
    pub(crate) fn find_wrong_span(&self) -> Option<u32> {
        let leaves = self.words.len();
        (1..2 * leaves).rev().find(|node| self.spans[*node] != self.span_below(*node)).map(|node| {
            // the leaf that is furthest left below it
            let word = (node << (leaves.ilog2() - node.ilog2())) - leaves;
            word as u32 * WORD_PAGES
        })
    }

    /// The first page of the first run of at least `pages` pages.
    fn first_run(&self, pages: u32) -> Option<u32> {
        if pages == 0 || self.spans[1].longest < pages {
            return None;
        }
        let leaves = self.words.len();
        let (mut node, mut first) = (1, 0);
        while node < leaves {
            let (left, right, half_pages) = (self.spans[2 * node], self.spans[2 * node + 1], self.half_pages(node));
            if left.longest >= pages {
                node *= 2;
            } else if left.back + right.front >= pages {
                return Some(first + half_pages - left.back);
            } else {
                node = 2 * node + 1;
                first += half_pages;
            }
        }
        // A bit stays where it and the pages behind it are free. Each step doubles what is known.
        let (mut starts, mut known) = (self.words[node - leaves], 1);
        while known < pages {
            let step = known.min(pages - known);
            starts &= starts >> step;
            known += step;
        }
        Some(first + starts.trailing_zeros())
    }

    /// Takes a run of free pages out.
    fn remove(&mut self, first: u32, pages: u32) {
        let (mut at, end) = (first, first + pages);
        while at < end {
            let word = at / WORD_PAGES;
            let bits = (end - at).min(WORD_PAGES - at % WORD_PAGES);
            self.words[word as usize] &= !((u64::MAX >> (WORD_PAGES - bits)) << (at % WORD_PAGES));
            self.refresh(word as usize);
            at += bits;
        }
    }

    /// Makes the spans over a word say what its bits say. Stops where nothing changes.
    fn refresh(&mut self, word: usize) {
        let mut node = self.words.len() + word;
        while node > 0 {
            let span = self.span_below(node);
            if std::mem::replace(&mut self.spans[node], span) == span {
                return;
            }
            node /= 2;
        }
    }

    /// What a span should say: from its bits if it is a leaf, else from its two halves.
    fn span_below(&self, node: usize) -> Span {
        match node.checked_sub(self.words.len()) {
            Some(word) => Span::of_word(self.words[word]),
            None => Span::join(self.spans[2 * node], self.spans[2 * node + 1], self.half_pages(node)),
        }
    }

    /// Pages in each half of a span that is no leaf.
    fn half_pages(&self, node: usize) -> u32 {
        // at most 2^26 leaves, so at most 2^31 pages
        WORD_PAGES << (self.words.len().ilog2() - node.ilog2() - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Runs of neighbours: first page and length.
    fn runs(free: &BTreeSet<u32>) -> Vec<(u32, u32)> {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for &page in free {
            match runs.last_mut() {
                Some((first, pages)) if *first + *pages == page => *pages += 1,
                _ => runs.push((page, 1)),
            }
        }
        runs
    }

    /// What [`FreeRuns::take`] says it does, by a walk over all runs.
    fn take_by_walk(free: &mut BTreeSet<u32>, mut left: u32) -> Vec<u32> {
        let mut taken = Vec::new();
        while left > 0 && !free.is_empty() {
            let runs = runs(free);
            let longest = runs.iter().map(|run| run.1).max().expect("some");
            let want = left.min(longest);
            let first = runs.iter().find(|run| run.1 >= want).expect("as long").0;
            taken.extend(first..first + want);
            (first..first + want).for_each(|page| assert!(free.remove(&page)));
            left -= want;
        }
        taken
    }

    proptest! {
        // C1
        #[test]
        fn runs_are_those_that_a_walk_over_all_pages_finds(
            max_pages in 1_u32..700,
            steps in proptest::collection::vec((0_u8..4, any::<u32>(), 1_u32..200), 1..60),
        ) {
            let mut runs = FreeRuns::try_new(max_pages).expect("small");
            let mut free = BTreeSet::new();
            for (step, at, pages) in steps {
                match step {
                    0 | 1 => {
                        let coming = (0..pages).map(|page| (at % max_pages + page) % max_pages);
                        let coming: Vec<_> = coming.filter(|page| free.insert(*page)).collect();
                        runs.insert(coming.into_iter());
                    }
                    2 => {
                        let mut taken = Vec::new();
                        runs.take(pages as usize, &mut taken);
                        prop_assert_eq!(taken, take_by_walk(&mut free, pages));
                    }
                    _ => prop_assert_eq!(runs.take_highest(), free.pop_last()),
                }
                prop_assert_eq!(runs.find_wrong_span(), None);
                prop_assert!(runs.iter().eq(free.iter().copied()));
            }
        }
    }

    proptest! {
        // C1
        #[test]
        fn longest_run_of_a_word_is_the_longest_that_a_walk_finds(word in any::<u64>(), more in any::<u64>(), from in 0_u32..64) {
            for word in [word, word | more, word & more, u64::MAX << from, u64::MAX >> from, 0, u64::MAX] {
                let bits = format!("{word:b}");
                prop_assert_eq!(longest_run(word) as usize, bits.split('0').map(str::len).max().unwrap_or(0));
            }
        }
    }

    // C1
    #[test]
    fn span_that_says_something_else_than_its_bits_is_found_by_its_first_page() {
        let sound = || {
            let mut runs = FreeRuns::try_new(4 * WORD_PAGES).expect("small");
            runs.insert(0..4 * WORD_PAGES);
            runs
        };
        assert_eq!(sound().find_wrong_span(), None);
        let mut bit = sound();
        bit.words[2] &= !1;
        assert_eq!(bit.find_wrong_span(), Some(2 * WORD_PAGES));
        let mut root = sound();
        root.spans[1].longest -= 1;
        assert_eq!(root.find_wrong_span(), Some(0));
        let mut half = sound();
        half.spans[3].front -= 1;
        // the root above it is wrong as well, but this one is found first
        assert_eq!(half.find_wrong_span(), Some(2 * WORD_PAGES));
    }
}
