//! The bytes of some written tokens of one page, under a guard that somebody else holds.
#![expect(unsafe_code, reason = "lends and copies bytes; every block cites the numbered words of the folder")]

use std::fmt;
use std::ops::Range;

use crate::error::ReadError;
use crate::geometry::PlaneWindow;
use crate::memory::{HostBytes, MemoryError, PageMemory, Scratch, Span};
use crate::pool::Inner;

/// Written tokens of one page, under a guard. Shows sizes and never bytes in its `Debug`.
pub struct PageView<'a, M: PageMemory> {
    pub(super) inner: &'a Inner<M>,
    pub(super) page: u32,
    /// tokens of the page that the guard covers
    pub(super) tokens: Range<u32>,
}

impl<M: PageMemory> PageView<'_, M> {
    /// The page number.
    #[must_use]
    pub fn page(&self) -> u32 {
        self.page
    }

    /// Tokens of the page that are covered, counted from the page's beginning.
    #[must_use]
    pub fn tokens(&self) -> Range<u32> {
        self.tokens.clone()
    }

    /// Shows what a window has of some covered tokens, counted from the page's beginning, in one run of it: the tokens of
    /// each piece, and `[tokens, run_bytes]`.
    pub(crate) fn look(
        &self,
        window: &PlaneWindow,
        run: u32,
        tokens: Range<u32>,
        each: &mut dyn FnMut(Range<u32>, &[u8]),
    ) -> Result<(), ReadError> {
        if tokens.start < self.tokens.start || tokens.end > self.tokens.end {
            let (to_tokens, written_tokens) = (u64::from(tokens.end), u64::from(self.tokens.end));
            return Err(ReadError::Unwritten { to_tokens, written_tokens });
        }
        Ok(look_at_run(&self.inner.memory, self.page, window, run, tokens, each)?)
    }

    /// Whether a window shows all bytes that a plane of this page has: its runs then lie one after the other.
    pub(crate) fn is_whole(&self, window: &PlaneWindow) -> bool {
        self.tokens == (0..self.inner.page_tokens()) && window.is_whole()
    }

    /// Shows all bytes of a plane of a full page, in order: the first byte of each piece, and the piece.
    pub(crate) fn look_whole(&self, window: &PlaneWindow, each: &mut dyn FnMut(u64, &[u8])) -> Result<(), ReadError> {
        let page_tokens = self.inner.page_tokens();
        if !self.is_whole(window) {
            let (to_tokens, written_tokens) = (u64::from(page_tokens), u64::from(self.tokens.end));
            return Err(ReadError::Unwritten { to_tokens, written_tokens });
        }
        Ok(look_at_plane(&self.inner.memory, self.page, window.plane(), each)?)
    }

    /// Copies the covered tokens of a plane. dst: `[tokens, runs, run_bytes]`, token by token.
    ///
    /// # Errors
    ///
    /// `dst` may be partly written after [`ReadError::Memory`], else it is unchanged.
    ///
    /// - [`ReadError::NoSuchPlane`], [`ReadError::Length`]: wrong plane, or a buffer of the wrong size.
    /// - [`ReadError::Memory`]: the memory refused, for example because it has no bytes.
    pub fn copy(&self, plane: usize, dst: &mut [u8]) -> Result<(), ReadError> {
        let geometry = self.inner.memory.geometry();
        let planes = geometry.planes();
        let shape = planes.get(plane).ok_or(ReadError::NoSuchPlane { plane, planes: planes.len() })?;
        let expected_bytes = shape.token_bytes() * u64::from(self.tokens.end - self.tokens.start);
        if dst.len() as u64 != expected_bytes {
            return Err(ReadError::Length { given_bytes: dst.len() as u64, expected_bytes });
        }
        for piece in pieces(&self.inner.memory, plane, self.page, self.tokens.clone()) {
            let bytes = &mut dst[piece.host.clone()];
            // SAFETY: (1) of `PageMemory::read`: the guard behind this view keeps page and written bytes as they are, by
            // (1) and (2) of the file.
            unsafe { self.inner.memory.read(piece.span, bytes) }?;
        }
        Ok(())
    }
}

impl<M: HostBytes> PageView<'_, M> {
    /// The covered tokens of one run of a plane: `[tokens, run_bytes]`. An NHD plane has one run, an HND plane one for each
    /// head.
    ///
    /// # Errors
    ///
    /// - [`ReadError::NoSuchPlane`], [`ReadError::NoSuchRun`].
    pub fn run(&self, plane: usize, run: u32) -> Result<&[u8], ReadError> {
        host_run(self.inner, self.page, self.tokens.clone(), plane, run)
    }
}

