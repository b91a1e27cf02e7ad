//! How pages leave an owner: the generation rises at once, and nobody gets the page before it is zero.
//!
//! *Owns* the move from live to cleaning or quarantined, for whole reservations and for pages that the engine keeps
//! itself. O(pages), under the lock; zeroing happens outside it.
//!
//! **Order.** All stamps are bumped first, then the readers' hazards are looked at once for the whole batch: see
//! [`hazard`](crate::hazard) for why this order and no other is right.

use std::sync::Arc;

use super::{Inner, PagePool, RecordKey, State, StateGuard, Status};
use crate::error::{ReadError, ReleaseError};
use crate::handle::PageHandle;
use crate::hazard;
use crate::header::Revocation;
use crate::id::OwnerId;
use crate::lease::Core;
use crate::memory::{CleanPage, Heat, PageMemory};
use crate::stamp::{Extent, PageState, StampWord};
use crate::sync::{AtomicU32, Ordering};

/// Ticks of 64 KiB after which a page counts as gone from the cache: half a usual L2.
const HOT_TICKS: u16 = 16;

/// What a release did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Released {
    /// Pages that left their owner.
    pub pages: u64,
    /// Of these, pages that a guard, a borrow, a ticket or an open step still holds: quarantined until it ends.
    pub quarantined_pages: u64,
    /// Pages that left the reservation and stayed with its owner: others hold them, or they are cached.
    pub kept_pages: u64,
    /// The owner had been reclaimed before; there was nothing left to release.
    pub was_revoked: bool,
}

/// In what way a holder leaves its pages.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Parting {
    /// It is revoked while somebody borrows it: until that ends, nobody touches the pages.
    pub(crate) borrowed: bool,
    /// Published pages may stay as cached ones.
    pub(crate) caches: bool,
}

impl Parting {
    /// What was published stays.
    pub(crate) const CACHING: Self = Self { borrowed: false, caches: true };
    /// Nothing stays.
    pub(crate) const FOR_GOOD: Self = Self { borrowed: false, caches: false };
}

/// Pages that have left their owner and still need their zeroing begun. They are counted as in the hand of whoever has
/// this value, who gives it to [`Inner::finish_leaving`].
#[derive(Debug, Default)]
#[must_use = "the pages are in hand until finish_leaving"]
pub(crate) struct Leaving {
    pub(crate) batch: Vec<CleanPage>,
    pub(crate) released: Released,
}

impl<M: PageMemory> Inner<M> {
    /// Ends a reservation or an admission: its promise and its pages go back.
    pub(crate) fn end_lease(&self, core: Arc<Core>) -> Released {
        let mut state = self.state.lock();
        if core.header.is_revoked() {
            drop_revoked(&mut state, core.key);
            return Released { was_revoked: true, ..Released::default() };
        }
        // Only a forgotten guard can still borrow here. Its pages stay quarantined until it ends, if it ever does.
        let borrowed = core.header.borrows() > 0 && core.header.revoke() == Revocation::LastBorrower;
        let leaving = self.let_go_of_list(&mut state, &core, 0, Parting { borrowed, ..Parting::CACHING });
        if borrowed {
            self.forget_promise(&mut state, core.key);
            set_status(&mut state, core.key, Status::Zombie);
        } else {
            state.close_record(core);
        }
        self.finish_leaving(state, leaving)
    }

    /// Gives a record's promised pages back to everyone.
    pub(crate) fn forget_promise(&self, state: &mut State, key: RecordKey) {
        let Some(record) = state.records.get_mut(key) else { return };
        let (owner, promised) = (record.owner, std::mem::take(&mut record.promised));
        state.promised -= promised;
        state.count_out(owner, promised);
    }

    /// Lets go of the pages of a list from ordinal `from` on. The list itself is not shortened.
    pub(crate) fn let_go_of_list(&self, state: &mut State, core: &Core, from: u32, parting: Parting) -> Leaving {
        let first_freed = state.free.mark();
        let mut leaving = Leaving::default();
        for run in core.pages.runs_from(from) {
            let clean = if parting.borrowed { 0 } else { self.free_at_once(state, run) };
            leaving.released.pages += clean as u64;
            let rest = run[clean..].iter().map(|page| page.load(Ordering::Relaxed));
            rest.for_each(|page| self.let_go_of_page(state, parting, page, &mut leaving));
        }
        self.end_letting_go(state, first_freed, &mut leaving);
        leaving
    }

