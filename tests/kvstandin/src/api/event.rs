//! Events.

use std::ffi::c_uint;

use super::Handle;
use crate::driver::{Driver, Needs, answer, call, lock};
use crate::event::Event;
use crate::result::{CAPTURED_EVENT, Code, INVALID_HANDLE, INVALID_VALUE, NOT_READY};
use crate::stream::wait;
use crate::work::Work;

const BLOCKING_SYNC: c_uint = 1;
const DISABLE_TIMING: c_uint = 2;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(event: *mut Handle, flags: c_uint) -> Code {
    call("cuEventCreate", Needs::Context, |mut driver| {
        if flags & !(BLOCKING_SYNC | DISABLE_TIMING) != 0 {
            return Err(INVALID_VALUE);
        }
        let id = driver.handle();
        // SAFETY: as the module says.
        unsafe { answer(event, id) }?;
        let has_time = flags & DISABLE_TIMING == 0;
        driver.events.insert(id, Event { recorded: None, has_time, time: None, captured: None });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventDestroy_v2(event: Handle) -> Code {
    call("cuEventDestroy_v2", Needs::Context, |mut driver| driver.events.remove(&event).map(drop).ok_or(INVALID_HANDLE))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventRecord(event: Handle, stream: Handle) -> Code {
    call("cuEventRecord", Needs::Context, |mut driver| {
        let id = driver.stream(stream)?;
        if !driver.events.contains_key(&event) {
            return Err(INVALID_HANDLE);
        }
        let captured = driver.captured_point(id)?;
        let recorded = match captured {
            Some(_) => None,
            None => Some(driver.issue(id, Vec::new(), Work::Record { event })),
        };
        if let Some(event) = driver.events.get_mut(&event) {
            event.captured = captured;
            event.recorded = recorded;
        }
        Ok(())
    })
}

/// An event that may be asked about now.
fn asked(driver: &mut Driver, event: Handle) -> Result<Option<crate::stream::Point>, Code> {
    let found = driver.events.get(&event).ok_or(INVALID_HANDLE)?;
    let (recorded, captured) = (found.recorded, found.captured);
    if captured.is_some() {
        return Err(CAPTURED_EVENT);
    }
    driver.refuse_unsafe()?;
    Ok(recorded)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventQuery(event: Handle) -> Code {
    call("cuEventQuery", Needs::Context, |mut driver| {
        let recorded = asked(&mut driver, event)?;
        if recorded.is_none_or(|point| driver.is_done(point)) { Ok(()) } else { Err(NOT_READY) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventSynchronize(event: Handle) -> Code {
    call("cuEventSynchronize", Needs::Context, |mut driver| {
        if let Some(point) = asked(&mut driver, event)? {
            drop(wait(driver, &[point]));
        } else {
            drop(driver);
        }
        lock().sticky.map_or(Ok(()), Err)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle) -> Code {
    call("cuEventElapsedTime", Needs::Context, |driver| {
        let [start, end] = [start, end].map(|event| driver.events.get(&event));
        let (Some(start), Some(end)) = (start, end) else { return Err(INVALID_HANDLE) };
        if !start.has_time || !end.has_time || start.recorded.is_none() || end.recorded.is_none() {
            return Err(INVALID_HANDLE);
        }
        let is_done = |event: &Event| event.recorded.is_some_and(|point| driver.is_done(point));
        let (Some(from), Some(to)) = (start.time, end.time) else { return Err(NOT_READY) };
        if !is_done(start) || !is_done(end) {
            return Err(NOT_READY);
        }
        let forward = to.saturating_duration_since(from).as_secs_f32();
        let backward = from.saturating_duration_since(to).as_secs_f32();
        // SAFETY: as the module says.
        unsafe { answer(milliseconds, (forward - backward) * 1e3) }
    })
}
