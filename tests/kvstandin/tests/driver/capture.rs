//! Capture: what is allowed meanwhile, and what a graph does.

use kvstandin::api::device::cuCtxSynchronize;
use kvstandin::api::event::{cuEventElapsedTime, cuEventQuery, cuEventSynchronize};
use kvstandin::api::graph::{
    cuGraphDestroy, cuGraphExecDestroy, cuGraphInstantiateWithFlags, cuGraphLaunch, cuStreamBeginCapture_v2,
    cuStreamEndCapture,
};
use kvstandin::api::memory::{cuMemAlloc_v2, cuMemcpyDtoHAsync_v2, cuMemcpyHtoDAsync_v2, cuMemsetD8Async};
use kvstandin::api::stream::{cuStreamIsCapturing, cuStreamWaitEvent, cuThreadExchangeStreamCaptureMode};
use kvstandin::control::{kvstandin_hold, kvstandin_release};
use kvstandin::result::{
    CAPTURE_IMPLICIT, CAPTURE_INVALIDATED, CAPTURE_ISOLATION, CAPTURE_UNJOINED, CAPTURE_UNMATCHED, CAPTURE_UNSUPPORTED,
    CAPTURED_EVENT, ILLEGAL_STATE, INVALID_HANDLE,
};

use crate::session::{BLOCKING, NON_BLOCKING, Session, ok};

const GLOBAL: u32 = 0;
const THREAD_LOCAL: u32 = 1;
const RELAXED: u32 = 2;

/// CU_STREAM_LEGACY.
const LEGACY: u64 = 1;

fn begin(stream: u64, mode: u32) {
    // SAFETY: no pointer.
    ok(unsafe { cuStreamBeginCapture_v2(stream, mode) });
}

fn end(stream: u64) -> Result<u64, u32> {
    let mut graph = 0;
    // SAFETY: a pointer to a local.
    match unsafe { cuStreamEndCapture(stream, &mut graph) } {
        0 => Ok(graph),
        code => Err(code),
    }
}

fn instantiate(graph: u64) -> u64 {
    let mut executable = 0;
    // SAFETY: a pointer to a local.
    ok(unsafe { cuGraphInstantiateWithFlags(&mut executable, graph, 0) });
    executable
}

fn launch(executable: u64, stream: u64) {
    // SAFETY: no pointer.
    ok(unsafe { cuGraphLaunch(executable, stream) });
}

/// The status of a stream: 0 is not captured, 1 is captured, 2 is captured in vain.
fn status(stream: u64) -> Result<i32, u32> {
    let mut status = -1;
    // SAFETY: a pointer to a local.
    match unsafe { cuStreamIsCapturing(stream, &mut status) } {
        0 => Ok(status),
        code => Err(code),
    }
}

#[test]
fn a_captured_stream_does_nothing_and_its_graph_does_it_every_time() {
    let driver = Session::new();
    let (stream, memory, kernel) = (driver.stream(NON_BLOCKING), driver.device(16), driver.store_kernel());
    begin(stream, GLOBAL);
    driver.fill(memory, 1, 16, stream);
    ok(driver.store(kernel, memory, u64::MAX, stream));
    let graph = end(stream).expect("all is captured");
    ok(driver.synchronize(stream));
    assert_eq!(driver.peek(memory), [0xA5; 16]);
    let executable = instantiate(graph);
    for _ in 0..2 {
        driver.fill(memory, 0, 16, stream);
        launch(executable, stream);
        ok(driver.synchronize(stream));
        assert_eq!(driver.peek(memory), [255, 255, 255, 255, 255, 255, 255, 255, 1, 1, 1, 1, 1, 1, 1, 1]);
    }
    // SAFETY: no pointer.
    ok(unsafe { cuGraphDestroy(graph) });
    // SAFETY: no pointer.
    ok(unsafe { cuGraphExecDestroy(executable) });
}

