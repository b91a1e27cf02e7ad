//! A memory that a test can look into, and make fail.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use pagestamp::HostMemory;
use pagestamp::geometry::PageGeometry;
use pagestamp::memory::{CleanPage, Fence, FenceState, Lane, MemoryError, PageMemory, Span};

use crate::world::POOL_PAGES;

/// Host memory that calls back while it is read, that is while a receiver verifies, and that can refuse a store, or do it
/// wrong.
#[derive(Debug)]
pub(crate) struct Watched {
    host: HostMemory,
    pub(crate) stores_until_refusal: Arc<AtomicU32>,
    pub(crate) stores_until_fault: Arc<AtomicU32>,
    pub(crate) reads: Arc<WatchedReads>,
}

#[derive(Default)]
pub(crate) struct WatchedReads(pub(crate) OnceLock<Box<dyn Fn() + Send + Sync>>);

impl std::fmt::Debug for WatchedReads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WatchedReads")
    }
}

impl Watched {
    pub(crate) fn new(geometry: &PageGeometry) -> Self {
        Self {
            host: HostMemory::new(geometry.clone(), POOL_PAGES).expect("a small map"),
            stores_until_refusal: Arc::new(u32::MAX.into()),
            stores_until_fault: Arc::new(u32::MAX.into()),
            reads: Arc::default(),
        }
    }
}

// SAFETY: (1) to (7) those of `HostMemory`, which does everything; a bit that is stored wrong is of a byte of the span.
unsafe impl PageMemory for Watched {
    const NAME: &'static str = "watched";
    const HAS_BYTES: bool = true;
    const STARTS_DIRTY: bool = false;

    fn geometry(&self) -> &PageGeometry {
        self.host.geometry()
    }

    fn max_pages(&self) -> u32 {
        self.host.max_pages()
    }

    unsafe fn clean(&self, batch: &[CleanPage]) -> Result<Fence, MemoryError> {
        // SAFETY: (1) of the caller.
        unsafe { self.host.clean(batch) }
    }

    fn poll(&self, fence: Fence) -> FenceState {
        self.host.poll(fence)
    }

    fn order_after(&self, fence: Fence, lane: Lane) -> Result<(), MemoryError> {
        self.host.order_after(fence, lane)
    }

    fn decommit(&self, pages: std::ops::Range<u32>) -> Result<(), MemoryError> {
        self.host.decommit(pages)
    }

    fn commit(&self, pages: std::ops::Range<u32>) -> Result<(), MemoryError> {
        self.host.commit(pages)
    }

    unsafe fn write(&self, at: Span, src: &[u8]) -> Result<(), MemoryError> {
        if self.stores_until_refusal.fetch_sub(1, Ordering::Relaxed) == 0 {
            return Err(MemoryError::Injected);
        }
        let mut stored = src.to_vec();
        if self.stores_until_fault.fetch_sub(1, Ordering::Relaxed) == 0 {
            stored[0] ^= 0x20;
        }
        // SAFETY: (1) of the caller.
        unsafe { self.host.write(at, &stored) }
    }

    unsafe fn read(&self, at: Span, dst: &mut [u8]) -> Result<(), MemoryError> {
        if let Some(watch) = self.reads.0.get() {
            watch();
        }
        // SAFETY: (1) of the caller.
        unsafe { self.host.read(at, dst) }
    }
}
