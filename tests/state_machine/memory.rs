//! A memory that writes down every `clean`, over the memories that are tested.
#![expect(unsafe_code, reason = "implements the unsafe memory trait by passing on, and looks at raw bytes")]

use std::ops::Range;
use std::sync::{Arc, Mutex};

use pagestamp::PageGeometry;
use pagestamp::memory::{
    CleanPage, Fence, FenceState, HeldControl, HeldMemory, HostBytes, HostMemory, HostPlane, Lane, MemoryError,
    NullMemory, PageMemory, Span,
};

/// A memory that the machine can run over.
pub(crate) trait Under: PageMemory {
    fn make(geometry: PageGeometry, pages: u32) -> (Self, Option<HeldControl>);

    /// Where a plane lies, if the CPU can address it.
    fn raw(&self, plane: usize) -> Option<HostPlane>;

    /// Bytes of a page in a plane, whoever they belong to. Nobody writes while the machine looks: it is one thread.
    fn bytes(&self, plane: usize, page: u32) -> Option<Vec<u8>> {
        let place = self.raw(plane)?;
        // SAFETY: `HostBytes` (2): `page_bytes` bytes of a page that exists; one thread, so nobody writes them now.
        let bytes = unsafe { std::slice::from_raw_parts(place.page(page), place.page_bytes()) };
        Some(bytes.to_vec())
    }

    /// Writes as an outside party with a write ticket, past the library.
    fn poke(&self, plane: usize, page: u32, offset: usize, value: u8) {
        let Some(place) = self.raw(plane) else { return };
        let at = place.page(page).wrapping_add(offset % place.page_bytes());
        // SAFETY: as in `bytes`; the ticket keeps everybody else off the page.
        unsafe { at.write(value) };
    }
}

impl Under for HostMemory {
    fn make(geometry: PageGeometry, pages: u32) -> (Self, Option<HeldControl>) {
        (Self::new(geometry, pages).unwrap(), None)
    }
    fn raw(&self, plane: usize) -> Option<HostPlane> {
        self.plane(plane)
    }
}

impl Under for HeldMemory {
    fn make(geometry: PageGeometry, pages: u32) -> (Self, Option<HeldControl>) {
        let memory = Self::new(geometry, pages).unwrap();
        let control = memory.control();
        (memory, Some(control))
    }
    fn raw(&self, plane: usize) -> Option<HostPlane> {
        self.plane(plane)
    }
}

impl Under for NullMemory {
    fn make(geometry: PageGeometry, pages: u32) -> (Self, Option<HeldControl>) {
        (Self::new(geometry, pages).unwrap(), None)
    }
    fn raw(&self, _plane: usize) -> Option<HostPlane> {
        None
    }
}

/// One call of `clean`; no fence when the memory refused.
#[derive(Clone, Debug)]
pub(crate) struct Cleaned {
    pub(crate) batch: Vec<CleanPage>,
    pub(crate) fence: Option<Fence>,
}

#[derive(Debug)]
pub(crate) struct Spy<M> {
    pub(crate) under: M,
    pub(crate) log: Arc<Mutex<Vec<Cleaned>>>,
}

impl<M: Under> Spy<M> {
    pub(crate) fn bytes(&self, plane: usize, page: u32) -> Option<Vec<u8>> {
        self.under.bytes(plane, page)
    }

    pub(crate) fn poke(&self, plane: usize, page: u32, offset: usize, value: u8) {
        self.under.poke(plane, page, offset, value);
    }
}

// SAFETY: (1) to (7) those of the memory below, which gets every call unchanged.
unsafe impl<M: Under> PageMemory for Spy<M> {
    const NAME: &'static str = M::NAME;
    const HAS_BYTES: bool = M::HAS_BYTES;
    const STARTS_DIRTY: bool = M::STARTS_DIRTY;

    fn geometry(&self) -> &PageGeometry {
        self.under.geometry()
    }
    fn max_pages(&self) -> u32 {
        self.under.max_pages()
    }
    unsafe fn clean(&self, batch: &[CleanPage]) -> Result<Fence, MemoryError> {
        // SAFETY: (1) of the caller.
        let answer = unsafe { self.under.clean(batch) };
        self.log.lock().unwrap().push(Cleaned { batch: batch.to_vec(), fence: answer.as_ref().ok().copied() });
        answer
    }
    fn poll(&self, fence: Fence) -> FenceState {
        self.under.poll(fence)
    }
    fn order_after(&self, fence: Fence, lane: Lane) -> Result<(), MemoryError> {
        self.under.order_after(fence, lane)
    }
    fn decommit(&self, pages: Range<u32>) -> Result<(), MemoryError> {
        self.under.decommit(pages)
    }
    fn commit(&self, pages: Range<u32>) -> Result<(), MemoryError> {
        self.under.commit(pages)
    }
    unsafe fn write(&self, at: Span, src: &[u8]) -> Result<(), MemoryError> {
        // SAFETY: (1) of the caller.
        unsafe { self.under.write(at, src) }
    }
    unsafe fn read(&self, at: Span, dst: &mut [u8]) -> Result<(), MemoryError> {
        // SAFETY: (1) of the caller.
        unsafe { self.under.read(at, dst) }
    }
}
