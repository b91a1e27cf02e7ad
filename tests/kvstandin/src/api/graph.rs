//! Capture and graphs.

use std::ffi::{c_uint, c_ulonglong};

use super::Handle;
use crate::capture::Mode;
use crate::driver::{Needs, answer, call};
use crate::result::{Code, INVALID_HANDLE, INVALID_VALUE};
use crate::work::Work;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamBeginCapture_v2(stream: Handle, mode: c_uint) -> Code {
    call("cuStreamBeginCapture_v2", Needs::Context, |mut driver| {
        let mode = Mode::from_number(mode).ok_or(INVALID_VALUE)?;
        let id = driver.stream(stream)?;
        driver.begin_capture(id, mode)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamEndCapture(stream: Handle, graph: *mut Handle) -> Code {
    call("cuStreamEndCapture", Needs::Context, |mut driver| {
        let id = driver.stream(stream)?;
        let works = driver.end_capture(id)?;
        let handle = driver.handle();
        // SAFETY: as the module says.
        unsafe { answer(graph, handle) }?;
        driver.graphs.insert(handle, works.into());
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphInstantiateWithFlags(
    executable: *mut Handle,
    graph: Handle,
    _flags: c_ulonglong,
) -> Code {
    call("cuGraphInstantiateWithFlags", Needs::Context, |mut driver| {
        let works = driver.graphs.get(&graph).cloned().ok_or(INVALID_HANDLE)?;
        let handle = driver.handle();
        // SAFETY: as the module says.
        unsafe { answer(executable, handle) }?;
        driver.executables.insert(handle, works);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphLaunch(executable: Handle, stream: Handle) -> Code {
    call("cuGraphLaunch", Needs::Context, |mut driver| {
        let works = driver.executables.get(&executable).cloned().ok_or(INVALID_HANDLE)?;
        let id = driver.stream(stream)?;
        if let Some(work) = driver.capture(id, Work::Graph(works))? {
            driver.issue(id, Vec::new(), work);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphDestroy(graph: Handle) -> Code {
    call("cuGraphDestroy", Needs::Context, |mut driver| driver.graphs.remove(&graph).map(drop).ok_or(INVALID_HANDLE))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphExecDestroy(executable: Handle) -> Code {
    call("cuGraphExecDestroy", Needs::Context, |mut driver| {
        driver.executables.remove(&executable).map(drop).ok_or(INVALID_HANDLE)
    })
}
