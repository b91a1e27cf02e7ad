//! The one file outside `memory/` that turns a checked handle, or a held reservation, into bytes.
//!
//! **Owns** the check of handles, the guards that keep what was checked true, and every call into the memory that touches
//! bytes. **Does not know** how pages are admitted or released.
//!
//! Why a slice given out here stays valid and unchanged while its guard lives:
//!
//! 1. *The page stays this life's.* By handle: the hazard was announced before the stamp was looked at, so a release
//!    quarantines the page until the guard ends. By reservation: the borrow is counted in the header, so a reclaim
//!    leaves the pages to the last borrower; the reservation itself is borrowed.
//! 2. *The bytes do not change.* A slice covers written tokens only. Appends go past them. Rewriting tokens that a reader
//!    may have seen first looks for readers and moves to a fresh page. A write ticket is refused while a reader is there,
//!    and hides the page from readers while it is open.
//! 3. *The bytes are there.* The written extent is stored with Release after them and loaded with Acquire here.
#![expect(unsafe_code, reason = "reads and writes the bytes of pages; every block cites the numbered words above")]

use std::fmt;
use std::ops::Range;

use crate::error::{ReadError, TicketError, WriteError};
use crate::handle::PageHandle;
use crate::hazard::{self, Hazard};
use crate::header::NoBorrow;
use crate::id::OwnerId;
use crate::lease::Core;
use crate::memory::{CleanPage, Fence, HostBytes, MemoryError, PageMemory, Span};
use crate::pool::{Inner, PagePool};
use crate::stamp::{PageMeta, PageState, StampWord};
use crate::sync::Ordering;
use crate::ticket::TicketId;

impl<M: PageMemory> Inner<M> {
    /// Finds the page that a handle names in this pool. Says nothing about its life.
    #[inline]
    pub(crate) fn find(&self, handle: &PageHandle<M>) -> Result<&PageMeta, ReadError> {
        if handle.pool() != self.identity.pool || handle.nonce() != self.identity.nonce {
            return Err(ReadError::ForeignPool { handle_pool: handle.pool(), pool: self.identity.pool });
        }
        let pages = self.metas.len() as u32;
        let page = handle.index();
        self.metas.get(page as usize).ok_or(ReadError::OutOfRange { page, pages })
    }

    /// The error for a handle whose page is in another life.
    #[cold]
    pub(crate) fn stale(&self, handle: &PageHandle<M>, word: StampWord) -> ReadError {
        ReadError::Stale {
            page: handle.index(),
            handle_generation: handle.generation(),
            generation: word.generation(),
            state: word.state(),
        }
    }

    /// The error for a handle whose page was live and was not found to be `owner`'s.
    #[cold]
    fn not_owned(&self, handle: &PageHandle<M>, owner: OwnerId, word: StampWord) -> ReadError {
        let (page, asked_owner) = (handle.index(), owner);
        match self.meta(page).owner() {
            Some(_) => ReadError::ForeignOwner { page, asked_owner },
            // A live page is somebody's: a release is just making it free, and must not look like an attack. The stamp is
            // stored after the owner is cleared, so that a second look at it would not do.
            None => self.stale(handle, word.bumped().with_state(PageState::Free)),
        }
    }

    #[cold]
    fn unreadable(&self, handle: &PageHandle<M>, word: StampWord) -> ReadError {
        let page = handle.index();
        let same_life = word.generation() == handle.generation() && word.state() == PageState::Live;
        match () {
            () if !same_life => self.stale(handle, word),
            () if word.is_pending() => ReadError::Pending { page },
            () => ReadError::Busy { page },
        }
    }

    /// Announces the reader and checks the handle; answers the hazard and the tokens that are written.
    #[inline]
    fn open_guard(&self, owner: OwnerId, handle: PageHandle<M>) -> Result<(Hazard, u32), ReadError> {
        let meta = self.find(&handle)?;
        let page = handle.index();
        let hazard = hazard::announce(self.identity.pool, page).ok_or(ReadError::TooManyGuards)?;
        let word = meta.word_for_reader();
        if !word.is_readable_as(handle.generation()) {
            return Err(self.unreadable(&handle, word));
        }
        // The page was live in this life after the hazard was announced, so the owner is this life's, or gone with it.
        if meta.owner() != Some(owner) {
            return Err(self.not_owned(&handle, owner, word));
        }
        Ok((hazard, meta.extent().written()))
    }

