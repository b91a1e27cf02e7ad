//! How pages become zero: by the release of one's own, by an admission for what it takes, by `maintain`, by a scrubber.
//!
//! *Owns* every call of the memory's `clean` and `poll`. No lock is held while bytes are zeroed. A page is free only after
//! its fence is done, and a page that could not be zeroed is retired, never handed out.

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Inner, PagePool, State, StateGuard};
use crate::config::CleanMode;
use crate::error::ConfigError;
use crate::memory::{CleanPage, Fence, FenceState, Heat, PageMemory};
use crate::pool::state::Fenced;
use crate::stamp::PageState;
use crate::sync::{AtomicBool, Ordering};

/// Pages that a scrubber zeroes at a time.
const SCRUB_PAGES: usize = 64;
/// Batches kept for reuse.
const KEPT_BATCHES: usize = 8;

/// What one call of `maintain` did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Maintained {
    /// Pages whose zeroing was begun.
    pub begun_pages: u64,
    /// Pages that wait for their zeroing.
    pub dirty_pages: u64,
    /// Pages that are being zeroed behind fences.
    pub fenced_pages: u64,
    /// Pages that a guard, a borrow, a ticket or an open step holds.
    pub quarantined_pages: u64,
}

impl State {
    pub(crate) fn keep_batch(&mut self, mut batch: Vec<CleanPage>) {
        if self.batches.len() < KEPT_BATCHES {
            batch.clear();
            self.batches.push(batch);
        }
    }
}

/// Pages in the hand of a thread that cleans them; should the memory panic, they go back to the dirty ones, or wait behind
/// their fence if there is one already: its zeroes are on their way and must not meet a next owner's bytes.
struct InHand<'a, M: PageMemory> {
    inner: &'a Inner<M>,
    batch: Vec<CleanPage>,
    /// Behind which the pages are zero, once it was begun.
    fence: Option<Fence>,
}

impl<M: PageMemory> InHand<'_, M> {
    /// Puts the pages where the answer of the memory says. Counts leave the hand in the same step.
    fn settle(mut self) {
        // The memory speaks first: should it panic here, the pages are in hand still.
        let answer = self.fence.map(|fence| (fence, self.inner.memory.poll(fence)));
        let batch = std::mem::take(&mut self.batch);
        let mut state = self.inner.state.lock();
        state.in_hand -= batch.len() as u64;
        self.inner.settle_batch(&mut state, batch, answer);
    }
}

impl<M: PageMemory> Drop for InHand<'_, M> {
    fn drop(&mut self) {
        if !self.batch.is_empty() {
            let mut state = self.inner.state.lock();
            state.in_hand -= self.batch.len() as u64;
            let batch = std::mem::take(&mut self.batch);
            match self.fence {
                Some(fence) => {
                    state.totals.clean_errors += 1;
                    self.inner.settle_batch(&mut state, batch, Some((fence, FenceState::Pending)));
                }
                None => self.inner.settle_batch(&mut state, batch, None),
            }
        }
    }
}

impl<M: PageMemory> Inner<M> {
    /// Sleeps until a release wakes the scrubber. While fences are open or guards hold pages, which end without a word to
    /// anybody, the sleep is short.
    fn sleep_until_dirtied(&self, state: &mut StateGuard<'_>, stopped: &AtomicBool) {
        // Looked at under the lock, under which the stop is announced too: it cannot slip in between.
        if stopped.load(Ordering::Acquire) {
            return;
        }
        if state.quarantined.is_empty() && state.fenced.is_empty() && state.pending.is_empty() {
            state.wait(&self.dirtied);
        } else {
            self.rest(state, stopped);
        }
    }

    /// Sleeps for a short time, or until the scrubber is stopped: there is work that nobody will announce, or a memory that
    /// refuses it.
    fn rest(&self, state: &mut StateGuard<'_>, stopped: &AtomicBool) {
        const SHORT: Duration = Duration::from_millis(1);
        if !stopped.load(Ordering::Acquire) {
            state.wait_for(&self.dirtied, SHORT);
        }
    }

    /// Zeroes pages that were counted into the caller's hand. Called without the lock.
    pub(crate) fn clean_in_hand(&self, batch: Vec<CleanPage>) {
        let mut hand = InHand { inner: self, batch, fence: None };
        hand.fence = self.begin_clean(&hand.batch).ok();
        hand.settle();
    }

