//! A CUDA device under the machine, which waits for each cleaning: then it must be what the host is, byte for byte.
#![expect(unsafe_code, reason = "implements the unsafe memory trait by passing on, and opens a driver")]

use std::ops::Range;
use std::sync::OnceLock;

use pagestamp::PageGeometry;
use pagestamp::memory::cuda::{CudaMemory, Driver};
use pagestamp::memory::{CleanPage, Fence, FenceState, HeldControl, HostPlane, Lane, MemoryError, PageMemory, Span};

use crate::memory::Under;
use crate::standin::driver_path;

#[derive(Debug)]
pub(crate) struct SettledCuda(CudaMemory);

impl Under for SettledCuda {
    fn make(geometry: PageGeometry, pages: u32) -> (Self, Option<HeldControl>) {
        static DRIVER: OnceLock<Driver> = OnceLock::new();
        // SAFETY: (1) the stand-in, or what whoever runs the tests names as a driver.
        let driver = DRIVER.get_or_init(|| unsafe { Driver::open(driver_path()) }.unwrap());
        let memory = CudaMemory::new(driver, 0, geometry, pages).unwrap();
        // Zero from the beginning, as the host's is: then prefixes are cleaned too, and not whole pages alone.
        memory.decommit(0..pages).unwrap();
        (Self(memory), None)
    }

    fn raw(&self, _plane: usize) -> Option<HostPlane> {
        None
    }

    fn bytes(&self, plane: usize, page: u32) -> Option<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(self.geometry().page_bytes(plane)?).unwrap()];
        // SAFETY: (1) of `PageMemory::read`: one thread, so nobody writes them now.
        unsafe { self.0.read(Span { page, plane: plane as u32, offset: 0 }, &mut bytes) }.unwrap();
        Some(bytes)
    }

    fn poke(&self, plane: usize, page: u32, offset: usize, value: u8) {
        let offset = offset as u64 % self.geometry().page_bytes(plane).unwrap();
        // SAFETY: (1) of `PageMemory::write`: the ticket keeps everybody else off the page.
        unsafe { self.0.write(Span { page, plane: plane as u32, offset }, &[value]) }.unwrap();
    }
}

// SAFETY: (1) to (7) those of the device's memory, which gets every call; `clean` waits. (4) `make` zeroed all.
unsafe impl PageMemory for SettledCuda {
    const NAME: &'static str = "cuda, settled";
    const HAS_BYTES: bool = true;
    const STARTS_DIRTY: bool = false;

    fn geometry(&self) -> &PageGeometry {
        self.0.geometry()
    }
    fn max_pages(&self) -> u32 {
        self.0.max_pages()
    }
    unsafe fn clean(&self, batch: &[CleanPage]) -> Result<Fence, MemoryError> {
        // SAFETY: (1) of the caller.
        let fence = unsafe { self.0.clean(batch) }?;
        while self.0.poll(fence) == FenceState::Pending {
            std::thread::yield_now();
        }
        assert_eq!(self.0.poll(fence), FenceState::Done);
        Ok(Fence::DONE)
    }
    fn poll(&self, fence: Fence) -> FenceState {
        self.0.poll(fence)
    }
    fn order_after(&self, fence: Fence, lane: Lane) -> Result<(), MemoryError> {
        self.0.order_after(fence, lane)
    }
    fn decommit(&self, pages: Range<u32>) -> Result<(), MemoryError> {
        self.0.decommit(pages)
    }
    fn commit(&self, pages: Range<u32>) -> Result<(), MemoryError> {
        self.0.commit(pages)
    }
    unsafe fn write(&self, at: Span, src: &[u8]) -> Result<(), MemoryError> {
        // SAFETY: (1) of the caller.
        unsafe { self.0.write(at, src) }
    }
    unsafe fn read(&self, at: Span, dst: &mut [u8]) -> Result<(), MemoryError> {
        // SAFETY: (1) of the caller.
        unsafe { self.0.read(at, dst) }
    }
}
