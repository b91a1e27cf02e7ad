//! Pages in a device's memory, as a pool knows them.
#![expect(unsafe_code, reason = "implements the unsafe memory trait by calls of the driver")]

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use thiserror::Error;

use super::device::{Device, Slab};
use super::driver::{Context, DeviceAddress, Driver, DriverError};
use super::kernels::DevicePlane;
use super::queue::{Queue, encode};
use super::staging::Staging;
use super::stamps::{Stamps, table_bytes};
use crate::geometry::{PageGeometry, PlaneWindow};
use crate::id::{Generation, OwnerId};
use crate::memory::outside::{OutsidePlane, check_planes};
use crate::memory::planes::{check_batch, check_page, check_range, no_such_plane};
use crate::memory::{CleanPage, Fence, FenceState, Lane, MemoryError, PageCopy, PageCrc, PageMemory, Span};

/// The driver's names for its default streams.
const LEGACY_STREAM: u64 = 1;
const PER_THREAD_STREAM: u64 = 2;

/// Says why a memory on a device was not made. What was had before is given back.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CudaError {
    /// The driver refused.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The default stream of a thread was named: which stream that is depends on who asks.
    #[error("the per-thread default stream names another stream in each thread; name streams that were created")]
    PerThreadStream,
    /// What was asked for can be no memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Pages in the memory of a CUDA device: one slab for each plane, page `i` at `base + i * page_bytes`.
///
/// The device zeroes pages before their first issue and all of each after every release, since kernels write there by
/// addresses. Cleaning goes behind what the engine's streams held when the page left, which the memory has to be told of
/// ([`add_lane`](Self::add_lane)).
///
/// # Examples
///
/// ```no_run
/// use pagestamp::geometry::{PageGeometry, Plane};
/// use pagestamp::memory::cuda::{CudaMemory, Driver};
/// use pagestamp::{PagePool, PoolConfig};
///
/// let geometry = PageGeometry::new(16, &[Plane::per_token(1, 2048), Plane::per_token(1, 2048)])?; // K and V
/// let memory = CudaMemory::new(&Driver::system()?, 0, geometry, 4096)?;
/// let pool = PagePool::new(PoolConfig::new(4096), memory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CudaMemory {
    geometry: PageGeometry,
    max_pages: u32,
    planes: Vec<Place>,
    pub(super) device_planes: Vec<DevicePlane>,
    // Dropped in this order: kernels end before what they work on is freed.
    pub(super) queue: Queue,
    pub(super) stamps: Arc<Stamps>,
    pub(super) staging: Staging,
    _slabs: Vec<Slab>,
    device: Arc<Device>,
}

impl fmt::Debug for CudaMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaMemory")
            .field("pages", &self.max_pages)
            .field("planes", &self.planes.len())
            .field("driver", &self.device.driver)
            .finish_non_exhaustive()
    }
}

/// A plane on the device that the engine allocated: page `i` begins at `address + i * stride_bytes`.
///
/// Planes may be interleaved, as K and V in one tensor are. What lies between the pages is never touched.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CudaPlane {
    /// Where page 0 begins.
    pub address: u64,
    /// From the beginning of a page to the beginning of the next.
    pub stride_bytes: u64,
    /// Bytes from `address` that belong to the plane; the last page needs no padding.
    pub len_bytes: u64,
}

impl fmt::Debug for CudaPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaPlane")
            .field("stride_bytes", &self.stride_bytes)
            .field("len_bytes", &self.len_bytes)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Copy)]
struct Place {
    base: DeviceAddress,
    stride_bytes: u64,
    page_bytes: u64,
}

impl CudaMemory {
    /// Takes memory of a device, in its primary context, for `max_pages` pages.
    ///
    /// # Errors
    ///
    /// - [`CudaError::Driver`]: there is no such device, or not enough memory on it.
    /// - [`CudaError::Memory`]: no pages, or more bytes than there are addresses.
    pub fn new(driver: &Driver, ordinal: u32, geometry: PageGeometry, max_pages: u32) -> Result<Self, CudaError> {
        Self::with_slabs(Device::primary(driver.clone(), ordinal)?, geometry, max_pages)
    }

