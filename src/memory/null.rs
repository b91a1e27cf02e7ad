//! Memory without bytes.
#![expect(unsafe_code, reason = "implements the unsafe memory trait; reaches no byte")]

use std::ops::Range;

use super::host::{done_only, known};
use super::planes::{check_batch, check_range};
use super::{CleanPage, Fence, FenceState, Lane, MemoryError, PageMemory, Span};
use crate::geometry::PageGeometry;

/// Pages that are only counted: for an engine that keeps the bytes elsewhere and uses a pool as its ledger,
/// and for measuring a pool alone.
///
/// It checks pages, tokens and ranges like the others, and refuses every read and write with
/// [`MemoryError::NoBytes`].
///
/// # Examples
///
/// ```
/// use pagestamp::geometry::{PageGeometry, Plane};
/// use pagestamp::memory::{NullMemory, PageMemory};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let memory = NullMemory::new(PageGeometry::new(16, &[Plane::per_token(1, 1024)])?, 1_000_000)?;
/// assert_eq!(memory.max_pages(), 1_000_000);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NullMemory {
    geometry: PageGeometry,
    max_pages: u32,
}

impl NullMemory {
    /// Names `max_pages` pages and allocates nothing.
    ///
    /// # Errors
    ///
    /// - [`MemoryError::NoPages`]: `max_pages` is zero.
    pub fn new(geometry: PageGeometry, max_pages: u32) -> Result<Self, MemoryError> {
        if max_pages == 0 {
            return Err(MemoryError::NoPages);
        }
        Ok(Self { geometry, max_pages })
    }
}

// SAFETY: (1) to (6) hold of no bytes at all; no read or write answers `Ok`. (7) both are fixed at
// construction.
unsafe impl PageMemory for NullMemory {
    const NAME: &'static str = "null";
    const HAS_BYTES: bool = false;
    const STARTS_DIRTY: bool = false;

    fn geometry(&self) -> &PageGeometry {
        &self.geometry
    }

    fn max_pages(&self) -> u32 {
        self.max_pages
    }

    unsafe fn clean(&self, batch: &[CleanPage]) -> Result<Fence, MemoryError> {
        check_batch(batch, &self.geometry, self.max_pages)?;
        Ok(Fence::DONE)
    }

    fn poll(&self, fence: Fence) -> FenceState {
        done_only(fence)
    }

    fn order_after(&self, fence: Fence, _lane: Lane) -> Result<(), MemoryError> {
        known(fence)
    }

    fn decommit(&self, pages: Range<u32>) -> Result<(), MemoryError> {
        check_range(&pages, self.max_pages)
    }

    fn commit(&self, pages: Range<u32>) -> Result<(), MemoryError> {
        check_range(&pages, self.max_pages)
    }

    unsafe fn write(&self, _at: Span, _src: &[u8]) -> Result<(), MemoryError> {
        Err(MemoryError::NoBytes)
    }

    unsafe fn read(&self, _at: Span, _dst: &mut [u8]) -> Result<(), MemoryError> {
        Err(MemoryError::NoBytes)
    }
}
