//! Device memory and pinned memory.

use kvstandin::api::device::cuMemGetInfo_v2;
use kvstandin::api::memory::{
    cuMemAlloc_v2, cuMemFree_v2, cuMemFreeHost, cuMemHostGetDevicePointer_v2, cuMemHostRegister, cuMemHostUnregister,
};
use kvstandin::control::{Live, kvstandin_cap_memory, kvstandin_live};
use kvstandin::result::{ALREADY_REGISTERED, INVALID_VALUE, NOT_REGISTERED, OUT_OF_MEMORY};

use crate::session::{NON_BLOCKING, Session, ok};

#[test]
fn fresh_memory_is_poisoned_and_no_more_aligned_than_promised() {
    let driver = Session::new();
    let (first, second) = (driver.device(1000), driver.device(1000));
    assert_eq!(driver.peek(second), [0xA5; 1000]);
    assert_eq!((first % 512, second % 512), (0, 0));
    assert_ne!(first, second);
}

#[test]
fn freed_memory_comes_back_the_last_first_as_it_was_left() {
    let driver = Session::new();
    let stream = driver.stream(NON_BLOCKING);
    let blocks = [driver.device(600), driver.device(600)];
    driver.fill(blocks[0], 1, 600, stream);
    driver.fill(blocks[1], 2, 600, stream);
    ok(driver.synchronize(stream));
    for block in blocks {
        // SAFETY: no pointer.
        ok(unsafe { cuMemFree_v2(block) });
    }
    assert_eq!(driver.device(600), blocks[1]);
    assert_eq!(driver.device(600), blocks[0]);
    assert_eq!(driver.peek(blocks[0]), [1; 600]);
    assert_eq!(driver.peek(blocks[1]), [2; 600]);
}

#[test]
fn memory_is_freed_once() {
    let driver = Session::new();
    let block = driver.device(8);
    // SAFETY: no pointer.
    ok(unsafe { cuMemFree_v2(block) });
    // SAFETY: no pointer.
    assert_eq!(unsafe { cuMemFree_v2(block) }, INVALID_VALUE);
}

#[test]
fn a_smaller_device_runs_out_of_memory() {
    let driver = Session::new();
    kvstandin_cap_memory(4096);
    let block = driver.device(3000);
    let (mut free, mut total, mut more) = (0, 0, 0);
    // SAFETY: pointers to locals.
    ok(unsafe { cuMemGetInfo_v2(&mut free, &mut total) });
    assert_eq!((free, total), (4096 - 3072, 4096));
    // SAFETY: a pointer to a local.
    assert_eq!(unsafe { cuMemAlloc_v2(&mut more, 2048) }, OUT_OF_MEMORY);
    // SAFETY: no pointer.
    ok(unsafe { cuMemFree_v2(block) });
    driver.device(2048);
}

#[test]
fn memory_of_the_host_is_pinned_once_and_has_its_own_address() {
    let _driver = Session::new();
    let mut bytes = vec![0u8; 4096];
    let (address, mut device) = (bytes.as_mut_ptr() as u64, 0);
    // SAFETY: the memory lives until the end of the test; pointers are to locals.
    unsafe {
        assert_eq!(cuMemHostGetDevicePointer_v2(&mut device, address, 0), INVALID_VALUE);
        ok(cuMemHostRegister(address, 4096, 0));
        assert_eq!(cuMemHostRegister(address + 100, 8, 0), ALREADY_REGISTERED);
        ok(cuMemHostGetDevicePointer_v2(&mut device, address, 0));
        assert_eq!(device, address);
        assert_eq!(cuMemFreeHost(address), INVALID_VALUE, "it was never allocated here");
        ok(cuMemHostUnregister(address));
        assert_eq!(cuMemHostUnregister(address), NOT_REGISTERED);
    }
}

#[test]
fn what_is_not_taken_back_is_counted() {
    let driver = Session::new();
    let before = live();
    let (stream, block, host) = (driver.stream(NON_BLOCKING), driver.device(8), driver.pinned(8));
    driver.event();
    let expected = Live { device_allocations: 1, pinned: 1, streams: 1, events: 1, retained: 1, ..Live::default() };
    assert_eq!(live(), expected);
    // SAFETY: no pointer is followed.
    unsafe {
        ok(cuMemFree_v2(block));
        ok(cuMemFreeHost(host as u64));
        ok(kvstandin::api::stream::cuStreamDestroy_v2(stream));
    }
    while live().streams != 0 {
        std::thread::yield_now();
    }
    assert_eq!(live(), Live { events: 1, ..before });
}

fn live() -> Live {
    let mut live = Live::default();
    kvstandin_live(&mut live);
    live
}

/// Follows a device address in a process of its own: this one would end.
#[test]
fn a_device_address_faults_on_the_host() {
    const CHILD: &str = "KVSTANDIN_FOLLOW";
    if std::env::var_os(CHILD).is_some() {
        let driver = Session::new();
        let address = driver.device(8) as *const u8;
        // SAFETY: none: this is what must fault.
        println!("read {}", unsafe { address.read_volatile() });
        return;
    }
    let test = std::env::current_exe().expect("a test knows its file");
    let child = std::process::Command::new(test)
        .args(["--exact", "memory::a_device_address_faults_on_the_host", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .expect("the child starts");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.status), Some(11), "SIGSEGV");
}
