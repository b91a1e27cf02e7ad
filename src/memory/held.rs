//! A test double of a device: its fences stay open until a test says otherwise.
#![expect(unsafe_code, reason = "implements the unsafe memory traits by passing on to host memory")]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{CleanPage, Fence, FenceState, HostBytes, HostMemory, HostPlane, Lane, MemoryError, PageMemory, Span};
use crate::geometry::PageGeometry;

/// Host memory that cleans when a test says so: a stand-in for a device whose queue is as slow, or as
/// broken, as the test needs. Not for production.
///
/// [`clean`](PageMemory::clean) opens a fence and zeroes nothing: until the fence is finished the pages
/// keep the bytes of their last tenant, so that whoever hands one out too early hands out exactly what must
/// not be. Finishing zeroes what that `clean` named. A failed fence zeroes nothing.
///
/// Calls on the double take a lock of its own; nothing else does.
///
/// # Examples
///
/// ```
/// use pagestamp::geometry::{PageGeometry, Plane};
/// use pagestamp::memory::{CleanPage, FenceState, Heat, HeldMemory, PageMemory};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let held = HeldMemory::new(PageGeometry::new(16, &[Plane::per_token(1, 64)])?, 4)?;
/// // SAFETY: (1) nobody else has the pages.
/// let fence = unsafe { held.clean(&[CleanPage { page: 0, tokens: 16, heat: Heat::Cold }]) }?;
/// assert_eq!(held.poll(fence), FenceState::Pending);
/// assert_eq!(held.finish_next(), Some(fence));
/// assert_eq!(held.poll(fence), FenceState::Done);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct HeldMemory {
    control: HeldControl,
}

/// The side of a [`HeldMemory`] that a test keeps after the pool took the memory: it finishes and fails fences.
#[derive(Clone, Debug)]
pub struct HeldControl {
    host: Arc<HostMemory>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// The newest fence given out.
    newest: u64,
    open: BTreeMap<u64, Box<[CleanPage]>>,
    failed: BTreeSet<u64>,
    waits: Vec<(Fence, Lane)>,
    refusals: usize,
}

impl State {
    fn poll(&self, fence: Fence) -> FenceState {
        if self.open.contains_key(&fence.raw()) {
            FenceState::Pending
        } else if fence.raw() > self.newest || self.failed.contains(&fence.raw()) {
            FenceState::Failed
        } else {
            FenceState::Done
        }
    }
}

impl HeldMemory {
    /// Maps host memory for `max_pages` pages.
    ///
    /// # Errors
    ///
    /// As [`HostMemory::new`].
    pub fn new(geometry: PageGeometry, max_pages: u32) -> Result<Self, MemoryError> {
        Ok(Self::over(HostMemory::new(geometry, max_pages)?))
    }

    /// Holds back the cleaning of a host memory.
    #[must_use]
    pub fn over(host: HostMemory) -> Self {
        Self { control: HeldControl { host: Arc::new(host), state: Arc::default() } }
    }

    /// The side to keep when a pool takes the memory.
    #[must_use]
    pub fn control(&self) -> HeldControl {
        self.control.clone()
    }
}

impl std::ops::Deref for HeldMemory {
    type Target = HeldControl;

    fn deref(&self) -> &HeldControl {
        &self.control
    }
}

impl HeldControl {
    /// Lists the open fences, oldest first.
    #[must_use]
    pub fn open_fences(&self) -> Vec<Fence> {
        self.state.lock().open.keys().copied().map(Fence::from_raw).collect()
    }

    /// Finishes the oldest open fence: zeroes what its `clean` named. `None` when none is open.
    #[must_use = "`None` says that no fence was open"]
    pub fn finish_next(&self) -> Option<Fence> {
        let mut state = self.state.lock();
        let (fence, batch) = state.open.pop_first()?;
        Some(self.zero_as(fence, &batch, &mut state))
    }

    /// Finishes every open fence, oldest first, and counts them.
    #[expect(clippy::must_use_candidate, reason = "done for its effect; the answer is for reports")]
    pub fn finish_all(&self) -> usize {
        std::iter::from_fn(|| self.finish_next()).count()
    }

