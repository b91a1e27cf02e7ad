//! The free pages: taken and given back in batches, placed as the pool's [`Placement`] says.
//!
//! *Owns* which of the free pages go next. *Does not know* stamps, promises, or why a page is free.
//!
//! **Invariants** A page stands in the list once: on the stack, or settled among the runs. Under
//! [`Placement::HotFirst`] there are no runs, and the list is a stack and nothing else.
//!
//! **Cost** HotFirst: O(1) a page. Contiguous: O(1) on the stack, O(log pages) for each run of at most 64 when it settles or
//! is taken. Nothing allocates after the list was made.

use std::collections::TryReserveError;

use crate::config::Placement;
use crate::free_runs::FreeRuns;

/// The free pages of a pool.
#[derive(Default, Debug)]
pub(crate) struct FreeList {
    /// Last in, first out. Under `Contiguous`: what came since it last settled.
    stack: Vec<u32>,
    /// Pages among the runs.
    settled: usize,
    runs: Option<FreeRuns>,
}

impl FreeList {
    /// Makes an empty list with room for the pages below `max_pages`.
    pub(crate) fn try_new(placement: Placement, max_pages: u32) -> Result<Self, TryReserveError> {
        let mut stack = Vec::new();
        stack.try_reserve_exact(max_pages as usize)?;
        let runs = match placement {
            Placement::HotFirst => None,
            Placement::Contiguous => Some(FreeRuns::try_new(max_pages)?),
        };
        Ok(Self { stack, settled: 0, runs })
    }

    /// Pages in the list.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.stack.len() + self.settled
    }

    /// Gives a page back.
    #[inline]
    pub(crate) fn push(&mut self, page: u32) {
        self.stack.push(page);
    }

    /// Gives pages back.
    #[inline]
    pub(crate) fn extend(&mut self, pages: impl Iterator<Item = u32>) {
        self.stack.extend(pages);
    }

    /// A mark for [`retain_since`](Self::retain_since). It is good until the list settles or something is taken.
    #[inline]
    pub(crate) fn mark(&self) -> usize {
        self.stack.len()
    }

    /// Takes back what was given since the mark, but for the pages that `keep` keeps.
    pub(crate) fn retain_since(&mut self, mark: usize, mut keep: impl FnMut(u32) -> bool) {
        let mut kept = mark;
        for at in mark..self.stack.len() {
            let page = self.stack[at];
            if keep(page) {
                self.stack[kept] = page;
                kept += 1;
            }
        }
        self.stack.truncate(kept);
    }

    /// Sorts what was given back in among the runs, so that who takes pages next need not.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if let Some(runs) = &mut self.runs {
            self.settled += self.stack.len();
            runs.insert(self.stack.drain(..));
        }
    }

    /// The next `pages` pages; the last of the slice goes first. They stay in the list until
    /// [`drop_top`](Self::drop_top). The caller made sure that so many are free.
    #[inline]
    pub(crate) fn top(&mut self, pages: usize) -> &[u32] {
        if self.runs.is_some() {
            self.gather_runs(pages);
        }
        &self.stack[self.stack.len() - pages..]
    }

    /// Takes the pages that [`top`](Self::top) showed.
    #[inline]
    pub(crate) fn drop_top(&mut self, pages: usize) {
        self.stack.truncate(self.stack.len() - pages);
    }

    /// Takes the `pages` pages that would go last: the coldest, or those with the highest numbers.
    pub(crate) fn take_last(&mut self, pages: usize) -> Vec<u32> {
        self.settle();
        let Some(runs) = &mut self.runs else { return self.stack.drain(..pages).collect() };
        let taken: Vec<u32> = std::iter::from_fn(|| runs.take_highest()).take(pages).collect();
        self.settled -= taken.len();
        taken
    }

    /// All pages in the list.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.stack.iter().copied().chain(self.runs.iter().flat_map(FreeRuns::iter))
    }

    /// The first page of a span of pages whose runs are not what a walk finds; a defect.
    pub(crate) fn find_wrong_span(&self) -> Option<u32> {
        self.runs.as_ref()?.find_wrong_span()
    }

    /// Brings the longest runs that make up `pages` pages to the top of the stack.
    fn gather_runs(&mut self, pages: usize) {
        self.settle();
        if let Some(runs) = &mut self.runs {
            runs.take(pages, &mut self.stack);
            self.settled -= self.stack.len();
            // the first page goes first
            self.stack.reverse();
        }
    }
}
