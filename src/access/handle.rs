//! Reading by handle: the check, and the guard that keeps what was checked true. And the unsafe calls of those who have
//! addresses or tickets.
#![expect(unsafe_code, reason = "declares the unsafe calls that take somebody at their word")]

use std::fmt;

use super::PageView;
use crate::error::{ReadError, TicketError};
use crate::handle::PageHandle;
use crate::hazard::{self, Hazard};
use crate::id::OwnerId;
use crate::memory::{HolderProcess, HostBytes, PageMemory};
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
    pub(crate) fn not_owned(&self, handle: &PageHandle<M>, owner: OwnerId, word: StampWord) -> ReadError {
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
        match word.off_limits().filter(|_| same_life) {
            Some(why) => ReadError::off_limits(page, why),
            None => self.stale(handle, word),
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
    /// that were written when it was taken: a page of which nothing is written gives a guard of 0 tokens, where
    /// [`Reservation::read`](crate::Reservation::read), which is told how many, answers [`ReadError::Unwritten`].
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
        Ok(PageGuard { _hazard: hazard, _end: End(inner, handle.index()), view })
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
    /// Pages that were released meanwhile and that this was the last to hold are not zeroed here:
    /// [`maintain`](Self::maintain), a [`Scrubber`](crate::Scrubber), or at the latest the admission that needs them does
    /// it.
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
    ///
    /// # Examples
    ///
    /// A transfer engine reads a page; its completion comes back as a message.
    ///
    /// ```
    /// use pagestamp::{
    ///     CapacityPlan, HolderId, HostMemory, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, Request, TicketId,
    /// };
    /// let geometry = PageGeometry::new(16, &[Plane::per_token(1, 64)])?;
    /// let pool = PagePool::new(PoolConfig::new(6), HostMemory::new(geometry, 6)?)?;
    /// let alice = OwnerId::new(1).ok_or("zero")?;
    /// let mut kv = pool.reserve(&pool.prove(CapacityPlan::new(64))?, Request::new(alice, 16), 16)?;
    /// kv.write(16, &[&[7; 16 * 64]])?;
    ///
    /// let ticket = kv.pin_read(0..1, HolderId(3), Some(1_000))?; // overdue at 1,000 ns of the caller's clock
    /// assert_eq!(kv.release().quarantined_pages, 1); // nobody has the page while it is read
    /// let overdue = pool.overdue_tickets(2_000);
    /// assert_eq!((overdue.len(), overdue[0].holder), (1, HolderId(3))); // shown, and still open
    ///
    /// let message = ticket.to_bits();
    /// let ended = TicketId::from_bits(message).ok_or("no ticket")?;
    /// // SAFETY: (1) the engine reported the transfer's end, after its last access to the page.
    /// unsafe { pool.ticket_done(ended) }?;
    /// pool.maintain(1); // zeroes the page that the ticket had held
    /// assert_eq!(pool.stats().free_pages, 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub unsafe fn ticket_done(&self, id: TicketId) -> Result<(), TicketError> {
        self.end_ticket(id)
    }

    /// Ends a ticket whose holder is gone: the peer's agent is destroyed, or its process is dead. Where the process was named,
    /// [`end_dead_holder`](Self::end_dead_holder) does it without taking the caller at their word. What becomes of its pages
    /// is as after [`ticket_done`](Self::ticket_done).
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

    /// Names the process behind an open ticket, once. When that process has ended, [`end_dead_holder`](Self::end_dead_holder)
    /// and [`end_dead_holders`](Self::end_dead_holders) end the ticket without taking anybody at their word.
    ///
    /// Do it where the ticket is given, where it is known who will use it.
    ///
    /// # Errors
    ///
    /// Nothing changed.
    ///
    /// - [`TicketError::HolderNamed`]: a process was named before.
    /// - [`TicketError::AlreadyDone`], [`TicketError::Unknown`]: counted in `stats`.
    ///
    /// # Safety
    ///
    /// 1. Until the ticket ends, whoever reaches the pages under it is a thread of this process, by loads and stores of the
    ///    CPU: no device, nothing that the kernel reads or writes for it (direct or asynchronous input and output), no
    ///    child, no other process that has the memory from it. What reached them before this call has stopped.
    ///
    /// # Examples
    ///
    /// A worker on the same machine fills a page through shared memory, and is killed.
    ///
    /// ```
    /// use std::process::Command;
    ///
    /// use pagestamp::{
    ///     CapacityPlan, HolderId, HolderProcess, HostMemory, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, Request,
    ///     TicketError,
    /// };
    /// let geometry = PageGeometry::new(16, &[Plane::per_token(1, 64)])?;
    /// let pool = PagePool::new(PoolConfig::new(6), HostMemory::new(geometry, 6)?)?;
    /// let alice = OwnerId::new(1).ok_or("zero")?;
    /// let mut kv = pool.reserve(&pool.prove(CapacityPlan::new(64))?, Request::new(alice, 16), 16)?;
    ///
    /// let mut worker = Command::new("sleep").arg("1000").spawn()?;
    /// let ticket = kv.pin_write(0..1, HolderId(3), None)?;
    /// // SAFETY: (1) the worker alone was told of the page, and it copies by its CPU.
    /// unsafe { pool.name_holder(ticket, HolderProcess::of_child(&worker)?) }?;
    /// kv.release();
    /// assert!(matches!(pool.end_dead_holder(ticket), Err(TicketError::HolderAlive { .. })));
    /// assert_eq!((pool.end_dead_holders(), pool.stats().quarantined_pages), (0, 1));
    ///
    /// worker.kill()?;
    /// worker.wait()?;
    /// assert_eq!(pool.end_dead_holders(), 1);
    /// pool.maintain(1); // zeroes the page
    /// assert_eq!(pool.stats().free_pages, 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub unsafe fn name_holder(&self, id: TicketId, process: HolderProcess) -> Result<(), TicketError> {
        self.set_holder(id, process)
    }

    /// The memory itself, for a kernel of the engine that writes pages by their addresses. From now on all of every page
    /// counts as written to when it is cleaned, whatever its extent says; `stats` shows that addresses were given out.
    ///
    /// # Safety
    ///
    /// 1. The caller writes only pages of a reservation that it has, past the written extent, after
    ///    [`own`](crate::Reservation::own) wherever it forked, published, looked up or rolled back before; and has stopped when it moves
    ///    the extent over them ([`assume_written`](crate::Reservation::assume_written)), releases them, or the owner is
    ///    reclaimed; for tokens that are [pending](crate::Reservation::export) under a step, when that step ends. On a device whatever stands by then in a lane that the memory was told of counts as stopped for a
    ///    release, and for readers on that lane.
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
/// A page that was released meanwhile is not zeroed when its last guard ends: [`maintain`](PagePool::maintain), a
/// [`Scrubber`](crate::Scrubber), or at the latest the admission that needs it does that.
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
struct End<'a, M: PageMemory>(&'a Inner<M>, u32);

impl<M: PageMemory> Drop for End<'_, M> {
    #[inline]
    fn drop(&mut self) {
        self.0.reader_ended(self.1);
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
