//! Allocating, pinning, filling, copying.
//!
//! `cuMemFree_v2` waits for nobody, which the manual allows: work that still comes to the memory faults, or meets what is
//! there then.

use std::ffi::c_uint;
use std::sync::Arc;

use super::Handle;
use crate::driver::{Driver, Guard, Needs, answer, call, lock};
use crate::memory::memory;
use crate::result::{CAPTURE_UNSUPPORTED, Code, INVALID_VALUE};
use crate::stream::{Point, wait};
use crate::work::{Pageable, Work};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> Code {
    call("cuMemAlloc_v2", Needs::Context, |mut driver| {
        driver.refuse_unsafe()?;
        drop(driver);
        let allocated = memory().allocate(bytes as u64)?;
        // SAFETY: as the module says.
        unsafe { answer(address, allocated) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFree_v2(address: u64) -> Code {
    call("cuMemFree_v2", Needs::Context, |mut driver| {
        driver.refuse_unsafe()?;
        drop(driver);
        memory().free(address)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostAlloc(address: *mut u64, bytes: usize, _flags: c_uint) -> Code {
    call("cuMemHostAlloc", Needs::Context, |mut driver| {
        driver.refuse_unsafe()?;
        drop(driver);
        let allocated = memory().allocate_host(bytes as u64)?;
        // SAFETY: as the module says.
        unsafe { answer(address, allocated) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFreeHost(address: u64) -> Code {
    call("cuMemFreeHost", Needs::Context, |mut driver| {
        driver.refuse_unsafe()?;
        drop(driver);
        memory().free_host(address)
    })
}

fn register(name: &'static str, address: u64, bytes: usize) -> Code {
    call(name, Needs::Context, |mut driver| {
        driver.refuse_unsafe()?;
        drop(driver);
        // SAFETY: (1) who registers memory keeps it until it is unregistered, as the module says.
        unsafe { memory().register(address, bytes as u64) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostRegister(address: u64, bytes: usize, _flags: c_uint) -> Code {
    register("cuMemHostRegister", address, bytes)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostRegister_v2(address: u64, bytes: usize, _flags: c_uint) -> Code {
    register("cuMemHostRegister_v2", address, bytes)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostUnregister(address: u64) -> Code {
    call("cuMemHostUnregister", Needs::Context, |mut driver| {
        driver.refuse_unsafe()?;
        drop(driver);
        memory().unregister(address)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostGetDevicePointer_v2(device: *mut u64, address: u64, _flags: c_uint) -> Code {
    call("cuMemHostGetDevicePointer_v2", Needs::Context, |_| {
        if !memory().is_pinned(address, 1) {
            return Err(INVALID_VALUE);
        }
        // SAFETY: as the module says.
        unsafe { answer(device, address) }
    })
}

/// Issues work, or takes it into the stream's capture.
fn issue(driver: &mut Driver, stream: Handle, work: Work) -> Result<Option<Point>, Code> {
    let stream = driver.stream(stream)?;
    Ok(driver.capture(stream, work)?.map(|work| driver.issue(stream, Vec::new(), work)))
}

/// Memory that the device can address, pinned memory among it, wholly there at the time of the call.
fn check_device(address: u64, bytes: usize) -> Result<(), Code> {
    memory().space.find(address, bytes as u64).map(drop).map_err(|_| INVALID_VALUE)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemsetD8Async(to: u64, value: u8, bytes: usize, stream: Handle) -> Code {
    call("cuMemsetD8Async", Needs::Context, |mut driver| {
        check_device(to, bytes)?;
        issue(&mut driver, stream, Work::Fill { to, value, bytes: bytes as u64 }).map(drop)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle) -> Code {
    call("cuMemcpyDtoDAsync_v2", Needs::Context, |mut driver| {
        check_device(to, bytes)?;
        check_device(from, bytes)?;
        issue(&mut driver, stream, Work::Copy { from, to, bytes: bytes as u64 }).map(drop)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoDAsync_v2(to: u64, from: *const u8, bytes: usize, stream: Handle) -> Code {
    call("cuMemcpyHtoDAsync_v2", Needs::Context, |mut driver| {
        check_device(to, bytes)?;
        if from.is_null() || memory().is_device(from as u64) {
            return Err(INVALID_VALUE);
        }
        let work = if memory().is_pinned(from as u64, bytes as u64) {
            Work::Copy { from: from as u64, to, bytes: bytes as u64 }
        } else {
            refuse_pageable(&mut driver, stream)?;
            // SAFETY: `bytes` bytes are valid for reads, as the module says.
            Work::CopyStaged { from: Arc::from(unsafe { std::slice::from_raw_parts(from, bytes) }), to }
        };
        issue(&mut driver, stream, work).map(drop)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoHAsync_v2(to: *mut u8, from: u64, bytes: usize, stream: Handle) -> Code {
    call("cuMemcpyDtoHAsync_v2", Needs::Context, |mut driver| {
        check_device(from, bytes)?;
        if to.is_null() || memory().is_device(to as u64) {
            return Err(INVALID_VALUE);
        }
        if memory().is_pinned(to as u64, bytes as u64) {
            return issue(&mut driver, stream, Work::Copy { from, to: to as u64, bytes: bytes as u64 }).map(drop);
        }
        refuse_pageable(&mut driver, stream)?;
        let work = Work::CopyOut { from, to: Pageable(to), bytes: bytes as u64 };
        match issue(&mut driver, stream, work)? {
            Some(point) => outcome(driver, point),
            None => Ok(()),
        }
    })
}

/// Waits for work, and says what became of the context.
fn outcome(driver: Guard, point: Point) -> Result<(), Code> {
    drop(wait(driver, &[point]));
    lock().sticky.map_or(Ok(()), Err)
}

fn refuse_pageable(driver: &mut Driver, stream: Handle) -> Result<(), Code> {
    let stream = driver.stream(stream)?;
    driver.refuse_captured(stream).map_err(|_| CAPTURE_UNSUPPORTED)
}