    /// Finishes one fence, out of order if it is not the oldest.
    ///
    /// # Errors
    ///
    /// - [`MemoryError::UnknownFence`]: it is not open; nothing changed.
    pub fn finish(&self, fence: Fence) -> Result<(), MemoryError> {
        let mut state = self.state.lock();
        let batch = state.open.remove(&fence.raw()).ok_or(MemoryError::UnknownFence { fence: fence.raw() })?;
        let _ = self.zero_as(fence.raw(), &batch, &mut state);
        Ok(())
    }

    /// Fails the oldest open fence: its pages keep their bytes and it answers [`FenceState::Failed`] from
    /// now on. `None` when none is open.
    #[must_use = "`None` says that no fence was open"]
    pub fn fail_next(&self) -> Option<Fence> {
        let mut state = self.state.lock();
        let (fence, _) = state.open.pop_first()?;
        state.failed.insert(fence);
        Some(Fence::from_raw(fence))
    }

    /// Makes the next `calls` calls of [`clean`](PageMemory::clean) that name a page answer
    /// [`MemoryError::Injected`], in place of what was asked for before.
    pub fn fail_clean_calls(&self, calls: usize) {
        self.state.lock().refusals = calls;
    }

    /// Lists what [`order_after`](PageMemory::order_after) queued, in the order of the calls.
    #[must_use]
    pub fn waits(&self) -> Vec<(Fence, Lane)> {
        self.state.lock().waits.clone()
    }

    /// Under the lock, so that nobody sees the fence done before the zeroes.
    fn zero_as(&self, fence: u64, batch: &[CleanPage], state: &mut State) -> Fence {
        // checked when it was opened; if ever not, it failed
        if self.host.zero_batch(batch).is_err() {
            state.failed.insert(fence);
        }
        Fence::from_raw(fence)
    }
}

// SAFETY: (1), (3) to (7) those of `HostMemory`. (2) `poll` answers `Done` only after `zero_as` zeroed,
// settled, and gave the lock back.
unsafe impl PageMemory for HeldMemory {
    const NAME: &'static str = "held";
    const HAS_BYTES: bool = true;
    const STARTS_DIRTY: bool = false;

    fn geometry(&self) -> &PageGeometry {
        self.host.geometry()
    }

    fn max_pages(&self) -> u32 {
        self.host.max_pages()
    }

    unsafe fn clean(&self, batch: &[CleanPage]) -> Result<Fence, MemoryError> {
        self.host.check_batch(batch)?;
        if batch.is_empty() {
            return Ok(Fence::DONE);
        }
        let mut state = self.state.lock();
        if let Some(left) = state.refusals.checked_sub(1) {
            state.refusals = left;
            return Err(MemoryError::Injected);
        }
        state.newest += 1;
        let fence = state.newest;
        state.open.insert(fence, batch.into());
        Ok(Fence::from_raw(fence))
    }

    fn poll(&self, fence: Fence) -> FenceState {
        self.state.lock().poll(fence)
    }

    fn order_after(&self, fence: Fence, lane: Lane) -> Result<(), MemoryError> {
        let mut state = self.state.lock();
        match state.poll(fence) {
            FenceState::Failed => Err(MemoryError::UnknownFence { fence: fence.raw() }),
            FenceState::Done | FenceState::Pending => {
                state.waits.push((fence, lane));
                Ok(())
            }
        }
    }

    fn decommit(&self, pages: Range<u32>) -> Result<(), MemoryError> {
        self.host.decommit(pages)
    }

    fn commit(&self, pages: Range<u32>) -> Result<(), MemoryError> {
        self.host.commit(pages)
    }

    unsafe fn write(&self, at: Span, src: &[u8]) -> Result<(), MemoryError> {
        // SAFETY: (1) of the caller.
        unsafe { self.host.write(at, src) }
    }

    unsafe fn read(&self, at: Span, dst: &mut [u8]) -> Result<(), MemoryError> {
        // SAFETY: (1) of the caller.
        unsafe { self.host.read(at, dst) }
    }
}

// SAFETY: (1) to (3) those of `HostMemory`.
unsafe impl HostBytes for HeldMemory {
    fn plane(&self, plane: usize) -> Option<HostPlane> {
        self.host.plane(plane)
    }
}
