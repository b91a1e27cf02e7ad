//! The unsafe calls that end steps.
#![expect(unsafe_code, reason = "declares the unsafe calls that take somebody at their word")]

use crate::error::{Refused, StepError};
use crate::memory::PageMemory;
use crate::pool::PagePool;
use crate::step::{Step, StepEnd, StepId, StepLoss};

impl<M: PageMemory> PagePool<M> {
    /// Ends a step: all that was launched under it has finished. Pages that were released while it was open, and that wait for
    /// no other step, are zeroed now, or later as the pool is set up.
    ///
    /// Tokens that the step was to write and that were reported neither written nor aborted count as aborted: the end makes
    /// nothing readable.
    ///
    /// # Cost
    ///
    /// O(pages that it lets go), and their zeroing outside the lock.
    ///
    /// # Errors
    ///
    /// Counted in `stats`; nothing changed, and the step comes back.
    ///
    /// - [`StepError::Over`]: somebody revoked it.
    /// - [`StepError::Unknown`]: another pool opened it.
    ///
    /// # Safety
    ///
    /// 1. Whoever used pages under the step, by number or by address, has stopped for good: kernels, copies, threads. On a
    ///    device what stands in a lane that the memory was told of counts as stopped.
    ///
    /// # Examples
    ///
    /// [`open_step`](Self::open_step) shows a step's life.
    pub unsafe fn end_step(&self, step: Step) -> Result<StepEnd, Refused<Step, StepError>> {
        self.close_step(step.id(), false).map_err(|error| Refused::new(step, error))
    }

    /// Ends a step whose value was lost, by an exception or a thread that died: [`open_steps`](Self::open_steps) shows it. Counted
    /// in `stats` apart from the others.
    ///
    /// # Errors
    ///
    /// As [`end_step`](Self::end_step).
    ///
    /// # Safety
    ///
    /// 1. As [`end_step`](Self::end_step), and `loss` says how that is known. Time that has passed proves nothing.
    pub unsafe fn revoke_step(&self, id: StepId, loss: StepLoss) -> Result<StepEnd, StepError> {
        // Each of them is as good; who has none of them must not call this.
        let (StepLoss::NeverLaunched | StepLoss::Finished | StepLoss::DeviceReset | StepLoss::ProcessEnded) = loss;
        self.close_step(id, true)
    }
}
