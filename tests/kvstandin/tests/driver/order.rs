//! Which work comes after which.

use kvstandin::api::device::cuCtxSynchronize;
use kvstandin::api::event::{cuEventElapsedTime, cuEventSynchronize};
use kvstandin::api::stream::{cuStreamDestroy_v2, cuStreamQuery};
use kvstandin::control::{
    kvstandin_hold, kvstandin_hold_all, kvstandin_pending, kvstandin_release, kvstandin_release_all, kvstandin_step,
};
use kvstandin::result::{INVALID_HANDLE, NOT_READY};

use crate::session::{BLOCKING, NON_BLOCKING, Session, ok};

#[test]
fn a_stream_does_its_work_in_order() {
    let driver = Session::new();
    let (stream, memory) = (driver.stream(NON_BLOCKING), driver.device(8));
    for value in 0..200 {
        driver.fill(memory, value, 8, stream);
    }
    ok(driver.synchronize(stream));
    assert_eq!(driver.peek(memory), [199; 8]);
}

#[test]
fn a_held_stream_starts_nothing_and_others_go_on() {
    let driver = Session::new();
    let (held, free) = (driver.stream(NON_BLOCKING), driver.stream(NON_BLOCKING));
    let (a, b) = (driver.device(8), driver.device(8));
    ok(kvstandin_hold(held));
    driver.fill(a, 1, 8, held);
    driver.fill(b, 2, 8, free);
    ok(driver.synchronize(free));
    assert_eq!(driver.peek(b), [2; 8]);
    assert_eq!(driver.peek(a), [0xA5; 8], "held");
    // SAFETY: no pointer.
    assert_eq!(unsafe { cuStreamQuery(held) }, NOT_READY);
    ok(kvstandin_release(held));
    ok(driver.synchronize(held));
    assert_eq!(driver.peek(a), [1; 8]);
    // SAFETY: no pointer.
    ok(unsafe { cuStreamQuery(held) });
}

#[test]
fn a_step_lets_one_piece_of_work_through() {
    let driver = Session::new();
    let (stream, memory) = (driver.stream(NON_BLOCKING), driver.device(8));
    ok(kvstandin_hold(stream));
    for value in 1..=3 {
        driver.fill(memory, value, 8, stream);
    }
    for value in 1..=2 {
        ok(kvstandin_step(stream));
        while kvstandin_pending(stream) != 3 - u64::from(value) {
            std::thread::yield_now();
        }
        assert_eq!(driver.peek(memory), [value; 8]);
    }
    ok(kvstandin_release(stream));
    ok(driver.synchronize(stream));
    assert_eq!(driver.peek(memory), [3; 8]);
}

#[test]
fn a_stream_waits_for_an_event_and_the_host_does_not() {
    let driver = Session::new();
    let (first, second) = (driver.stream(NON_BLOCKING), driver.stream(NON_BLOCKING));
    let (memory, event) = (driver.device(8), driver.event());
    ok(kvstandin_hold(first));
    driver.fill(memory, 1, 8, first);
    driver.record(event, first);
    driver.wait(second, event);
    driver.fill(memory, 2, 8, second);
    assert!(!driver.is_done(event));
    assert_eq!(kvstandin_pending(second), 2, "the wait and the fill");
    ok(kvstandin_release(first));
    ok(driver.synchronize(second));
    assert!(driver.is_done(event));
    assert_eq!(driver.peek(memory), [2; 8]);
}

#[test]
fn without_the_wait_the_late_work_wins() {
    let driver = Session::new();
    let (first, second) = (driver.stream(NON_BLOCKING), driver.stream(NON_BLOCKING));
    let memory = driver.device(8);
    ok(kvstandin_hold(first));
    driver.fill(memory, 1, 8, first);
    driver.fill(memory, 2, 8, second);
    ok(driver.synchronize(second));
    ok(kvstandin_release(first));
    ok(driver.synchronize(first));
    assert_eq!(driver.peek(memory), [1; 8], "what an ordering mistake looks like");
}

#[test]
fn a_wait_is_for_the_record_before_it() {
    let driver = Session::new();
    let (first, second) = (driver.stream(NON_BLOCKING), driver.stream(NON_BLOCKING));
    let (event, memory) = (driver.event(), driver.device(8));
    driver.record(event, first);
    ok(driver.synchronize(first));
    driver.wait(second, event);
    ok(kvstandin_hold(first));
    driver.record(event, first);
    driver.fill(memory, 1, 8, second);
    ok(driver.synchronize(second));
    assert!(!driver.is_done(event), "the event is what was recorded last");
    ok(kvstandin_release(first));
    // SAFETY: no pointer.
    ok(unsafe { cuEventSynchronize(event) });
}

