//! Taking pages back from an owner, whatever became of its reservations: isolation never rests on `Drop`.
//!
//! *Owns* `reclaim`, `erase`, `clear` and `close`. What a borrow, a guard or a ticket still holds stays quarantined until
//! that ends; only then is it zeroed and free.

use std::sync::Arc;

use thiserror::Error;

use super::release::{Leaving, Parting, set_status};
use super::state::Former;
use super::{Inner, PagePool, RecordKey, State, Status};
use crate::header::Revocation;
use crate::id::{Generation, OwnerId};
use crate::memory::PageMemory;
use crate::stamp::{Extent, PageState, StampWord};

/// What was taken back from an owner.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Reclaimed {
    /// Reservations and admissions that are revoked now.
    pub revoked: u64,
    /// Pages that left their owner.
    pub pages: u64,
    /// Of these, pages that a guard, a borrow, a ticket or an open step still holds.
    pub quarantined_pages: u64,
}

/// Proof of an erasure: which pages the owner had, and what became of their bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct EraseReceipt {
    /// Whose bytes they were.
    pub owner: OwnerId,
    /// Every page that the owner held, or that has its bytes: quarantined, being cleaned, perhaps in front of the next
    /// owner's lane, or retired because it could not be. Each with the generation that ended.
    pub pages: Vec<(u32, Generation)>,
    /// Bytes zeroed by this call.
    pub bytes_zeroed: u64,
    /// Pages of the list that are not zero: their zeroing waits for a guard, a borrow, a ticket, a step or a device, or it failed
    /// and the page is retired.
    pub in_flight: Vec<u32>,
}

/// Why a pool was not closed. The pool comes back.
#[derive(Debug, Error)]
#[error(
    "{handles} clones, reservations or scrubbers still use the pool, {live_pages} pages are live, {quarantined_pages} held \
     or not zero yet, {tickets} tickets and {steps} steps open; end them"
)]
pub struct CloseError<M: PageMemory> {
    /// The pool, unchanged.
    pub pool: PagePool<M>,
    /// Clones of the pool, reservations, admissions and scrubbers that keep it alive.
    pub handles: u64,
    /// Pages held by owners.
    pub live_pages: u64,
    /// Pages held by guards, borrows, tickets and open steps, or not zeroed yet.
    pub quarantined_pages: u64,
    /// Open tickets.
    pub tickets: u64,
    /// Open steps.
    pub steps: u64,
}

impl<M: PageMemory> PagePool<M> {
    /// Revokes everything that `owner` has, forgotten reservations included. Their pages are released, every handle is stale.
    ///
    /// An owner that has nothing gives an empty answer.
    ///
    /// # Cost
    ///
    /// O(reservations + pages of the owner) under the lock, and O(cached pages) when it has some of these; O(all pages) while
    /// pages are detached.
    #[expect(clippy::must_use_candidate, reason = "done for its effect; the answer is for reports")]
    pub fn reclaim(&self, owner: OwnerId) -> Reclaimed {
        self.inner.reclaim_of(Some(owner))
    }

    /// Revokes everything that anybody has. As if each owner was [reclaimed](Self::reclaim).
    #[expect(clippy::must_use_candidate, reason = "done for its effect; the answer is for reports")]
    pub fn clear(&self) -> Reclaimed {
        self.inner.reclaim_of(None)
    }

