//! Tokens of a reservation that outside kernels write, while a step is open.
//!
//! *Owns* what is pending: made ready for a writer, readable by nobody, until the step reports it written or aborted. *Does not
//! know* the kernels.
//!
//! **Invariant.** Pending tokens begin at the written extent, and each step's where those of the step before end. The written
//! extent passes a step's tokens when it [wrote](Reservation::wrote) them, and by nothing else.

use std::ops::Range;

use crate::access::WriteBorrow;
use crate::error::{ExportError, ExtentError, StepError, TicketError, WriteError};
use crate::lease::Core;
use crate::memory::PageMemory;
use crate::pool::Inner;
use crate::reservation::Reservation;
use crate::step::{Export, MAX_EXPORTS, Step, StepId};

/// The first open step that writes a reservation, and where its last pending token is.
pub(crate) struct Exported {
    pub(crate) step: StepId,
    pub(crate) to_tokens: u64,
}

impl<M: PageMemory> Reservation<M> {
    /// Takes the caller's word that an outside kernel wrote the tokens up to `to_tokens`. [`own`](Self::own) makes sure before
    /// the kernel runs that nobody else sees what it writes.
    ///
    /// A lie shows zeros, or this owner's own older bytes: a wrong answer, never another tenant's text.
    ///
    /// # Errors
    ///
    /// The reservation is unchanged.
    ///
    /// - [`ExtentError::PastReserved`], [`ExtentError::Backward`].
    /// - [`ExtentError::Busy`]: a write ticket is open; end it first.
    /// - [`ExtentError::Exported`]: a step writes tokens; it reports them by [`wrote`](Self::wrote).
    /// - [`ExtentError::Shared`]: a page is shared or published; what stood there before the rollback is in it still.
    /// - [`ExtentError::Revoked`].
    pub fn assume_written(&mut self, to_tokens: u64) -> Result<(), ExtentError> {
        let (reserved_tokens, now_tokens) = (self.reserved_tokens(), self.written_tokens());
        if to_tokens > reserved_tokens {
            return Err(ExtentError::PastReserved { to_tokens, reserved_tokens });
        }
        if to_tokens < now_tokens {
            return Err(ExtentError::Backward { to_tokens, now_tokens });
        }
        self.check_not_exported()?;
        self.move_written(now_tokens..to_tokens, true)?;
        self.pool().inner.state.lock().totals.assumed_tokens += to_tokens - now_tokens;
        self.set_written(to_tokens);
        Ok(())
    }

    /// Makes the next `will_write_tokens` tokens *pending* under a step: a kernel that it launches writes them. Answers which they
    /// are. [Tables](crate::table) may name them under this step and later ones.
    ///
    /// Their pages are made ready as for a [`write`](Self::write): nobody reads what gets rewritten, and pages that are shared or
    /// published move to fresh ones, so export before you write tables. Until the step [wrote](Self::wrote) or
    /// [aborted](Self::aborted) them nobody reads these tokens, and the reservation is neither written nor rolled back otherwise.
    /// It may be released: the step keeps its pages.
    ///
    /// Several steps may write on, one behind the other, up to 4 at once; they report in order. Once all of them have ended, what
    /// was not reported counts as aborted.
    ///
    /// # Cost
    ///
    /// O(pages concerned), one lock; allocates nothing.
    ///
    /// # Errors
    ///
    /// The reservation is unchanged.
    ///
    /// - [`ExportError::Step`]: the step is over, or of another pool.
    /// - [`ExportError::NoTokens`], [`ExportError::TooMany`].
    /// - [`ExportError::Write`]: as [`write`](Self::write), or a step that ended had not reported and others are at work still.
    ///
    /// # Examples
    ///
    /// [`SlotMapping`](crate::table::SlotMapping) shows a step that writes.
    pub fn export(&mut self, step: &Step, will_write_tokens: u64) -> Result<Range<u64>, ExportError> {
        if will_write_tokens == 0 {
            return Err(ExportError::NoTokens);
        }
        let (inner, core) = (&self.pool().inner, self.lease().core());
        let borrow = self.borrow().map_err(WriteError::from)?;
        let before = inner.begin_export(self, step.id(), will_write_tokens)?;
        let from_tokens = before.map_or(self.written_tokens(), |last| last.to_tokens);
        let tokens = from_tokens..from_tokens + will_write_tokens;
        match WriteBorrow::prepare_for_step(borrow, tokens.clone(), before.is_some()) {
            Ok(()) => Ok(tokens),
            Err(error) => {
                inner.take_back_export(core, before);
                Err(error.into())
            }
        }
    }