#[test]
fn a_replay_reads_pinned_memory_as_it_is_then() {
    let driver = Session::new();
    let (stream, memory, pinned) = (driver.stream(NON_BLOCKING), driver.device(8), driver.pinned(8));
    begin(stream, GLOBAL);
    // SAFETY: it has 8 bytes.
    ok(unsafe { cuMemcpyHtoDAsync_v2(memory, pinned, 8, stream) });
    let executable = instantiate(end(stream).expect("all is captured"));
    for value in [3, 4] {
        // SAFETY: it has 8 bytes, and nothing runs.
        unsafe { pinned.write_bytes(value, 8) };
        launch(executable, stream);
        ok(driver.synchronize(stream));
        assert_eq!(driver.peek(memory), [value; 8]);
    }
}

#[test]
fn pageable_copies_cannot_be_captured() {
    let driver = Session::new();
    let (stream, memory) = (driver.stream(NON_BLOCKING), driver.device(8));
    let mut bytes = [0; 8];
    begin(stream, RELAXED);
    // SAFETY: the array has 8 bytes.
    assert_eq!(unsafe { cuMemcpyHtoDAsync_v2(memory, bytes.as_ptr(), 8, stream) }, CAPTURE_UNSUPPORTED);
    // SAFETY: no pointer.
    assert_eq!(unsafe { cuMemsetD8Async(memory, 1, 8, stream) }, CAPTURE_INVALIDATED);
    assert_eq!(end(stream), Err(CAPTURE_INVALIDATED));
    begin(stream, RELAXED);
    // SAFETY: the array has 8 bytes.
    assert_eq!(unsafe { cuMemcpyDtoHAsync_v2(bytes.as_mut_ptr(), memory, 8, stream) }, CAPTURE_UNSUPPORTED);
    assert_eq!(end(stream), Err(CAPTURE_INVALIDATED));
}

#[test]
fn waiting_for_a_captured_stream_ends_its_capture() {
    let driver = Session::new();
    let stream = driver.stream(NON_BLOCKING);
    begin(stream, RELAXED);
    assert_eq!(driver.synchronize(stream), CAPTURE_UNSUPPORTED);
    assert_eq!(end(stream), Err(CAPTURE_INVALIDATED));
    assert_eq!(end(stream), Err(ILLEGAL_STATE));
}

#[test]
fn waiting_for_the_context_ends_every_capture() {
    let driver = Session::new();
    let stream = driver.stream(NON_BLOCKING);
    begin(stream, RELAXED);
    // SAFETY: no pointer.
    assert_eq!(unsafe { cuCtxSynchronize() }, CAPTURE_UNSUPPORTED);
    assert_eq!(end(stream), Err(CAPTURE_INVALIDATED));
}

#[test]
fn a_global_capture_forbids_allocating_and_asking_events_to_every_thread() {
    let driver = Session::new();
    let (stream, event) = (driver.stream(NON_BLOCKING), driver.event());
    let mut address = 0;
    // SAFETY: pointers to locals.
    unsafe {
        begin(stream, GLOBAL);
        assert_eq!(cuMemAlloc_v2(&mut address, 8), CAPTURE_UNSUPPORTED);
        assert_eq!(end(stream), Err(CAPTURE_INVALIDATED));
        begin(stream, GLOBAL);
        assert_eq!(cuEventQuery(event), CAPTURE_UNSUPPORTED);
        assert_eq!(end(stream), Err(CAPTURE_INVALIDATED));
    }
    begin(stream, GLOBAL);
    let elsewhere = std::thread::spawn(move || {
        let mut context = 0;
        // SAFETY: a pointer to a local.
        unsafe {
            ok(kvstandin::api::device::cuDevicePrimaryCtxRetain(&mut context, 0));
            ok(kvstandin::api::device::cuCtxSetCurrent(context));
            cuEventQuery(event)
        }
    });
    assert_eq!(elsewhere.join().expect("no panic"), CAPTURE_UNSUPPORTED);
    assert_eq!(end(stream), Err(CAPTURE_INVALIDATED));
}

#[test]
fn a_relaxed_thread_may_ask_events_during_any_capture() {
    let driver = Session::new();
    let (stream, event) = (driver.stream(NON_BLOCKING), driver.event());
    begin(stream, GLOBAL);
    let mut mode = RELAXED;
    // SAFETY: a pointer to a local.
    ok(unsafe { cuThreadExchangeStreamCaptureMode(&mut mode) });
    assert_eq!(mode, GLOBAL);
    assert!(driver.is_done(event));
    driver.device(8);
    // SAFETY: a pointer to a local.
    ok(unsafe { cuThreadExchangeStreamCaptureMode(&mut mode) });
    assert_eq!(mode, RELAXED);
    end(stream).expect("nothing broke it");
}

