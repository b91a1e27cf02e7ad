//! Writing tokens past the written extent of a reservation that the caller has to itself.
#![expect(unsafe_code, reason = "writes bytes; every block cites the numbered words of the folder")]

use std::ops::Range;

use super::Borrow;
use super::view::{host_run, is_together, look_at_plane, look_at_run, pieces, run_span, window_pieces};
use crate::error::{ReadError, WriteError};
use crate::geometry::{PageGeometry, PlaneWindow};
use crate::lease::Core;
use crate::memory::{HostBytes, MemoryError, PageMemory, Span};
use crate::pool::Inner;
use crate::stamp::{Extent, OffLimits, StampWord};
use crate::sync::Ordering;

/// The right to write some unwritten tokens of a reservation: a counted borrow of a reservation that the caller has
/// exclusively, whose pages were prepared.
pub(crate) struct WriteBorrow<'a, M: PageMemory> {
    pub(super) borrow: Borrow<'a, M>,
    pub(super) tokens: Range<u64>,
}

/// Who writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Host,
    /// A kernel, behind one that writes the tokens in front, or not.
    Step {
        chained: bool,
    },
}

impl By {
    /// Says whether a page is off limits to this writer. A kernel runs in the lane that waits for the page to be clean; but what
    /// is kept of it the host cannot move yet.
    fn minds(self, why: OffLimits, extent: Extent) -> bool {
        self == Self::Host || why != OffLimits::Pending || extent.high() > 0
    }
}

impl<'a, M: PageMemory> WriteBorrow<'a, M> {
    /// Prepares the pages of `tokens`, which begin at the written extent and end within the reservation: nobody outside
    /// writes them, no reader has seen what will be rewritten, and what will be written is noted for cleaning.
    pub(crate) fn prepare(borrow: Borrow<'a, M>, tokens: Range<u64>) -> Result<Self, WriteError> {
        Self::prepare_for(&borrow, tokens.clone(), By::Host)?;
        Ok(Self { borrow, tokens })
    }

    /// As [`prepare`](Self::prepare), for a kernel that writes them under a step: `chained` behind tokens that one writes already.
    pub(crate) fn prepare_for_step(borrow: Borrow<'a, M>, tokens: Range<u64>, chained: bool) -> Result<(), WriteError> {
        Self::prepare_for(&borrow, tokens, By::Step { chained })
    }

    fn prepare_for(borrow: &Borrow<'a, M>, tokens: Range<u64>, by: By) -> Result<(), WriteError> {
        let (inner, core) = (borrow.inner, borrow.core);
        let page_tokens = u64::from(inner.page_tokens());
        let ordinals = (tokens.start / page_tokens) as u32..tokens.end.div_ceil(page_tokens) as u32;
        if core.off_limits.load(Ordering::Acquire) > 0 {
            inner.look_at_fences();
        }
        for ordinal in ordinals.clone() {
            let word = page_word(inner, core, ordinal);
            let Some((page, word)) = word else { continue };
            if let Some(why) = word.off_limits().filter(|why| by.minds(*why, inner.meta(page).extent())) {
                return Err(WriteError::off_limits(page, why));
            }
        }
        let rewritten = |ordinal| {
            let (page, word) = page_word(inner, core, ordinal)?;
            let from = tokens.start.saturating_sub(u64::from(ordinal) * page_tokens) as u32;
            if from > 0 && by == (By::Step { chained: true }) {
                // The tokens before are being written: the page was made ready for that, and stays where it is.
                return None;
            }
            (word.is_kept() || inner.meta(page).extent().high() > from).then_some((ordinal, from))
        };
        let rewritten = ordinals.clone().filter_map(rewritten);
        if rewritten.clone().next().is_some() {
            inner.keep_readers_off(core, rewritten)?;
        }
        for ordinal in ordinals {
            let Some((page, _)) = page_word(inner, core, ordinal) else { continue };
            let end = (tokens.end - u64::from(ordinal) * page_tokens).min(page_tokens) as u32;
            let meta = inner.meta(page);
            meta.set_extent(meta.extent().with_high(end));
            if by != By::Host {
                // A kernel may write padding too.
                meta.set_extent(meta.extent().whole());
            }
        }
        Ok(())
    }

    /// Takes the right again on tokens that [`prepare`](Self::prepare) prepared. Since then the holder kept the reservation
    /// to itself and none of them became written, so that no reader has seen any of them: their pages need not move.
    pub(crate) fn again(borrow: Borrow<'a, M>, tokens: Range<u64>) -> Self {
        Self { borrow, tokens }
    }

    pub(crate) fn tokens(&self) -> Range<u64> {
        self.tokens.clone()
    }

    /// How the pages are laid out.
    pub(crate) fn geometry(&self) -> &PageGeometry {
        self.borrow.inner.memory.geometry()
    }

    /// Planes of a page.
    pub(crate) fn planes(&self) -> usize {
        self.geometry().planes().len()
    }

