//! When memory of the host is read and written.

use kvstandin::api::memory::{
    cuMemFreeHost, cuMemHostRegister, cuMemHostUnregister, cuMemcpyDtoDAsync_v2, cuMemcpyDtoHAsync_v2,
    cuMemcpyHtoDAsync_v2, cuMemsetD8Async,
};
use kvstandin::control::{kvstandin_hold, kvstandin_pending, kvstandin_release};
use kvstandin::result::{ILLEGAL_ADDRESS, INVALID_VALUE};

use crate::session::{NON_BLOCKING, Session, ok};

#[test]
fn pageable_memory_is_read_at_the_call() {
    let driver = Session::new();
    let (stream, memory) = (driver.stream(NON_BLOCKING), driver.device(8));
    ok(kvstandin_hold(stream));
    let mut bytes = [1; 8];
    driver.upload(memory, &bytes, stream);
    bytes.fill(2);
    ok(kvstandin_release(stream));
    ok(driver.synchronize(stream));
    assert_eq!(driver.peek(memory), [1; 8]);
    assert_eq!(bytes, [2; 8]);
}

#[test]
fn pinned_memory_is_read_when_the_copy_runs() {
    let driver = Session::new();
    let (stream, memory, pinned) = (driver.stream(NON_BLOCKING), driver.device(8), driver.pinned(8));
    // SAFETY: it has 8 bytes, here and below.
    unsafe { pinned.write_bytes(1, 8) };
    ok(kvstandin_hold(stream));
    // SAFETY: as above.
    ok(unsafe { cuMemcpyHtoDAsync_v2(memory, pinned, 8, stream) });
    // SAFETY: as above; the stream is held.
    unsafe { pinned.write_bytes(2, 8) };
    ok(kvstandin_release(stream));
    ok(driver.synchronize(stream));
    assert_eq!(driver.peek(memory), [2; 8], "a buffer that was used again too early");
}

#[test]
fn pinned_memory_is_written_when_the_copy_runs() {
    let driver = Session::new();
    let (stream, memory, pinned) = (driver.stream(NON_BLOCKING), driver.device(8), driver.pinned(8));
    driver.fill(memory, 7, 8, stream);
    ok(driver.synchronize(stream));
    ok(kvstandin_hold(stream));
    // SAFETY: it has 8 bytes.
    ok(unsafe { cuMemcpyDtoHAsync_v2(pinned, memory, 8, stream) });
    assert_eq!(driver.peek(pinned as u64), [0xA5; 8]);
    ok(kvstandin_release(stream));
    ok(driver.synchronize(stream));
    assert_eq!(driver.peek(pinned as u64), [7; 8]);
}

#[test]
fn a_copy_to_pageable_memory_is_done_when_it_returns() {
    let driver = Session::new();
    let (stream, memory) = (driver.stream(NON_BLOCKING), driver.device(8));
    driver.fill(memory, 7, 8, stream);
    let mut bytes = [0; 8];
    // SAFETY: it has 8 bytes.
    ok(unsafe { cuMemcpyDtoHAsync_v2(bytes.as_mut_ptr(), memory, 8, stream) });
    assert_eq!(bytes, [7; 8]);
    assert_eq!(kvstandin_pending(stream), 0);
}

#[test]
fn devices_copy_between_their_own_memory() {
    let driver = Session::new();
    let (stream, from, to) = (driver.stream(NON_BLOCKING), driver.device(16), driver.device(16));
    driver.upload(from, &std::array::from_fn::<u8, 16, _>(|i| i as u8), stream);
    // SAFETY: no pointer.
    ok(unsafe { cuMemcpyDtoDAsync_v2(to + 4, from, 8, stream) });
    ok(driver.synchronize(stream));
    assert_eq!(driver.peek(to), [165, 165, 165, 165, 0, 1, 2, 3, 4, 5, 6, 7, 165, 165, 165, 165]);
}

#[test]
fn pinned_memory_is_filled_by_its_own_address_when_its_turn_comes() {
    let driver = Session::new();
    let (stream, pinned) = (driver.stream(NON_BLOCKING), driver.pinned(8) as u64);
    let mut bytes = vec![0u8; 8];
    let registered = bytes.as_mut_ptr() as u64;
    // SAFETY: no pointer is followed.
    assert_eq!(unsafe { cuMemsetD8Async(registered, 7, 8, stream) }, INVALID_VALUE, "nothing that is pinned");
    // SAFETY: the memory is unregistered below, and lives until then.
    ok(unsafe { cuMemHostRegister(registered, 8, 0) });
    ok(kvstandin_hold(stream));
    for memory in [pinned, registered] {
        driver.fill(memory + 2, 7, 4, stream);
        // SAFETY: no pointer is followed.
        assert_eq!(unsafe { cuMemsetD8Async(memory + 2, 7, 7, stream) }, INVALID_VALUE, "past the end");
    }
    assert_eq!((driver.peek(pinned), driver.peek(registered)), ([0xA5; 8], [0; 8]));
    ok(kvstandin_release(stream));
    ok(driver.synchronize(stream));
    assert_eq!(driver.peek(pinned), [0xA5, 0xA5, 7, 7, 7, 7, 0xA5, 0xA5]);
    // SAFETY: no pointer is followed.
    ok(unsafe { cuMemHostUnregister(registered) });
    assert_eq!(bytes, [0, 0, 7, 7, 7, 7, 0, 0]);
}

#[test]
fn addresses_of_nothing_are_refused_at_the_call() {
    let driver = Session::new();
    let (stream, memory) = (driver.stream(NON_BLOCKING), driver.device(8));
    let bytes = [0; 16];
    // SAFETY: the array has as many bytes, and a device address is refused before it is followed.
    unsafe {
        assert_eq!(cuMemcpyHtoDAsync_v2(memory, bytes.as_ptr(), 16, stream), INVALID_VALUE, "past the end");
        assert_eq!(cuMemcpyHtoDAsync_v2(memory + 4096, bytes.as_ptr(), 8, stream), INVALID_VALUE);
        assert_eq!(cuMemcpyHtoDAsync_v2(memory, memory as *const u8, 8, stream), INVALID_VALUE);
        assert_eq!(cuMemcpyDtoHAsync_v2(memory as *mut u8, memory, 8, stream), INVALID_VALUE);
    }
    ok(driver.synchronize(stream));
}

#[test]
fn pinned_memory_that_was_freed_too_early_is_a_fault() {
    let driver = Session::new();
    let (stream, memory, pinned) = (driver.stream(NON_BLOCKING), driver.device(8), driver.pinned(8));
    ok(kvstandin_hold(stream));
    // SAFETY: it has 8 bytes.
    ok(unsafe { cuMemcpyHtoDAsync_v2(memory, pinned, 8, stream) });
    // SAFETY: nobody uses it but the copy, which must not follow it any more.
    ok(unsafe { cuMemFreeHost(pinned as u64) });
    ok(kvstandin_release(stream));
    assert_eq!(driver.synchronize(stream), ILLEGAL_ADDRESS);
}
