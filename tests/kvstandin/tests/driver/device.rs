//! Before there is a context, and what the device says of itself.

use std::ffi::CStr;

use kvstandin::api::device::{
    cuCtxGetCurrent, cuCtxSetCurrent, cuDeviceGet, cuDeviceGetAttribute, cuDeviceGetCount, cuDeviceGetName,
    cuDevicePrimaryCtxRelease_v2, cuDriverGetVersion,
};
use kvstandin::api::error::{cuGetErrorName, cuGetErrorString};
use kvstandin::api::memory::cuMemAlloc_v2;
use kvstandin::control::{kvstandin_reset, kvstandin_version};
use kvstandin::result::{CONTEXT_IS_DESTROYED, INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, NOT_INITIALIZED};

use crate::session::{Session, ok};

#[test]
fn nothing_works_before_init() {
    let _driver = Session::new();
    kvstandin_reset();
    let mut count = 0;
    // SAFETY: a pointer to a local.
    assert_eq!(unsafe { cuDeviceGetCount(&mut count) }, NOT_INITIALIZED);
}

#[test]
fn memory_needs_a_context_that_lives() {
    let _driver = Session::new();
    let (mut address, mut context) = (0, 0);
    // SAFETY: pointers to locals.
    unsafe {
        ok(cuCtxGetCurrent(&mut context));
        ok(cuCtxSetCurrent(0));
        assert_eq!(cuMemAlloc_v2(&mut address, 8), INVALID_CONTEXT);
        ok(cuCtxSetCurrent(context));
        ok(cuDevicePrimaryCtxRelease_v2(0));
        assert_eq!(cuMemAlloc_v2(&mut address, 8), CONTEXT_IS_DESTROYED);
        assert_eq!(cuDevicePrimaryCtxRelease_v2(0), INVALID_CONTEXT);
    }
}

#[test]
fn a_context_is_current_in_one_thread() {
    let _driver = Session::new();
    let other = std::thread::spawn(|| {
        let mut address = 0;
        // SAFETY: a pointer to a local.
        unsafe { cuMemAlloc_v2(&mut address, 8) }
    });
    assert_eq!(other.join().expect("no panic"), INVALID_CONTEXT);
}

#[test]
fn the_device_says_that_it_is_none() {
    let _driver = Session::new();
    let (mut device, mut count, mut version, mut major) = (7, 0, 0, 0);
    let mut name = [1u8; 64];
    // SAFETY: pointers to locals, of the lengths that are named.
    unsafe {
        ok(cuDeviceGetCount(&mut count));
        ok(cuDeviceGet(&mut device, 0));
        assert_eq!(cuDeviceGet(&mut device, 1), INVALID_DEVICE);
        ok(cuDriverGetVersion(&mut version));
        ok(cuDeviceGetAttribute(&mut major, 75, 0));
        ok(cuDeviceGetName(name.as_mut_ptr().cast(), 64, 0));
    }
    assert_eq!((device, count, version, major), (0, 1, 12_000, 8));
    let name = CStr::from_bytes_until_nul(&name).expect("a name ends");
    assert!(name.to_bytes().starts_with(b"kvstandin"));
    assert_eq!(kvstandin_version(), 1);
}

#[test]
fn codes_have_names_and_texts() {
    let (mut name, mut text) = (std::ptr::null(), std::ptr::null());
    // SAFETY: pointers to locals; texts of the driver end with a zero.
    unsafe {
        ok(cuGetErrorName(700, &mut name));
        ok(cuGetErrorString(700, &mut text));
        assert_eq!(CStr::from_ptr(name), c"CUDA_ERROR_ILLEGAL_ADDRESS");
        assert_eq!(CStr::from_ptr(text), c"an illegal memory access was encountered");
        assert_eq!(cuGetErrorName(12_345, &mut name), INVALID_VALUE);
    }
    assert!(name.is_null());
}