    /// Bytes of one token in a plane that exists.
    pub(crate) fn token_bytes(&self, plane: usize) -> u64 {
        self.borrow.inner.memory.geometry().planes()[plane].token_bytes()
    }

    /// Copies one plane of all the tokens. src: `[tokens, runs, run_bytes]`, token by token, its length checked.
    pub(crate) fn store(&self, plane: usize, src: &[u8]) -> Result<(), MemoryError> {
        let inner = self.borrow.inner;
        let token_bytes = self.token_bytes(plane) as usize;
        for (page, first, tokens) in self.stretches() {
            let begin = (first - self.tokens.start) as usize * token_bytes;
            let bytes = &src[begin..begin + (tokens.end - tokens.start) as usize * token_bytes];
            for piece in pieces(&inner.memory, plane, page, tokens.clone()) {
                // SAFETY: (1) of `PageMemory::write`: the page is live and this reservation's, which the caller has
                // exclusively, and the counted borrow keeps a reclaim away; the tokens are past the written extent, so
                // no reader covers them, and `prepare` made sure that no earlier reader did; no write ticket is open.
                unsafe { inner.memory.write(piece.span, &bytes[piece.host.clone()]) }?;
            }
        }
        Ok(())
    }

    /// Copies some tokens of one page, as far as a window of the slice shows them, in any order of pages and windows. The
    /// tokens are among those of the right. src: `[tokens, runs, run_bytes]` of the window, token by token.
    pub(crate) fn store_part(
        &mut self,
        ordinal: u32,
        window: &PlaneWindow,
        tokens: Range<u32>,
        src: &[u8],
    ) -> Result<(), WriteError> {
        let inner = self.borrow.inner;
        let page = self.check_part(ordinal, window, &tokens, self.tokens.start)?;
        check_bytes(window.plane(), &tokens, window.token_bytes(), src.len())?;
        for piece in window_pieces(&inner.memory, window, page, tokens) {
            // SAFETY: (1) of `PageMemory::write`: as in `store`; `check_part` found the tokens among those of the right and
            // no write ticket or open fence on the page; `&mut self` keeps a second part away until this one is there.
            unsafe { inner.memory.write(piece.span, &src[piece.host]) }?;
        }
        Ok(())
    }

    /// As [`store_part`](Self::store_part), of one run of the window. src: `[tokens, run_bytes]`.
    pub(crate) fn store_run(
        &mut self,
        ordinal: u32,
        window: &PlaneWindow,
        run: u32,
        tokens: Range<u32>,
        src: &[u8],
    ) -> Result<(), WriteError> {
        let inner = self.borrow.inner;
        let run_bytes = window.run_bytes() as usize;
        let page = self.check_part(ordinal, window, &tokens, self.tokens.start)?;
        check_bytes(window.plane(), &tokens, u64::from(window.run_bytes()), src.len())?;
        let step_tokens = if is_together(&inner.memory, window) { tokens.len().max(1) } else { 1 };
        for (token, bytes) in (tokens.start..).step_by(step_tokens).zip(src.chunks(step_tokens * run_bytes)) {
            // SAFETY: (1) of `PageMemory::write`: as in `store_part`.
            unsafe { inner.memory.write(run_span(&inner.memory, page, window, run, token), bytes) }?;
        }
        Ok(())
    }

    /// Shows what was stored of some tokens that do not count as written yet, so that it can be verified before they do, or
    /// of tokens that were written before, in one run of a window: the tokens of each piece, and `[tokens, run_bytes]`.
    pub(crate) fn look(
        &mut self,
        ordinal: u32,
        window: &PlaneWindow,
        run: u32,
        tokens: Range<u32>,
        each: &mut dyn FnMut(Range<u32>, &[u8]),
    ) -> Result<(), WriteError> {
        // The caller has the reservation exclusively and, by `&mut self`, this right too; the counted borrow keeps a reclaim
        // away, and no write ticket and no open fence is on the page.
        let page = self.check_part(ordinal, window, &tokens, 0)?;
        Ok(look_at_run(&self.borrow.inner.memory, page, window, run, tokens, each)?)
    }

    /// As [`store_run`](Self::store_run), of bytes from `offset` on of a plane of a full page, which the window shows whole.
    pub(crate) fn store_whole(
        &mut self,
        ordinal: u32,
        window: &PlaneWindow,
        offset: u64,
        src: &[u8],
    ) -> Result<(), WriteError> {
        let inner = self.borrow.inner;
        let page = self.check_part(ordinal, window, &(0..inner.page_tokens()), self.tokens.start)?;
        // SAFETY: (1) of `PageMemory::write`: as in `store_part`; all of the page's tokens are of the right, and the memory
        // refuses bytes past them.
        Ok(unsafe { inner.memory.write(Span { page, plane: window.plane() as u32, offset }, src) }?)
    }

