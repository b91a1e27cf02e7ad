//! A row: whose tokens, and their pages once they were checked.

use crate::access::Borrow;
use crate::error::{ReadError, RowError};
use crate::handle::PageHandle;
use crate::header::NoBorrow;
use crate::id::{OwnerId, PoolIdentity};
use crate::lease::Core;
use crate::memory::PageMemory;
use crate::pool::Inner;
use crate::reservation::Reservation;
use crate::stamp::{OffLimits, PageMeta, PageState};
use crate::step::{Step, StepId};
use crate::sync::Ordering;

/// The first tokens of a sequence, for a row of a table: made by [`Reservation::row`] or [`of_handles`](Self::of_handles), checked
/// by the table that takes it.
#[derive(Debug)]
#[must_use = "a row is checked when a table takes it"]
pub struct TableRow<'a, M: PageMemory> {
    source: Source<'a, M>,
    tokens: u64,
    step: Option<StepId>,
}

#[derive(Debug)]
enum Source<'a, M: PageMemory> {
    Reservation(&'a Reservation<M>),
    Handles { owner: OwnerId, handles: &'a [PageHandle<M>] },
}

impl<M: PageMemory> Clone for TableRow<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: PageMemory> Copy for TableRow<'_, M> {}

impl<M: PageMemory> Clone for Source<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: PageMemory> Copy for Source<'_, M> {}

impl<M: PageMemory> Reservation<M> {
    /// Names the first `tokens` tokens for a row of a [table](crate::table).
    pub fn row(&self, tokens: u64) -> TableRow<'_, M> {
        TableRow { source: Source::Reservation(self), tokens, step: None }
    }
}

impl<'a, M: PageMemory> TableRow<'a, M> {
    /// Names `tokens` tokens that lie in pages of an engine that keeps its own arrays: one handle for each page, in order.
    ///
    /// Each is checked: pool, life, owner, and how far the page is written, unless it is
    /// [detached](Reservation::into_handles), which the engine writes without telling. The answer is as old as the call; hold a
    /// step open from before it.
    pub const fn of_handles(owner: OwnerId, handles: &'a [PageHandle<M>], tokens: u64) -> Self {
        Self { source: Source::Handles { owner, handles }, tokens, step: None }
    }

    /// Lets the row cover tokens that are [pending](Reservation::export) under this step.
    pub const fn under(mut self, step: &Step) -> Self {
        self.step = Some(step.id());
        self
    }

    /// Whose row it is.
    #[must_use]
    pub fn owner(&self) -> OwnerId {
        match self.source {
            Source::Reservation(kv) => kv.owner(),
            Source::Handles { owner, .. } => owner,
        }
    }

    /// Tokens that it names.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }
}