    /// Tries again when a device was still cleaning the page, and counts the refusal when nothing helps.
    #[cold]
    fn open_guard_again(
        &self,
        owner: OwnerId,
        handle: PageHandle<M>,
        error: ReadError,
    ) -> Result<(Hazard, u32), ReadError> {
        let mut guard = Err(error);
        if let Err(ReadError::Pending { .. }) = guard {
            self.look_at_fences();
            guard = self.open_guard(owner, handle);
        }
        if guard.is_err() {
            // Relaxed: a number to show.
            self.refused_reads.fetch_add(1, Ordering::Relaxed);
        }
        guard
    }
}

impl<M: PageMemory> PagePool<M> {
    /// Reads a page by handle, without a lock: for threads, FFI and engines that do not have the reservation at hand.
    ///
    /// The guard keeps the page from being reused; it does not keep its owner from releasing it. It covers the tokens
    /// that were written when it was taken.
    ///
    /// # Cost
    ///
    /// O(1): one store, one fence, two loads on lines that readers share and nobody writes. No lock, no allocation.
    ///
    /// # Memory ordering
    ///
    /// Acquire: behind the writes that made the tokens written.
    ///
    /// # Errors
    ///
    /// Pool unchanged.
    ///
    /// - [`ReadError::ForeignPool`], [`ReadError::OutOfRange`], [`ReadError::Stale`], [`ReadError::ForeignOwner`]: the
    ///   handle does not name a page that `owner` holds now.
    /// - [`ReadError::Busy`], [`ReadError::Pending`]: somebody outside writes the page, or a device cleans it.
    /// - [`ReadError::TooManyGuards`]: tens of thousands of guards are alive.
    #[inline]
    pub fn read(&self, owner: OwnerId, handle: PageHandle<M>) -> Result<PageGuard<'_, M>, ReadError> {
        let inner = &*self.inner;
        // The guard is made here and not in there: a copy of it right after its making would cost a third of the read.
        let (hazard, written) = match inner.open_guard(owner, handle) {
            Ok(opened) => opened,
            Err(error) => inner.open_guard_again(owner, handle, error)?,
        };
        let view = PageView { inner, page: handle.index(), tokens: 0..written };
        Ok(PageGuard { _hazard: hazard, _end: End(inner), view })
    }

    /// Says whether a handle still names a page that `owner` holds.
    ///
    /// The answer can be old when it arrives; [`read`](Self::read) is the one that holds.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn check(&self, owner: OwnerId, handle: PageHandle<M>) -> Result<(), ReadError> {
        self.read(owner, handle).map(drop)
    }

    /// Ends a ticket whose holder says that it has finished.
    ///
    /// # Errors
    ///
    /// Counted in `stats`; nothing changed.
    ///
    /// - [`TicketError::AlreadyDone`]: it ended before.
    /// - [`TicketError::Unknown`]: this pool never gave it.
    ///
    /// # Safety
    ///
    /// 1. The outside party has stopped for good: its last access to the pages happened before this call, and none is on
    ///    its way. A return code of a transport that only says "asked to stop" is no such thing.
    pub unsafe fn ticket_done(&self, id: TicketId) -> Result<(), TicketError> {
        self.end_ticket(id)
    }

    /// Ends a ticket whose holder is gone: the peer's agent is destroyed, or its process is dead.
    ///
    /// # Errors
    ///
    /// As [`ticket_done`](Self::ticket_done).
    ///
    /// # Safety
    ///
    /// 1. As [`ticket_done`](Self::ticket_done): the outside party has stopped for good. Time that has passed proves nothing.
    pub unsafe fn ticket_revoke(&self, id: TicketId) -> Result<(), TicketError> {
        self.end_ticket(id)
    }

    /// The memory itself, for a kernel of the engine that writes pages by their addresses. From now on all of every page
    /// counts as written to when it is cleaned, whatever its extent says; `stats` shows that addresses were given out.
    ///
    /// # Safety
    ///
    /// 1. The caller writes only pages of a reservation that it has, past the written extent, and has stopped when it moves
    ///    the extent over them ([`assume_written`](crate::Reservation::assume_written)), releases them, or the owner is
    ///    reclaimed.
    /// 2. It calls neither `clean`, `decommit` nor `commit`.
    #[must_use]
    pub unsafe fn expose(&self) -> &M {
        self.inner.exposed.store(true, Ordering::Relaxed);
        &self.inner.memory
    }

    /// The memory itself, to look at: what is there is checked for neither owner nor generation.
    ///
    /// # Safety
    ///
    /// 1. The caller writes nothing, calls neither `clean`, `decommit` nor `commit`, and reads no byte that somebody may be
    ///    writing.
    /// 2. What it reads there it gives to nobody: neither owner nor generation is checked.
    #[must_use]
    pub unsafe fn memory(&self) -> &M {
        &self.inner.memory
    }
}