    /// Takes the step's word that it wrote the tokens that were pending under it: they are readable now. Answers how many tokens
    /// are written. Roll back what was not accepted by [`truncate`](Self::truncate).
    ///
    /// A lie shows zeros, or this owner's own older bytes: a wrong answer, never another tenant's text.
    ///
    /// # Errors
    ///
    /// The reservation is unchanged.
    ///
    /// - [`ExportError::NotExported`]: nothing is pending under this step.
    /// - [`ExportError::NotFirst`]: an earlier step has not reported.
    /// - [`ExportError::Step`]: the step is over, or of another pool; or an earlier one ended and had not reported.
    /// - [`ExportError::Write`]: the owner was reclaimed.
    pub fn wrote(&mut self, step: &Step) -> Result<u64, ExportError> {
        let _borrow = self.borrow().map_err(WriteError::from)?;
        let written_tokens = self.written_tokens();
        let to_tokens = self.pool().inner.report_written(self.lease().core(), step.id(), written_tokens)?;
        let moved = self.move_written(written_tokens..to_tokens, true);
        // A page of pending tokens is under no write ticket and is not shared, so only a reclaim comes in between.
        moved.map_err(|_| WriteError::Revoked)?;
        drop(_borrow);
        self.set_written(to_tokens);
        Ok(to_tokens)
    }

    /// Gives up the tokens that were pending under a step, and those of the steps behind it. Whoever was to write them has stopped,
    /// or was never launched; their bytes are in nobody's way.
    ///
    /// Answers where the written and pending tokens end now.
    ///
    /// # Errors
    ///
    /// The reservation is unchanged.
    ///
    /// - [`ExportError::NotExported`]: nothing is pending under this step.
    /// - [`ExportError::Step`]: the step is over, or of another pool.
    /// - [`ExportError::Write`]: the owner was reclaimed.
    pub fn aborted(&mut self, step: &Step) -> Result<u64, ExportError> {
        if self.is_revoked() {
            return Err(WriteError::Revoked.into());
        }
        self.pool().inner.report_aborted(self.lease().core(), step.id())?;
        Ok(self.pending_tokens())
    }

    /// Where the pending tokens end; the written ones when none is pending.
    #[must_use]
    pub fn pending_tokens(&self) -> u64 {
        self.lease().core().exports.last().map_or(self.written_tokens(), |last| last.to_tokens)
    }

    /// Refuses a second writer for pages that a step writes.
    pub(crate) fn check_no_kernel_on(&self, pages: &Range<u32>) -> Result<(), TicketError> {
        if self.check_not_exported().is_ok() {
            return Ok(());
        }
        let page_tokens = u64::from(self.pool().geometry().page_tokens());
        let from = (self.written_tokens() / page_tokens) as u32;
        let to = self.pending_tokens().div_ceil(page_tokens) as u32;
        let both = pages.start.max(from)..pages.end.min(to);
        match self.lease().core().pages.get(both.start).filter(|_| !both.is_empty()) {
            Some(page) => Err(TicketError::Busy { page }),
            None => Ok(()),
        }
    }

    /// Refuses a change of tokens while steps write some. What steps that have all ended did not report counts as aborted.
    #[inline]
    pub(crate) fn check_not_exported(&self) -> Result<(), Exported> {
        let core = self.lease().core();
        if core.exports.is_empty() { Ok(()) } else { self.pool().inner.forget_ended_exports(core) }
    }
}

impl From<Exported> for WriteError {
    fn from(Exported { step, to_tokens }: Exported) -> Self {
        Self::Exported { step, to_tokens }
    }
}

impl From<Exported> for ExtentError {
    fn from(Exported { step, to_tokens }: Exported) -> Self {
        Self::Exported { step, to_tokens }
    }
}

impl<M: PageMemory> Inner<M> {
    fn step_id(&self, sequence: u64) -> Option<StepId> {
        Some(StepId { identity: self.identity, sequence: sequence.try_into().ok()? })
    }

