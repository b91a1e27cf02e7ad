//! What a test says to the stand-in, and asks it. `libcuda` has none of these.
//!
//! They are exported too, so that a test that opened the stand-in as a library finds them by name. None is counted as a
//! call, and all work behind a fault.
#![expect(clippy::not_unsafe_ptr_arg_deref, reason = "C functions; what the pointers must be is said of each")]

use std::ffi::{CStr, c_char};

use crate::api::Handle;
use crate::driver::{CHANGED, lock};
use crate::memory::memory;
use crate::result::{Code, INVALID_HANDLE, INVALID_VALUE, SUCCESS};
use crate::stream::Stream;

/// Says that this is the stand-in. A test that wants a real GPU looks for this symbol.
#[unsafe(no_mangle)]
pub extern "C" fn kvstandin_version() -> u32 {
    1
}

/// Starts anew, as a new process would: no stream, memory, module, fault or plan is left, and no count.
///
/// Nobody may use the driver meanwhile. Work that stands in queues is dropped. Calls answer 3 until the next `cuInit`.
#[unsafe(no_mangle)]
pub extern "C" fn kvstandin_reset() {
    lock().reset();
    crate::driver::set_current(0);
    memory().reset();
}

fn text(name: *const c_char) -> Option<&'static str> {
    if name.is_null() {
        return None;
    }
    // SAFETY: every function here that takes a name says that it ends with a zero; it is used during the call alone.
    unsafe { CStr::from_ptr(name) }.to_str().ok()
}

/// Lets the `nth` call of a function from now on fail with `code` and do nothing else; 1 is the next, 0 takes it back. `*`
/// stands for all functions, which are counted together.
///
/// `name` ends with a zero.
#[unsafe(no_mangle)]
pub extern "C" fn kvstandin_fail(name: *const c_char, nth: u64, code: Code) {
    if let Some(name) = text(name) {
        lock().injection.plan(name, nth, code);
    }
}

/// Counts the calls of a function since the reset, failed ones too; `*` stands for all.
///
/// `name` ends with a zero.
#[unsafe(no_mangle)]
pub extern "C" fn kvstandin_calls(name: *const c_char) -> u64 {
    text(name).map_or(0, |name| lock().injection.calls(name))
}

/// Writes the name of the function that [`kvstandin_fail`] let fail last, with a zero at the end, cut to `len` bytes.
/// Answers its length, 0 for none.
///
/// `to` is valid for writes of `len` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn kvstandin_failed(to: *mut c_char, len: usize) -> usize {
    write_text(lock().injection.failed().unwrap_or(""), to, len)
}

/// Writes what the last module was refused for, as [`kvstandin_failed`] writes its name.
///
/// `to` is valid for writes of `len` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn kvstandin_refusal(to: *mut c_char, len: usize) -> usize {
    let refusal = lock().refusal.clone();
    write_text(&refusal, to, len)
}

fn write_text(text: &str, to: *mut c_char, len: usize) -> usize {
    if !to.is_null() && len > 0 {
        let taken = text.len().min(len - 1);
        // SAFETY: `to` has room for `len` bytes, as the callers say.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, taken) };
        // SAFETY: as above.
        unsafe { to.add(taken).write(0) };
    }
    text.len()
}

/// Makes the device a smaller one, or a larger: bytes in all.
#[unsafe(no_mangle)]
pub extern "C" fn kvstandin_cap_memory(bytes: u64) {
    memory().set_cap(bytes);
}

/// What was made and not taken back.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Live {
    /// Allocations of device memory.
    pub device_allocations: u64,
    /// Pinned memory, allocated or registered.
    pub pinned: u64,
    /// Streams, without the legacy one.
    pub streams: u64,
    /// Events.
    pub events: u64,
    /// Modules.
    pub modules: u64,
    /// Graphs and executables.
    pub graphs: u64,
    /// How often the context is retained.
    pub retained: u64,
}

/// Counts what was made and not taken back. A destroyed stream counts until its work is done.
///
/// `live` is valid for writes.
#[unsafe(no_mangle)]
pub extern "C" fn kvstandin_live(live: *mut Live) {
    let driver = lock();
    let (device_allocations, pinned) = memory().live();
    let counted = Live {
        device_allocations,
        pinned,
        streams: driver.streams.len().saturating_sub(1) as u64,
        events: driver.events.len() as u64,
        modules: driver.modules.len() as u64,
        graphs: (driver.graphs.len() + driver.executables.len()) as u64,
        retained: u64::from(driver.retained),
    };
    // SAFETY: as said above.
    unsafe { live.write(counted) };
}

fn with_stream(handle: Handle, change: impl FnOnce(&mut Stream)) -> Code {
    let mut driver = lock();
    let Ok(id) = driver.stream(handle) else { return INVALID_HANDLE };
    let Some(stream) = driver.streams.get_mut(&id) else { return INVALID_HANDLE };
    change(stream);
    CHANGED.notify_all();
    SUCCESS
}

/// Holds a stream: what has not started does not start.
#[unsafe(no_mangle)]
pub extern "C" fn kvstandin_hold(stream: Handle) -> Code {
    with_stream(stream, Stream::hold)
}

/// Lets a stream go on.
#[unsafe(no_mangle)]
pub extern "C" fn kvstandin_release(stream: Handle) -> Code {
    with_stream(stream, Stream::release)
}

/// Lets one more piece of work of a held stream start.
#[unsafe(no_mangle)]
pub extern "C" fn kvstandin_step(stream: Handle) -> Code {
    with_stream(stream, Stream::step)
}

/// Holds every stream that there is, and all that come.
#[unsafe(no_mangle)]
pub extern "C" fn kvstandin_hold_all() {
    let mut driver = lock();
    driver.hold_new = true;
    driver.streams.values_mut().for_each(Stream::hold);
}

/// Lets every stream go on, and all that come.
#[unsafe(no_mangle)]
pub extern "C" fn kvstandin_release_all() {
    let mut driver = lock();
    driver.hold_new = false;
    driver.streams.values_mut().for_each(Stream::release);
    CHANGED.notify_all();
}

/// Counts the work of a stream that has not ended: launches, fills, copies, records, waits for events, graphs. `u64::MAX`
/// for a stream that is gone.
#[unsafe(no_mangle)]
pub extern "C" fn kvstandin_pending(stream: Handle) -> u64 {
    let driver = lock();
    driver.stream(stream).ok().and_then(|id| driver.streams.get(&id)).map_or(u64::MAX, Stream::pending)
}

/// 1 when a stream's next piece of work waits for nothing but a hold, 0 when it waits for another stream, or there is none.
#[unsafe(no_mangle)]
pub extern "C" fn kvstandin_ready(stream: Handle) -> u64 {
    let driver = lock();
    driver.stream(stream).is_ok_and(|id| driver.is_ready(id)).into()
}

/// Reads memory that the device can address, at once and whatever stands in queues: what is there now.
///
/// `to` is valid for writes of `bytes` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn kvstandin_peek(to: *mut u8, from: u64, bytes: u64) -> Code {
    let memory = memory();
    let Ok(from) = memory.space.find(from, bytes) else { return INVALID_VALUE };
    // SAFETY: `find` found that many bytes, and the memory is locked; `to` has room, as said above.
    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes as usize) };
    SUCCESS
}
