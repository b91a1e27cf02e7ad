//! Memory of this process: an anonymous map per plane.
#![expect(unsafe_code, reason = "implements the unsafe memory traits over its own maps")]

use std::fmt;
use std::ops::Range;

use super::map::Map;
use super::planes::{Padding, Planes, check_range};
use super::{CleanPage, Fence, FenceState, HostBytes, HostPlane, Lane, MemoryError, PageMemory, Span};
use crate::geometry::PageGeometry;

/// How [`HostMemory`] is mapped.
///
/// The default advises huge pages, lets the system decide when pages get physical memory, locks nothing,
/// and begins every page at a multiple of [`STRIDE_ALIGN_BYTES`](Self::STRIDE_ALIGN_BYTES).
///
/// # Examples
///
/// ```
/// use pagestamp::geometry::{PageGeometry, Plane};
/// use pagestamp::memory::{HostBytes, HostMemory, HostOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let geometry = PageGeometry::new(16, &[Plane::per_token(1, 100)])?;
/// let memory = HostMemory::with_options(geometry, 8, &HostOptions::new().with_stride_align(4096))?;
/// assert_eq!(memory.plane(0).map(|plane| plane.stride()), Some(4096));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostOptions {
    huge_pages: bool,
    lock: bool,
    prefault: bool,
    stride_align: StrideAlign,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum StrideAlign {
    All(usize),
    Each(Box<[usize]>),
}

impl HostOptions {
    /// What every stride is a multiple of: a cache line, so that no two tenants' pages share one and that
    /// zeroing finds whole lines.
    pub const STRIDE_ALIGN_BYTES: usize = 64;

    /// Makes the default options.
    #[must_use]
    pub fn new() -> Self {
        Self {
            huge_pages: true,
            lock: false,
            prefault: false,
            stride_align: StrideAlign::All(Self::STRIDE_ALIGN_BYTES),
        }
    }

    /// Asks the system for no huge pages. They make cleaning faster; without them memory is given back in
    /// smaller pieces.
    #[must_use]
    pub fn with_regular_pages(mut self) -> Self {
        self.huge_pages = false;
        self
    }

    /// Locks every plane into RAM, so that no page reaches a swap device. This gives all of it physical
    /// memory at once, and takes a process limit (`RLIMIT_MEMLOCK`) or a privilege.
    #[must_use]
    pub fn with_lock(mut self) -> Self {
        self.lock = true;
        self
    }

    /// Gives every plane physical memory at once, so that no first write waits for the system.
    #[must_use]
    pub fn with_prefault(mut self) -> Self {
        self.prefault = true;
        self
    }

    /// Makes every stride a multiple of `align_bytes`, itself a multiple of
    /// [`STRIDE_ALIGN_BYTES`](Self::STRIDE_ALIGN_BYTES).
    #[must_use]
    pub fn with_stride_align(mut self, align_bytes: usize) -> Self {
        self.stride_align = StrideAlign::All(align_bytes);
        self
    }

    /// Makes each plane's stride a multiple of its own number, in the order of the geometry's planes.
    #[must_use]
    pub fn with_stride_aligns(mut self, align_bytes: &[usize]) -> Self {
        self.stride_align = StrideAlign::Each(align_bytes.into());
        self
    }

    fn check(&self, planes: usize) -> Result<(), MemoryError> {
        let aligns = match &self.stride_align {
            StrideAlign::All(align) => std::slice::from_ref(align),
            StrideAlign::Each(aligns) if aligns.len() == planes => aligns,
            StrideAlign::Each(aligns) => {
                return Err(MemoryError::StrideAligns { given: aligns.len(), planes });
            }
        };
        match aligns.iter().find(|&&align| align == 0 || align % Self::STRIDE_ALIGN_BYTES != 0) {
            None => Ok(()),
            Some(&align_bytes) => {
                Err(MemoryError::StrideAlign { align_bytes, multiple_of_bytes: Self::STRIDE_ALIGN_BYTES })
            }
        }
    }

    fn stride_align(&self, plane: usize) -> usize {
        match &self.stride_align {
            StrideAlign::All(align) => *align,
            StrideAlign::Each(aligns) => aligns.get(plane).copied().unwrap_or(Self::STRIDE_ALIGN_BYTES),
        }
    }
}