/// A page that is being read by handle. While it lives the page is not reused.
///
/// What it shows does not outlive it:
///
/// ```compile_fail,E0505
/// # use pagestamp::*;
/// fn keep(guard: PageGuard<'_, HostMemory>) -> Result<u8, ReadError> {
///     let bytes = guard.run(0, 0)?;
///     drop(guard);
///     Ok(bytes[0])
/// }
/// ```
#[must_use = "the page is kept from reuse only while the guard lives"]
pub struct PageGuard<'a, M: PageMemory> {
    // Dropped in this order: the hazard ends, then whoever waits for the page is looked after.
    _hazard: Hazard,
    _end: End<'a, M>,
    view: PageView<'a, M>,
}

/// The end of a guard by handle, after its hazard.
struct End<'a, M: PageMemory>(&'a Inner<M>);

impl<M: PageMemory> Drop for End<'_, M> {
    #[inline]
    fn drop(&mut self) {
        self.0.reader_ended();
    }
}

impl<M: PageMemory> PageGuard<'_, M> {
    /// Tokens of the page that may be read: those written when the guard was taken.
    #[must_use]
    pub fn written_tokens(&self) -> u32 {
        self.view.tokens.end
    }

    /// What can be read of the page.
    #[must_use]
    pub fn view(&self) -> &PageView<'_, M> {
        &self.view
    }

    /// As [`PageView::copy`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn copy(&self, plane: usize, dst: &mut [u8]) -> Result<(), ReadError> {
        self.view.copy(plane, dst)
    }
}

impl<M: HostBytes> PageGuard<'_, M> {
    /// As [`PageView::run`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn run(&self, plane: usize, run: u32) -> Result<&[u8], ReadError> {
        self.view.run(plane, run)
    }
}

impl<M: PageMemory> fmt::Debug for PageGuard<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageGuard").field("page", &self.view.page).field("tokens", &self.view.tokens).finish()
    }
}

/// Written tokens of one page, under a guard. Shows sizes and never bytes in its `Debug`.
pub struct PageView<'a, M: PageMemory> {
    inner: &'a Inner<M>,
    page: u32,
    /// tokens of the page that the guard covers
    tokens: Range<u32>,
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
fn host_run<M: HostBytes>(
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
struct Piece {
    span: Span,
    host: Range<usize>,
}

/// Cuts some tokens of a plane into pieces: one where the plane has one run, else one for each token and run.
fn pieces<M: PageMemory>(memory: &M, plane: usize, page: u32, tokens: Range<u32>) -> impl Iterator<Item = Piece> {
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

/// A counted borrow of a reservation: while it lives, a reclaim leaves the pages to it.
pub(crate) struct Borrow<'a, M: PageMemory> {
    inner: &'a Inner<M>,
    core: &'a Core,
}

impl<'a, M: PageMemory> Borrow<'a, M> {
    #[inline]
    pub(crate) fn new(inner: &'a Inner<M>, core: &'a Core) -> Result<Self, NoBorrow> {
        core.header.borrow()?;
        Ok(Self { inner, core })
    }
}

impl<M: PageMemory> Drop for Borrow<'_, M> {
    #[inline]
    fn drop(&mut self) {
        if self.core.header.end_borrow() {
            self.inner.last_borrow_ended(self.core);
        }
    }
}

