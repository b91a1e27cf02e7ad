//! Memory that the engine allocated and keeps.
#![expect(unsafe_code, reason = "implements the unsafe memory traits over planes that it is told of")]

use std::ops::Range;
use std::ptr::NonNull;

use super::host::{done_only, known};
use super::outside::{OutsidePlane, check_planes};
use super::planes::{Padding, Planes, check_range};
use super::{CleanPage, Fence, FenceState, Heat, HostBytes, HostPlane, Lane, MemoryError, PageMemory, Span};
use crate::geometry::PageGeometry;

/// A plane that somebody else allocated: page `i` begins at `base + i * stride_bytes`.
///
/// Planes may be interleaved, as K and V in one tensor are: between the pages of one may lie those of
/// another. `Debug` shows no address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ForeignPlane {
    /// Where page 0 begins.
    pub base: NonNull<u8>,
    /// From the beginning of a page to the beginning of the next.
    pub stride_bytes: u64,
    /// Bytes from `base` that belong to the plane, other planes' bytes between its pages counted; the last
    /// page needs no padding.
    pub len_bytes: u64,
}

impl std::fmt::Debug for ForeignPlane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ForeignPlane")
            .field("stride_bytes", &self.stride_bytes)
            .field("len_bytes", &self.len_bytes)
            .finish_non_exhaustive()
    }
}

/// Pages in planes that the engine allocated, such as its tensors. Nothing here is ever unmapped, and
/// nothing between the pages touched.
///
/// Making one zeroes nothing, and what the planes held before is somebody's:
/// [`STARTS_DIRTY`](PageMemory::STARTS_DIRTY) tells a pool to clean every page before its first issue.
/// [`scrub`](Self::scrub) does it at once.
///
/// Whether the bytes reach core dumps, forked children or a swap device is the engine's to decide as well.
///
/// The engine can write these pages behind the library's back, so a pool considers the whole of a page dirty.
///
/// # Examples
///
/// ```
/// use std::ptr::NonNull;
///
/// use pagestamp::geometry::{PageGeometry, Plane};
/// use pagestamp::memory::{ForeignMemory, ForeignPlane};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let tensor: &'static mut [u8] = Box::leak(vec![7; 4 * 1024].into_boxed_slice());
/// let geometry = PageGeometry::new(16, &[Plane::per_token(1, 64)])?;
/// let plane = ForeignPlane { base: NonNull::from(&mut *tensor).cast(), stride_bytes: 1024, len_bytes: 4 * 1024 };
/// // SAFETY: (1) and (2) the tensor is leaked, and its only reference went into `plane`.
/// let memory = unsafe { ForeignMemory::new(geometry, 4, &[plane]) }?;
/// memory.scrub();
/// # Ok(())
/// # }
/// ```
pub struct ForeignMemory {
    planes: Planes,
}

impl std::fmt::Debug for ForeignMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ForeignMemory")
            .field("pages", &self.planes.max_pages())
            .field("planes", &self.planes.geometry().planes().len())
            .finish_non_exhaustive()
    }
}

impl ForeignMemory {
    /// Accepts planes, after everything about them that can be checked was checked.
    ///
    /// # Cost
    ///
    /// O(planes squared) to find overlaps; O(pages) for a pair of planes that lie across one another with
    /// different strides.
    ///
    /// # Errors
    ///
    /// Nothing was read or written.
    ///
    /// - [`MemoryError::NoPages`]: `max_pages` is zero.
    /// - [`MemoryError::ForeignPlanes`]: not as many planes as the geometry has.
    /// - [`MemoryError::ForeignStride`]: the pages of a plane would overlap.
    /// - [`MemoryError::Overflow`]: the pages of a plane do not fit into the address space.
    /// - [`MemoryError::ForeignTooShort`]: the pages of a plane need more bytes than it has.
    /// - [`MemoryError::ForeignWraps`]: a plane runs past the end of the address space, or is longer than
    ///   an allocation can be.
    /// - [`MemoryError::ForeignOverlap`]: two planes have a byte of a page in common.
    ///
    /// # Safety
    ///
    /// 1. Until the value is dropped, the `len_bytes` bytes at each `base` are valid for reads and writes,
    ///    within one allocation, and initialised.
    /// 2. Until then, whoever else reads or writes bytes of a page does so only as the holder of that page,
    ///    by the rules of the pool that the memory is given to: not before the page is handed out, not
    ///    after it is released (nor, under a step that was open then, after that step's end), and ordered with this library's own accesses (joined, synchronised with the
    ///    device). A reader or writer that breaks this breaks isolation, and no check can see it.
    pub unsafe fn new(geometry: PageGeometry, max_pages: u32, planes: &[ForeignPlane]) -> Result<Self, MemoryError> {
        let hosts = check(&geometry, max_pages, planes)?;
        // SAFETY: `Planes::new` (1): checked above. (2): (1) of the caller; lengths, strides and overlap
        // checked above; padding is not touched. (3): (2) of the caller.
        let planes = unsafe { Planes::new(geometry, max_pages, &hosts, Padding::Theirs) };
        Ok(Self { planes })
    }