    /// Revokes everything that `owner` has, zeroes it now, and answers with a receipt. What was published is cached in the
    /// life after that of its last handle, and stands in the receipt with that life. Its token ids are forgotten with it;
    /// those in [events](Self::take_prefix_events) that nobody took yet are not.
    ///
    /// Pages that a guard, a borrow, a ticket or a device holds stand in [`in_flight`](EraseReceipt::in_flight). End what
    /// holds them, then call `erase` again: its receipt names these pages again and proves the rest.
    ///
    /// # Cost
    ///
    /// O(all pages) under the lock, and the zeroing of the owner's pages outside it.
    ///
    /// # Examples
    ///
    /// ```
    /// use pagestamp::{CapacityPlan, HostMemory, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, Request};
    /// let geometry = PageGeometry::new(16, &[Plane::per_token(1, 64)])?;
    /// let pool = PagePool::new(PoolConfig::new(6), HostMemory::new(geometry, 6)?)?;
    /// let alice = OwnerId::new(1).ok_or("zero")?;
    /// let mut kv = pool.reserve(&pool.prove(CapacityPlan::new(64))?, Request::new(alice, 32), 32)?;
    /// kv.write(32, &[&[7; 32 * 64]])?;
    /// let page = kv.handle(0).ok_or("no page")?;
    /// let reader = pool.read(alice, page)?; // still at work when the tenant leaves
    ///
    /// let receipt = pool.erase(alice);
    /// assert_eq!((receipt.pages.len(), receipt.in_flight), (2, vec![page.index()]));
    /// assert!(kv.is_revoked());
    ///
    /// drop(reader);
    /// let rest = pool.erase(alice);
    /// assert_eq!(rest.pages, [(page.index(), page.generation())]);
    /// assert!(rest.in_flight.is_empty(), "every byte is gone");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[expect(clippy::must_use_candidate, reason = "done for its effect; the answer is for reports")]
    pub fn erase(&self, owner: OwnerId) -> EraseReceipt {
        let inner = &*self.inner;
        // One lock for both: what the owner gets after it is not this erasure's, what it had before is.
        let mut state = inner.state.lock();
        let mut pages = inner.pages_of(&state, owner);
        let former: Vec<Former> = state.former.iter().filter(|former| former.owner == owner).copied().collect();
        let soiled = inner.soiled_bytes(&pages);
        let (_, leaving) = inner.revoke_all_of(&mut state, Some(owner));
        inner.finish_leaving(state, leaving);
        inner.clean_now(&pages);
        let state = inner.state.lock();
        let waits = |at: &usize| !inner.has_left(pages[*at]);
        let in_flight: Vec<usize> = (0..pages.len()).filter(waits).collect();
        let kept: u64 = in_flight.iter().map(|at| soiled[*at]).sum();
        let bytes_zeroed = soiled.iter().sum::<u64>() - kept;
        let mut in_flight: Vec<u32> = in_flight.into_iter().map(|at| pages[at].0).collect();
        for former in former {
            pages.push((former.page, former.ended));
            if state.former.contains(&former) && !in_flight.contains(&former.page) {
                in_flight.push(former.page);
            }
        }
        EraseReceipt { owner, pages, bytes_zeroed, in_flight }
    }

    /// Gives the memory back, if nobody uses the pool any more. It comes back zero, as another pool takes it to be.
    ///
    /// # Cost
    ///
    /// As [`maintain`](Self::maintain) of everything; pages that were retired because they could not be zeroed are given back
    /// to the system and taken anew.
    ///
    /// # Errors
    ///
    /// [`CloseError`], with the pool: reservations, clones, guards, tickets or steps still exist, or a page is not zero.
    pub fn close(self) -> Result<M, CloseError<M>> {
        self.maintain(usize::MAX);
        // Taken first, looked at then: as long as others have the pool they can soil a page after any look.
        match Arc::try_unwrap(self.inner) {
            Ok(inner) => {
                inner.zero_what_is_cached();
                let soiled_pages = inner.zero_what_stayed_soiled();
                let (live_pages, coming_pages, tickets, steps) = inner.in_use();
                let quarantined_pages = coming_pages + soiled_pages;
                if live_pages + quarantined_pages + tickets + steps == 0 {
                    return Ok(inner.memory);
                }
                let pool = Self { inner: Arc::new(inner) };
                Err(CloseError { pool, handles: 0, live_pages, quarantined_pages, tickets, steps })
            }
            Err(inner) => {
                let handles = Arc::strong_count(&inner) as u64 - 1;
                let (live_pages, quarantined_pages, tickets, steps) = inner.in_use();
                Err(CloseError { pool: Self { inner }, handles, live_pages, quarantined_pages, tickets, steps })
            }
        }
    }
}

