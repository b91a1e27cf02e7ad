//! Where the pages of a pool lie, in plain numbers that travel.

use std::fmt;

use super::SegmentError;
use crate::geometry::{ModelLayout, PageGeometry, Slice};
use crate::memory::HostBytes;
use crate::pool::PagePool;

/// Where the pages of one plane lie: page *i* begins at `base_address + i * stride_bytes`.
///
/// A value of plain numbers: it keeps nothing alive and gives no right to any byte. `Debug` shows sizes and no address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Region {
    base_address: u64,
    stride_bytes: u64,
    page_bytes: u64,
    device: u32,
}

impl Region {
    /// Names where a plane lies. Nothing is checked until [`Regions::new`].
    ///
    /// The address is the one that the transport wants: a virtual address as its owner sees it, or what is left of it
    /// once the transport's own base is taken off. The device counts as the transport counts; 0 for host memory.
    #[must_use]
    pub const fn new(base_address: u64, stride_bytes: u64, page_bytes: u64, device: u32) -> Self {
        Self { base_address, stride_bytes, page_bytes, device }
    }

    /// Returns where page 0 begins.
    #[must_use]
    pub const fn base_address(&self) -> u64 {
        self.base_address
    }

    /// Returns the bytes from one page's start to the next one's.
    #[must_use]
    pub const fn stride_bytes(&self) -> u64 {
        self.stride_bytes
    }

    /// Returns the bytes of one page.
    #[must_use]
    pub const fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Returns the device, as the transport counts them.
    #[must_use]
    pub const fn device(&self) -> u32 {
        self.device
    }

    /// Checks the region as plane `plane` of pages of a shape: sizes, and that its end is an address.
    fn check(&self, plane: usize, shape: &PageGeometry, max_pages: u32) -> Result<(), SegmentError> {
        let Self { base_address, stride_bytes, page_bytes: region_page_bytes, .. } = *self;
        let page_bytes = shape.page_bytes(plane).unwrap_or(0);
        if region_page_bytes != page_bytes {
            return Err(SegmentError::PageBytes { plane, region_page_bytes, page_bytes });
        }
        if stride_bytes < page_bytes {
            return Err(SegmentError::StrideTooSmall { plane, stride_bytes, page_bytes });
        }
        let end = u64::from(max_pages.saturating_sub(1))
            .checked_mul(stride_bytes)
            .and_then(|last| last.checked_add(page_bytes))
            .and_then(|bytes| bytes.checked_add(base_address));
        end.map(drop).ok_or(SegmentError::PastAddresses { plane, max_pages, stride_bytes })
    }

    /// Where a page begins; the page is one of those that the region was checked for.
    pub(in crate::handoff) const fn page_address(&self, page: u32) -> u64 {
        self.base_address + page as u64 * self.stride_bytes
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("stride_bytes", &self.stride_bytes)
            .field("page_bytes", &self.page_bytes)
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}

/// Where all pages of a pool lie that holds a slice of a model: one [`Region`] for each plane.
///
/// Each side makes its own, once, and sends its numbers to the other at pairing: the regions of a pool change never, its
/// pages' owners all the time.
///
/// # Examples
/// ```
/// use pagestamp::geometry::{Dtype, ElementFormat, HeadCache, KvLayout, ModelLayout, Slice};
/// use pagestamp::handoff::{Region, Regions};
///
/// let cache = HeadCache::new(2, 8, ElementFormat::plain(Dtype::F16));
/// let model = ModelLayout::new("tiny", "r1", KvLayout::new(16, 1, cache))?;
/// // K and V of 100 pages of 512 bytes, one after the other in one allocation of device 3
/// let planes = vec![Region::new(0x7000_0000, 512, 512, 3), Region::new(0x7000_0000 + 51_200, 512, 512, 3)];
/// let regions = Regions::new(&model, Slice::whole(&model), 100, planes)?;
/// assert_eq!(regions.planes()[1].base_address() - regions.planes()[0].base_address(), 51_200);
/// # Ok::<(), pagestamp::handoff::SegmentError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Regions {
    slice: Slice,
    shape: PageGeometry,
    max_pages: u32,
    planes: Vec<Region>,
}

impl Regions {
    /// Takes the regions of a pool of `max_pages` pages that hold a slice of a model, in the order of its planes.
    ///
    /// # Cost
    /// O(planes); allocates.
    ///
    /// # Errors
    /// - [`SegmentError::Layout`]: the slice is not of the model
    /// - [`SegmentError::RegionCount`], [`SegmentError::PageBytes`]: the regions are not those of the slice's planes
    /// - [`SegmentError::StrideTooSmall`], [`SegmentError::PastAddresses`]: no such memory can be
    pub fn new(model: &ModelLayout, slice: Slice, max_pages: u32, planes: Vec<Region>) -> Result<Self, SegmentError> {
        let shape = model.geometry(&slice)?;
        if planes.len() != shape.planes().len() {
            return Err(SegmentError::RegionCount { regions: planes.len(), planes: shape.planes().len() });
        }
        planes.iter().enumerate().try_for_each(|(plane, region)| region.check(plane, &shape, max_pages))?;
        Ok(Self { slice, shape, max_pages, planes })
    }

    /// Takes the regions of a pool in memory that the host can address; its device is 0.
    ///
    /// Addresses are numbers and give no right. Whoever reads or writes there has a ticket for the page, and its end is
    /// where obligations are: see [`Route`](crate::handoff::Route) for when a writer has stopped.
    ///
    /// # Cost
    /// O(planes); allocates.
    ///
    /// # Errors
    /// As [`Regions::new`], and [`SegmentError::OtherShape`]: the pool was not made for this slice.
    pub fn of_pool<M: HostBytes>(model: &ModelLayout, slice: Slice, pool: &PagePool<M>) -> Result<Self, SegmentError> {
        Self::of(model, slice, &pool.inner.memory)
    }

    /// Takes the regions of memory that the host can address, before a pool has it; its device is 0.
    ///
    /// # Cost
    /// O(planes); allocates.
    ///
    /// # Errors
    /// As [`Regions::new`], and [`SegmentError::OtherShape`]: the memory was not made for this slice.
    pub fn of(model: &ModelLayout, slice: Slice, memory: &impl HostBytes) -> Result<Self, SegmentError> {
        check_shape(model.geometry(&slice)?, memory.geometry())?;
        let host_planes = (0..memory.geometry().planes().len()).filter_map(|plane| memory.plane(plane));
        // a usize is at most a u64 wide on every machine there is
        let region = |plane: crate::memory::HostPlane| {
            Region::new(
                plane.base().as_ptr().expose_provenance() as u64,
                plane.stride() as u64,
                plane.page_bytes() as u64,
                0,
            )
        };
        Self::new(model, slice, memory.max_pages(), host_planes.map(region).collect())
    }

    /// Returns the slice that the pages hold.
    #[must_use]
    pub fn slice(&self) -> &Slice {
        &self.slice
    }

    /// Returns how many pages the pool has at most.
    #[must_use]
    pub fn max_pages(&self) -> u32 {
        self.max_pages
    }

    /// Returns where the planes lie, in the order of the slice's geometry.
    #[must_use]
    pub fn planes(&self) -> &[Region] {
        &self.planes
    }

    pub(in crate::handoff) fn shape(&self) -> &PageGeometry {
        &self.shape
    }
}

/// Checks that pages have the shape that a model's slice asks for.
pub(in crate::handoff) fn check_shape(expected: PageGeometry, found: &PageGeometry) -> Result<(), SegmentError> {
    if expected == *found { Ok(()) } else { Err(SegmentError::OtherShape { expected, found: found.clone() }) }
}
