//! Planes that the engine allocated: only bytes of pages are touched, and what cannot be planes is refused.

use pagestamp::geometry::{PageGeometry, Plane};
use pagestamp::memory::MemoryError;
use pagestamp::memory::cuda::{CudaError, CudaMemory, CudaPlane};
use pagestamp::*;

use crate::driver::{EngineBytes, EngineStream, context, driver, turn};
use crate::life::{P, read, settle, take, write};

const PAGE: u64 = 32 * P;
const PAGES: u32 = 6;

fn over(planes: &[CudaPlane], pages: u32) -> Result<CudaMemory, CudaError> {
    let geometry = PageGeometry::new(P as u32, &[Plane::per_token(1, 32), Plane::per_token(2, 16)]).unwrap();
    // SAFETY: (1) the primary context lives for ever. (2) planes that are taken are memory of it. (3) nobody else has them.
    unsafe { CudaMemory::over_planes(driver(), context(), geometry, pages, planes) }
}

// C3
#[test]
fn pages_between_those_of_another_plane_are_zeroed_and_nothing_beside_them_is() {
    let _turn = turn();
    // K and V in one tensor, with 16 bytes of the engine's behind each pair
    let stride = 2 * PAGE + 16;
    let len = stride as usize * PAGES as usize;
    let (tensor, stream) = (EngineBytes::new(len), EngineStream::new());
    stream.fill(tensor.0, 0x77, len);
    stream.finish();
    let plane = |at: u64| CudaPlane { address: tensor.0 + at, stride_bytes: stride, len_bytes: len as u64 - at };
    let pool = PagePool::new(PoolConfig::new(PAGES), over(&[plane(0), plane(PAGE)], PAGES).unwrap()).unwrap();
    settle(&pool);
    let beside_is_whole = || {
        for page in 0..u64::from(PAGES) {
            let beside = stream.get(tensor.0 + page * stride + 2 * PAGE, 16);
            assert_eq!(beside, [0x77; 16], "between page {page} and the next");
        }
    };
    beside_is_whole();
    let mut kv = take(&pool, 1, 4 * P);
    kv.assume_written(4 * P).unwrap();
    assert!(read(&kv).iter().flatten().all(|byte| *byte == 0), "the engine's old bytes");
    kv.truncate(0).unwrap();
    write(&mut kv, 4 * P, 3);
    let first = u64::from(kv.handle(0).unwrap().index());
    assert!(stream.get(tensor.0 + first * stride, 2 * PAGE as usize).iter().all(|byte| *byte != 0));
    drop(kv);
    settle(&pool);
    assert!(stream.get(tensor.0 + first * stride, 2 * PAGE as usize).iter().all(|byte| *byte == 0));
    pool.resize(4).unwrap();
    settle(&pool);
    beside_is_whole();
    let memory = pool.close().unwrap();
    assert_eq!((memory.plane_address(0), memory.plane_address(1)), (Some(tensor.0), Some(tensor.0 + PAGE)));
    drop(memory);
    beside_is_whole();
}

// C11
#[test]
fn planes_that_overlap_are_short_or_strange_are_refused_and_not_touched() {
    let _turn = turn();
    let at = |address| CudaPlane { address, stride_bytes: PAGE, len_bytes: 4 * PAGE };
    let refused = |planes: &[CudaPlane], pages| match over(planes, pages).unwrap_err() {
        CudaError::Memory(error) => error,
        other => panic!("{other}"),
    };
    let far = 1 << 40;
    assert_eq!(refused(&[at(far)], 4), MemoryError::ForeignPlanes { given: 1, planes: 2 });
    assert_eq!(refused(&[at(far), at(far + PAGE)], 4), MemoryError::ForeignOverlap { first: 0, second: 1 });
    assert_eq!(refused(&[at(far), at(2 * far)], 0), MemoryError::NoPages);
    let (len_bytes, needed_bytes) = (4 * PAGE, 5 * PAGE);
    assert_eq!(refused(&[at(far), at(2 * far)], 5), MemoryError::ForeignTooShort { plane: 0, len_bytes, needed_bytes });
    let narrow = CudaPlane { stride_bytes: PAGE - 1, ..at(far) };
    let (stride_bytes, page_bytes) = (PAGE - 1, PAGE);
    assert_eq!(refused(&[at(2 * far), narrow], 4), MemoryError::ForeignStride { plane: 1, stride_bytes, page_bytes });
    let wraps = at(u64::MAX - PAGE);
    assert_eq!(refused(&[at(far), wraps], 4), MemoryError::ForeignWraps { plane: 1, len_bytes: 4 * PAGE });
    let endless = CudaPlane { stride_bytes: u64::MAX, ..at(far) };
    assert!(matches!(refused(&[endless, at(2 * far)], 4), MemoryError::Overflow { plane: 0, .. }));
    assert!(!format!("{:?}", at(0xABCD_EF00)).contains("2882400000"), "an address in a text");
}

// C7
#[test]
fn default_streams_are_named_as_what_they_are() {
    let _turn = turn();
    let memory = CudaMemory::new(driver(), 0, PageGeometry::new(4, &[Plane::per_token(1, 16)]).unwrap(), 4).unwrap();
    // SAFETY: (1) the default stream is always there. (2) nothing runs.
    let lane = unsafe { memory.add_lane(0) }.unwrap();
    assert_ne!(lane, pagestamp::memory::Lane::HOST, "the device's default stream is not the host");
    // SAFETY: as above.
    assert_eq!(unsafe { memory.add_lane(1) }.unwrap(), lane);
    // SAFETY: as above.
    assert_eq!(unsafe { memory.add_lane(2) }.unwrap_err(), CudaError::PerThreadStream);
}
