//! Capacity that changes at run time: pages park and unpark, addresses never move.
//!
//! *Owns* `resize`, `suspend`, `resume`, and the giving back of physical memory. The memory is called outside the pool's
//! lock, one of these operations at a time.

use std::collections::HashSet;

use super::{Inner, PagePool, State, StateGuard, Status};
use crate::error::{ResizeError, SuspendError};
use crate::memory::PageMemory;
use crate::stamp::PageState;

/// How far a resize has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Resized {
    /// The pool has the new size.
    Done {
        /// Pages in circulation.
        pages: u32,
    },
    /// It shrinks as pages come back; nothing live or promised is touched.
    Pending {
        /// Pages wanted.
        target_pages: u32,
        /// Pages in circulation still.
        pages: u32,
    },
}

/// How far a suspension has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Suspended {
    /// The memory was given back.
    Done {
        /// Reservations that were revoked by this call.
        revoked: u64,
    },
    /// Pages are still held by guards or fences; call again when they ended. No admissions are given meanwhile.
    Pending {
        /// Pages that something still holds.
        in_flight_pages: u64,
    },
}

impl<M: PageMemory> PagePool<M> {
    /// Changes how many pages are in circulation, the pool's own included. Growing takes parked pages back; shrinking parks
    /// free ones that are not promised, evicts cached ones, and parks the rest as they come back.
    ///
    /// Raises the capacity epoch: proofs are checked against the plan again.
    ///
    /// # Cost
    ///
    /// O(pages that move).
    ///
    /// # Errors
    ///
    /// Pool unchanged.
    ///
    /// - [`ResizeError::PastMax`], [`ResizeError::NoPages`]: out of range.
    /// - [`ResizeError::Suspended`]: resume first.
    /// - [`ResizeError::Memory`]: parked memory could not be had back.
    pub fn resize(&self, pages: u32) -> Result<Resized, ResizeError> {
        let inner = &*self.inner;
        let own_pages = inner.config.own_page_count();
        if pages > self.max_pages() {
            return Err(ResizeError::PastMax { pages, max_pages: self.max_pages() });
        }
        if pages <= own_pages {
            return Err(ResizeError::NoPages { pages, own_pages });
        }
        let _one_at_a_time = inner.state.lock_resizing();
        let mut state = inner.state.lock();
        if state.suspended {
            return Err(ResizeError::Suspended);
        }
        let (now, before) = (inner.circulating(&state), state.target);
        // The wish comes first: pages that are released while the lock is free below are not parked again.
        state.target = pages;
        if pages > now {
            state = inner.unpark(state, pages - now, before)?;
        }
        state.epoch += 1;
        inner.park_surplus(&mut state);
        let leaving = inner.evict_surplus(&mut state);
        inner.finish_leaving(state, leaving);
        let now = inner.circulating(&inner.state.lock());
        inner.decommit_parked();
        Ok(if now == pages { Resized::Done { pages } } else { Resized::Pending { target_pages: pages, pages: now } })
    }

    /// Gives the memory back while the pool is not used (an engine that sleeps): revokes all reservations, cleans all pages,
    /// and refuses admissions until [`resume`](Self::resume).
    ///
    /// # Errors
    ///
    /// - [`SuspendError::Busy`]: admissions wait for their pages, or tickets or steps are open. Pool unchanged.
    /// - [`SuspendError::Memory`]: the system refused; the pool stays suspended and keeps its memory. Call again.
    pub fn suspend(&self) -> Result<Suspended, SuspendError> {
        let inner = &*self.inner;
        let _one_at_a_time = inner.state.lock_resizing();
        {
            let mut state = inner.state.lock();
            let waiting = state.records.values().filter(|record| record.status == Status::Admitted);
            let promised_pages = waiting.map(|record| record.promised).sum();
            let (tickets, steps) = (state.tickets.len() as u64, state.steps.open());
            if promised_pages > 0 || tickets > 0 || steps > 0 {
                return Err(SuspendError::Busy { promised_pages, tickets, steps });
            }
            state.suspended = true;
            state.epoch += 1;
        }
        let revoked = inner.reclaim_of(None).revoked;
        self.maintain(usize::MAX);
        let state = inner.state.lock();
        let in_flight_pages = state.coming() + state.live;
        if in_flight_pages > 0 {
            return Ok(Suspended::Pending { in_flight_pages });
        }
        drop(state);
        inner.memory.decommit(0..self.max_pages())?;
        Ok(Suspended::Done { revoked })
    }