#[test]
fn a_thread_local_capture_forbids_nothing_to_others() {
    let driver = Session::new();
    let (stream, event) = (driver.stream(NON_BLOCKING), driver.event());
    begin(stream, THREAD_LOCAL);
    let elsewhere = std::thread::spawn(move || {
        let mut context = 0;
        // SAFETY: a pointer to a local.
        unsafe {
            ok(kvstandin::api::device::cuDevicePrimaryCtxRetain(&mut context, 0));
            ok(kvstandin::api::device::cuCtxSetCurrent(context));
            cuEventQuery(event)
        }
    });
    ok(elsewhere.join().expect("no panic"));
    end(stream).expect("nothing broke it");
}

#[test]
fn a_second_stream_is_captured_by_an_event_and_must_come_back() {
    let driver = Session::new();
    let (first, second) = (driver.stream(NON_BLOCKING), driver.stream(NON_BLOCKING));
    let (fork, join, memory) = (driver.event(), driver.event(), driver.device(8));
    begin(first, GLOBAL);
    driver.fill(memory, 1, 8, first);
    driver.record(fork, first);
    // SAFETY: no pointer.
    assert_eq!(unsafe { cuEventQuery(fork) }, CAPTURED_EVENT);
    driver.wait(second, fork);
    driver.fill(memory, 2, 8, second);
    assert_eq!(end(second), Err(CAPTURE_UNMATCHED));
    assert_eq!(end(first), Err(CAPTURE_UNJOINED));

    begin(first, GLOBAL);
    driver.record(fork, first);
    driver.wait(second, fork);
    driver.fill(memory, 2, 8, second);
    driver.record(join, second);
    driver.wait(first, join);
    driver.fill(memory, 3, 4, first);
    let executable = instantiate(end(first).expect("all came back"));
    launch(executable, first);
    ok(driver.synchronize(first));
    assert_eq!(driver.peek(memory), [3, 3, 3, 3, 2, 2, 2, 2]);
}

#[test]
fn a_captured_stream_cannot_wait_for_work_outside() {
    let driver = Session::new();
    let (stream, other, event) = (driver.stream(NON_BLOCKING), driver.stream(NON_BLOCKING), driver.event());
    driver.record(event, other);
    begin(stream, GLOBAL);
    // SAFETY: no pointer.
    assert_eq!(unsafe { cuStreamWaitEvent(stream, event, 0) }, CAPTURE_ISOLATION);
    assert_eq!(end(stream), Err(CAPTURE_INVALIDATED));
}

#[test]
fn the_legacy_stream_is_closed_while_a_blocking_stream_is_captured() {
    let driver = Session::new();
    let (blocking, free, memory) = (driver.stream(BLOCKING), driver.stream(NON_BLOCKING), driver.device(8));
    begin(free, GLOBAL);
    driver.fill(memory, 1, 8, 0);
    end(free).expect("a non-blocking stream knows no legacy stream");
    begin(blocking, GLOBAL);
    // SAFETY: no pointer.
    assert_eq!(unsafe { cuMemsetD8Async(memory, 1, 8, 0) }, CAPTURE_IMPLICIT);
    assert_eq!(end(blocking), Err(CAPTURE_INVALIDATED));
}

#[test]
fn a_stream_says_whether_it_is_captured_and_whether_in_vain() {
    let driver = Session::new();
    let (stream, second, fork) = (driver.stream(NON_BLOCKING), driver.stream(NON_BLOCKING), driver.event());
    assert_eq!(status(stream), Ok(0));
    begin(stream, RELAXED);
    assert_eq!((status(stream), status(second)), (Ok(1), Ok(0)));
    driver.record(fork, stream);
    driver.wait(second, fork);
    assert_eq!(status(second), Ok(1));
    assert_eq!(driver.synchronize(second), CAPTURE_UNSUPPORTED);
    assert_eq!((status(stream), status(second)), (Ok(2), Ok(2)));
    assert_eq!(end(stream), Err(CAPTURE_INVALIDATED));
    assert_eq!((status(stream), status(second)), (Ok(0), Ok(0)));
}

