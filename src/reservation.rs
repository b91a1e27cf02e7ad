//! The pages of one request.
//!
//! *Owns* the three extents `reserved >= written >= committed`, all in tokens from the beginning of the request. *Does not
//! know* how pages are taken and given back (the pool) nor how bytes are reached ([`access`](crate::access)).
//!
//! Every call that moves an extent takes the new position, not a difference: saying it twice is saying it once.

use std::fmt;
use std::ops::Range;

use crate::access::{Borrow, ReadGuard, WriteBorrow};
use crate::admission::Rejected;
use crate::error::{ExtentError, GrowError, ReadError, Refused, RejectReason, TicketError, WriteError};
use crate::handle::PageHandle;
use crate::id::OwnerId;
use crate::lease::Lease;
use crate::memory::PageMemory;
use crate::plane_writer::{PlaneWriter, check_length};
use crate::pool::{ClaimToken, PagePool, Released};
use crate::prefix::Chain;
use crate::sync::Ordering;
use crate::ticket::{Access, HolderId, TicketId};

/// How far a reservation has come, in tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extents {
    pub(crate) max: u64,
    pub(crate) reserved: u64,
    pub(crate) written: u64,
    pub(crate) committed: u64,
}

/// The pages of one request: reserved, then written, then committed. Dropping it releases them.
///
/// Not `Clone`: who releases it had it alone. `'static`, and it keeps the pool's memory alive.
///
/// # Examples
///
/// ```
/// use pagestamp::{CapacityPlan, NullMemory, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, Request};
/// let geometry = PageGeometry::new(16, &[Plane::per_token(1, 64)])?;
/// let pool = PagePool::new(PoolConfig::new(18), NullMemory::new(geometry, 18)?)?;
/// let proof = pool.prove(CapacityPlan::new(64))?;
/// let owner = OwnerId::new(7).ok_or("zero")?;
///
/// let mut kv = pool.reserve(&proof, Request::new(owner, 64), 17)?; // 17 tokens: 2 pages
/// kv.assume_written(17)?; // a kernel wrote them
/// kv.commit(16)?; // 16 were accepted
/// kv.truncate(16)?; // the draft was not
/// kv.grow(64)?; // within what was admitted: never fails
/// assert_eq!((kv.reserved_tokens(), kv.written_tokens(), kv.committed_tokens()), (64, 16, 16));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It cannot be used after its release, nor copied:
///
/// ```compile_fail,E0382
/// # use pagestamp::*;
/// fn twice(kv: Reservation<NullMemory>) {
///     kv.release();
///     kv.release();
/// }
/// ```
///
/// ```compile_fail,E0277
/// # use pagestamp::*;
/// fn copy(kv: &Reservation<NullMemory>) -> Reservation<NullMemory> {
///     Reservation::clone(kv)
/// }
/// ```
///
/// ```compile_fail,E0382
/// # use pagestamp::*;
/// fn write_what_was_rejected(mut kv: Reservation<NullMemory>) {
///     let _rejected = kv.reject("the transfer failed");
///     let _ = kv.commit(1);
/// }
/// ```
#[must_use = "dropping the reservation releases its pages"]
pub struct Reservation<M: PageMemory> {
    lease: Lease<M>,
    extents: Extents,
    /// Boxed: few have one, and reservations are moved a lot.
    claim: Option<Box<ClaimToken>>,
    /// What of it is published.
    pub(crate) chain: Chain,
}

impl<M: PageMemory> Reservation<M> {
    pub(crate) fn new(lease: Lease<M>, max: u64, reserved: u64) -> Self {
        Self::resume(lease, Extents { max, reserved, written: 0, committed: 0 })
    }

    pub(crate) fn resume(lease: Lease<M>, extents: Extents) -> Self {
        Self { lease, extents, claim: None, chain: Chain::default() }
    }

    pub(crate) fn with_claim(mut self, claim: Option<ClaimToken>) -> Self {
        self.claim = claim.map(Box::new);
        self
    }

    pub(crate) const fn lease(&self) -> &Lease<M> {
        &self.lease
    }

    /// The pool that the pages are of.
    #[must_use]
    pub const fn pool(&self) -> &PagePool<M> {
        self.lease.pool()
    }

    /// Whose pages they are.
    #[must_use]
    pub const fn owner(&self) -> OwnerId {
        self.lease.owner()
    }