impl<M: PageMemory> fmt::Debug for PageView<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageView").field("page", &self.page).field("tokens", &self.tokens).finish()
    }
}

/// Lends the bytes of some tokens of a run. Whoever calls it holds a guard that covers them, by the words of the file.
pub(super) fn host_run<M: HostBytes>(
    inner: &Inner<M>,
    page: u32,
    tokens: Range<u32>,
    plane: usize,
    run: u32,
) -> Result<&[u8], ReadError> {
    let geometry = inner.memory.geometry();
    let planes = geometry.planes();
    let (Some(shape), Some(place)) = (planes.get(plane), inner.memory.plane(plane)) else {
        return Err(ReadError::NoSuchPlane { plane, planes: planes.len() });
    };
    let offset = geometry.run_offset(plane, run, tokens.start);
    let runs = shape.runs();
    let offset = offset.filter(|_| run < runs).ok_or(ReadError::NoSuchRun { plane, run, runs })?;
    let len = (tokens.end - tokens.start) as usize * shape.run_bytes() as usize;
    let first = place.page(page).wrapping_add(offset as usize);
    // SAFETY: `first` and `len` lie in the page's slice of the plane, since the tokens lie in the page and the run in the
    // plane, and `HostBytes` (2) makes that slice valid; (1), (2) and (3) of the file keep the bytes live, initialised
    // and unchanged while the guard lives that the caller holds.
    Ok(unsafe { std::slice::from_raw_parts(first, len) })
}

/// A stretch of bytes that is contiguous in the page and in the caller's token-major buffer.
pub(super) struct Piece {
    pub(super) span: Span,
    pub(super) host: Range<usize>,
}

/// Cuts some tokens of a plane into pieces: one where the plane has one run, else one for each token and run.
pub(super) fn pieces<M: PageMemory>(
    memory: &M,
    plane: usize,
    page: u32,
    tokens: Range<u32>,
) -> impl Iterator<Item = Piece> {
    let geometry = memory.geometry().clone();
    let shape = geometry.planes()[plane];
    let (runs, run_bytes) = (shape.runs(), shape.run_bytes() as usize);
    let (steps, step_tokens) = if runs == 1 { (1, tokens.end - tokens.start) } else { (tokens.end - tokens.start, 1) };
    let len = step_tokens as usize * run_bytes;
    (0..steps).flat_map(move |step| {
        let geometry = geometry.clone();
        (0..runs).map(move |run| {
            // In range: the callers checked plane and tokens.
            let offset = geometry.run_offset(plane, run, tokens.start + step * step_tokens).unwrap_or(u64::MAX);
            let begin = (step as usize * runs as usize + run as usize) * len;
            Piece { span: Span { page, plane: plane as u32, offset }, host: begin..begin + len }
        })
    })
}

/// Bytes that are shown at once: they stay in the first-level cache, for whoever digests and then copies them.
const AT_ONCE_BYTES: u64 = 16 << 10;

/// Shows some tokens of one run of a window, in order. Whoever calls it holds a guard that covers them, or has them alone.
pub(super) fn look_at_run<M: PageMemory>(
    memory: &M,
    page: u32,
    window: &PlaneWindow,
    run: u32,
    tokens: Range<u32>,
    each: &mut dyn FnMut(Range<u32>, &[u8]),
) -> Result<(), MemoryError> {
    let run_bytes = u64::from(window.run_bytes());
    // at most AT_ONCE_BYTES, which is a u32
    let step = (AT_ONCE_BYTES / run_bytes.max(1)).max(1) as u32;
    let together = is_together(memory, window);
    let mut gathered = if together { None } else { Some(Scratch::of_bytes(u64::from(step) * run_bytes)) };
    let mut first = tokens.start;
    while first < tokens.end {
        let chunk = first..tokens.end.min(first.saturating_add(step));
        let len_bytes = u64::from(chunk.end - chunk.start) * run_bytes;
        match &mut gathered {
            None => {
                let span = run_span(memory, page, window, run, first);
                let mut pieces = Pieces::of_bytes(len_bytes);
                let mut look = |bytes: &[u8]| pieces.add(bytes, &mut |bytes| each(chunk.clone(), bytes));
                // SAFETY: (1) of `PageMemory::look`: by the words of this function nobody writes these tokens.
                unsafe { memory.look(span, len_bytes, &mut look) }?;
            }
            Some(scratch) => {
                let bytes = scratch.take(len_bytes as usize);
                for (token, bytes) in chunk.clone().zip(bytes.chunks_exact_mut(run_bytes as usize)) {
                    let span = run_span(memory, page, window, run, token);
                    // SAFETY: (1) of `PageMemory::read`: as above.
                    unsafe { memory.read(span, bytes) }?;
                }
                each(chunk.clone(), bytes);
            }
        }
        first = chunk.end;
    }
    Ok(())
}