    /// As [`look`](Self::look), of all bytes of a plane, if the tokens are all of a page and the window shows it whole: then
    /// its runs lie one after the other.
    pub(crate) fn look_whole(
        &mut self,
        ordinal: u32,
        window: &PlaneWindow,
        tokens: u32,
        each: &mut dyn FnMut(u64, &[u8]),
    ) -> Option<Result<(), WriteError>> {
        if tokens != self.borrow.inner.page_tokens() || !window.is_whole() {
            return None;
        }
        let page = match self.check_part(ordinal, window, &(0..tokens), 0) {
            Ok(page) => page,
            Err(error) => return Some(Err(error)),
        };
        let shown = look_at_plane(&self.borrow.inner.memory, page, window.plane(), each);
        Some(shown.map_err(WriteError::from))
    }

    /// Finds the page of a part that lies between token `least` and the end of the right, and on which nobody else is at
    /// work.
    pub(super) fn check_part(
        &self,
        ordinal: u32,
        window: &PlaneWindow,
        tokens: &Range<u32>,
        least: u64,
    ) -> Result<u32, WriteError> {
        let inner = self.borrow.inner;
        let (plane, planes) = (window.plane(), self.planes());
        if !window.is_of(self.geometry()) {
            return Err(WriteError::NoSuchPlane { plane, planes });
        }
        let page_tokens = inner.page_tokens();
        let first = u64::from(ordinal) * u64::from(page_tokens);
        let (begin, to_tokens) = (first + u64::from(tokens.start), first + u64::from(tokens.end));
        let is_inside =
            tokens.start <= tokens.end && tokens.end <= page_tokens && begin >= least && to_tokens <= self.tokens.end;
        let found = page_word(inner, self.borrow.core, ordinal).filter(|_| is_inside);
        let (page, word) = found.ok_or(WriteError::PastReserved { to_tokens, reserved_tokens: self.tokens.end })?;
        if let Some(why) = word.off_limits() {
            return Err(WriteError::off_limits(page, why));
        }
        Ok(page)
    }

    /// Counts the tokens as written, after every plane was stored.
    pub(crate) fn publish(&self) {
        let inner = self.borrow.inner;
        let bytes = inner.memory.geometry().token_bytes() * (self.tokens.end - self.tokens.start);
        // Relaxed: a clock that decides how a page is zeroed, never whether.
        inner.written_bytes.fetch_add(bytes, Ordering::Relaxed);
        let tick = inner.tick();
        for (page, _, tokens) in self.stretches() {
            let meta = inner.meta(page);
            meta.set_heat(tick);
            meta.set_extent(meta.extent().with_written(tokens.end));
        }
    }

    /// Page, first token of the request, and tokens of the page, for each page that the tokens touch.
    fn stretches(&self) -> impl Iterator<Item = (u32, u64, Range<u32>)> {
        let page_tokens = u64::from(self.borrow.inner.page_tokens());
        let stretch = move |(ordinal, tokens): (u64, Range<u32>)| {
            let page = self.borrow.core.pages.get(ordinal as u32)?;
            Some((page, ordinal * page_tokens + u64::from(tokens.start), tokens))
        };
        self.geometry().split_tokens(self.tokens()).filter_map(stretch)
    }
}

impl<M: HostBytes> WriteBorrow<'_, M> {
    /// Lends what the holder has of one run of a page: written tokens, and of a stored plane the new ones.
    pub(crate) fn run(&self, plane: usize, stored: bool, ordinal: u32, run: u32) -> Result<&[u8], ReadError> {
        let inner = self.borrow.inner;
        let page_tokens = u64::from(inner.page_tokens());
        let end = if stored { self.tokens.end } else { self.tokens.start };
        let first = u64::from(ordinal) * page_tokens;
        let page = self.borrow.core.pages.get(ordinal).filter(|_| first < end);
        let page = page.ok_or(ReadError::Unwritten { to_tokens: first + 1, written_tokens: end })?;
        // Pages before those being written were not prepared. No ticket opens while the reservation is borrowed.
        let word = inner.meta(page).word_for_reader();
        if let Some(why) = word.off_limits() {
            return Err(ReadError::off_limits(page, why));
        }
        host_run(inner, page, 0..(end - first).min(page_tokens) as u32, plane, run)
    }
}

/// Refuses bytes that are not those of their tokens.
fn check_bytes(plane: usize, tokens: &Range<u32>, token_bytes: u64, bytes: usize) -> Result<(), WriteError> {
    let tokens = u64::from(tokens.end - tokens.start);
    let (given_bytes, expected_bytes) = (bytes as u64, tokens * token_bytes);
    if given_bytes == expected_bytes {
        return Ok(());
    }
    Err(WriteError::Length { plane, tokens, given_bytes, expected_bytes })
}

pub(super) fn page_word<M: PageMemory>(inner: &Inner<M>, core: &Core, ordinal: u32) -> Option<(u32, StampWord)> {
    let page = core.pages.get(ordinal)?;
    Some((page, inner.meta(page).word_for_reader()))
}
