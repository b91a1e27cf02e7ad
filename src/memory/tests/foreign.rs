#![expect(unsafe_code, reason = "makes foreign memory over the test's own buffers")]

use std::ptr::NonNull;

use super::*;
use crate::memory::{ForeignPlane, MemoryError};

const PAGES: u32 = 4;

/// An engine's allocation; only raw addresses of it are used while a memory is over it.
struct Tensor {
    base: NonNull<u8>,
    len: usize,
}

impl Tensor {
    fn new(len: usize) -> Self {
        let bytes = Box::leak(vec![DIRT; len].into_boxed_slice());
        Self { base: NonNull::from(bytes).cast(), len }
    }

    fn plane(&self, at: usize, stride_bytes: u64, len_bytes: u64) -> ForeignPlane {
        assert!(at as u64 + len_bytes <= self.len as u64);
        ForeignPlane {
            // SAFETY: within the allocation, as asserted.
            base: unsafe { self.base.add(at) },
            stride_bytes,
            len_bytes,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        // SAFETY: the whole allocation, initialised, and no memory call is running.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }.to_vec()
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        let bytes = std::ptr::slice_from_raw_parts_mut(self.base.as_ptr(), self.len);
        // SAFETY: leaked in `new`, freed once.
        drop(unsafe { Box::from_raw(bytes) });
    }
}

/// K and V of 16 bytes a page.
fn pair() -> PageGeometry {
    PageGeometry::new(2, &[Plane::per_token(1, 8), Plane::per_token(2, 4)]).unwrap()
}

fn make(planes: &[ForeignPlane]) -> Result<ForeignMemory, MemoryError> {
    // SAFETY: the planes that tests make are refused before a byte is touched, or lie within a `Tensor`
    // that outlives the memory and that nobody uses meanwhile.
    unsafe { ForeignMemory::new(pair(), PAGES, planes) }
}

// C3
#[test]
fn foreign_pages_stay_dirty_until_they_are_cleaned() {
    let tensor = Tensor::new(256);
    let memory = make(&[tensor.plane(0, 32, 128), tensor.plane(128, 32, 128)]).unwrap();
    assert_eq!(tensor.bytes(), [DIRT; 256]);
    memory.scrub();
    for plane in 0..2 {
        for page in 0..PAGES {
            let mut dst = [1; 16];
            // SAFETY: (1) one thread uses the memory.
            unsafe { memory.read(span(page, plane, 0), &mut dst) }.unwrap();
            assert_eq!(dst, [0; 16]);
        }
    }
}

// C3
#[test]
fn padding_between_foreign_pages_is_never_touched() {
    let tensor = Tensor::new(256);
    // K at 0..16 and V at 24..40 of every 48 bytes
    let memory = make(&[tensor.plane(0, 48, 160), tensor.plane(24, 48, 160)]).unwrap();
    let batch = [Heat::Hot, Heat::Cold].map(|heat| CleanPage { page: 1, tokens: 2, heat });
    assert_eq!(clean_of(&memory, &batch), Ok(Fence::DONE));
    memory.decommit(3..4).unwrap();
    for (at, byte) in tensor.bytes().into_iter().enumerate() {
        let cleaned = [48..64, 72..88, 144..160, 168..184].iter().any(|page| page.contains(&at));
        assert_eq!(byte, if cleaned { 0 } else { DIRT }, "byte {at}");
    }
    memory.commit(3..4).unwrap();
    memory.scrub();
    for (at, byte) in tensor.bytes().into_iter().enumerate() {
        let page = at < 192 && (at % 48 < 16 || (24..40).contains(&(at % 48)));
        assert_eq!(byte, if page { 0 } else { DIRT }, "byte {at}");
    }
}

#[test]
fn foreign_pages_are_written_where_the_engine_sees_them() {
    let tensor = Tensor::new(256);
    let memory = make(&[tensor.plane(3, 16, 64), tensor.plane(128, 32, 112)]).unwrap();
    // SAFETY: (1) one thread uses the memory.
    unsafe { memory.write(span(3, 1, 2), &[7; 5]) }.unwrap();
    assert_eq!(tensor.bytes()[128 + 96..128 + 96 + 8], [DIRT, DIRT, 7, 7, 7, 7, 7, DIRT]);
    assert_eq!(memory.plane(0).unwrap().base(), tensor.plane(3, 16, 64).base);
    assert_eq!(memory.plane(1).unwrap().stride(), 32);
    assert_eq!(memory.plane(2), None);
    drop(memory);
    assert_eq!(tensor.bytes()[0], DIRT);
}

#[test]
fn foreign_planes_that_cannot_be_are_refused_by_name() {
    let tensor = Tensor::new(256);
    let good = tensor.plane(0, 16, 64);
    let other = tensor.plane(64, 16, 64);
    // SAFETY: refused.
    let no_pages = unsafe { ForeignMemory::new(pair(), 0, &[good, other]) };
    assert_eq!(no_pages.unwrap_err(), MemoryError::NoPages);
    assert_eq!(make(&[good]).unwrap_err(), MemoryError::ForeignPlanes { given: 1, planes: 2 });
    assert_eq!(make(&[good, other, other]).unwrap_err(), MemoryError::ForeignPlanes { given: 3, planes: 2 });
    let narrow = ForeignPlane { stride_bytes: 15, ..other };
    assert_eq!(
        make(&[good, narrow]).unwrap_err(),
        MemoryError::ForeignStride { plane: 1, stride_bytes: 15, page_bytes: 16 }
    );
    let short = ForeignPlane { len_bytes: 63, ..other };
    assert_eq!(
        make(&[good, short]).unwrap_err(),
        MemoryError::ForeignTooShort { plane: 1, len_bytes: 63, needed_bytes: 64 }
    );
    let wide = ForeignPlane { stride_bytes: u64::MAX / 2, len_bytes: u64::MAX, ..good };
    assert_eq!(make(&[wide, other]).unwrap_err(), MemoryError::Overflow { plane: 0, pages: 4, page_bytes: 16 });
    for len_bytes in [u64::MAX, 1 << 63] {
        let long = ForeignPlane { len_bytes, ..other };
        assert_eq!(make(&[good, long]).unwrap_err(), MemoryError::ForeignWraps { plane: 1, len_bytes });
    }
    let high = ForeignPlane { base: NonNull::without_provenance(std::num::NonZero::<usize>::MAX), ..good };
    assert_eq!(make(&[high, other]).unwrap_err(), MemoryError::ForeignWraps { plane: 0, len_bytes: 64 });
    assert_eq!(tensor.bytes(), [DIRT; 256]);
}

// C2
#[test]
fn foreign_planes_with_a_byte_in_common_are_refused_and_interleaved_ones_are_not() {
    let tensor = Tensor::new(4096);
    let mut refused = 0;
    for pages in 1..=4_u32 {
        for (stride_a, stride_b) in (16..=40).step_by(4).flat_map(|a| (16..=40).step_by(4).map(move |b| (a, b))) {
            for at in (0..400_usize).step_by(3) {
                let place = |at: usize, stride: u64| tensor.plane(at, stride, stride * u64::from(pages - 1) + 16);
                let (a, b) = (place(200, stride_a), place(at, stride_b));
                let taken = |at: usize, stride: u64| {
                    (0..pages as usize)
                        .flat_map(move |page| (0..16).map(move |byte| at + page * stride as usize + byte))
                };
                let mut map = [false; 1024];
                taken(200, stride_a).for_each(|byte| map[byte] = true);
                let common = taken(at, stride_b).any(|byte| map[byte]);
                // SAFETY: within the tensor, which nobody uses meanwhile.
                let made = unsafe { ForeignMemory::new(pair(), pages, &[a, b]) };
                assert_eq!(
                    made.err(),
                    common.then_some(MemoryError::ForeignOverlap { first: 0, second: 1 }),
                    "{pages} pages, strides {stride_a} and {stride_b}, {at}"
                );
                refused += u32::from(common);
            }
        }
    }
    assert!(refused > 0);
}
