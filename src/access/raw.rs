//! Bytes of pages that nobody reads or writes: being cleaned, moved to, or looked at by the audit.
#![expect(unsafe_code, reason = "cleans, copies and looks at bytes; every block says why nobody else does")]

use super::Borrow;
use super::view::pieces;
use crate::error::TicketError;
use crate::lease::Core;
use crate::memory::{CleanPage, Fence, MemoryError, PageMemory, Scratch, Span};
use crate::pool::Inner;

impl<M: PageMemory> Inner<M> {
    /// Copies the first tokens of one page to another, before the other is seen by anybody.
    pub(crate) fn copy_prefix(&self, from: u32, to: u32, tokens: u32) -> Result<(), MemoryError> {
        if tokens == 0 || !M::HAS_BYTES {
            return Ok(());
        }
        let mut scratch = Scratch::for_tokens(self.memory.geometry(), tokens);
        for plane in 0..self.memory.geometry().planes().len() {
            for piece in pieces(&self.memory, plane, from, 0..tokens) {
                let bounce = scratch.take(piece.host.len());
                // SAFETY: (1) of `PageMemory::read`: the tokens are written and the caller has the reservation
                // exclusively, so that nobody writes them.
                unsafe { self.memory.read(piece.span, bounce) }?;
                let span = Span { page: to, ..piece.span };
                // SAFETY: (1) of `PageMemory::write`: the caller just took the page and nobody knows it yet.
                unsafe { self.memory.write(span, bounce) }?;
            }
        }
        Ok(())
    }

    /// Copies the first tokens of a page of one borrowed reservation to the page with the same ordinal of another, which has
    /// no token of it yet. The caller has the second exclusively, and nobody writes tokens of the first that are written.
    pub(crate) fn copy_borrowed(
        &self,
        from: &Borrow<'_, M>,
        to: &Borrow<'_, M>,
        ordinal: u32,
        tokens: u32,
    ) -> Result<Result<(), MemoryError>, TicketError> {
        let page_of = |core: &Core| core.pages.get(ordinal).ok_or(TicketError::Revoked);
        let (from, to) = (page_of(from.core)?, page_of(to.core)?);
        if let Some(why) = self.meta(from).word_for_reader().off_limits() {
            return Err(TicketError::off_limits(from, why));
        }
        if let Some(why) = self.meta(to).word_for_reader().off_limits() {
            return Err(TicketError::off_limits(to, why));
        }
        let meta = self.meta(to);
        meta.set_extent(meta.extent().with_high(tokens));
        let copied = self.copy_prefix(from, to, tokens);
        if copied.is_ok() {
            meta.set_extent(meta.extent().with_written(tokens));
        }
        Ok(copied)
    }

    /// Begins to zero pages that are in the caller's hand: `Cleaning`, taken off every list, or not in circulation yet.
    pub(crate) fn begin_clean(&self, batch: &[CleanPage]) -> Result<Fence, MemoryError> {
        // SAFETY: (1) of `PageMemory::clean`: a page in hand is in no reservation; a reader that was announced before its
        // stamp was bumped was seen by the release, which quarantined the page instead, and one that was announced after
        // sees the bump and reads nothing. The page becomes free only once the fence is done, or live for a lane that waits for it, and then
        // the host keeps off until the fence is done.
        unsafe { self.memory.clean(batch) }
    }

    /// Looks for a byte of a page that is not zero and answers its plane. The caller holds the lock and asks only for
    /// pages that nobody can write without it: free ones and the null page.
    pub(crate) fn find_soiled_plane(&self, page: u32, scratch: &mut Scratch) -> Result<Option<usize>, MemoryError> {
        if !M::HAS_BYTES {
            return Ok(None);
        }
        let geometry = self.memory.geometry();
        for plane in 0..geometry.planes().len() {
            for piece in pieces(&self.memory, plane, page, 0..geometry.page_tokens()) {
                let bytes = scratch.take(piece.host.len());
                // SAFETY: (1) of `PageMemory::read`: by the words of this function nobody writes the page, and a free page
                // is behind its fence.
                unsafe { self.memory.read(piece.span, bytes) }?;
                if bytes.iter().any(|byte| *byte != 0) {
                    return Ok(Some(plane));
                }
            }
        }
        Ok(None)
    }
}
