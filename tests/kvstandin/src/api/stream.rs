//! Streams.

use std::ffi::{c_int, c_uint};

use super::Handle;
use crate::capture::{Mode, exchange_mode};
use crate::driver::{Needs, answer, call, lock};
use crate::result::{Code, INVALID_HANDLE, INVALID_VALUE, NOT_READY};
use crate::stream::{LEGACY, Point, Stream, spawn, wait};
use crate::work::Work;

const NON_BLOCKING: c_uint = 1;

fn create(name: &'static str, stream: *mut Handle, flags: c_uint) -> Code {
    call(name, Needs::Context, |mut driver| {
        if flags & !NON_BLOCKING != 0 {
            return Err(INVALID_VALUE);
        }
        let id = driver.handle();
        // SAFETY: as the module says.
        unsafe { answer(stream, id) }?;
        let held = driver.hold_new;
        driver.streams.insert(id, Stream::new(flags & NON_BLOCKING == 0, held));
        spawn(id, driver.life);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(stream: *mut Handle, flags: c_uint) -> Code {
    create("cuStreamCreate", stream, flags)
}

/// Priorities change nothing here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreateWithPriority(stream: *mut Handle, flags: c_uint, _priority: c_int) -> Code {
    create("cuStreamCreateWithPriority", stream, flags)
}

/// Does not wait: what was issued is done, then the stream goes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamDestroy_v2(stream: Handle) -> Code {
    call("cuStreamDestroy_v2", Needs::Context, |mut driver| match driver.stream(stream)? {
        LEGACY => Err(INVALID_HANDLE),
        id => {
            driver.refuse_captured(id)?;
            driver.end_stream(id);
            Ok(())
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamSynchronize(stream: Handle) -> Code {
    call("cuStreamSynchronize", Needs::Context, |mut driver| {
        let id = driver.stream(stream)?;
        driver.refuse_captured(id)?;
        // The legacy stream is done when its own work is; a wait is work that comes after all others.
        let point = match id {
            LEGACY => driver.issue(LEGACY, Vec::new(), Work::Nothing),
            _ => Point { stream: id, position: driver.streams.get(&id).map_or(0, |stream| stream.issued) },
        };
        drop(wait(driver, &[point]));
        lock().sticky.map_or(Ok(()), Err)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamQuery(stream: Handle) -> Code {
    call("cuStreamQuery", Needs::Context, |mut driver| {
        let id = driver.stream(stream)?;
        driver.refuse_captured(id)?;
        let pending = driver.streams.get(&id).map_or(0, Stream::pending);
        if pending == 0 { Ok(()) } else { Err(NOT_READY) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint) -> Code {
    call("cuStreamWaitEvent", Needs::Context, |mut driver| {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        let id = driver.stream(stream)?;
        let (recorded, captured) = match driver.events.get(&event) {
            Some(event) => (event.recorded, event.captured),
            None => return Err(INVALID_HANDLE),
        };
        if driver.captured_wait(id, captured)? {
            return Ok(());
        }
        // An event that was never recorded is done.
        if let Some(point) = recorded {
            driver.issue(id, vec![point], Work::Nothing);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamIsCapturing(stream: Handle, status: *mut c_int) -> Code {
    call("cuStreamIsCapturing", Needs::Context, |driver| {
        let found = driver.capture_status(driver.stream(stream)?)?;
        // SAFETY: as the module says.
        unsafe { answer(status, found as c_int) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) -> Code {
    call("cuThreadExchangeStreamCaptureMode", Needs::Driver, |_| {
        if mode.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: as the module says.
        let wanted = Mode::from_number(unsafe { mode.read() }).ok_or(INVALID_VALUE)?;
        // SAFETY: as the module says.
        unsafe { answer(mode, exchange_mode(wanted) as c_uint) }
    })
}
