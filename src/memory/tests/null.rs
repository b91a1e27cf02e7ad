#![expect(unsafe_code, reason = "calls the unsafe reads and writes, which refuse")]

use super::*;
use crate::memory::{FenceState, Lane, MemoryError};

#[test]
fn null_memory_counts_pages_and_has_no_byte() {
    let memory = NullMemory::new(geometry(), u32::MAX).unwrap();
    assert_eq!(memory.max_pages(), u32::MAX);
    assert_eq!(memory.geometry(), &geometry());
    let mut dst = [7];
    // SAFETY: (1) there are no bytes.
    let read = unsafe { memory.read(span(0, 0, 0), &mut dst) };
    assert_eq!((read, dst), (Err(MemoryError::NoBytes), [7]));
    // SAFETY: (1) there are no bytes.
    let write = unsafe { memory.write(span(0, 0, 0), &dst) };
    assert_eq!(write, Err(MemoryError::NoBytes));
}

#[test]
fn null_memory_refuses_what_the_others_refuse() {
    assert_eq!(NullMemory::new(geometry(), 0).unwrap_err(), MemoryError::NoPages);
    let memory = NullMemory::new(geometry(), 4).unwrap();
    assert_eq!(clean_of(&memory, &[whole(3, Heat::Hot)]), Ok(Fence::DONE));
    assert_eq!(memory.poll(Fence::DONE), FenceState::Done);
    assert_eq!(memory.poll(Fence::from_raw(3)), FenceState::Failed);
    let no_page = Err(MemoryError::NoSuchPage { page: 4, max_pages: 4 });
    assert_eq!(clean_of(&memory, &[whole(4, Heat::Hot)]).map(|_| ()), no_page);
    assert_eq!(memory.commit(0..5), no_page);
    assert_eq!(memory.decommit(0..5), no_page);
    assert_eq!(memory.order_after(Fence::from_raw(3), Lane::HOST), Err(MemoryError::UnknownFence { fence: 3 }));
}