/// The written tokens of a reservation that are being read.
///
/// While it lives the reservation is neither released nor written nor rolled back:
///
/// ```compile_fail,E0505
/// # use pagestamp::*;
/// fn release_under_a_reader(kv: Reservation<HostMemory>) -> Result<(), ReadError> {
///     let guard = kv.read(0..1)?;
///     kv.release();
///     let mut token = [0; 8];
///     guard.copy(0, &mut token)
/// }
/// ```
///
/// ```compile_fail,E0502
/// # use pagestamp::*;
/// fn write_under_a_reader(kv: &mut Reservation<HostMemory>) -> Result<(), ReadError> {
///     let guard = kv.read(0..1)?;
///     let _ = kv.write(1, &[&[0; 8]]);
///     let mut token = [0; 8];
///     guard.copy(0, &mut token)
/// }
/// ```
///
/// ```compile_fail,E0502
/// # use pagestamp::*;
/// fn roll_back_under_a_reader(kv: &mut Reservation<HostMemory>) -> Result<(), ReadError> {
///     let guard = kv.read(0..1)?;
///     let _ = kv.truncate(0);
///     let mut token = [0; 8];
///     guard.copy(0, &mut token)
/// }
/// ```
#[must_use = "the pages are kept from reuse only while the guard lives"]
pub struct ReadGuard<'a, M: PageMemory> {
    borrow: Borrow<'a, M>,
    tokens: Range<u64>,
}

impl<'a, M: PageMemory> ReadGuard<'a, M> {
    /// The caller checked that `tokens` are written and that no write ticket is open on their pages.
    pub(crate) fn new(borrow: Borrow<'a, M>, tokens: Range<u64>) -> Self {
        Self { borrow, tokens }
    }

    /// Tokens that the guard covers, counted from the beginning of the request.
    #[must_use]
    pub fn tokens(&self) -> Range<u64> {
        self.tokens.clone()
    }

    /// The covered pages in order, each with the tokens of it that are covered.
    pub fn pages(&self) -> impl Iterator<Item = PageView<'_, M>> {
        let page_tokens = u64::from(self.borrow.inner.page_tokens());
        let (begin, end) = (self.tokens.start, self.tokens.end);
        let ordinals = if begin < end { begin / page_tokens..end.div_ceil(page_tokens) } else { 0..0 };
        ordinals.filter_map(move |ordinal| {
            let first = ordinal * page_tokens;
            let tokens = begin.saturating_sub(first) as u32..(end - first).min(page_tokens) as u32;
            let page = self.borrow.core.pages.get(ordinal as u32)?;
            Some(PageView { inner: self.borrow.inner, page, tokens })
        })
    }

    /// Copies the covered tokens of a plane. dst: `[tokens, runs, run_bytes]`, token by token.
    ///
    /// # Errors
    ///
    /// As [`PageView::copy`].
    pub fn copy(&self, plane: usize, dst: &mut [u8]) -> Result<(), ReadError> {
        let planes = self.borrow.inner.memory.geometry().planes();
        let shape = planes.get(plane).ok_or(ReadError::NoSuchPlane { plane, planes: planes.len() })?;
        let expected_bytes = shape.token_bytes().saturating_mul(self.tokens.end - self.tokens.start);
        if dst.len() as u64 != expected_bytes {
            return Err(ReadError::Length { given_bytes: dst.len() as u64, expected_bytes });
        }
        let mut rest = dst;
        for view in self.pages() {
            let bytes = (shape.token_bytes() * u64::from(view.tokens.end - view.tokens.start)) as usize;
            let (now, later) = rest.split_at_mut(bytes);
            view.copy(plane, now)?;
            rest = later;
        }
        Ok(())
    }
}

impl<M: PageMemory> fmt::Debug for ReadGuard<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadGuard").field("tokens", &self.tokens).finish()
    }
}

/// The right to write some unwritten tokens of a reservation: a counted borrow of a reservation that the caller has
/// exclusively, whose pages were prepared.
pub(crate) struct WriteBorrow<'a, M: PageMemory> {
    borrow: Borrow<'a, M>,
    tokens: Range<u64>,
}