impl Default for HostOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Pages in the memory of this process: one private anonymous map per plane, an inaccessible guard page on
/// each side of it.
///
/// The bytes stay out of core dumps. They stay out of forked children as well, which find zeroes
/// (`MADV_WIPEONFORK`): a child is not the process that the pool's promises are about, a copy there would
/// outlive every release here, and the copying would make a parent's pages move under a device that writes
/// to them. Zeroes, rather than no memory at all, because a child that looks is wrong and not dead. A
/// kernel without either protection is refused ([`MemoryError::Protect`]), not tolerated.
///
/// A plane that a huge page fits into begins at a multiple of 2 MiB. Between the last page and the guard
/// behind it lies less than a system page of slack, where an overrun is not caught.
///
/// # Examples
///
/// ```
/// use pagestamp::geometry::{PageGeometry, Plane};
/// use pagestamp::memory::{CleanPage, Fence, FenceState, Heat, HostMemory, PageMemory};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let geometry = PageGeometry::new(16, &[Plane::per_token(1, 1024), Plane::per_token(1, 64)])?;
/// let memory = HostMemory::new(geometry, 128)?;
/// // SAFETY: (1) nobody else has the pages.
/// let fence = unsafe { memory.clean(&[CleanPage { page: 3, tokens: 16, heat: Heat::Hot }]) }?;
/// assert_eq!(memory.poll(fence), FenceState::Done);
/// # Ok(())
/// # }
/// ```
pub struct HostMemory {
    planes: Planes,
    // one per plane, in order; dropped last
    maps: Box<[Map]>,
    huge_pages: bool,
    lock: bool,
    prefault: bool,
}

impl HostMemory {
    /// Maps memory for `max_pages` pages with the default [`HostOptions`].
    ///
    /// # Errors
    ///
    /// As [`with_options`](Self::with_options).
    pub fn new(geometry: PageGeometry, max_pages: u32) -> Result<Self, MemoryError> {
        Self::with_options(geometry, max_pages, &HostOptions::new())
    }

    /// Maps memory for `max_pages` pages.
    ///
    /// # Cost
    ///
    /// O(planes) system calls. Physical memory comes with the first write to it, unless it is locked or
    /// prefaulted.
    ///
    /// # Errors
    ///
    /// Nothing stays mapped.
    ///
    /// - [`MemoryError::NoPages`]: `max_pages` is zero.
    /// - [`MemoryError::StrideAlign`], [`MemoryError::StrideAligns`]
    /// - [`MemoryError::Overflow`]: a plane does not fit into the address space.
    /// - [`MemoryError::Map`]: the system has no room for it.
    /// - [`MemoryError::Protect`]: the system cannot keep it out of core dumps or forked children.
    /// - [`MemoryError::Lock`]: it was to be locked, and may not be.
    /// - [`MemoryError::Backing`]: it was to be prefaulted, and there is not enough.
    pub fn with_options(geometry: PageGeometry, max_pages: u32, options: &HostOptions) -> Result<Self, MemoryError> {
        if max_pages == 0 {
            return Err(MemoryError::NoPages);
        }
        let planes = geometry.planes().len();
        options.check(planes)?;
        // every size before the first map
        let sizes = (0..planes)
            .map(|plane| plane_size(&geometry, max_pages, plane, options.stride_align(plane)))
            .collect::<Result<Vec<_>, _>>()?;
        let mut maps = Vec::with_capacity(planes);
        let mut hosts = Vec::with_capacity(planes);
        for size in sizes {
            let map = Map::new(size.plane_bytes)?;
            map.protect()?;
            hosts.push(HostPlane::new(map.bytes_at(), size.stride, size.page_bytes));
            maps.push(map);
        }
        // SAFETY: `Planes::new` (1): one per plane, sizes from the geometry. (2): each map is its own and
        // has `max_pages * stride` bytes, is kept by the same value and unmapped after it. (3): addresses
        // leave only by `HostBytes`, whose users are bound so.
        let planes = unsafe { Planes::new(geometry, max_pages, &hosts, Padding::Ours) };
        let mut memory =
            Self { planes, maps: maps.into(), huge_pages: false, lock: options.lock, prefault: options.prefault };
        if options.huge_pages {
            let refused = memory.maps.iter().filter(|map| !map.advise_huge()).count();
            memory.huge_pages = refused == 0;
        }
        // on an error the memory is dropped, and with it every map
        memory.back(0..max_pages)?;
        Ok(memory)
    }

    /// Says whether the system took the advice to use huge pages; whether it has any to give is its own affair.
    #[must_use]
    pub fn huge_pages_advised(&self) -> bool {
        self.huge_pages
    }

    /// Counts the bytes of all planes with their padding, without guards: what the memory takes when every
    /// page is in use.
    #[must_use]
    pub fn mapped_bytes(&self) -> u64 {
        self.planes.hosts().map(|host| host.stride() as u64 * u64::from(self.max_pages())).sum()
    }

    /// Locks and prefaults a range of pages where the options say so. On an error what was locked here is
    /// unlocked.
    fn back(&self, pages: Range<u32>) -> Result<(), MemoryError> {
        for (done, (map, host)) in self.maps.iter().zip(self.planes.hosts()).enumerate() {
            let bytes = plane_range(host, &pages);
            let mut backed = Ok(());
            if self.lock {
                backed = map.lock(bytes.clone());
            }
            if self.prefault {
                backed = backed.and_then(|()| map.populate(bytes));
            }
            if let Err(error) = backed {
                if self.lock {
                    for (map, host) in self.maps.iter().zip(self.planes.hosts()).take(done + 1) {
                        // the first error is the one to tell
                        let _ = map.unlock(plane_range(host, &pages));
                    }
                }
                return Err(error);
            }
        }
        Ok(())
    }