impl<M: PageMemory> Inner<M> {
    /// Live pages, pages on their way back, open tickets, open steps.
    fn in_use(&self) -> (u64, u64, u64, u64) {
        let state = self.state.lock();
        (state.live, state.coming(), state.tickets.len() as u64, state.steps.open())
    }

    /// Lets go of all cached pages, and zeroes them. Nobody else has the pool.
    fn zero_what_is_cached(&self) {
        let mut state = self.state.lock();
        let leaving = self.evict_all_of(&mut state, None);
        self.put_off(&mut state, leaving.batch);
        self.poll_fences(&mut state);
        self.collect_quarantine(&mut state);
        let batch = self.take_dirty(&mut state, usize::MAX);
        drop(state);
        if !batch.is_empty() {
            self.clean_in_hand(batch);
        }
    }

    /// Makes zero, by giving its memory back and taking it anew, every page that was retired because it could not be cleaned,
    /// and the pool's own pages if somebody had their addresses. Answers how many pages are not zero still.
    ///
    /// Nobody else has the pool.
    fn zero_what_stayed_soiled(&self) -> u64 {
        let is_soiled = |page: &u32| match self.meta(*page).word().state() {
            PageState::Retired => !self.meta(*page).extent().is_untouched(),
            PageState::Reserved => self.outsiders_write(),
            _ => false,
        };
        let mut left = 0;
        for page in (0..self.metas.len() as u32).filter(is_soiled) {
            let renewed = self.memory.decommit(page..page + 1).and_then(|()| self.memory.commit(page..page + 1));
            match renewed {
                Ok(()) => self.meta(page).set_extent(Extent::default()),
                Err(_) => left += 1,
            }
        }
        left
    }

    /// Revokes what an owner has, or everybody, and begins the zeroing of what nobody holds.
    pub(crate) fn reclaim_of(&self, whose: Option<OwnerId>) -> Reclaimed {
        let mut state = self.state.lock();
        let (reclaimed, leaving) = self.revoke_all_of(&mut state, whose);
        self.finish_leaving(state, leaving);
        reclaimed
    }

    /// Revokes, in one batch for all, so that a memory that panics finds none left behind in nobody's hand.
    fn revoke_all_of(&self, state: &mut State, whose: Option<OwnerId>) -> (Reclaimed, Leaving) {
        let is_theirs = |owner| whose.is_none_or(|whose| whose == owner);
        let used = |status| matches!(status, Status::Admitted | Status::Reserved);
        let keys: Vec<RecordKey> =
            state.records.iter().filter(|(_, r)| used(r.status) && is_theirs(r.owner)).map(|(key, _)| key).collect();
        let mut reclaimed = Reclaimed { revoked: keys.len() as u64, ..Reclaimed::default() };
        let mut all = Leaving::default();
        for key in keys {
            let leaving = self.revoke(state, key);
            note(state, &mut reclaimed, &mut all, leaving);
        }
        if state.detached > 0 {
            let leaving = self.let_go_of_detached(state, &is_theirs);
            note(state, &mut reclaimed, &mut all, leaving);
        }
        if state.index.cached() > 0 {
            let leaving = self.evict_all_of(state, whose);
            note(state, &mut reclaimed, &mut all, leaving);
        }
        (reclaimed, all)
    }

    /// Revokes one reservation or admission and lets its pages go.
    fn revoke(&self, state: &mut State, key: RecordKey) -> Leaving {
        self.forget_promise(state, key);
        let Some(core) = state.records.get(key).map(|record| Arc::clone(&record.core)) else {
            return Leaving::default();
        };
        let borrowed = match core.header.revoke() {
            Revocation::Mine => false,
            Revocation::LastBorrower => true,
            Revocation::Before => return Leaving::default(),
        };
        set_status(state, key, if borrowed { Status::Zombie } else { Status::Revoked });
        let leaving = self.let_go_of_list(state, &core, 0, Parting { borrowed, ..Parting::FOR_GOOD });
        if !borrowed {
            core.pages.truncate(0);
        }
        leaving
    }