impl<'a, M: PageMemory> WriteBorrow<'a, M> {
    /// Prepares the pages of `tokens`, which begin at the written extent and end within the reservation: nobody outside
    /// writes them, no reader has seen what will be rewritten, and what will be written is noted for cleaning.
    pub(crate) fn prepare(borrow: Borrow<'a, M>, tokens: Range<u64>) -> Result<Self, WriteError> {
        let (inner, core) = (borrow.inner, borrow.core);
        let page_tokens = u64::from(inner.page_tokens());
        let ordinals = (tokens.start / page_tokens) as u32..tokens.end.div_ceil(page_tokens) as u32;
        if core.off_limits.load(Ordering::Acquire) > 0 {
            inner.look_at_fences();
        }
        for ordinal in ordinals.clone() {
            let word = page_word(inner, core, ordinal);
            let Some((page, word)) = word else { continue };
            if word.is_writing() {
                return Err(WriteError::Busy { page });
            }
            if word.is_pending() {
                return Err(WriteError::Pending { page });
            }
        }
        let rewritten = |ordinal| {
            let (page, _) = page_word(inner, core, ordinal)?;
            let from = tokens.start.saturating_sub(u64::from(ordinal) * page_tokens) as u32;
            (inner.meta(page).extent().high() > from).then_some((ordinal, from))
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
        }
        Ok(Self { borrow, tokens })
    }

    /// Takes the right again on tokens that [`prepare`](Self::prepare) prepared. Since then the holder kept the reservation
    /// to itself and none of them became written, so that no reader has seen any of them: their pages need not move.
    pub(crate) fn again(borrow: Borrow<'a, M>, tokens: Range<u64>) -> Self {
        Self { borrow, tokens }
    }

    pub(crate) fn tokens(&self) -> Range<u64> {
        self.tokens.clone()
    }

