//! The lock on the pool's state, and those who wait for room.
//!
//! *Owns* the moment in which callbacks run: at every unlocking of the state, so that no way of freeing pages can forget them,
//! and outside every lock. *Does not know* who frees pages.
//!
//! **One runs at a time.** A callback may call the pool; what comes due by that is run by whoever runs callbacks already, behind
//! the one at hand: so callbacks never nest. While the pool is resized none runs, and the end of the resize looks again.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::{PagePool, State};
use crate::memory::PageMemory;

type Callback = Box<dyn FnOnce() + Send>;

/// Names one who waits for room, to [cancel](PagePool::cancel_on_room) it. Never used twice within the life of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RoomId(u64);

struct Waiter {
    id: RoomId,
    pages: u64,
    callback: Callback,
}

/// Those who wait for room.
pub(crate) struct Waiting {
    /// In the order in which they came.
    waiters: Vec<Waiter>,
    next: u64,
    /// Somebody runs callbacks, and will look again.
    is_running: bool,
    aside: Arc<Aside>,
}

/// What is looked at beside the state.
#[derive(Debug)]
struct Aside {
    /// Serialises resize, suspend and resume, which call the memory outside the state's lock.
    resizing: Mutex<()>,
}

impl Waiting {
    pub(crate) fn new() -> Self {
        let aside = Arc::new(Aside { resizing: Mutex::new(()) });
        Self { waiters: Vec::new(), next: 0, is_running: false, aside }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    pub(crate) fn len(&self) -> u64 {
        self.waiters.len() as u64
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("waiters", &self.waiters.len()).finish_non_exhaustive()
    }
}

impl State {
    /// Says whether an admission for so many pages would find them: free, or to be had by zeroing or eviction. It evicts no
    /// more than what is not on its way back.
    fn has_room(&self, pages: u64) -> bool {
        if self.unpromised() + self.dirty.len() as u64 >= pages {
            return true;
        }
        let missing = pages.saturating_sub(self.unpromised() + self.coming_surely()) as usize;
        missing > 0 && self.index.loose_pages().take(missing).count() == missing
    }

    /// Says whether a callback is due that nobody will run but who asks.
    fn is_any_due(&self) -> bool {
        let Waiting { waiters, is_running, aside, .. } = &self.waiting;
        let nobody_looks = !is_running && !aside.resizing.is_locked();
        nobody_looks && waiters.iter().any(|waiter| self.has_room(waiter.pages))
    }

    fn take_due(&mut self) -> Vec<Callback> {
        let mut waiters = std::mem::take(&mut self.waiting.waiters);
        let due = waiters.extract_if(.., |waiter| self.has_room(waiter.pages));
        let due = due.map(|waiter| waiter.callback).collect();
        self.waiting.waiters = waiters;
        due
    }
}

/// The pool's one lock.
pub(crate) struct StateLock {
    state: Mutex<State>,
    aside: Arc<Aside>,
}

impl StateLock {
    pub(crate) fn new(state: State) -> Self {
        let aside = Arc::clone(&state.waiting.aside);
        Self { state: Mutex::new(state), aside }
    }

    #[inline]
    pub(crate) fn lock(&self) -> StateGuard<'_> {
        StateGuard(self.state.lock())
    }

    #[inline]
    pub(crate) fn try_lock(&self) -> Option<StateGuard<'_>> {
        self.state.try_lock().map(StateGuard)
    }

    pub(crate) fn lock_resizing(&self) -> ResizeGuard<'_> {
        ResizeGuard { _resizing: self.aside.resizing.lock(), _look: Look(self) }
    }

    pub(crate) fn try_lock_resizing(&self) -> Option<ResizeGuard<'_>> {
        Some(ResizeGuard { _resizing: self.aside.resizing.try_lock()?, _look: Look(self) })
    }
}

impl fmt::Debug for StateLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateLock").finish_non_exhaustive()
    }
}

/// The state, locked.
pub(crate) struct StateGuard<'a>(MutexGuard<'a, State>);

impl StateGuard<'_> {
    /// Sleeps until `condvar` is notified, unless somebody waits for what is here now.
    pub(super) fn wait(&mut self, condvar: &Condvar) {
        if !self.is_any_due() {
            condvar.wait(&mut self.0);
        }
    }

    /// As [`wait`](Self::wait), for so long at the most.
    pub(super) fn wait_for(&mut self, condvar: &Condvar, timeout: std::time::Duration) {
        if !self.is_any_due() {
            condvar.wait_for(&mut self.0, timeout);
        }
    }

    /// Runs the callbacks that are due until none is, with the lock free while they run.
    #[cold]
    fn run_due(&mut self) {
        while self.is_any_due() {
            let due = self.take_due();
            self.waiting.is_running = true;
            let panics = MutexGuard::unlocked(&mut self.0, || due.into_iter().map(run).sum::<u64>());
            self.waiting.is_running = false;
            self.totals.callback_panics += panics;
        }
    }
}