    fn let_go_of_detached(&self, state: &mut State, whose: &impl Fn(OwnerId) -> bool) -> Leaving {
        let is_theirs = |page: u32| {
            let meta = self.meta(page);
            let word = meta.word();
            word.state() == PageState::Live && word.is_detached() && meta.owner().is_some_and(whose)
        };
        let pages: Vec<u32> = (0..self.metas.len() as u32).filter(|page| is_theirs(*page)).collect();
        state.detached -= pages.len() as u64;
        self.let_go(state, pages.into_iter(), Parting::FOR_GOOD)
    }

    /// Pages that an owner has, or that still carry its name.
    fn pages_of(&self, _locked: &State, owner: OwnerId) -> Vec<(u32, Generation)> {
        let of_owner = |page: u32| {
            let meta = self.meta(page);
            let word = meta.word();
            let is_here = matches!(word.state(), PageState::Live | PageState::Cached);
            let ended = if is_here { word.generation() } else { ended_before(word) };
            (meta.owner() == Some(owner)).then_some((page, ended))
        };
        (0..self.metas.len() as u32).filter_map(of_owner).collect()
    }

    /// Whose bytes a page has that left its owner and is not zero, and in which life they were written.
    pub(super) fn former(&self, page: u32) -> Option<Former> {
        let meta = self.meta(page);
        Some(Former { page, owner: meta.owner()?, ended: ended_before(meta.word()) })
    }

    /// Bytes to zero in each of these pages. Called with the lock held.
    fn soiled_bytes(&self, pages: &[(u32, Generation)]) -> Vec<u64> {
        let token_bytes = if M::HAS_BYTES { self.memory.geometry().token_bytes() } else { 0 };
        let soiled = |page: u32| u64::from(self.clean_page(page, self.tick()).tokens) * token_bytes;
        pages.iter().map(|(page, _)| soiled(*page)).collect()
    }

    /// Says, under the lock, whether the bytes of a life of a page are gone: zeroed, and perhaps somebody else's by now.
    fn has_left(&self, (page, ended): (u32, Generation)) -> bool {
        let meta = self.meta(page);
        let word = meta.word();
        let next_life = word.generation().get() == ended.get() + 1;
        match word.state() {
            PageState::Free | PageState::Parked => true,
            PageState::Retired => meta.extent().is_untouched(),
            // A page that a lane took before its zeroing ended is the next owner's, with this one's bytes in it.
            _ if word.is_pending() => false,
            _ => word.generation().get() > ended.get() && !next_life || next_life && word.state() == PageState::Live,
        }
    }

    /// Zeroes what is dirty among these pages, now.
    fn clean_now(&self, pages: &[(u32, Generation)]) {
        let mut state = self.state.lock();
        self.poll_fences(&mut state);
        self.collect_quarantine(&mut state);
        // Pages of one owner are what is wanted; they are moved to the front, and as many are cleaned.
        let wanted: std::collections::HashSet<u32> = pages.iter().map(|(page, _)| *page).collect();
        let (mine, others): (Vec<u32>, Vec<u32>) = state.dirty.drain(..).partition(|page| wanted.contains(page));
        let count = mine.len();
        state.dirty.extend(mine);
        state.dirty.extend(others);
        if count > 0 {
            let batch = self.take_dirty(&mut state, count);
            drop(state);
            self.clean_in_hand(batch);
        }
    }
}

/// The life before the one that a page which left its owner is in: the bump came with the release.
fn ended_before(word: StampWord) -> Generation {
    Generation::new(word.generation().get().saturating_sub(1)).unwrap_or(Generation::FIRST)
}

fn note(state: &mut State, reclaimed: &mut Reclaimed, all: &mut Leaving, leaving: Leaving) {
    reclaimed.pages += leaving.released.pages;
    reclaimed.quarantined_pages += leaving.released.quarantined_pages;
    all.batch.extend_from_slice(&leaving.batch);
    state.keep_batch(leaving.batch);
}