impl<'a, M: PageMemory> TableRow<'a, M> {
    /// Checks the row for a table of a pool. Handles are checked when their pages are asked for.
    pub(crate) fn check(self, inner: &'a Inner<M>) -> Result<CheckedRow<'a, M>, RowError> {
        if self.tokens == 0 {
            return Err(RowError::NoTokens);
        }
        let pages = inner.memory.geometry().pages_for_tokens(self.tokens);
        match self.source {
            Source::Reservation(kv) => {
                check_pool(inner, kv.pool().id())?;
                let borrow = kv.borrow()?;
                check_readable(inner, kv, self.tokens, self.step)?;
                // Within the reservation, so a count of pages that there are.
                let pages = pages as u32;
                check_off_limits(inner, kv.lease().core(), pages)?;
                Ok(CheckedRow { inner, tokens: self.tokens, pages, source: Pages::Held(borrow) })
            }
            Source::Handles { owner, handles } => {
                let given = handles.len() as u64;
                if given != pages {
                    return Err(RowError::Handles { given, needed: pages });
                }
                let source = Pages::Named { owner, handles };
                Ok(CheckedRow { inner, tokens: self.tokens, pages: pages as u32, source })
            }
        }
    }
}

fn check_pool<M: PageMemory>(inner: &Inner<M>, found: crate::id::PoolId) -> Result<(), RowError> {
    let expected = inner.identity.pool;
    if expected == found { Ok(()) } else { Err(RowError::ForeignPool { expected, found }) }
}

/// Written tokens, and those up to the end of what a step writes.
fn check_readable<M: PageMemory>(
    inner: &Inner<M>,
    kv: &Reservation<M>,
    tokens: u64,
    step: Option<StepId>,
) -> Result<(), RowError> {
    let written_tokens = kv.written_tokens();
    if tokens <= written_tokens {
        return Ok(());
    }
    let pending = step.map(|step| inner.pending_under(kv, step)).transpose()?.flatten();
    let readable_tokens = pending.map_or(written_tokens, |(_, to_tokens)| to_tokens);
    if tokens > readable_tokens {
        return Err(RowError::Unwritten { to_tokens: tokens, readable_tokens });
    }
    Ok(())
}

/// Looks at each page only while some of the reservation's pages are off limits. A page that a lane waits for is in order: so
/// will be the kernel that reads it there.
fn check_off_limits<M: PageMemory>(inner: &Inner<M>, core: &Core, pages: u32) -> Result<(), RowError> {
    if core.off_limits.load(Ordering::Acquire) == 0 {
        return Ok(());
    }
    inner.look_at_fences();
    for position in core.pages.first()..pages {
        let Some(page) = core.pages.get(position) else { return Err(RowError::Revoked) };
        match inner.meta(page).word_for_reader().off_limits() {
            None | Some(OffLimits::Pending) => {}
            Some(OffLimits::Gone) => return Err(RowError::Revoked),
            Some(why) => return Err(RowError::Page { position, source: ReadError::off_limits(page, why) }),
        }
    }
    Ok(())
}

impl From<NoBorrow> for RowError {
    fn from(no: NoBorrow) -> Self {
        match no {
            NoBorrow::Revoked => Self::Revoked,
            NoBorrow::TooMany => Self::TooManyGuards,
        }
    }
}

/// A row whose tokens may be named. While it lives, no reclaim takes the pages of a reservation from it.
pub(crate) struct CheckedRow<'a, M: PageMemory> {
    inner: &'a Inner<M>,
    tokens: u64,
    pages: u32,
    source: Pages<'a, M>,
}