    /// Bumps, then looks at hazards, then sorts the pages into free, cleaning and quarantined.
    pub(crate) fn let_go(&self, state: &mut State, pages: impl Iterator<Item = u32>, parting: Parting) -> Leaving {
        let first_freed = state.free.mark();
        let mut leaving = Leaving::default();
        for page in pages {
            self.let_go_of_page(state, parting, page, &mut leaving);
        }
        self.end_letting_go(state, first_freed, &mut leaving);
        leaving
    }

    /// Frees the pages at the front of a run that nothing holds and nobody wrote, and answers how many. The usual case,
    /// in a loop of its own with nothing else in it: it takes half the time of [`let_go_of_page`](Self::let_go_of_page).
    #[inline]
    fn free_at_once(&self, state: &mut State, run: &[AtomicU32]) -> usize {
        if self.is_crowded(state)
            || !state.quotas.is_empty()
            || state.steps.is_any_open()
            || M::HAS_BYTES && self.outsiders_write()
        {
            return 0;
        }
        let (metas, last) = (&*self.metas, self.config.last_generation());
        let clean = run.iter().take_while(|page| {
            let meta = &metas[page.load(Ordering::Relaxed) as usize];
            let freed = if M::HAS_BYTES && !meta.extent().is_untouched() { None } else { meta.word().freed(last) };
            freed.inspect(|word| meta.free(*word)).is_some()
        });
        let clean = clean.count();
        state.free.extend(run[..clean].iter().map(|page| page.load(Ordering::Relaxed)));
        clean
    }

    fn let_go_of_page(&self, state: &mut State, parting: Parting, page: u32, leaving: &mut Leaving) {
        let meta = self.meta(page);
        if meta.word().is_kept() && self.stays(state, page, parting) {
            leaving.released.kept_pages += 1;
            return;
        }
        leaving.released.pages += 1;
        self.count_page_out(state, page);
        let (word, extent) = (meta.word(), meta.extent());
        // Whoever works under a step may be on the page.
        let waits = parting.borrowed || state.steps.is_any_open();
        let may_be_free = !waits && self.is_clean(extent) && !self.is_crowded(state);
        if let Some(word) = word.freed(self.config.last_generation()).filter(|_| may_be_free) {
            meta.free(word);
            state.free.push(page);
        } else if waits || word.holds() > 0 {
            let word = word.released().with_state(PageState::Quarantined);
            meta.publish(if parting.borrowed { word.held().unwrap_or(word) } else { word });
            state.quarantine(page);
            leaving.released.quarantined_pages += 1;
        } else {
            meta.publish(word.released().with_state(PageState::Cleaning));
            if leaving.batch.is_empty() {
                leaving.batch = state.batches.pop().unwrap_or_default();
            }
            leaving.batch.push(self.clean_page(page, self.tick()));
        }
    }

    /// Says whether more pages are in circulation than should be.
    #[inline]
    pub(super) fn is_crowded(&self, state: &State) -> bool {
        self.metas.len() - state.parked.len() > state.target as usize
    }

    /// Looks at the hazards, after every stamp was bumped.
    #[inline]
    fn end_letting_go(&self, state: &mut State, first_freed: usize, leaving: &mut Leaving) {
        state.live -= leaving.released.pages;
        if !state.just_cached.is_empty() {
            self.list_just_cached(state);
        }
        state.totals.pages_released += leaving.released.pages;
        hazard::pages_announced(self.identity.pool, &mut state.announced);
        if !state.announced.is_empty() {
            self.quarantine_announced(state, first_freed, leaving);
        }
        state.free.settle();
        if !state.quarantined.is_empty() {
            // A scrubber looks again soon: a guard may have ended before it could know that it is waited for.
            self.dirtied.notify_one();
        }
        state.in_hand += leaving.batch.len() as u64;
    }

    /// Says whether nobody can have written a page with this extent.
    fn is_clean(&self, extent: Extent) -> bool {
        !M::HAS_BYTES || (extent.is_untouched() && !self.outsiders_write())
    }

    /// Whether somebody has raw addresses of pages: then all of a page is suspect, whatever its extent says.
    pub(super) fn outsiders_write(&self) -> bool {
        // Relaxed: set before the addresses are given out, by the same caller.
        M::STARTS_DIRTY || self.exposed.load(Ordering::Relaxed)
    }