/// Whoever frees pages is not whom a panic should hit: it is caught, and counted as 1.
fn run(callback: Callback) -> u64 {
    let Err(payload) = catch_unwind(AssertUnwindSafe(callback)) else { return 0 };
    // Its drop is the caller's code too.
    std::mem::forget(payload);
    1
}

impl Deref for StateGuard<'_> {
    type Target = State;

    #[inline]
    fn deref(&self) -> &State {
        &self.0
    }
}

impl DerefMut for StateGuard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut State {
        &mut self.0
    }
}

impl Drop for StateGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.0.waiting.is_empty() {
            self.run_due();
        }
    }
}

/// Nobody else resizes, and no callback runs, until it is dropped.
pub(crate) struct ResizeGuard<'a> {
    // Dropped in this order.
    _resizing: MutexGuard<'a, ()>,
    _look: Look<'a>,
}

/// Looks whether a callback came due while none ran.
struct Look<'a>(&'a StateLock);

impl Drop for Look<'_> {
    fn drop(&mut self) {
        drop(self.0.lock());
    }
}

impl<M: PageMemory> PagePool<M> {
    /// Has `callback` called once, when there is room for `pages` pages beyond what is promised: free ones, and those that an
    /// admission gets by zeroing or eviction. `None`, and it is not called, when there is room now: ask for it.
    ///
    /// For whoever was told `Full` and waits. Whichever call brings the pages calls back, on its thread, when it holds no lock;
    /// the callback may call the pool. Keep it short: wake somebody. Those of a pool run one after the other. Room is for whoever
    /// asks first, so that a request may be told `Full` again; and it is the pool's: an owner's quota is not looked at.
    ///
    /// Pages that guards held when they were released come back when somebody looks: call [`maintain`](Self::maintain) now and
    /// then, or start a [`Scrubber`](crate::Scrubber).
    ///
    /// A callback that panics is counted in `stats`, and the panic goes no further. One that holds a clone of the pool keeps it
    /// alive until it was called.
    ///
    /// # Cost
    ///
    /// One allocation, one lock. While anybody waits, each unlocking of the pool looks at all who do.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// use pagestamp::{CapacityPlan, NullMemory, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, Request};
    /// let geometry = PageGeometry::new(16, &[Plane::per_token(1, 64)])?;
    /// let pool = PagePool::new(PoolConfig::new(6), NullMemory::new(geometry, 6)?)?; // 4 pages for requests
    /// let (proof, owner) = (pool.prove(CapacityPlan::new(64))?, OwnerId::new(7).ok_or("zero")?);
    /// let kv = pool.reserve(&proof, Request::new(owner, 64), 16)?;
    ///
    /// let (wake, woken) = mpsc::channel();
    /// assert!(pool.on_room(2, move || drop(wake.send(()))).is_some());
    /// assert!(woken.try_recv().is_err());
    /// kv.release();
    /// assert_eq!(woken.try_recv(), Ok(()));
    /// assert!(pool.on_room(2, || unreachable!("there is room")).is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "without an answer to wait for there is room now, and nobody calls"]
    pub fn on_room(&self, pages: u64, callback: impl FnOnce() + Send + 'static) -> Option<RoomId> {
        let callback: Callback = Box::new(callback);
        let mut state = self.inner.state.lock();
        if state.has_room(pages) {
            drop(state);
            return None;
        }
        let id = RoomId(state.waiting.next);
        state.waiting.next += 1;
        state.waiting.waiters.push(Waiter { id, pages, callback });
        Some(id)
    }

    /// Forgets a callback; `false` when it was called, or is about to be.
    #[expect(clippy::must_use_candidate, reason = "done for its effect; the answer is for reports")]
    pub fn cancel_on_room(&self, id: RoomId) -> bool {
        let mut state = self.inner.state.lock();
        let at = state.waiting.waiters.iter().position(|waiter| waiter.id == id);
        let cancelled = at.map(|at| state.waiting.waiters.remove(at));
        drop(state);
        // What it holds is dropped here, outside the lock.
        cancelled.is_some()
    }
}