enum Pages<'a, M: PageMemory> {
    Held(Borrow<'a, M>),
    Named { owner: OwnerId, handles: &'a [PageHandle<M>] },
}

impl<M: PageMemory> CheckedRow<'_, M> {
    pub(crate) const fn tokens(&self) -> u64 {
        self.tokens
    }

    pub(crate) const fn pages(&self) -> u32 {
        self.pages
    }

    /// The reservation behind it.
    pub(super) fn core(&self) -> Option<&Core> {
        match &self.source {
            Pages::Held(borrow) => Some(borrow.core()),
            Pages::Named { .. } => None,
        }
    }

    /// Pages that a window slid past.
    pub(super) fn first(&self) -> u32 {
        self.core().map_or(0, |core| core.pages.first().min(self.pages))
    }

    /// Writes the page numbers from place `from` on, as far as `out` goes.
    #[inline]
    pub(super) fn fill(&self, from: u32, out: &mut [i32]) -> Result<(), RowError> {
        match &self.source {
            Pages::Held(borrow) => self.fill_held(borrow.core(), from, out),
            Pages::Named { owner, handles } => self.fill_named(*owner, handles, from, out),
        }
    }

    fn fill_named(
        &self,
        owner: OwnerId,
        handles: &[PageHandle<M>],
        from: u32,
        out: &mut [i32],
    ) -> Result<(), RowError> {
        let book = Book { identity: self.inner.identity, metas: &self.inner.metas, owner };
        let (handles, page_tokens) = (&handles[from as usize..], self.inner.page_tokens());
        let whole = handles.len().saturating_sub(1);
        let mut at = 0;
        while at < handles.len() {
            at += book.fill_readable(&handles[at..whole.max(at)], page_tokens, &mut out[at..]);
            // The last one, or one that is seldom good.
            let Some(handle) = handles.get(at).filter(|_| at < out.len()) else { break };
            self.check_handle(&book, handle, from + at as u32)?;
            out[at] = handle.index() as i32;
            at += 1;
        }
        Ok(())
    }

    fn fill_held(&self, core: &Core, from: u32, out: &mut [i32]) -> Result<(), RowError> {
        let slid = (self.first().saturating_sub(from) as usize).min(out.len());
        let (gone, mut rest) = out.split_at_mut(slid);
        gone.fill(self.stand_in()? as i32);
        for run in core.pages.runs_from(from.max(core.pages.first())) {
            let (now, later) = rest.split_at_mut(run.len().min(rest.len()));
            // Relaxed: as for the list, see `lease`.
            now.iter_mut().zip(run).for_each(|(cell, page)| *cell = page.load(Ordering::Relaxed) as i32);
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// What stands in for pages that a window slid past.
    fn stand_in(&self) -> Result<u32, RowError> {
        let first_pages = self.first();
        if first_pages == 0 {
            return Ok(0);
        }
        self.inner.null_page().ok_or(RowError::Slid { first_pages })
    }

    /// Calls `each` with page and generation, from place `from` on. The null page, which stands in for what slid, has none.
    #[inline]
    pub(crate) fn each(&self, from: u32, mut each: impl FnMut(u32, u64)) -> Result<(), RowError> {
        let core = match &self.source {
            Pages::Held(borrow) => borrow.core(),
            Pages::Named { owner, handles } => {
                let book = Book { identity: self.inner.identity, metas: &self.inner.metas, owner: *owner };
                for (handle, position) in handles[from as usize..].iter().zip(from..) {
                    self.check_handle(&book, handle, position)?;
                    each(handle.index(), handle.generation().get());
                }
                return Ok(());
            }
        };
        let stand_in = self.stand_in()?;
        (from..self.first()).for_each(|_| each(stand_in, 0));
        let mut left = self.pages.saturating_sub(from.max(core.pages.first())) as usize;
        for run in core.pages.runs_from(from.max(core.pages.first())) {
            for page in &run[..run.len().min(left)] {
                // Relaxed: as for the list, see `lease`.
                let page = page.load(Ordering::Relaxed);
                let handle = self.inner.handle_while_live(page).ok_or(RowError::Revoked)?;
                each(page, handle.generation().get());
            }
            left -= run.len().min(left);
        }
        Ok(())
    }

    /// Checks the handle at a place of the row.
    #[inline]
    fn check_handle(&self, book: &Book<'_>, handle: &PageHandle<M>, position: u32) -> Result<(), RowError> {
        let page_tokens = u64::from(self.inner.page_tokens());
        let needed = (self.tokens - u64::from(position) * page_tokens).min(page_tokens) as u32;
        if book.is_readable(handle, needed) {
            return Ok(());
        }
        self.look_again(book.owner, handle, needed).map_err(|source| RowError::Page { position, source })
    }

    /// Looks at a handle that is seldom good: of a page that the engine writes without telling, or that a lane waits for.
    #[inline(never)]
    fn look_again(&self, owner: OwnerId, handle: &PageHandle<M>, needed: u32) -> Result<(), ReadError> {
        let meta = self.inner.find(handle)?;
        let (page, word) = (handle.index(), meta.word_for_reader());
        if word.state() != PageState::Live || word.generation() != handle.generation() {
            return Err(self.inner.stale(handle, word));
        }
        if meta.owner() != Some(owner) {
            return Err(self.inner.not_owned(handle, owner, word));
        }
        match word.off_limits() {
            None | Some(OffLimits::Pending) => {}
            Some(why) => return Err(ReadError::off_limits(page, why)),
        }
        let written = meta.extent().written();
        if written < needed && !word.is_detached() {
            return Err(ReadError::Unwritten { to_tokens: needed.into(), written_tokens: written.into() });
        }
        Ok(())
    }
}

/// What handles are compared with. By value, since nothing moves over the loads of a stamp.
#[derive(Clone, Copy)]
struct Book<'a> {
    identity: PoolIdentity,
    metas: &'a [PageMeta],
    owner: OwnerId,
}

impl Book<'_> {
    /// Says whether a handle names a page that the owner has in that life and that is written so far.
    #[inline(always)]
    fn is_readable<M>(self, handle: &PageHandle<M>, needed: u32) -> bool {
        let Some(meta) = self.metas.get(handle.index() as usize) else { return false };
        let generation = meta.word_for_reader().readable_generation();
        generation.is_some_and(|generation| handle.is_life_of(self.identity, generation))
            && meta.is_owned_by(self.owner)
            && meta.extent().written() >= needed
    }

    /// Writes the page numbers of handles up to the first that is not readable so, and answers how many. A function of its own with
    /// no call in it: all that it compares with stays in registers.
    #[inline(never)]
    fn fill_readable<M>(self, handles: &[PageHandle<M>], needed: u32, out: &mut [i32]) -> usize {
        let most = handles.len().min(out.len());
        for (at, (handle, cell)) in handles.iter().zip(out).enumerate() {
            if !self.is_readable(handle, needed) {
                return at;
            }
            *cell = handle.index() as i32;
        }
        most
    }
}