    /// Takes memory in a context of the engine: a `CUcontext`, as a number.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    ///
    /// # Safety
    ///
    /// 1. The context is one of this driver, and live until the memory and all that was made of it are dropped.
    pub unsafe fn in_context(
        driver: &Driver,
        context: u64,
        geometry: PageGeometry,
        max_pages: u32,
    ) -> Result<Self, CudaError> {
        // SAFETY: (1) of the caller.
        let device = unsafe { Device::borrowed(driver.clone(), context as Context) };
        Self::with_slabs(device, geometry, max_pages)
    }

    /// Takes planes in a context of the engine that the engine allocated, its tensors, and frees none of them.
    ///
    /// # Errors
    ///
    /// - [`CudaError::Driver`]: the context, or a little memory of its own, cannot be had.
    /// - [`CudaError::Memory`]: as [`ForeignMemory::new`](crate::memory::ForeignMemory::new).
    ///
    /// # Safety
    ///
    /// 1. As [`in_context`](Self::in_context).
    /// 2. Until the memory is dropped, the `len_bytes` bytes at each address are memory of the context.
    /// 3. Until then, whoever else reads or writes bytes of a page does so only as the holder of that page, on lanes, as
    ///    (2) of [`ForeignMemory::new`](crate::memory::ForeignMemory::new) says.
    pub unsafe fn over_planes(
        driver: &Driver,
        context: u64,
        geometry: PageGeometry,
        max_pages: u32,
        planes: &[CudaPlane],
    ) -> Result<Self, CudaError> {
        let outside: Vec<_> = planes
            .iter()
            .map(|plane| OutsidePlane {
                base: plane.address,
                stride_bytes: plane.stride_bytes,
                len_bytes: plane.len_bytes,
            })
            .collect();
        let page_bytes = check_planes(&geometry, max_pages, &outside)?;
        let places = outside.iter().zip(page_bytes).map(|(plane, page_bytes)| Place {
            base: plane.base,
            stride_bytes: plane.stride_bytes,
            page_bytes,
        });
        // SAFETY: (1) of the caller.
        let device = unsafe { Device::borrowed(driver.clone(), context as Context) };
        Self::over(Arc::new(device), geometry, max_pages, places.collect(), Vec::new())
    }

    fn with_slabs(device: Device, geometry: PageGeometry, max_pages: u32) -> Result<Self, CudaError> {
        if max_pages == 0 {
            return Err(MemoryError::NoPages.into());
        }
        let device = Arc::new(device);
        let (mut slabs, mut places) = (Vec::new(), Vec::new());
        for plane in 0..geometry.planes().len() {
            // at most PageGeometry::MAX_PLANES
            let number = plane as u32;
            let page_bytes = geometry.page_bytes(plane).ok_or_else(|| no_such_plane(number, &geometry))?;
            let bytes = geometry.plane_bytes(plane, max_pages, page_bytes);
            let overflow = MemoryError::Overflow { plane: number, pages: max_pages, page_bytes };
            let slab = Slab::new(&device, bytes.map_err(|_| overflow)?)?;
            places.push(Place { base: slab.address(), stride_bytes: page_bytes, page_bytes });
            slabs.push(slab);
        }
        Self::over(device, geometry, max_pages, places, slabs)
    }

