//! Memory, seen from inside: bytes are looked at through raw addresses, not through the calls under test.
#![expect(unsafe_code, reason = "looks at bytes through raw addresses")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod foreign;
mod held;
mod host;
mod null;
mod system;

use super::{CleanPage, Fence, ForeignMemory, Heat, HeldMemory, HostBytes, HostMemory, NullMemory, PageMemory, Span};
use crate::geometry::{PageGeometry, Plane};

const DIRT: u8 = 0xA5;
const PAGE_TOKENS: u32 = 8;

/// One token-major plane, one head-major plane with padding (8 tokens x 3 runs x 5 bytes = 120 of 128), one
/// of tiny scales.
fn geometry() -> PageGeometry {
    PageGeometry::new(PAGE_TOKENS, &[Plane::per_token(1, 512), Plane::per_token(3, 5), Plane::per_token(1, 2)]).unwrap()
}

fn whole(page: u32, heat: Heat) -> CleanPage {
    CleanPage { page, tokens: PAGE_TOKENS, heat }
}

fn span(page: u32, plane: u32, offset: u64) -> Span {
    Span { page, plane, offset }
}

/// Sets every byte of every page, padding included where the memory has its own.
fn soil(memory: &impl HostBytes) {
    for_each_byte(memory, |_, _, _, at| {
        // SAFETY: within a page of the test's own memory, which nobody else uses meanwhile.
        unsafe { at.write_volatile(DIRT) };
    });
}

/// Checks each byte of each page: `clean(plane, page, offset)` tells which must be zero; the others must be
/// dirt.
fn check(memory: &impl HostBytes, clean: impl Fn(usize, u32, usize) -> bool) {
    for_each_byte(memory, |plane, page, offset, at| {
        // SAFETY: within a page of the test's own memory, which nobody else uses meanwhile.
        let byte = unsafe { at.read_volatile() };
        let expected = if clean(plane, page, offset) { 0 } else { DIRT };
        assert_eq!(byte, expected, "plane {plane}, page {page}, offset {offset}");
    });
}

fn for_each_byte(memory: &impl HostBytes, mut visit: impl FnMut(usize, u32, usize, *mut u8)) {
    for plane in 0..memory.geometry().planes().len() {
        let host = memory.plane(plane).unwrap();
        for page in 0..memory.max_pages() {
            let last = page + 1 == memory.max_pages();
            // foreign planes may lack the last page's padding
            let bytes = if last { host.page_bytes() } else { host.stride() };
            for offset in 0..bytes {
                visit(plane, page, offset, host.page(page).wrapping_add(offset));
            }
        }
    }
}

#[test]
fn every_memory_and_its_addresses_can_be_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<HostMemory>();
    shared::<NullMemory>();
    shared::<ForeignMemory>();
    shared::<HeldMemory>();
    shared::<super::HostPlane>();
}

#[test]
fn memories_say_whether_they_have_bytes_and_begin_dirty() {
    fn facts<M: PageMemory>() -> (&'static str, bool, bool) {
        (M::NAME, M::HAS_BYTES, M::STARTS_DIRTY)
    }
    assert_eq!(facts::<HostMemory>(), ("host", true, false));
    assert_eq!(facts::<NullMemory>(), ("null", false, false));
    assert_eq!(facts::<ForeignMemory>(), ("foreign", true, true));
    assert_eq!(facts::<HeldMemory>(), ("held", true, false));
}

// C11
#[test]
fn debug_shows_neither_bytes_nor_addresses() {
    let memory = HeldMemory::new(geometry(), 2).unwrap();
    soil(&memory);
    let plane = memory.plane(0).unwrap();
    let foreign = super::ForeignPlane { base: plane.base(), stride_bytes: 64, len_bytes: 64 };
    let shown = format!("{memory:?} {plane:?} {foreign:?}");
    let base = plane.base().addr().get();
    for hidden in ["0x".to_owned(), "165".to_owned(), "a5, a5".to_owned(), base.to_string(), format!("{base:x}")] {
        assert!(!shown.contains(&hidden), "{hidden} in {shown}");
    }
}

#[test]
fn fence_and_lane_keep_the_numbers_of_a_device() {
    assert_eq!(Fence::from_raw(7).raw(), 7);
    assert_eq!(Fence::from_raw(0), Fence::DONE);
    assert_eq!(super::Lane::from_raw(9).raw(), 9);
    assert_eq!(super::Lane::from_raw(0), super::Lane::HOST);
}

/// Cleans pages that nobody but the test has.
fn clean_of<M: PageMemory>(memory: &M, batch: &[CleanPage]) -> Result<Fence, crate::memory::MemoryError> {
    // SAFETY: (1) of `PageMemory::clean`: the memory is the test's own, and no slice of it is alive.
    unsafe { memory.clean(batch) }
}
