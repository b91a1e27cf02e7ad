//! The registry of open steps, and the pages that wait for their ends.
//!
//! *Owns* the rule: a page that is released waits for every step that is open then. A step that is opened later cannot have
//! been told of it. Steps have numbers that only rise, so one number says what a page waits for: all steps that were opened
//! before it left. It goes on when every one of them has ended.
//!
//! **Cost.** One test for a release while no step is open. Else a place in a queue, and the end of a step takes from its front.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use super::release::Leaving;
use super::{Inner, PagePool, State};
use crate::error::{AuditError, StepError};
use crate::hazard;
use crate::memory::PageMemory;
use crate::stamp::PageState;
use crate::step::{Step, StepEnd, StepId, StepInfo};

/// Pages that left between the opening of two steps.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// They wait for steps with lower numbers. The next number there was, and not the newest step that was open: that falls when
    /// the newest ends first.
    before: NonZeroU64,
    pages: usize,
}

/// Open steps, and what waits for them.
#[derive(Debug)]
pub(crate) struct Steps {
    next: NonZeroU64,
    /// Oldest first.
    open: VecDeque<NonZeroU64>,
    /// In the order in which they left.
    pages: VecDeque<u32>,
    /// What each of `pages` waits for, stretch by stretch.
    stretches: VecDeque<Stretch>,
}

impl Steps {
    pub(crate) fn new() -> Self {
        Self { next: NonZeroU64::MIN, open: VecDeque::new(), pages: VecDeque::new(), stretches: VecDeque::new() }
    }

    #[inline]
    pub(crate) fn is_any_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Open steps.
    pub(crate) fn open(&self) -> u64 {
        self.open.len() as u64
    }

    /// Pages that wait.
    pub(crate) fn pages(&self) -> u64 {
        self.pages.len() as u64
    }

    pub(crate) fn waiting(&self) -> impl Iterator<Item = u32> + '_ {
        self.pages.iter().copied()
    }

    pub(crate) fn is_open(&self, sequence: u64) -> bool {
        NonZeroU64::new(sequence).is_some_and(|sequence| self.open.binary_search(&sequence).is_ok())
    }

    /// Lets a page wait for all steps that are open; `false` when none is.
    #[inline]
    fn hold(&mut self, page: u32) -> bool {
        if self.open.is_empty() {
            return false;
        }
        self.pages.push_back(page);
        match self.stretches.back_mut() {
            Some(last) if last.before == self.next => last.pages += 1,
            _ => self.stretches.push_back(Stretch { before: self.next, pages: 1 }),
        }
        true
    }

    /// Pages at the front that wait for no open step any more.
    fn passed(&self) -> usize {
        let oldest = self.open.front().copied();
        let passed = |stretch: &&Stretch| oldest.is_none_or(|oldest| stretch.before <= oldest);
        self.stretches.iter().take_while(passed).map(|stretch| stretch.pages).sum()
    }

    /// Takes as many pages from the front, whole stretches of them.
    fn take(&mut self, pages: usize) -> impl Iterator<Item = u32> + '_ {
        let mut left = pages;
        while let Some(first) = self.stretches.front().filter(|first| first.pages <= left && left > 0) {
            left -= first.pages;
            self.stretches.pop_front();
        }
        self.pages.drain(..pages)
    }
}

impl State {
    /// Puts a page that left where it waits: for the open steps, else for what holds it.
    #[inline]
    pub(super) fn quarantine(&mut self, page: u32) {
        if !self.steps.hold(page) {
            self.quarantined.push(page);
        }
    }

    /// Pages in quarantine, those behind steps included.
    pub(crate) fn in_quarantine(&self) -> u64 {
        self.quarantined.len() as u64 + self.steps.pages()
    }
}