/// Shows all bytes of a plane of a page, in order: the first byte of each piece, and the piece. Whoever calls it holds a guard
/// that covers the page, or has it alone.
pub(super) fn look_at_plane<M: PageMemory>(
    memory: &M,
    page: u32,
    plane: usize,
    each: &mut dyn FnMut(u64, &[u8]),
) -> Result<(), MemoryError> {
    let page_bytes = memory.geometry().page_bytes(plane).unwrap_or(0);
    let mut first = 0;
    while first < page_bytes {
        let len_bytes = (page_bytes - first).min(AT_ONCE_BYTES);
        let (span, mut at) = (Span { page, plane: plane as u32, offset: first }, first);
        let mut look = |bytes: &[u8]| {
            each(at, bytes);
            at += bytes.len() as u64;
        };
        // SAFETY: (1) of `PageMemory::look`: by the words of this function nobody writes the page.
        unsafe { memory.look(span, len_bytes, &mut look) }?;
        first += len_bytes;
    }
    Ok(())
}

/// Puts together what a memory shows in pieces, which may end inside a token. What comes in one piece is not copied.
struct Pieces {
    len_bytes: u64,
    gathered: Option<Scratch>,
    seen: usize,
}

impl Pieces {
    fn of_bytes(len_bytes: u64) -> Self {
        Self { len_bytes, gathered: None, seen: 0 }
    }

    /// Takes the next piece, and shows all of them once the last one is there.
    fn add(&mut self, bytes: &[u8], each: &mut dyn FnMut(&[u8])) {
        if bytes.len() as u64 == self.len_bytes {
            return each(bytes);
        }
        let gathered = self.gathered.get_or_insert_with(|| Scratch::of_bytes(self.len_bytes));
        // no larger than a page, which fits in memory
        let all = gathered.take(self.len_bytes as usize);
        all[self.seen..][..bytes.len()].copy_from_slice(bytes);
        self.seen += bytes.len();
        if self.seen == all.len() {
            each(all);
        }
    }
}

/// Whether the tokens of a run of a window lie one after the other.
pub(super) fn is_together<M: PageMemory>(memory: &M, window: &PlaneWindow) -> bool {
    memory.geometry().planes()[window.plane()].run_bytes() == window.run_bytes()
}

/// Where a token of a run of a window begins. In range: the callers checked plane and tokens, and the window lies in the
/// plane; what is not is refused by the memory.
pub(super) fn run_span<M: PageMemory>(memory: &M, page: u32, window: &PlaneWindow, run: u32, token: u32) -> Span {
    let place = window.place(run).and_then(|(run, first_byte)| {
        memory.geometry().run_offset(window.plane(), run, token)?.checked_add(u64::from(first_byte))
    });
    Span { page, plane: window.plane() as u32, offset: place.unwrap_or(u64::MAX) }
}

/// Cuts what a window shows of some tokens into pieces: one where its bytes lie together, else one for each token and run.
pub(super) fn window_pieces<'m, M: PageMemory>(
    memory: &'m M,
    window: &PlaneWindow,
    page: u32,
    tokens: Range<u32>,
) -> impl Iterator<Item = Piece> + use<'m, M> {
    let window = *window;
    let (runs, run_bytes) = (window.runs(), window.run_bytes() as usize);
    let together = runs == 1 && is_together(memory, &window);
    let (steps, step_tokens) = if together { (1, tokens.end - tokens.start) } else { (tokens.end - tokens.start, 1) };
    let len = step_tokens as usize * run_bytes;
    (0..steps).flat_map(move |step| {
        (0..runs).map(move |run| {
            let begin = (step as usize * runs as usize + run as usize) * len;
            let span = run_span(memory, page, &window, run, tokens.start + step * step_tokens);
            Piece { span, host: begin..begin + len }
        })
    })
}