    /// Takes the memory back after a [`suspend`](Self::suspend). Old handles stay stale.
    ///
    /// # Errors
    ///
    /// - [`SuspendError::NotSuspended`]: nothing to resume.
    /// - [`SuspendError::Memory`]: the memory could not be had; the pool stays suspended.
    pub fn resume(&self) -> Result<(), SuspendError> {
        let inner = &*self.inner;
        let _one_at_a_time = inner.state.lock_resizing();
        if !inner.state.lock().suspended {
            return Err(SuspendError::NotSuspended);
        }
        inner.memory.commit(0..self.max_pages())?;
        let mut state = inner.state.lock();
        state.suspended = false;
        state.epoch += 1;
        Ok(())
    }
}

impl<M: PageMemory> Inner<M> {
    fn circulating(&self, state: &State) -> u32 {
        (self.metas.len() - state.parked.len()) as u32
    }

    /// Brings parked pages back: with their memory, and clean. When the memory refuses, the target is again what it was
    /// `before`.
    fn unpark<'a>(&'a self, state: StateGuard<'a>, count: u32, before: u32) -> Result<StateGuard<'a>, ResizeError> {
        let from = state.parked.len().saturating_sub(count as usize);
        let pages: Vec<u32> = state.parked[from..].to_vec();
        drop(state);
        // Parked pages are touched by resizes only, and those come one at a time.
        let committed = runs_of(pages.clone()).try_for_each(|run| self.memory.commit(run));
        let mut state = self.state.lock();
        if let Err(error) = committed {
            state.target = before;
            // A proof that was made meanwhile saw more than there is.
            state.epoch += 1;
            self.park_surplus(&mut state);
            return Err(error.into());
        }
        let coming: HashSet<u32> = pages.iter().copied().collect();
        state.parked.retain(|page| !coming.contains(page));
        state.parked_resident.retain(|page| !coming.contains(page));
        for page in pages.into_iter().rev() {
            let meta = self.meta(page);
            if meta.extent().is_untouched() {
                meta.publish(meta.word().with_state(PageState::Free));
                state.free.push(page);
            } else {
                // Foreign memory that was never in circulation.
                meta.publish(meta.word().with_state(PageState::Cleaning));
                state.dirty.push_back(page);
            }
        }
        Ok(state)
    }

    /// Parks free pages that no promise needs, as long as too many are in circulation.
    #[inline]
    pub(super) fn park_surplus(&self, state: &mut State) {
        if self.is_crowded(state) {
            self.park(state);
        }
    }

    #[cold]
    fn park(&self, state: &mut State) {
        let surplus = self.circulating(state).saturating_sub(state.target);
        let count = u64::from(surplus).min(state.unpromised()) as usize;
        for page in state.free.take_last(count) {
            let meta = self.meta(page);
            meta.publish(meta.word().with_state(PageState::Parked));
            state.parked.push(page);
            state.parked_resident.push(page);
        }
    }

    /// Gives the memory of parked pages back, when nobody resizes just now.
    pub(crate) fn give_back_parked(&self) {
        if let Some(_one_at_a_time) = self.state.try_lock_resizing() {
            self.decommit_parked();
        }
    }

    /// Gives the memory of parked pages back. Called with `resizing` held.
    fn decommit_parked(&self) {
        let pages = std::mem::take(&mut self.state.lock().parked_resident);
        for run in runs_of(pages) {
            // A refusal costs memory, not safety: the pages are parked and zero either way.
            let _ = self.memory.decommit(run);
        }
    }
}

/// Cuts a set of pages into runs of neighbours.
fn runs_of(mut pages: Vec<u32>) -> impl Iterator<Item = std::ops::Range<u32>> {
    pages.sort_unstable();
    let mut at = 0;
    std::iter::from_fn(move || {
        let first = *pages.get(at)?;
        let mut end = first;
        while pages.get(at) == Some(&end) {
            at += 1;
            end += 1;
        }
        Some(first..end)
    })
}