impl<M: PageMemory> PagePool<M> {
    /// Opens a step: an iteration of the engine, whose kernels use pages by their numbers. What is released from now on goes to
    /// nobody before the step has ended. Several may be open at once.
    ///
    /// For whoever gives [tables](crate::table) to kernels. Who reads through guards needs none.
    ///
    /// # Cost
    ///
    /// O(1), one lock.
    ///
    /// # Examples
    ///
    /// ```
    /// use pagestamp::{AdmitError, CapacityPlan, NullMemory, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, Request};
    /// let geometry = PageGeometry::new(16, &[Plane::per_token(1, 64)])?;
    /// let pool = PagePool::new(PoolConfig::new(6), NullMemory::new(geometry, 6)?)?; // 4 pages for requests
    /// let (proof, owner) = (pool.prove(CapacityPlan::new(64))?, OwnerId::new(7).ok_or("zero")?);
    /// let kv = pool.reserve(&proof, Request::new(owner, 64), 64)?;
    ///
    /// let step = pool.open_step(); // and launch kernels that use the pages of `kv`
    /// kv.release();
    /// let Err(AdmitError::Full { request, pending_pages, .. }) = pool.reserve(&proof, Request::new(owner, 64), 64) else {
    ///     return Err("kernels use these pages still".into());
    /// };
    /// assert_eq!((pending_pages, pool.open_steps()[0].waiting_pages), (4, 4));
    ///
    /// // SAFETY: (1) the kernels have finished: there are none in this example.
    /// assert_eq!(unsafe { pool.end_step(step) }.map_err(|refused| *refused.error())?.pages, 4);
    /// assert!(pool.reserve(&proof, request, 64).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_step(&self) -> Step {
        let mut state = self.inner.state.lock();
        let sequence = state.steps.next;
        // 2^64 of them outlive any process.
        state.steps.next = sequence.saturating_add(1);
        state.steps.open.push_back(sequence);
        Step(StepId { identity: self.inner.identity, sequence })
    }

    /// Shows the open steps, oldest first, those whose value was lost included.
    ///
    /// # Cost
    ///
    /// O(open steps x (reservations + stretches of waiting pages)), one lock.
    #[must_use]
    pub fn open_steps(&self) -> Vec<StepInfo> {
        let state = self.inner.state.lock();
        let show = |&sequence: &NonZeroU64| StepInfo {
            id: StepId { identity: self.inner.identity, sequence },
            waiting_pages: state.steps.waiting_for(sequence),
            exports: state.exports_of(sequence.get()),
        };
        state.steps.open.iter().map(show).collect()
    }

    /// Says whether a step is open. False for one that this pool never opened, and not counted.
    #[must_use]
    pub fn step_is_open(&self, id: StepId) -> bool {
        id.identity == self.inner.identity && self.inner.state.lock().steps.is_open(id.sequence())
    }

    /// Ends a step, and lets go on what waited for no other.
    pub(crate) fn close_step(&self, id: StepId, was_lost: bool) -> Result<StepEnd, StepError> {
        let inner = &*self.inner;
        let mut state = inner.state.lock();
        inner.find_step(&mut state, id)?;
        state.steps.open.retain(|open| *open != id.sequence);
        if was_lost {
            state.totals.revoked_steps += 1;
        } else {
            state.totals.step_ends += 1;
        }
        let (end, leaving) = inner.let_go_of_waiting(&mut state);
        inner.finish_leaving(state, leaving);
        Ok(end)
    }
}

impl Steps {
    fn waiting_for(&self, sequence: NonZeroU64) -> u64 {
        self.stretches.iter().filter(|stretch| stretch.before > sequence).map(|stretch| stretch.pages as u64).sum()
    }
}

impl State {
    fn exports_of(&self, step: u64) -> u64 {
        let writes = |record: &&super::state::Record| record.core.exports.iter().any(|export| export.step == step);
        self.records.values().filter(writes).count() as u64
    }
}

impl<M: PageMemory> Inner<M> {
    /// Checks that a step is open. Counts the call when it is not.
    pub(crate) fn find_step(&self, state: &mut State, id: StepId) -> Result<(), StepError> {
        let ours = id.identity == self.identity;
        if ours && state.steps.is_open(id.sequence()) {
            return Ok(());
        }
        state.totals.late_steps += 1;
        let given = ours && id.sequence < state.steps.next;
        Err(if given { StepError::Over(id) } else { StepError::Unknown(id) })
    }

    /// Sends pages that wait for no step any more to cleaning, or to where they wait for what else holds them.
    fn let_go_of_waiting(&self, state: &mut State) -> (StepEnd, Leaving) {
        let passed = state.steps.passed();
        let mut end = StepEnd { pages: passed as u64, ..StepEnd::default() };
        let mut leaving = Leaving::default();
        if passed > 0 {
            hazard::pages_announced(self.identity.pool, &mut state.announced);
            leaving.batch = state.batches.pop().unwrap_or_default();
            let State { steps, quarantined, announced, .. } = state;
            for page in steps.take(passed) {
                let meta = self.meta(page);
                let word = meta.word();
                if word.holds() > 0 || announced.contains(&page) {
                    quarantined.push(page);
                    end.quarantined_pages += 1;
                } else {
                    meta.publish(word.with_state(PageState::Cleaning));
                    leaving.batch.push(self.clean_page(page, self.tick()));
                }
            }
            state.in_hand += leaving.batch.len() as u64;
        }
        end.waiting_pages = state.steps.pages();
        (end, leaving)
    }

    /// What waits is waited for by an open step, and every stretch is as long as it says.
    pub(super) fn audit_steps(&self, state: &State) -> Result<(), AuditError> {
        let steps = &state.steps;
        let counted: usize = steps.stretches.iter().map(|stretch| stretch.pages).sum();
        let rises = steps.stretches.iter().is_sorted_by(|a, b| a.before < b.before);
        if counted != steps.pages.len() || !rises || steps.passed() > 0 {
            return Err(AuditError::Steps { waiting: steps.pages(), counted: counted as u64, open: steps.open() });
        }
        Ok(())
    }
}