    pub(super) fn zero_batch(&self, batch: &[CleanPage]) -> Result<(), MemoryError> {
        let batch = self.planes.check_batch(batch)?;
        self.planes.zero_batch(batch);
        Ok(())
    }

    pub(super) fn check_batch(&self, batch: &[CleanPage]) -> Result<(), MemoryError> {
        self.planes.check_batch(batch).map(|_| ())
    }
}

struct PlaneSize {
    page_bytes: usize,
    stride: usize,
    plane_bytes: usize,
}

fn plane_size(geometry: &PageGeometry, max_pages: u32, plane: usize, align: usize) -> Result<PlaneSize, MemoryError> {
    let page_bytes = geometry.page_bytes(plane).unwrap_or(u64::MAX);
    let size = || {
        let page_bytes = usize::try_from(page_bytes).ok()?;
        let stride = page_bytes.checked_next_multiple_of(align)?;
        let plane_bytes = stride.checked_mul(usize::try_from(max_pages).ok()?)?;
        isize::try_from(plane_bytes).ok()?;
        Some(PlaneSize { page_bytes, stride, plane_bytes })
    };
    size().ok_or(MemoryError::Overflow {
        plane: u32::try_from(plane).unwrap_or(u32::MAX),
        pages: max_pages,
        page_bytes,
    })
}

/// The bytes of a range of pages in a plane, padding included.
fn plane_range(host: HostPlane, pages: &Range<u32>) -> Range<usize> {
    pages.start as usize * host.stride()..pages.end as usize * host.stride()
}

impl fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostMemory")
            .field("pages", &self.max_pages())
            .field("planes", &self.maps.len())
            .field("mapped_bytes", &self.mapped_bytes())
            .finish_non_exhaustive()
    }
}

// SAFETY: (1) `Planes::read` and `write` check the span. (2) `clean` zeroes and settles before it answers.
// (3) the maps live as long as the value and never move; `Planes::new` (2) keeps pages apart. (4) fresh
// anonymous memory is zero. (5) `decommit` discards whole system pages and zeroes the rest. (6) zeroing is
// by `Zero`, and discarding by the system. (7) both are fixed at construction.
unsafe impl PageMemory for HostMemory {
    const NAME: &'static str = "host";
    const HAS_BYTES: bool = true;
    const STARTS_DIRTY: bool = false;

    fn geometry(&self) -> &PageGeometry {
        self.planes.geometry()
    }

    fn max_pages(&self) -> u32 {
        self.planes.max_pages()
    }

    unsafe fn clean(&self, batch: &[CleanPage]) -> Result<Fence, MemoryError> {
        self.zero_batch(batch)?;
        Ok(Fence::DONE)
    }

    fn poll(&self, fence: Fence) -> FenceState {
        done_only(fence)
    }

    fn order_after(&self, fence: Fence, _lane: Lane) -> Result<(), MemoryError> {
        known(fence)
    }

    fn decommit(&self, pages: Range<u32>) -> Result<(), MemoryError> {
        check_range(&pages, self.max_pages())?;
        for (map, host) in self.maps.iter().zip(self.planes.hosts()) {
            let bytes = plane_range(host, &pages);
            if self.lock {
                // the system keeps what is locked
                map.unlock(bytes.clone())?;
            }
            let given_back = map.discard(bytes.clone())?;
            for edge in [bytes.start..given_back.start, given_back.end..bytes.end] {
                // SAFETY: `zero_bytes` (1): within the pages of the range, which exist.
                unsafe { self.planes.zero_bytes(host, edge) };
            }
        }
        Ok(())
    }

    fn commit(&self, pages: Range<u32>) -> Result<(), MemoryError> {
        check_range(&pages, self.max_pages())?;
        self.back(pages)
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

// SAFETY: (1) and (2) by `Planes::new` (1) and (2). (3) `Planes` reads and writes at these addresses.
unsafe impl HostBytes for HostMemory {
    fn plane(&self, plane: usize) -> Option<HostPlane> {
        self.planes.plane(plane)
    }
}

/// The answer of a memory that is always done.
pub(super) fn done_only(fence: Fence) -> FenceState {
    if fence == Fence::DONE { FenceState::Done } else { FenceState::Failed }
}

/// The answer of a memory that only ever gave out [`Fence::DONE`].
pub(super) fn known(fence: Fence) -> Result<(), MemoryError> {
    if fence == Fence::DONE { Ok(()) } else { Err(MemoryError::UnknownFence { fence: fence.raw() }) }
}