    /// What the memory has to zero of a page, and how it does that fastest.
    pub(crate) fn clean_page(&self, page: u32, tick: u16) -> CleanPage {
        let meta = self.meta(page);
        let page_tokens = self.page_tokens();
        let tokens = if self.outsiders_write() { page_tokens } else { meta.extent().dirty_tokens(page_tokens) };
        let heat = if tick.wrapping_sub(meta.heat()) < HOT_TICKS { Heat::Hot } else { Heat::Cold };
        CleanPage { page, tokens, heat }
    }

    /// Moves pages that a reader announced out of what was just freed or sent to cleaning.
    #[cold]
    fn quarantine_announced(&self, state: &mut State, first_freed: usize, leaving: &mut Leaving) {
        let announced = std::mem::take(&mut state.announced);
        let mut caught = Vec::new();
        state.free.retain_since(first_freed, |page| {
            let is_caught = announced.contains(&page);
            if is_caught {
                caught.push(page);
            }
            !is_caught
        });
        leaving.batch.retain(|clean| {
            let is_caught = announced.contains(&clean.page);
            if is_caught {
                caught.push(clean.page);
            }
            !is_caught
        });
        for page in &caught {
            let meta = self.meta(*page);
            meta.publish(StampWord::new(meta.word().generation(), PageState::Quarantined));
        }
        leaving.released.quarantined_pages += caught.len() as u64;
        state.quarantined.append(&mut caught);
        state.announced = announced;
    }

    /// Sends quarantined pages that nobody touches any more to cleaning. Zeroes nothing.
    pub(crate) fn collect_quarantine(&self, state: &mut State) {
        if state.quarantined.is_empty() {
            return;
        }
        hazard::pages_announced(self.identity.pool, &mut state.announced);
        let (announced, dirty) = (&state.announced, &mut state.dirty);
        state.quarantined.retain(|page| {
            let meta = self.meta(*page);
            let word = meta.word();
            let held = word.holds() > 0 || announced.contains(page);
            if !held {
                meta.publish(word.with_state(PageState::Cleaning));
                dirty.push_back(*page);
            }
            held
        });
        if !state.dirty.is_empty() {
            self.dirtied.notify_one();
        }
    }

    /// Called by a guard by handle that ended: if its page was released meanwhile, look whether this was the last reader.
    #[inline]
    pub(crate) fn reader_ended(&self, page: u32) {
        if self.meta(page).word_for_reader().state() == PageState::Quarantined {
            self.look_at_quarantine();
        }
    }

    #[cold]
    fn look_at_quarantine(&self) {
        // A busy lock means that somebody works on the lists; the next admission or `maintain` looks again.
        if let Some(mut state) = self.state.try_lock() {
            self.collect_quarantine(&mut state);
        }
    }

    /// Called by the borrow that ended last on a revoked reservation: its pages may go on.
    #[cold]
    pub(crate) fn last_borrow_ended(&self, core: &Core) {
        let mut state = self.state.lock();
        let mut pages = Vec::with_capacity(core.pages.count() as usize);
        core.pages.for_each_from(0, |page| pages.push(page));
        // The last page of a prefix first: it counts as the oldest.
        pages.into_iter().rev().for_each(|page| self.unhold(&mut state, page));
        state.records.remove(core.key);
        self.look_after_holds(&mut state);
    }

    /// Puts pages back for good once they are zero: free, parked if the pool shrinks, retired if their lives are used up.
    pub(crate) fn make_free(&self, state: &mut State, page: u32) {
        let meta = self.meta(page);
        let word = meta.word();
        meta.clear_owner();
        meta.set_extent(Extent::default());
        state.former.retain(|former| former.page != page);
        if word.is_spent(self.config.last_generation()) {
            meta.publish(word.with_state(PageState::Retired));
            state.retired += 1;
            state.epoch += 1;
        } else if self.is_crowded(state) {
            meta.publish(word.with_state(PageState::Parked));
            state.parked.push(page);
            state.parked_resident.push(page);
        } else {
            meta.publish(word.with_state(PageState::Free));
            state.free.push(page);
        }
    }

    /// Takes a page out of circulation that could not be zeroed. It keeps its last owner's name with the bytes, so that an
    /// erasure names it.
    pub(crate) fn poison(&self, state: &mut State, page: u32) {
        let meta = self.meta(page);
        meta.set_extent(meta.extent().whole());
        meta.publish(meta.word().with_state(PageState::Retired));
        state.retired += 1;
        state.totals.poisoned += 1;
        state.epoch += 1;
    }
}