    fn settle_batch(&self, state: &mut State, batch: Vec<CleanPage>, answer: Option<(Fence, FenceState)>) {
        match answer {
            Some((_, FenceState::Done)) => {
                state.totals.pages_cleaned += batch.len() as u64;
                state.totals.bytes_zeroed += self.batch_bytes(&batch);
                batch.iter().for_each(|clean| self.make_free(state, clean.page));
                state.free.settle();
            }
            Some((_, FenceState::Failed)) => batch.iter().for_each(|clean| self.poison(state, clean.page)),
            Some((fence, FenceState::Pending)) => {
                state.totals.bytes_zeroed += self.batch_bytes(&batch);
                state.fenced.push_back(Fenced { fence, pages: batch.iter().map(|clean| clean.page).collect() });
            }
            None => {
                state.totals.clean_errors += 1;
                state.dirty.extend(batch.iter().map(|clean| clean.page));
            }
        }
        state.keep_batch(batch);
    }

    fn batch_bytes(&self, batch: &[CleanPage]) -> u64 {
        let token_bytes = self.memory.geometry().token_bytes();
        batch.iter().map(|clean| u64::from(clean.tokens) * token_bytes).sum()
    }

    /// Takes up to `most` dirty pages into the hand.
    pub(crate) fn take_dirty(&self, state: &mut State, most: usize) -> Vec<CleanPage> {
        let mut batch = state.batches.pop().unwrap_or_default();
        let tick = self.tick();
        for _ in 0..most.min(state.dirty.len()) {
            let Some(page) = state.dirty.pop_front() else { break };
            batch.push(self.clean_page(page, tick));
        }
        state.in_hand += batch.len() as u64;
        batch
    }

    /// Frees pages whose fences are done, retires those whose fences failed. Never waits.
    pub(crate) fn poll_fences(&self, state: &mut State) {
        // A memory may begin only when it is asked. Asked first, so that its own pages are clean in front of all others.
        if state.own_pages_pending
            && let Some(fence) = self.own_pages_clean.get()
        {
            state.own_pages_pending = self.memory.poll(*fence) == FenceState::Pending;
        }
        for _ in 0..state.fenced.len() {
            // Asked before it is taken: should the memory panic, its pages stay where they are.
            let Some(answer) = state.fenced.front().map(|fenced| self.memory.poll(fenced.fence)) else { break };
            let Some(fenced) = state.fenced.pop_front() else { break };
            match answer {
                FenceState::Done => {
                    state.totals.pages_cleaned += fenced.pages.len() as u64;
                    fenced.pages.iter().for_each(|page| self.make_free(state, *page));
                    state.free.settle();
                }
                FenceState::Failed => fenced.pages.iter().for_each(|page| self.poison(state, *page)),
                FenceState::Pending => state.fenced.push_back(fenced),
            }
        }
        self.poll_pending(state);
    }

    /// Looks at fences on behalf of somebody who was told to wait for one.
    #[cold]
    pub(crate) fn look_at_fences(&self) {
        self.poll_fences(&mut self.state.lock());
    }

    /// Lets the host at live pages whose fence is done. Pages whose fence failed stay off limits until they are released.
    fn poll_pending(&self, state: &mut State) {
        for at in (0..state.pending.len()).rev() {
            let answer = self.memory.poll(state.pending[at].fence);
            if answer == FenceState::Pending {
                continue;
            }
            let pending = state.pending.swap_remove(at);
            for page in &pending.pages {
                let meta = self.meta(*page);
                let word = meta.word();
                // The wait was counted as a ticket, so the page is still in the same life or quarantined behind it.
                let off_limits = answer == FenceState::Failed && word.state() == PageState::Live;
                meta.publish(word.unheld().unwrap_or(word).with_pending(off_limits));
            }
            if answer == FenceState::Done {
                state.former.retain(|former| !pending.pages.contains(&former.page));
                // Release: a reader that sees nothing off limits is behind the fence that was looked at here.
                pending.core.off_limits.fetch_sub(1, Ordering::Release);
            }
        }
    }
}

