//! Whole pages where they are: copies and digests that a memory makes itself, so that no byte comes to the host.
#![expect(unsafe_code, reason = "reads and writes bytes; every block cites the numbered words of the folder")]

use super::write::page_word;
use super::{ReadGuard, WriteBorrow};
use crate::error::{ReadError, WriteError};
use crate::geometry::PlaneWindow;
use crate::memory::{PageCopy, PageCrc, PageMemory};

/// A page to digest: its ordinal in the reservation, and as in [`PageCrc`].
#[derive(Clone, Copy)]
pub(crate) struct OrdinalCrc {
    pub(crate) ordinal: u32,
    pub(crate) tokens: u32,
    pub(crate) crc: u32,
}

impl<M: PageMemory> ReadGuard<'_, M> {
    /// Continues CRCs over covered pages. `None` where the memory cannot; nothing was read.
    pub(crate) fn crc32c(&self, windows: &[PlaneWindow], pages: &mut [OrdinalCrc]) -> Option<Result<(), ReadError>> {
        let memory = &self.borrow.inner.memory;
        let page_tokens = u64::from(memory.geometry().page_tokens());
        let find = |at: &OrdinalCrc| {
            let first = u64::from(at.ordinal) * page_tokens;
            let is_covered = first >= self.tokens.start && first + u64::from(at.tokens) <= self.tokens.end;
            let page = self.borrow.core.pages.get(at.ordinal).filter(|_| is_covered)?;
            Some(PageCrc { page, tokens: at.tokens, crc: at.crc })
        };
        let mut crcs = pages.iter().map(find).collect::<Option<Vec<_>>>()?;
        // SAFETY: (1) of `PageMemory::crc32c`: the guard keeps pages and written bytes as they are, by (1) and (2) of the
        // folder, and covers the tokens, as was checked.
        let done = unsafe { memory.crc32c(windows, &mut crcs) }?;
        pages.iter_mut().zip(crcs).for_each(|(page, crc)| page.crc = crc.crc);
        Some(done.map_err(ReadError::from))
    }
}

impl<M: PageMemory> WriteBorrow<'_, M> {
    /// Continues CRCs over pages of the right, or of tokens that were written before, as [`look`](Self::look) shows them.
    /// `None` where the memory cannot; nothing was read.
    pub(crate) fn crc32c(
        &mut self,
        windows: &[PlaneWindow],
        pages: &mut [OrdinalCrc],
    ) -> Option<Result<(), WriteError>> {
        let mut crcs = Vec::with_capacity(pages.len());
        for at in &*pages {
            for window in windows {
                if let Err(error) = self.check_part(at.ordinal, window, &(0..at.tokens), 0) {
                    return Some(Err(error));
                }
            }
            let (page, _) = page_word(self.borrow.inner, self.borrow.core, at.ordinal)?;
            crcs.push(PageCrc { page, tokens: at.tokens, crc: at.crc });
        }
        // SAFETY: (1) of `PageMemory::crc32c`: as in `look`, and `check_part` found the tokens.
        let done = unsafe { self.borrow.inner.memory.crc32c(windows, &mut crcs) }?;
        pages.iter_mut().zip(crcs).for_each(|(page, crc)| page.crc = crc.crc);
        Some(done.map_err(WriteError::from))
    }

    /// Copies the covered pages of a guard, which begins at a page's first token, to the same ordinals of the right. `None`
    /// where the memories cannot; nothing was written.
    pub(crate) fn copy_from<N: PageMemory>(&mut self, guard: &ReadGuard<'_, N>) -> Option<Result<(), WriteError>> {
        let windows = PlaneWindow::all(self.geometry());
        let mut copies = Vec::new();
        for (ordinal, view) in (0..).zip(guard.pages()) {
            for window in &windows {
                if let Err(error) = self.check_part(ordinal, window, &view.tokens(), self.tokens.start) {
                    return Some(Err(error));
                }
            }
            let (to, _) = page_word(self.borrow.inner, self.borrow.core, ordinal)?;
            copies.push(PageCopy { from: view.page(), to, tokens: view.tokens().end });
        }
        // SAFETY: (1) of `PageMemory::copy_from`: by the guard, whose pages these are. (2) as in `store_part`; a reservation has
        // each page once.
        let done = unsafe { self.borrow.inner.memory.copy_from(&guard.borrow.inner.memory, &copies) }?;
        Some(done.map_err(WriteError::from))
    }
}