    /// Zeroes every page now. For memory that no pool has yet, or that left its pool.
    ///
    /// # Cost
    ///
    /// O(bytes of all pages).
    pub fn scrub(&self) {
        self.zero_pages(0..self.max_pages());
    }

    /// `pages` must be within `max_pages`.
    fn zero_pages(&self, pages: Range<u32>) {
        let tokens = self.geometry().page_tokens();
        for page in pages {
            let batch = [CleanPage { page, tokens, heat: Heat::Cold }];
            if let Ok(batch) = self.planes.check_batch(&batch) {
                self.planes.zero_batch(batch);
            }
        }
    }
}

fn check(geometry: &PageGeometry, max_pages: u32, planes: &[ForeignPlane]) -> Result<Vec<HostPlane>, MemoryError> {
    let outside: Vec<_> = planes
        .iter()
        .map(|plane| OutsidePlane {
            base: plane.base.addr().get() as u64,
            stride_bytes: plane.stride_bytes,
            len_bytes: plane.len_bytes,
        })
        .collect();
    let page_bytes = check_planes(geometry, max_pages, &outside)?;
    // An allocation's bytes fit into the address space, as was checked.
    Ok(planes
        .iter()
        .zip(page_bytes)
        .map(|(plane, page_bytes)| HostPlane::new(plane.base, plane.stride_bytes as usize, page_bytes as usize))
        .collect())
}

// SAFETY: (1) `Planes::read` and `write` check the span. (2) `clean` zeroes and settles before it answers.
// (3) by (1) of `new`, and overlaps were refused. (4) `STARTS_DIRTY`. (5) `decommit` zeroes. (6) zeroing is
// by `Zero`. (7) both are fixed at construction.
unsafe impl PageMemory for ForeignMemory {
    const NAME: &'static str = "foreign";
    const HAS_BYTES: bool = true;
    const STARTS_DIRTY: bool = true;

    fn geometry(&self) -> &PageGeometry {
        self.planes.geometry()
    }

    fn max_pages(&self) -> u32 {
        self.planes.max_pages()
    }

    unsafe fn clean(&self, batch: &[CleanPage]) -> Result<Fence, MemoryError> {
        let batch = self.planes.check_batch(batch)?;
        self.planes.zero_batch(batch);
        Ok(Fence::DONE)
    }

    fn poll(&self, fence: Fence) -> FenceState {
        done_only(fence)
    }

    fn order_after(&self, fence: Fence, _lane: Lane) -> Result<(), MemoryError> {
        known(fence)
    }

    /// Zeroes the pages: the memory is the engine's to give back.
    fn decommit(&self, pages: Range<u32>) -> Result<(), MemoryError> {
        check_range(&pages, self.max_pages())?;
        self.zero_pages(pages);
        Ok(())
    }

    /// Does nothing: the pages were never given back.
    fn commit(&self, pages: Range<u32>) -> Result<(), MemoryError> {
        check_range(&pages, self.max_pages())
    }

    unsafe fn write(&self, at: Span, src: &[u8]) -> Result<(), MemoryError> {
        // SAFETY: (1) of the caller.
        unsafe { self.planes.write(at, src) }
    }

    unsafe fn read(&self, at: Span, dst: &mut [u8]) -> Result<(), MemoryError> {
        // SAFETY: (1) of the caller.
        unsafe { self.planes.read(at, dst) }
    }

    unsafe fn look(&self, at: Span, len_bytes: u64, look: &mut dyn FnMut(&[u8])) -> Result<(), MemoryError> {
        // SAFETY: (1) of the caller.
        unsafe { self.planes.look(at, len_bytes, look) }
    }
}

// SAFETY: (1) and (2) by the checks of `new` and its obligation (1). (3) `Planes` reads and writes at these
// addresses.
unsafe impl HostBytes for ForeignMemory {
    fn plane(&self, plane: usize) -> Option<HostPlane> {
        self.planes.plane(plane)
    }
}