    #[cold]
    fn forget_ended_exports(&self, core: &Core) -> Result<(), Exported> {
        let state = self.state.lock();
        let open = core.exports.iter().find(|export| state.steps.is_open(export.step));
        match open.and_then(|open| self.step_id(open.step)).zip(core.exports.last()) {
            Some((step, last)) => Err(Exported { step, to_tokens: last.to_tokens }),
            None => {
                core.exports.clear();
                Ok(())
            }
        }
    }

    /// Notes what a step will write, and answers what was the last before.
    fn begin_export(&self, kv: &Reservation<M>, step: StepId, tokens: u64) -> Result<Option<Export>, ExportError> {
        let core = kv.lease().core();
        let mut state = self.state.lock();
        self.find_step(&mut state, step)?;
        let is_over = |export: Export| !state.steps.is_open(export.step);
        let (over, count) = (core.exports.iter().filter(|export| is_over(*export)).count(), core.exports.count());
        if over == count {
            core.exports.clear();
        } else if let Some(first) = core.exports.iter().find(|export| over > 0 && !is_over(*export)) {
            let to_tokens = kv.pending_tokens();
            let step = self.step_id(first.step).unwrap_or(step);
            return Err(WriteError::Exported { step, to_tokens }.into());
        }
        let before = core.exports.last();
        let writes_on = before.is_some_and(|last| last.step == step.sequence());
        if core.exports.count() == MAX_EXPORTS && !writes_on {
            return Err(ExportError::TooMany { most: MAX_EXPORTS });
        }
        let from_tokens = before.map_or(kv.written_tokens(), |last| last.to_tokens);
        let (to_tokens, reserved_tokens) = (from_tokens.saturating_add(tokens), kv.reserved_tokens());
        if to_tokens > reserved_tokens {
            return Err(WriteError::PastReserved { to_tokens, reserved_tokens }.into());
        }
        core.exports.push(Export { step: step.sequence(), to_tokens });
        Ok(before)
    }

    /// Undoes what [`begin_export`](Self::begin_export) noted last.
    #[cold]
    fn take_back_export(&self, core: &Core, before: Option<Export>) {
        let _state = self.state.lock();
        match before.zip(core.exports.last()) {
            Some((before, last)) if before.step == last.step => core.exports.push(before),
            _ => core.exports.truncate(core.exports.count() - 1),
        }
    }

    fn report_written(&self, core: &Core, step: StepId, written_tokens: u64) -> Result<u64, ExportError> {
        let mut state = self.state.lock();
        self.find_step(&mut state, step)?;
        let Some(first) = core.exports.first() else { return Err(ExportError::NotExported(step)) };
        if core.exports.find(step.sequence(), written_tokens).is_none() {
            return Err(ExportError::NotExported(step));
        }
        if first.step != step.sequence() {
            let first = self.step_id(first.step).unwrap_or(step);
            let was_open = state.steps.is_open(first.sequence());
            return Err(if was_open { ExportError::NotFirst { step, first } } else { StepError::Over(first).into() });
        }
        core.exports.pop_first();
        state.totals.assumed_tokens += first.to_tokens - written_tokens;
        Ok(first.to_tokens)
    }

    fn report_aborted(&self, core: &Core, step: StepId) -> Result<(), ExportError> {
        let mut state = self.state.lock();
        self.find_step(&mut state, step)?;
        let at = core.exports.iter().position(|export| export.step == step.sequence());
        core.exports.truncate(at.ok_or(ExportError::NotExported(step))?);
        Ok(())
    }

    /// Tokens that a reservation has pending under a step; `None` when there are none. The steps in front of it are open too.
    pub(crate) fn pending_under(&self, kv: &Reservation<M>, step: StepId) -> Result<Option<(u64, u64)>, StepError> {
        let core = kv.lease().core();
        let mut state = self.state.lock();
        self.find_step(&mut state, step)?;
        let Some(found) = core.exports.find(step.sequence(), kv.written_tokens()) else { return Ok(None) };
        let over = core.exports.iter().find(|export| export.to_tokens < found.1 && !state.steps.is_open(export.step));
        match over.and_then(|over| self.step_id(over.step)) {
            Some(over) => Err(StepError::Over(over)),
            None => Ok(Some(found)),
        }
    }
}