impl<M: PageMemory> PagePool<M> {
    /// Does a bounded piece of what was put off: begins zeroing at most `pages` pages, looks at fences and quarantine.
    ///
    /// Call it from an idle loop when the pool cleans [`Later`](CleanMode::Later), and whenever guards may have ended
    /// without anybody asking for pages since.
    ///
    /// # Cost
    ///
    /// O(pages zeroed + fences + quarantined pages); zeroing is outside the lock.
    #[expect(clippy::must_use_candidate, reason = "done for its effect; the answer is for reports")]
    pub fn maintain(&self, pages: usize) -> Maintained {
        let inner = &*self.inner;
        let mut state = inner.state.lock();
        inner.poll_fences(&mut state);
        inner.collect_quarantine(&mut state);
        let batch = inner.take_dirty(&mut state, pages);
        let begun_pages = batch.len() as u64;
        if batch.is_empty() {
            state.keep_batch(batch);
        } else {
            drop(state);
            inner.clean_in_hand(batch);
            state = inner.state.lock();
        }
        let maintained = Maintained {
            begun_pages,
            dirty_pages: state.dirty.len() as u64,
            fenced_pages: state.fenced.iter().map(|f| f.pages.len() as u64).sum(),
            quarantined_pages: state.in_quarantine(),
        };
        drop(state);
        inner.give_back_parked();
        maintained
    }

    /// Starts a thread that zeroes released pages as they come, until the value is dropped.
    ///
    /// # Errors
    ///
    /// The operating system's, when no thread can be had.
    pub fn start_scrubber(&self) -> std::io::Result<Scrubber> {
        let (inner, pool, stop) = (self.inner.clone(), self.inner.clone(), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let work = move || {
            while !stopped.load(Ordering::Acquire) {
                let mut state = inner.state.lock();
                inner.poll_fences(&mut state);
                inner.collect_quarantine(&mut state);
                let batch = inner.take_dirty(&mut state, SCRUB_PAGES);
                if batch.is_empty() {
                    state.keep_batch(batch);
                    inner.sleep_until_dirtied(&mut state, &stopped);
                } else {
                    let errors = state.totals.clean_errors;
                    drop(state);
                    inner.clean_in_hand(batch);
                    let mut state = inner.state.lock();
                    if state.totals.clean_errors > errors {
                        inner.rest(&mut state, &stopped);
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("pagestamp-scrubber".into()).spawn(work)?;
        let halt = Box::new(move || {
            let _state = pool.state.lock();
            stop.store(true, Ordering::Release);
            pool.dirtied.notify_all();
        });
        Ok(Scrubber { halt, thread: Some(thread) })
    }

    /// Zeroes memory that may hold anybody's bytes, before the pool exists for anybody.
    pub(super) fn clean_before_first_use(&self) -> Result<(), ConfigError> {
        let inner = &*self.inner;
        let page_tokens = inner.page_tokens();
        let whole = |page| CleanPage { page, tokens: page_tokens, heat: Heat::Cold };
        // The pool's own and the parked pages never pass through a release, so they are cleaned here and waited for by
        // nobody: an own page is never readable, a parked one is cleaned once more when it comes back.
        let own: Vec<CleanPage> = (0..inner.config.own_page_count()).map(whole).collect();
        let fence = inner.begin_clean(&own)?;
        inner.own_pages_clean.get_or_init(|| fence);
        inner.state.lock().own_pages_pending = true;
        if inner.config.clean_mode() == CleanMode::OnRelease {
            let mut state = inner.state.lock();
            let batch = inner.take_dirty(&mut state, usize::MAX);
            drop(state);
            if !batch.is_empty() {
                inner.clean_in_hand(batch);
            }
        }
        Ok(())
    }
}

/// A thread that zeroes released pages; ends when dropped.
#[must_use = "dropping the scrubber stops it"]
pub struct Scrubber {
    /// Tells the thread to end, whatever memory its pool has.
    halt: Box<dyn Fn() + Send + Sync>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scrubber").finish_non_exhaustive()
    }
}

impl Drop for Scrubber {
    fn drop(&mut self) {
        (self.halt)();
        if let Some(thread) = self.thread.take() {
            // A scrubber that panicked put its pages back and has nothing more to say.
            let _ = thread.join();
        }
    }
}