    /// Planes of a page.
    pub(crate) fn planes(&self) -> usize {
        self.borrow.inner.memory.geometry().planes().len()
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

    /// Copies some tokens of one page and plane, which are among those of the right, in any order of pages and planes.
    /// src: `[tokens, runs, run_bytes]`, token by token.
    pub(crate) fn store_part(
        &mut self,
        ordinal: u32,
        plane: usize,
        tokens: Range<u32>,
        src: &[u8],
    ) -> Result<(), WriteError> {
        let inner = self.borrow.inner;
        let page = self.check_part(ordinal, plane, &tokens, src.len())?;
        for piece in pieces(&inner.memory, plane, page, tokens) {
            // SAFETY: (1) of `PageMemory::write`: as in `store`; `check_part` found the tokens among those of the right and
            // no write ticket or open fence on the page; `&mut self` keeps a second part away until this one is there.
            unsafe { inner.memory.write(piece.span, &src[piece.host]) }?;
        }
        Ok(())
    }

    /// Copies out what was stored of some tokens that do not count as written yet, so that it can be verified before they
    /// do. dst as in [`store_part`](Self::store_part).
    pub(crate) fn load_part(
        &mut self,
        ordinal: u32,
        plane: usize,
        tokens: Range<u32>,
        dst: &mut [u8],
    ) -> Result<(), WriteError> {
        let inner = self.borrow.inner;
        let page = self.check_part(ordinal, plane, &tokens, dst.len())?;
        for piece in pieces(&inner.memory, plane, page, tokens) {
            // SAFETY: (1) of `PageMemory::read`: the caller has the reservation exclusively and, by `&mut self`, this right
            // too, the counted borrow keeps a reclaim away, and `check_part` found no write ticket and no open fence.
            unsafe { inner.memory.read(piece.span, &mut dst[piece.host]) }?;
        }
        Ok(())
    }

    /// Finds the page of a part that lies among the tokens of the right and on which nobody else is at work.
    fn check_part(&self, ordinal: u32, plane: usize, tokens: &Range<u32>, bytes: usize) -> Result<u32, WriteError> {
        let inner = self.borrow.inner;
        let planes = inner.memory.geometry().planes();
        let shape = planes.get(plane).ok_or(WriteError::NoSuchPlane { plane, planes: planes.len() })?;
        let page_tokens = inner.page_tokens();
        let first = u64::from(ordinal) * u64::from(page_tokens);
        let (begin, to_tokens) = (first + u64::from(tokens.start), first + u64::from(tokens.end));
        let is_inside = tokens.start <= tokens.end
            && tokens.end <= page_tokens
            && begin >= self.tokens.start
            && to_tokens <= self.tokens.end;
        let found = page_word(inner, self.borrow.core, ordinal).filter(|_| is_inside);
        let (page, word) = found.ok_or(WriteError::PastReserved { to_tokens, reserved_tokens: self.tokens.end })?;
        if word.is_writing() {
            return Err(WriteError::Busy { page });
        }
        if word.is_pending() {
            return Err(WriteError::Pending { page });
        }
        let tokens = u64::from(tokens.end - tokens.start);
        let (given_bytes, expected_bytes) = (bytes as u64, tokens * shape.token_bytes());
        if given_bytes != expected_bytes {
            return Err(WriteError::Length { plane, tokens, given_bytes, expected_bytes });
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
        let (begin, end) = (self.tokens.start, self.tokens.end);
        let ordinals = if begin < end { begin / page_tokens..end.div_ceil(page_tokens) } else { 0..0 };
        ordinals.filter_map(move |ordinal| {
            let first = ordinal * page_tokens;
            let tokens = begin.saturating_sub(first) as u32..(end - first).min(page_tokens) as u32;
            let page = self.borrow.core.pages.get(ordinal as u32)?;
            Some((page, first + u64::from(tokens.start), tokens))
        })
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
        if word.is_writing() {
            return Err(ReadError::Busy { page });
        }
        if word.is_pending() {
            return Err(ReadError::Pending { page });
        }
        host_run(inner, page, 0..(end - first).min(page_tokens) as u32, plane, run)
    }
}

fn page_word<M: PageMemory>(inner: &Inner<M>, core: &Core, ordinal: u32) -> Option<(u32, StampWord)> {
    let page = core.pages.get(ordinal)?;
    Some((page, inner.meta(page).word_for_reader()))
}

impl<M: PageMemory> Inner<M> {
    /// Copies the first tokens of one page to another, before the other is seen by anybody.
    pub(crate) fn copy_prefix(&self, from: u32, to: u32, tokens: u32) -> Result<(), MemoryError> {
        if tokens == 0 || !M::HAS_BYTES {
            return Ok(());
        }
        let mut bounce = Vec::new();
        for plane in 0..self.memory.geometry().planes().len() {
            for piece in pieces(&self.memory, plane, from, 0..tokens) {
                bounce.resize(piece.host.len(), 0);
                // SAFETY: (1) of `PageMemory::read`: the tokens are written and the caller has the reservation
                // exclusively, so that nobody writes them.
                unsafe { self.memory.read(piece.span, &mut bounce) }?;
                let span = Span { page: to, ..piece.span };
                // SAFETY: (1) of `PageMemory::write`: the caller just took the page and nobody knows it yet.
                unsafe { self.memory.write(span, &bounce) }?;
            }
        }
        Ok(())
    }

    /// Begins to zero pages that are in the caller's hand: `Cleaning`, taken off every list, or not in circulation yet.
    pub(crate) fn begin_clean(&self, batch: &[CleanPage]) -> Result<Fence, MemoryError> {
        // SAFETY: (1) of `PageMemory::clean`: a page in hand is in no reservation, and no reader was announced after its
        // stamp was bumped; it becomes free only once the fence is done, or live for a lane that waits for it, and then
        // the host keeps off until the fence is done.
        unsafe { self.memory.clean(batch) }
    }

    /// Looks for a byte of a page that is not zero and answers its plane. The caller holds the lock and asks only for
    /// pages that nobody can write without it: free ones and the null page.
    pub(crate) fn find_soiled_plane(&self, page: u32) -> Result<Option<usize>, MemoryError> {
        if !M::HAS_BYTES {
            return Ok(None);
        }
        let geometry = self.memory.geometry();
        let mut bytes = Vec::new();
        for plane in 0..geometry.planes().len() {
            for piece in pieces(&self.memory, plane, page, 0..geometry.page_tokens()) {
                bytes.resize(piece.host.len(), 0xff);
                // SAFETY: (1) of `PageMemory::read`: by the words of this function nobody writes the page, and a free page
                // is behind its fence.
                unsafe { self.memory.read(piece.span, &mut bytes) }?;
                if bytes.iter().any(|byte| *byte != 0) {
                    return Ok(Some(plane));
                }
            }
        }
        Ok(None)
    }
}