#[test]
fn an_event_that_was_never_recorded_is_done() {
    let driver = Session::new();
    let (event, stream) = (driver.event(), driver.stream(NON_BLOCKING));
    assert!(driver.is_done(event));
    driver.wait(stream, event);
    assert_eq!(kvstandin_pending(stream), 0);
}

#[test]
fn the_legacy_stream_comes_after_blocking_streams_and_they_after_it() {
    let driver = Session::new();
    let (blocking, later, free) = (driver.stream(BLOCKING), driver.stream(BLOCKING), driver.stream(NON_BLOCKING));
    let memory = driver.device(8);
    ok(kvstandin_hold(blocking));
    driver.fill(memory, 1, 8, blocking);
    driver.fill(memory, 2, 8, 0);
    driver.fill(memory, 3, 8, later);
    driver.fill(memory, 4, 8, free);
    ok(driver.synchronize(free));
    assert_eq!(driver.peek(memory), [4; 8], "a non-blocking stream knows no legacy stream");
    assert_eq!((kvstandin_pending(0), kvstandin_pending(later)), (1, 1));
    ok(kvstandin_release(blocking));
    ok(driver.synchronize(later));
    assert_eq!(driver.peek(memory), [3; 8]);
}

#[test]
fn to_wait_for_the_legacy_stream_is_to_wait_for_blocking_streams() {
    let driver = Session::new();
    let (blocking, memory) = (driver.stream(BLOCKING), driver.device(8));
    driver.fill(memory, 1, 8, blocking);
    ok(driver.synchronize(0));
    assert_eq!(kvstandin_pending(blocking), 0);
}

#[test]
fn to_wait_for_the_context_is_to_wait_for_every_stream() {
    let driver = Session::new();
    let (blocking, free, memory) = (driver.stream(BLOCKING), driver.stream(NON_BLOCKING), driver.device(8));
    for _ in 0..20 {
        driver.fill(memory, 1, 8, blocking);
        driver.fill(memory, 2, 8, free);
    }
    // SAFETY: no pointer.
    ok(unsafe { cuCtxSynchronize() });
    assert_eq!((kvstandin_pending(blocking), kvstandin_pending(free)), (0, 0));
}

#[test]
fn a_destroyed_stream_does_its_work_and_goes() {
    let driver = Session::new();
    let (stream, memory, event) = (driver.stream(NON_BLOCKING), driver.device(8), driver.event());
    ok(kvstandin_hold(stream));
    driver.fill(memory, 1, 8, stream);
    driver.record(event, stream);
    // SAFETY: no pointer.
    ok(unsafe { cuStreamDestroy_v2(stream) });
    assert!(!driver.is_done(event));
    ok(kvstandin_release(stream));
    // SAFETY: no pointer.
    ok(unsafe { cuEventSynchronize(event) });
    assert_eq!(driver.peek(memory), [1; 8]);
    while kvstandin_pending(stream) != u64::MAX {
        std::thread::yield_now();
    }
    assert_eq!(driver.synchronize(stream), INVALID_HANDLE);
    assert!(driver.is_done(event), "nothing of it is left to wait for");
}

#[test]
fn streams_that_come_while_all_are_held_are_held() {
    let driver = Session::new();
    kvstandin_hold_all();
    let (stream, memory) = (driver.stream(NON_BLOCKING), driver.device(8));
    driver.fill(memory, 1, 8, stream);
    driver.fill(memory, 2, 8, 0);
    assert_eq!(driver.peek(memory), [0xA5; 8]);
    kvstandin_release_all();
    ok(driver.synchronize(stream));
    ok(driver.synchronize(0));
}

#[test]
fn time_between_events_is_known_when_both_are_done() {
    let driver = Session::new();
    let (stream, start, end) = (driver.stream(NON_BLOCKING), driver.event(), driver.event());
    driver.record(start, stream);
    ok(driver.synchronize(stream));
    ok(kvstandin_hold(stream));
    driver.record(end, stream);
    let mut milliseconds = -1.0;
    // SAFETY: a pointer to a local.
    assert_eq!(unsafe { cuEventElapsedTime(&mut milliseconds, start, end) }, NOT_READY);
    ok(kvstandin_release(stream));
    ok(driver.synchronize(stream));
    // SAFETY: a pointer to a local.
    ok(unsafe { cuEventElapsedTime(&mut milliseconds, start, end) });
    assert!(milliseconds >= 0.0);
}
