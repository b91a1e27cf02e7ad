//! The driver, its one device and its one context.
//!
//! The context's memory, streams and modules survive the last release of it: a test asks afterwards what was left
//! ([`kvstandin_live`](crate::control::kvstandin_live)).

use std::ffi::{c_char, c_int};

use super::Handle;
use crate::driver::{self, CONTEXT, Needs, answer, call, lock};
use crate::memory::memory;
use crate::result::{Code, INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, SUCCESS};
use crate::stream::{self, LEGACY, Point, Stream, wait};

const NAME: &[u8] = b"kvstandin: PTX on the CPU\0";

/// The version whose PTX it reads: 12.0.
const VERSION: c_int = 12_000;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuInit(flags: u32) -> Code {
    let mut driver = lock();
    if let Err(code) = driver.injection.call("cuInit") {
        return code;
    }
    if flags != 0 {
        return INVALID_VALUE;
    }
    if !driver.initialised {
        driver.initialised = true;
        let held = driver.hold_new;
        driver.streams.insert(LEGACY, Stream::new(true, held));
        stream::spawn(LEGACY, driver.life);
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> Code {
    let counted = lock().injection.call("cuDriverGetVersion");
    // SAFETY: as the module says.
    match counted.and_then(|()| unsafe { answer(version, VERSION) }) {
        Ok(()) => SUCCESS,
        Err(code) => code,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> Code {
    // SAFETY: as the module says.
    call("cuDeviceGetCount", Needs::Driver, |_| unsafe { answer(count, 1) })
}

fn check_device(device: c_int) -> Result<(), Code> {
    if device == 0 { Ok(()) } else { Err(INVALID_DEVICE) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> Code {
    call("cuDeviceGet", Needs::Driver, |_| {
        check_device(ordinal)?;
        // SAFETY: as the module says.
        unsafe { answer(device, 0) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int) -> Code {
    call("cuDeviceGetName", Needs::Driver, |_| {
        check_device(device)?;
        if name.is_null() || len < 1 {
            return Err(INVALID_VALUE);
        }
        let taken = NAME.len().min(len as usize);
        // SAFETY: `len` bytes are valid for writes, as the module says.
        unsafe { std::ptr::copy_nonoverlapping(NAME.as_ptr().cast(), name, taken) };
        // SAFETY: as above; a name that was cut ends too.
        unsafe { name.add(taken - 1).write(0) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> Code {
    call("cuDeviceGetAttribute", Needs::Driver, |_| {
        check_device(device)?;
        let known = match attribute {
            1 => 1024,       // threads per block
            2 | 3 => 1024,   // in x, in y
            4 => 64,         // in z
            5 => i32::MAX,   // blocks in x
            6 | 7 => 65_535, // in y, in z
            8 => 48 << 10,   // shared memory per block
            10 => 32,        // warp
            16 => 2,         // multiprocessors
            19 | 41 => 1,    // maps host memory; one address space
            75 => 8,         // compute capability: sm_80
            _ => 0,
        };
        // SAFETY: as the module says.
        unsafe { answer(value, known) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) -> Code {
    call("cuDevicePrimaryCtxRetain", Needs::Driver, |mut driver| {
        check_device(device)?;
        // SAFETY: as the module says.
        unsafe { answer(context, CONTEXT) }?;
        driver.retained += 1;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> Code {
    call("cuDevicePrimaryCtxRelease_v2", Needs::Driver, |mut driver| {
        check_device(device)?;
        driver.retained = driver.retained.checked_sub(1).ok_or(INVALID_CONTEXT)?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(context: *mut Handle) -> Code {
    // SAFETY: as the module says.
    call("cuCtxGetCurrent", Needs::Driver, |_| unsafe { answer(context, driver::current()) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSetCurrent(context: Handle) -> Code {
    call("cuCtxSetCurrent", Needs::Driver, |_| {
        if context != 0 && context != CONTEXT {
            return Err(INVALID_CONTEXT);
        }
        driver::set_current(context);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> Code {
    call("cuMemGetInfo_v2", Needs::Context, |_| {
        let (free_bytes, total_bytes) = memory().info();
        // SAFETY: as the module says.
        unsafe { answer(free, free_bytes as usize) }?;
        // SAFETY: as the module says.
        unsafe { answer(total, total_bytes as usize) }
    })
}

/// Waits for everything that was issued in any stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSynchronize() -> Code {
    call("cuCtxSynchronize", Needs::Context, |mut driver| {
        driver.refuse_any_capture()?;
        let points: Vec<_> = driver.streams.iter().map(|(&stream, it)| Point { stream, position: it.issued }).collect();
        drop(wait(driver, &points));
        lock().sticky.map_or(Ok(()), Err)
    })
}