    /// Tokens that were admitted: growing so far never fails.
    #[must_use]
    pub const fn max_tokens(&self) -> u64 {
        self.extents.max
    }

    /// Tokens that there are pages for.
    #[must_use]
    pub const fn reserved_tokens(&self) -> u64 {
        self.extents.reserved
    }

    /// Tokens whose bytes are there, in every plane.
    #[must_use]
    pub const fn written_tokens(&self) -> u64 {
        self.extents.written
    }

    /// Tokens that were accepted.
    #[must_use]
    pub const fn committed_tokens(&self) -> u64 {
        self.extents.committed
    }

    /// Pages held.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.lease.core().pages.count()
    }

    /// Says whether the owner was reclaimed: then every call fails, and the pages are gone.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.lease.core().header.is_revoked()
    }

    /// The handle of the page with this ordinal; `None` past the last page, where a window slid past, or when revoked.
    #[must_use]
    pub fn handle(&self, ordinal: u32) -> Option<PageHandle<M>> {
        // A borrow, so that the page is in this life or in quarantine after it when its generation is read.
        let _borrow = self.borrow().ok()?;
        let page = self.lease.core().pages.get(ordinal)?;
        self.lease.pool().inner.handle_while_live(page)
    }

    /// The handles of all pages in order; empty when revoked.
    pub fn handles(&self) -> impl Iterator<Item = PageHandle<M>> {
        let borrow = self.borrow().ok();
        let pages = if borrow.is_some() { self.lease.core().pages.len() } else { 0 };
        (0..pages).filter_map(move |ordinal| {
            let _held = &borrow;
            self.lease.core().pages.get(ordinal).and_then(|page| self.lease.pool().inner.handle_while_live(page))
        })
    }

    #[inline]
    pub(crate) fn borrow(&self) -> Result<Borrow<'_, M>, crate::header::NoBorrow> {
        Borrow::new(&self.lease.pool().inner, self.lease.core())
    }

    /// Makes room for `to_tokens` tokens in all. Up to [`max_tokens`](Self::max_tokens) it cannot fail.
    ///
    /// Beyond that it takes pages that are free and promised to nobody, if there are any.
    ///
    /// # Cost
    ///
    /// O(new pages) under the lock. Allocates nothing within the promise once the list has room.
    ///
    /// # Errors
    ///
    /// The reservation is unchanged.
    ///
    /// - [`GrowError::Backward`]: fewer tokens than now.
    /// - [`GrowError::Full`], [`GrowError::NeverFits`]: past the promise, and not enough is free, now or ever.
    /// - [`GrowError::Revoked`]: the owner was reclaimed.
    pub fn grow(&mut self, to_tokens: u64) -> Result<(), GrowError> {
        let reserved_tokens = self.extents.reserved;
        if to_tokens < reserved_tokens {
            return Err(GrowError::Backward { to_tokens, reserved_tokens });
        }
        let inner = &self.lease.pool().inner;
        let pages = inner.memory.geometry().pages_for_tokens(to_tokens);
        inner.grow(&self.lease, self.extents.max, pages)?;
        self.extents.reserved = to_tokens;
        Ok(())
    }

    /// Appends tokens. `planes[p]` is `[tokens, runs, run_bytes]` of plane `p`, token by token. [`writer`](Self::writer)
    /// takes the planes one after the other.
    ///
    /// # Cost
    ///
    /// One copy. When tokens are rewritten that a reader may still see, also a fresh page and the copy of what is kept.
    ///
    /// # Memory ordering
    ///
    /// Release: a reader that sees the new extent sees the bytes.
    ///
    /// # Errors
    ///
    /// [`WriteError`]: no token counts as written that did not before. After [`WriteError::Memory`] bytes past the written
    /// extent may have changed; nobody can read them, and they are zeroed on release.
    ///
    /// # Examples
    ///
    /// Two tokens in a plane of 4 bytes a token and in one of 2 heads with 3 bytes each:
    ///
    /// ```
    /// use pagestamp::{CapacityPlan, HostMemory, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, Request};
    /// let geometry = PageGeometry::new(16, &[Plane::per_token(1, 4), Plane::per_token(2, 3)])?;
    /// let pool = PagePool::new(PoolConfig::new(6), HostMemory::new(geometry, 6)?)?;
    /// let owner = OwnerId::new(7).ok_or("zero")?;
    /// let mut kv = pool.reserve(&pool.prove(CapacityPlan::new(64))?, Request::new(owner, 16), 16)?;
    ///
    /// let latent = [1, 1, 1, 1, 2, 2, 2, 2]; // token 0, token 1
    /// let heads = [10, 10, 10, 11, 11, 11, 20, 20, 20, 21, 21, 21]; // token 0: head 0, head 1; token 1: the same
    /// kv.write(2, &[&latent, &heads])?;
    ///
    /// let guard = kv.read(0..2)?;
    /// let page = guard.pages().next().ok_or("no page")?;
    /// assert_eq!(page.run(0, 0)?, latent);
    /// assert_eq!(page.run(1, 1)?, [11, 11, 11, 21, 21, 21], "head 1 lies together, whatever the order it came in");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write(&mut self, tokens: u64, planes: &[&[u8]]) -> Result<(), WriteError> {
        let shapes = self.pool().geometry().planes();
        if planes.len() != shapes.len() {
            return Err(WriteError::PlaneCount { given: planes.len(), planes: shapes.len() });
        }
        for (plane, (src, shape)) in planes.iter().zip(shapes).enumerate() {
            check_length(plane, tokens, src, shape.token_bytes())?;
        }
        let range = self.writable(tokens)?;
        let right = WriteBorrow::prepare(self.borrow()?, range)?;
        for (plane, src) in planes.iter().enumerate() {
            right.store(plane, src)?;
        }
        right.publish();
        let end = right.tokens().end;
        drop(right);
        self.extents.written = end;
        Ok(())
    }

    /// Appends tokens plane by plane, as a model computes them layer by layer. They count as written once every plane was
    /// given; dropped earlier, nothing counts.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn writer(&mut self, tokens: u64) -> Result<PlaneWriter<'_, M>, WriteError> {
        let range = self.writable(tokens)?;
        let planes = self.pool().geometry().planes().len();
        let borrow = Borrow::new(&self.lease.pool().inner, self.lease.core())?;
        let right = WriteBorrow::prepare(borrow, range)?;
        Ok(PlaneWriter::new(right, &mut self.extents.written, planes))
    }

    /// Prepares the next `tokens` tokens for being filled in any order, by [`Filling`](crate::filling::Filling) alone.
    pub(crate) fn prepare_filling(&mut self, tokens: u64) -> Result<Range<u64>, WriteError> {
        let range = self.writable(tokens)?;
        WriteBorrow::prepare(self.borrow()?, range.clone())?;
        Ok(range)
    }

    /// The right to fill what [`prepare_filling`](Self::prepare_filling) prepared.
    pub(crate) fn right_to_fill(&mut self, tokens: Range<u64>) -> Result<WriteBorrow<'_, M>, WriteError> {
        Ok(WriteBorrow::again(self.borrow()?, tokens))
    }

    /// Counts tokens as written whose pages say so.
    pub(crate) const fn set_written(&mut self, to_tokens: u64) {
        self.extents.written = to_tokens;
    }

    /// Counts tokens as written and committed whose pages were published.
    pub(crate) fn filled(mut self, to_tokens: u64) -> Self {
        self.extents.written = to_tokens;
        self.extents.committed = to_tokens;
        self
    }

    /// Counts tokens as written and committed whose pages are shared or were copied.
    pub(crate) fn with_extents(mut self, written: u64, committed: u64) -> Self {
        self.extents.written = written;
        self.extents.committed = committed;
        self
    }

    pub(crate) fn with_chain(mut self, chain: Chain) -> Self {
        self.chain = chain;
        self
    }

    /// Lowers what counts as committed, of tokens that were moved here with their drafts.
    pub(crate) fn with_committed(mut self, tokens: u64) -> Self {
        self.extents.committed = self.extents.committed.min(tokens);
        self
    }

    fn writable(&self, tokens: u64) -> Result<Range<u64>, WriteError> {
        self.check_not_exported()?;
        let (written, reserved_tokens) = (self.extents.written, self.extents.reserved);
        let to_tokens = written.saturating_add(tokens);
        if to_tokens > reserved_tokens {
            return Err(WriteError::PastReserved { to_tokens, reserved_tokens });
        }
        Ok(written..to_tokens)
    }

    /// Accepts the tokens up to `to_tokens`. Only these are sealed, published and offered.
    ///
    /// # Errors
    ///
    /// The reservation is unchanged.
    ///
    /// - [`ExtentError::PastWritten`]: not written yet.
    /// - [`ExtentError::Backward`]: fewer than now; [`truncate`](Self::truncate) rolls back.
    pub fn commit(&mut self, to_tokens: u64) -> Result<(), ExtentError> {
        let Extents { written: written_tokens, committed: now_tokens, .. } = self.extents;
        if to_tokens > written_tokens {
            return Err(ExtentError::PastWritten { to_tokens, written_tokens });
        }
        if to_tokens < now_tokens {
            return Err(ExtentError::Backward { to_tokens, now_tokens });
        }
        if self.is_revoked() {
            return Err(ExtentError::Revoked);
        }
        self.extents.committed = to_tokens;
        Ok(())
    }

    /// Rolls back to `to_tokens` written tokens: rejected drafts, a rewound conversation. Pages stay reserved, so that
    /// growing again cannot fail; [`shrink`](Self::shrink) gives them back.
    ///
    /// # Errors
    ///
    /// The reservation is unchanged.
    ///
    /// - [`ExtentError::Upward`]: more than is written.
    /// - [`ExtentError::Slid`]: a window slid past there.
    /// - [`ExtentError::Exported`]: a step writes tokens behind.
    /// - [`ExtentError::Busy`]: a write ticket is open on a page concerned.
    /// - [`ExtentError::Revoked`].
    pub fn truncate(&mut self, to_tokens: u64) -> Result<(), ExtentError> {
        let written_tokens = self.extents.written;
        if to_tokens > written_tokens {
            return Err(ExtentError::Upward { to_tokens, written_tokens });
        }
        self.check_not_slid(to_tokens)?;
        self.check_not_exported()?;
        self.move_written(to_tokens..written_tokens, false)?;
        self.extents.written = to_tokens;
        self.extents.committed = self.extents.committed.min(to_tokens);
        self.chain = self.chain.truncated(self.full_pages());
        Ok(())
    }

    /// Sets the written extent of each page that the tokens touch: to their end, or back to their beginning.
    pub(crate) fn move_written(&self, tokens: Range<u64>, forward: bool) -> Result<(), ExtentError> {
        let _borrow = self.borrow().map_err(|_| ExtentError::Revoked)?;
        let inner = &self.lease.pool().inner;
        let pages = &self.lease.core().pages;
        let page_tokens = u64::from(inner.page_tokens());
        let touched = || (tokens.start / page_tokens..tokens.end.div_ceil(page_tokens)).filter(|_| !tokens.is_empty());
        let page_of = |ordinal: u64| pages.get(ordinal as u32);
        if let Some(page) = touched().filter_map(page_of).find(|page| inner.meta(*page).word_for_reader().is_writing())
        {
            return Err(ExtentError::Busy { page });
        }
        let is_kept = |page: &u32| inner.meta(*page).word_for_reader().is_kept();
        if forward && let Some(page) = touched().filter_map(page_of).find(is_kept) {
            return Err(ExtentError::Shared { page });
        }
        let tick = inner.tick();
        for ordinal in touched() {
            let Some(page) = page_of(ordinal) else { continue };
            let meta = inner.meta(page);
            let edge = if forward { tokens.end } else { tokens.start };
            let written = edge.saturating_sub(ordinal * page_tokens).min(page_tokens) as u32;
            if forward {
                meta.set_extent(meta.extent().with_written(written).whole());
                meta.set_heat(tick);
            } else if !meta.word_for_reader().is_kept() {
                meta.set_extent(meta.extent().with_written(written));
            }
        }
        if forward {
            let bytes = inner.memory.geometry().token_bytes().saturating_mul(tokens.end - tokens.start);
            inner.written_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Gives back the pages past `to_tokens`, and their promise: the request now ends there.
    ///
    /// # Errors
    ///
    /// The reservation is unchanged.
    ///
    /// - [`ExtentError::PastWritten`]: tokens that are written would be cut off; truncate first.
    /// - [`ExtentError::PastReserved`]: more than is reserved.
    /// - [`ExtentError::Exported`]: a step writes tokens behind those written.
    /// - [`ExtentError::Revoked`].
    pub fn shrink(&mut self, to_tokens: u64) -> Result<Released, ExtentError> {
        let Extents { reserved: reserved_tokens, written: written_tokens, .. } = self.extents;
        if to_tokens > reserved_tokens {
            return Err(ExtentError::PastReserved { to_tokens, reserved_tokens });
        }
        if to_tokens < written_tokens {
            return Err(ExtentError::PastWritten { to_tokens, written_tokens });
        }
        self.check_not_exported()?;
        let released = self.lease.pool().inner.shrink(&self.lease, to_tokens).ok_or(ExtentError::Revoked)?;
        self.extents.reserved = to_tokens;
        self.extents.max = to_tokens;
        Ok(released)
    }

    /// Reads written tokens. While the guard lives, neither a reclaim nor a write can change what it shows.
    ///
    /// # Cost
    ///
    /// One read-modify-write on the reservation's own line, and one more when the guard ends: about twice a
    /// [read by handle](PagePool::read) (19 ns against 10, on one machine), which writes to no line that others use.
    ///
    /// # Errors
    ///
    /// - [`ReadError::Unwritten`]: past what is written.
    /// - [`ReadError::Backward`]: a range that runs backward.
    /// - [`ReadError::Slid`]: a window slid past the beginning.
    /// - [`ReadError::Busy`], [`ReadError::Pending`]: an outside writer or a device is at work on one of the pages.
    /// - [`ReadError::Revoked`]: the owner was reclaimed.
    #[inline]
    pub fn read(&self, tokens: Range<u64>) -> Result<ReadGuard<'_, M>, ReadError> {
        let written_tokens = self.extents.written;
        if tokens.end > written_tokens {
            return Err(ReadError::Unwritten { to_tokens: tokens.end, written_tokens });
        }
        if tokens.start > tokens.end {
            return Err(ReadError::Backward { from_tokens: tokens.start, to_tokens: tokens.end });
        }
        let borrow = self.borrow()?;
        let first_tokens = self.first_tokens();
        if tokens.start < first_tokens && !tokens.is_empty() {
            return Err(ReadError::Slid { from_tokens: tokens.start, first_tokens });
        }
        self.check_no_writer(&tokens)?;
        Ok(ReadGuard::new(borrow, tokens))
    }

    /// Looks at each page only while some of the reservation's pages are off limits.
    #[inline]
    fn check_no_writer(&self, tokens: &Range<u64>) -> Result<(), ReadError> {
        // Acquire: behind the bytes of an outside writer whose ticket ended, or the zeroes of a device whose fence is done.
        if self.lease.core().off_limits.load(Ordering::Acquire) == 0 || tokens.is_empty() {
            return Ok(());
        }
        self.check_each_page(tokens)
    }

    #[cold]
    fn check_each_page(&self, tokens: &Range<u64>) -> Result<(), ReadError> {
        let inner = &self.lease.pool().inner;
        inner.look_at_fences();
        let page_tokens = u64::from(inner.page_tokens());
        for ordinal in tokens.start / page_tokens..tokens.end.div_ceil(page_tokens) {
            let Some(page) = self.lease.core().pages.get(ordinal as u32) else { break };
            let word = inner.meta(page).word_for_reader();
            if let Some(why) = word.off_limits() {
                return Err(ReadError::off_limits(page, why));
            }
        }
        Ok(())
    }

    /// Lets an outside party read the pages with these ordinals (a sender, an offload copy) until its ticket ends. The
    /// reservation may be released meanwhile: the pages stay quarantined. [`ticket_done`](PagePool::ticket_done) shows a
    /// ticket's life.
    ///
    /// # Errors
    ///
    /// Nothing was pinned.
    ///
    /// - [`TicketError::Empty`], [`TicketError::OutOfRange`].
    /// - [`TicketError::Unwritten`]: nothing of a page is written.
    /// - [`TicketError::Busy`]: a write ticket is open on a page.
    /// - [`TicketError::Pending`], [`TicketError::CleaningFailed`]: a device cleans a page, or could not.
    /// - [`TicketError::Slid`]: a window slid past a page.
    /// - [`TicketError::TooMany`]: 65,534 tickets and further holders are on a page.
    /// - [`TicketError::Revoked`].
    pub fn pin_read(
        &self,
        pages: Range<u32>,
        holder: HolderId,
        deadline_ns: Option<u64>,
    ) -> Result<TicketId, TicketError> {
        self.lease.pool().inner.pin(&self.lease, pages, Access::Read, holder, deadline_ns)
    }

    /// Lets an outside party write the pages with these ordinals (a remote sender) until its ticket ends. Until then they
    /// cannot be read, and all of each page counts as written to when it is cleaned.
    ///
    /// Several write tickets may be open on one page: ranks that send a slice each.
    ///
    /// # Errors
    ///
    /// Nothing was pinned.
    ///
    /// - [`TicketError::Empty`], [`TicketError::OutOfRange`].
    /// - [`TicketError::Busy`]: somebody reads a page, or a step writes it.
    /// - [`TicketError::Shared`]: a page is shared or published.
    /// - [`TicketError::Pending`], [`TicketError::CleaningFailed`]: a device cleans a page, or could not.
    /// - [`TicketError::Slid`]: a window slid past a page.
    /// - [`TicketError::TooMany`]: 65,534 tickets and further holders are on a page.
    /// - [`TicketError::Revoked`].
    pub fn pin_write(
        &mut self,
        pages: Range<u32>,
        holder: HolderId,
        deadline_ns: Option<u64>,
    ) -> Result<TicketId, TicketError> {
        self.check_no_kernel_on(&pages)?;
        self.lease.pool().inner.pin(&self.lease, pages, Access::Write, holder, deadline_ns)
    }

    /// Confirms that the answer to a claimed request arrived: from now on the pages are like any others.
    pub fn confirm_claim(&mut self) {
        self.end_claim();
    }

    /// Releases the pages: every handle is stale at once, and nobody gets a page before it is zero. A page that another
    /// reservation of the owner shares stays in the life it is in, and its handles with it, until the last of them leaves.
    /// One that was [published](Self::publish) stays with the owner, cached, in its next life.
    ///
    /// # Cost
    ///
    /// O(pages): the stamps under the lock, the zeroing outside it (or later, as the pool is set up).
    #[expect(clippy::must_use_candidate, reason = "done for its effect; the answer is for reports")]
    #[inline]
    pub fn release(mut self) -> Released {
        self.end_claim();
        self.lease.end()
    }

    /// Releases the pages and ends the request for good: `error` stays with the rejection.
    pub fn reject(self, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Rejected {
        let (owner, max_tokens) = (self.owner(), self.extents.max);
        self.release();
        Rejected::new(owner, max_tokens, RejectReason::Caller(error.into()))
    }

    /// Hands the pages to an engine that keeps its own index arrays: from now on the pool only keeps the books, and
    /// [`release_pages`](PagePool::release_pages) takes them back. The promise for growth ends.
    ///
    /// # Errors
    ///
    /// The reservation comes back, unchanged.
    ///
    /// - [`TicketError::Busy`]: a write ticket is open on a page.
    /// - [`TicketError::Shared`]: a page is shared or published.
    /// - [`TicketError::Revoked`]: the owner was reclaimed.
    pub fn into_handles(mut self) -> Result<Vec<PageHandle<M>>, Refused<Self, TicketError>> {
        match self.lease.pool().inner.detach(&self.lease) {
            Ok(handles) => {
                self.end_claim();
                // The record is closed and the pages are the engine's.
                self.lease.take_core();
                Ok(handles)
            }
            Err(error) => Err(Refused::new(self, error)),
        }
    }

    #[inline]
    fn end_claim(&mut self) {
        if let Some(token) = self.claim.take() {
            let key = self.lease.key();
            self.pool().inner.state.lock().claims.end(*token, |core| core.key == key);
        }
    }
}

impl<M: PageMemory> Drop for Reservation<M> {
    /// Pages of a claim that nobody confirmed wait for the next try instead of going back.
    #[inline]
    fn drop(&mut self) {
        if let Some(token) = self.claim.take() {
            let extents = self.extents;
            if let Some(core) = self.lease.take_core() {
                self.lease.pool().inner.keep_claim(*token, core, extents);
            }
        }
    }
}

impl<M: PageMemory> fmt::Debug for Reservation<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("owner", &self.owner())
            .field("pages", &self.pages())
            .field("reserved_tokens", &self.extents.reserved)
            .field("written_tokens", &self.extents.written)
            .field("committed_tokens", &self.extents.committed)
            .finish_non_exhaustive()
    }
}