    /// The places were checked, and lie in the slabs, if there are any.
    fn over(
        device: Arc<Device>,
        geometry: PageGeometry,
        max_pages: u32,
        planes: Vec<Place>,
        slabs: Vec<Slab>,
    ) -> Result<Self, CudaError> {
        let device_planes = device_planes(&geometry, &planes);
        let bytes = encode(&device_planes);
        let table = Slab::new(&device, bytes.len() as u64)?;
        let mirror = Slab::new(&device, table_bytes(max_pages))?;
        // Behind the slabs, so that it is dropped, and its copies are over, in front of them.
        let staging = Staging::new(&device)?;
        // SAFETY: (1) the slab has so many bytes, and is nobody else's yet.
        unsafe { staging.upload(table.address(), &bytes) }?;
        // SAFETY: (1) as above.
        unsafe { staging.zero(mirror.address(), table_bytes(max_pages)) }?;
        let stamps = Arc::new(Stamps::new(&device, mirror, max_pages)?);
        // A copy that was given up is somebody who may have a page, as the engine is.
        stamps.add_lane(staging.stream() as u64);
        let queue = Queue::new((table, &device_planes), &stamps, geometry.page_tokens())?;
        Ok(Self { geometry, max_pages, planes, device_planes, queue, stamps, staging, _slabs: slabs, device })
    }

    /// Names a stream of the engine, a `CUstream` as a number, and gives the lane by which requests name it. Twice is once;
    /// 0 is the legacy default stream, whose lane is 1.
    ///
    /// # Errors
    ///
    /// - [`CudaError::PerThreadStream`]
    ///
    /// # Safety
    ///
    /// 1. The stream is one of the context, and live until the memory is dropped.
    /// 2. Work that touches a page was queued on streams that were named, or has ended, when the page is released.
    pub unsafe fn add_lane(&self, stream: u64) -> Result<Lane, CudaError> {
        let stream = match stream {
            PER_THREAD_STREAM => return Err(CudaError::PerThreadStream),
            0 => LEGACY_STREAM,
            stream => stream,
        };
        self.stamps.add_lane(stream);
        Ok(Lane::from_raw(stream))
    }

    /// Returns where a plane lies on the device: page `i` begins `i` times its page bytes further.
    #[must_use]
    pub fn plane_address(&self, plane: usize) -> Option<u64> {
        self.planes.get(plane).map(|place| place.base)
    }

    /// Returns where the device's stamps lie: 16 bytes for each page, as `stamp_check.cuh` says.
    #[must_use]
    pub fn stamps_address(&self) -> u64 {
        self.stamps.address()
    }

    /// Returns the driver.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        &self.device.driver
    }

    /// Whether kernels that work on one can work on the other.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        self.device.is(&other.device)
    }

    /// Checks a span and computes its address.
    fn address(&self, at: Span, len: usize) -> Result<DeviceAddress, MemoryError> {
        check_page(at.page, self.max_pages)?;
        let place = self.planes.get(at.plane as usize).ok_or_else(|| no_such_plane(at.plane, &self.geometry))?;
        let (len_bytes, page_bytes) = (len as u64, place.page_bytes);
        if at.offset > page_bytes || len_bytes > page_bytes - at.offset {
            let (page, plane, offset_bytes) = (at.page, at.plane, at.offset);
            return Err(MemoryError::OutOfRange { page, plane, offset_bytes, len_bytes, page_bytes });
        }
        Ok(place.base + u64::from(at.page) * place.stride_bytes + at.offset)
    }
}

/// Planes as the kernels know them. Padding is zeroed by nobody: it is never written, or the engine's.
fn device_planes(geometry: &PageGeometry, places: &[Place]) -> Vec<DevicePlane> {
    let shapes = geometry.planes().iter().zip(places);
    shapes
        .map(|(shape, place)| DevicePlane {
            base: place.base,
            stride_bytes: place.stride_bytes,
            whole_bytes: place.page_bytes,
            run_bytes: shape.run_bytes(),
            runs: shape.runs(),
        })
        .collect()
}

impl From<DriverError> for MemoryError {
    fn from(error: DriverError) -> Self {
        match error {
            DriverError::Failed { call, code, .. } => Self::Device { call, code },
            // Not by a driver that was loaded whole.
            DriverError::NotFound { .. } | DriverError::NoFunction { .. } => Self::Device { call: "load", code: 0 },
        }
    }
}