/// Marks what a record stands for. What is revoked is no end of a handoff any more.
pub(crate) fn set_status(state: &mut State, key: RecordKey, status: Status) {
    if matches!(status, Status::Revoked | Status::Zombie) {
        state.end_transfer(key);
    }
    if let Some(record) = state.records.get_mut(key) {
        record.status = status;
    }
}

/// Forgets the record of a reservation that was revoked and whose pages went back.
fn drop_revoked(state: &mut State, key: RecordKey) {
    if state.records.get(key).is_some_and(|record| record.status == Status::Revoked) {
        state.records.remove(key);
    }
}

impl<M: PageMemory> PagePool<M> {
    /// Releases pages that the engine keeps in its own arrays, in the order given: all of them or none.
    ///
    /// For pages that came out of [`Reservation::into_handles`](crate::Reservation::into_handles). Pages of a
    /// reservation are released by that.
    ///
    /// # Cost
    ///
    /// O(n log n) to find a page named twice, then as a release.
    ///
    /// # Errors
    ///
    /// Pool unchanged, whichever handle is wrong.
    ///
    /// - [`ReleaseError::Handle`]: a handle is stale (released before), foreign, or out of range.
    /// - [`ReleaseError::Twice`]: a page stands in the list twice.
    /// - [`ReleaseError::Held`]: a reservation holds the page.
    pub fn release_pages(&self, owner: OwnerId, handles: &[PageHandle<M>]) -> Result<Released, ReleaseError> {
        let inner = &*self.inner;
        find_twice(handles)?;
        let mut state = inner.state.lock();
        for (position, handle) in handles.iter().enumerate() {
            let handle_error = |source| ReleaseError::Handle { position, source };
            let page = inner.check_owned(owner, handle).map_err(handle_error)?;
            if !inner.meta(page).word().is_detached() {
                return Err(ReleaseError::Held { position, page });
            }
        }
        state.detached -= handles.len() as u64;
        let leaving = inner.let_go(&mut state, handles.iter().map(PageHandle::index), Parting::FOR_GOOD);
        Ok(inner.finish_leaving(state, leaving))
    }
}

impl<M: PageMemory> Inner<M> {
    /// Checks, under the lock, that `owner` holds the page that a handle names, whatever a writer does with it.
    pub(crate) fn check_owned(&self, owner: OwnerId, handle: &PageHandle<M>) -> Result<u32, ReadError> {
        let meta = self.find(handle)?;
        let word = meta.word();
        if word.state() != PageState::Live || word.generation() != handle.generation() {
            return Err(self.stale(handle, word));
        }
        if meta.owner() != Some(owner) {
            return Err(ReadError::ForeignOwner { page: handle.index(), asked_owner: owner });
        }
        Ok(handle.index())
    }

    /// Begins the zeroing of pages that left, outside the lock, or queues it.
    #[inline]
    pub(crate) fn finish_leaving(&self, mut state: StateGuard<'_>, leaving: Leaving) -> Released {
        // A promise that ended may have been what kept free pages in circulation.
        self.park_surplus(&mut state);
        if !leaving.batch.is_empty() {
            self.clean_leaving(state, leaving.batch);
        }
        leaving.released
    }

    fn clean_leaving(&self, mut state: StateGuard<'_>, batch: Vec<CleanPage>) {
        if self.config.clean_mode() == crate::config::CleanMode::Later {
            self.put_off(&mut state, batch);
        } else {
            drop(state);
            self.clean_in_hand(batch);
        }
    }

    /// Queues the zeroing of pages that are in the caller's hand.
    pub(super) fn put_off(&self, state: &mut State, batch: Vec<CleanPage>) {
        state.in_hand -= batch.len() as u64;
        state.dirty.extend(batch.iter().map(|clean| clean.page));
        state.keep_batch(batch);
        self.dirtied.notify_one();
    }
}

/// Finds a page that a list of handles names twice.
pub(crate) fn find_twice<M>(handles: &[PageHandle<M>]) -> Result<(), ReleaseError> {
    let mut order: Vec<usize> = (0..handles.len()).collect();
    order.sort_unstable_by_key(|at| (handles[*at].pool(), handles[*at].index(), *at));
    for pair in order.windows(2) {
        let (first, second) = (&handles[pair[0]], &handles[pair[1]]);
        if (first.pool(), first.index()) == (second.pool(), second.index()) {
            return Err(ReleaseError::Twice { position: pair[1], page: second.index() });
        }
    }
    Ok(())
}