#[test]
fn the_legacy_stream_has_no_status_while_a_blocking_stream_is_captured_and_asking_breaks_nothing() {
    let driver = Session::new();
    let (blocking, free, memory) = (driver.stream(BLOCKING), driver.stream(NON_BLOCKING), driver.device(8));
    begin(free, GLOBAL);
    assert_eq!((status(0), status(LEGACY)), (Ok(0), Ok(0)), "a non-blocking stream knows no legacy stream");
    end(free).expect("nothing broke it");
    begin(blocking, GLOBAL);
    assert_eq!((status(0), status(LEGACY)), (Err(CAPTURE_IMPLICIT), Err(CAPTURE_IMPLICIT)));
    assert_eq!(status(blocking), Ok(1));
    driver.fill(memory, 1, 8, blocking);
    end(blocking).expect("nothing broke it");
    assert_eq!(status(0), Ok(0));
    begin(blocking, GLOBAL);
    assert_eq!(driver.synchronize(blocking), CAPTURE_UNSUPPORTED);
    assert_eq!((status(0), status(blocking)), (Err(CAPTURE_IMPLICIT), Ok(2)), "until it is ended");
    assert_eq!(end(blocking), Err(CAPTURE_INVALIDATED));
    assert_eq!(status(0), Ok(0));
}

#[test]
fn an_event_of_a_capture_that_has_ended_is_no_event_until_it_is_recorded_anew() {
    let driver = Session::new();
    let (stream, other) = (driver.stream(NON_BLOCKING), driver.stream(NON_BLOCKING));
    let (event, later) = (driver.event(), driver.event());
    driver.record(event, stream);
    begin(stream, GLOBAL);
    driver.record(event, stream);
    end(stream).expect("nothing broke it");
    // A capture that came to nothing, too.
    begin(stream, RELAXED);
    driver.record(later, stream);
    assert_eq!(driver.synchronize(stream), CAPTURE_UNSUPPORTED);
    assert_eq!(end(stream), Err(CAPTURE_INVALIDATED));
    let mut milliseconds = 0.0;
    for event in [event, later] {
        // SAFETY: a pointer to a local.
        unsafe {
            assert_eq!(cuStreamWaitEvent(other, event, 0), CAPTURED_EVENT);
            assert_eq!(cuStreamWaitEvent(stream, event, 0), CAPTURED_EVENT);
            assert_eq!(cuStreamWaitEvent(0, event, 0), CAPTURED_EVENT);
            assert_eq!(cuEventQuery(event), CAPTURED_EVENT);
            assert_eq!(cuEventSynchronize(event), CAPTURED_EVENT);
            assert_eq!(cuEventElapsedTime(&mut milliseconds, event, event), INVALID_HANDLE);
        }
        // A capture has no use for it either.
        begin(other, GLOBAL);
        // SAFETY: no pointer.
        assert_eq!(unsafe { cuStreamWaitEvent(other, event, 0) }, CAPTURE_ISOLATION);
        assert_eq!(end(other), Err(CAPTURE_INVALIDATED));
        driver.record(event, stream);
        driver.wait(other, event);
        ok(driver.synchronize(other));
        assert!(driver.is_done(event));
    }
}

#[test]
fn a_graph_waits_its_turn_in_its_stream() {
    let driver = Session::new();
    let (stream, memory) = (driver.stream(NON_BLOCKING), driver.device(8));
    begin(stream, GLOBAL);
    driver.fill(memory, 1, 8, stream);
    let executable = instantiate(end(stream).expect("all is captured"));
    ok(kvstandin_hold(stream));
    launch(executable, stream);
    driver.fill(memory, 2, 4, stream);
    assert_eq!(driver.peek(memory), [0xA5; 8]);
    ok(kvstandin_release(stream));
    ok(driver.synchronize(stream));
    assert_eq!(driver.peek(memory), [2, 2, 2, 2, 1, 1, 1, 1]);
}