// SAFETY: (1) `address` checks the span, and `Staging` copies so many bytes and waits. (2) the event of a fence is behind the
// kernels of its lists, in the order of one stream; of a refused batch nothing was sent. (3) slabs are had once and kept, planes
// are slabs of their own; the engine's by (2) of `over_planes`, and overlaps were refused. (4) `STARTS_DIRTY`. (5) `decommit` zeroes and waits. (6) all cleaning is in the order of one stream, and
// `decommit` stores zeroes only. (7) both are fixed at construction.
unsafe impl PageMemory for CudaMemory {
    const NAME: &'static str = "cuda";
    const HAS_BYTES: bool = true;
    const STARTS_DIRTY: bool = true;
    const MIRRORS_STAMPS: bool = true;
    const DIGESTS_IN_PLACE: bool = true;

    fn issued(&self, page: u32, generation: Generation, owner: OwnerId) {
        self.stamps.issued(page, generation, owner);
    }

    fn geometry(&self) -> &PageGeometry {
        &self.geometry
    }

    fn max_pages(&self) -> u32 {
        self.max_pages
    }

    unsafe fn clean(&self, batch: &[CleanPage]) -> Result<Fence, MemoryError> {
        check_batch(batch, &self.geometry, self.max_pages)?;
        // SAFETY: (1) of the caller. (2) by (1) of `add_lane`.
        Ok(unsafe { self.queue.clean(batch) }?)
    }

    fn poll(&self, fence: Fence) -> FenceState {
        if fence == Fence::DONE {
            return FenceState::Done;
        }
        // SAFETY: (1) by (1) of `add_lane`.
        unsafe { self.queue.poll(fence) }
    }

    fn order_after(&self, fence: Fence, lane: Lane) -> Result<(), MemoryError> {
        if fence == Fence::DONE {
            return Ok(());
        }
        // SAFETY: (1) by (1) of `add_lane`.
        unsafe { self.queue.order_after(fence, lane) }
    }

    /// Zeroes the pages: the device keeps the slab.
    fn decommit(&self, pages: Range<u32>) -> Result<(), MemoryError> {
        check_range(&pages, self.max_pages)?;
        for place in &self.planes {
            // Pages that follow one another are one stretch; what lies between others is not this memory's.
            let step = if place.stride_bytes == place.page_bytes { pages.len().max(1) } else { 1 };
            for first in pages.clone().step_by(step) {
                let address = place.base + u64::from(first) * place.stride_bytes;
                // SAFETY: (1) the pages are within the plane, and nobody's by the words of the trait.
                unsafe { self.staging.zero(address, step as u64 * place.page_bytes) }?;
            }
        }
        Ok(())
    }

    /// Does nothing: the pages were never given back.
    fn commit(&self, pages: Range<u32>) -> Result<(), MemoryError> {
        check_range(&pages, self.max_pages)
    }

    unsafe fn write(&self, at: Span, src: &[u8]) -> Result<(), MemoryError> {
        let to = self.address(at, src.len())?;
        // SAFETY: (1) of the caller; the bytes are within a page.
        Ok(unsafe { self.staging.upload(to, src) }?)
    }

    unsafe fn read(&self, at: Span, dst: &mut [u8]) -> Result<(), MemoryError> {
        let from = self.address(at, dst.len())?;
        // SAFETY: (1) of the caller; the bytes are within a page.
        Ok(unsafe { self.staging.download(from, dst) }?)
    }

    unsafe fn crc32c(&self, windows: &[PlaneWindow], pages: &mut [PageCrc]) -> Option<Result<(), MemoryError>> {
        // SAFETY: (1) of the caller.
        unsafe { self.digest(windows, pages) }
    }

    unsafe fn copy_from<N: PageMemory>(&self, from: &N, pages: &[PageCopy]) -> Option<Result<(), MemoryError>> {
        let from = (from as &dyn Any).downcast_ref::<Self>()?;
        // SAFETY: (1) of the caller.
        unsafe { self.gather(from, pages) }
    }
}
