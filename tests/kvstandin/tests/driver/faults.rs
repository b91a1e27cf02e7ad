//! Faults of kernels stick; faults that a test asks for come when it says.

use kvstandin::api::memory::{cuMemAlloc_v2, cuMemFree_v2, cuMemsetD8Async};
use kvstandin::control::{kvstandin_calls, kvstandin_failed, kvstandin_hold, kvstandin_release};
use kvstandin::result::{ILLEGAL_ADDRESS, INVALID_VALUE, LAUNCH_FAILED, MISALIGNED_ADDRESS, OUT_OF_MEMORY};

use crate::session::{NON_BLOCKING, Session, ok};

#[test]
fn a_store_outside_memory_kills_the_context() {
    let driver = Session::new();
    let (stream, memory, kernel) = (driver.stream(NON_BLOCKING), driver.device(512), driver.store_kernel());
    ok(driver.store(kernel, memory, 1, stream));
    ok(driver.synchronize(stream));
    ok(driver.store(kernel, memory + 512, 1, stream));
    driver.settle(stream);
    assert_eq!(driver.synchronize(stream), ILLEGAL_ADDRESS);
    let mut address = 0;
    // SAFETY: a pointer to a local.
    assert_eq!(unsafe { cuMemAlloc_v2(&mut address, 8) }, ILLEGAL_ADDRESS, "it sticks");
    assert_eq!(driver.store(kernel, memory, 2, stream), ILLEGAL_ADDRESS);
    assert_eq!(driver.peek(memory), 1u64.to_le_bytes(), "and nothing runs any more");
}

#[test]
fn a_store_across_its_size_kills_the_context() {
    let driver = Session::new();
    let (stream, memory, kernel) = (driver.stream(NON_BLOCKING), driver.device(512), driver.store_kernel());
    ok(driver.store(kernel, memory + 4, 1, stream));
    driver.settle(stream);
    assert_eq!(driver.synchronize(stream), MISALIGNED_ADDRESS);
}

#[test]
fn a_kernel_that_outlives_its_memory_kills_the_context() {
    let driver = Session::new();
    let (stream, memory, kernel) = (driver.stream(NON_BLOCKING), driver.device(512), driver.store_kernel());
    ok(kvstandin_hold(stream));
    ok(driver.store(kernel, memory, 1, stream));
    // SAFETY: no pointer.
    ok(unsafe { cuMemFree_v2(memory) });
    ok(kvstandin_release(stream));
    driver.settle(stream);
    assert_eq!(driver.synchronize(stream), ILLEGAL_ADDRESS);
}

#[test]
fn work_behind_a_fault_is_not_done_and_nobody_waits_for_ever() {
    let driver = Session::new();
    let (stream, memory, kernel) = (driver.stream(NON_BLOCKING), driver.device(512), driver.store_kernel());
    ok(kvstandin_hold(stream));
    ok(driver.store(kernel, memory + 4, 1, stream));
    driver.fill(memory, 3, 512, stream);
    ok(kvstandin_release(stream));
    assert_eq!(driver.synchronize(stream), MISALIGNED_ADDRESS);
    assert_eq!(driver.peek(memory), [0xA5; 512]);
}

#[test]
fn a_kernel_that_does_not_end_is_given_up() {
    use kvstandin::ptx::{Launch, Module, Order};
    use kvstandin::space::{Fault, Space};
    let text = ".visible .entry spin()\n{\n$L1:\nbra $L1;\n}\n";
    let module = Module::parse(text).expect("every instruction is known");
    let launch = Launch { blocks: [1; 3], threads: [1; 3], parameters: vec![], order: Order::Forward, budget: 1000 };
    assert_eq!(launch.run(&module.kernels()[0], &Space::default()), Err(Fault::Runaway));
    assert_eq!(LAUNCH_FAILED, 719, "the code that stands for it");
}

#[test]
fn the_nth_call_fails_and_does_nothing() {
    let driver = Session::new();
    let stream = driver.stream(NON_BLOCKING);
    let memory = driver.device(8);
    driver.fail("cuMemsetD8Async", 2, LAUNCH_FAILED);
    driver.fill(memory, 1, 8, stream);
    // SAFETY: no pointer.
    assert_eq!(unsafe { cuMemsetD8Async(memory, 2, 8, stream) }, LAUNCH_FAILED);
    ok(driver.synchronize(stream));
    assert_eq!(driver.peek(memory), [1; 8]);
    driver.fill(memory, 3, 8, stream);
    ok(driver.synchronize(stream));
    assert_eq!(driver.peek(memory), [3; 8], "it does not stick");
    assert_eq!(kvstandin_calls(c"cuMemsetD8Async".as_ptr()), 3);
    let mut name = [0u8; 64];
    let len = kvstandin_failed(name.as_mut_ptr().cast(), name.len());
    assert_eq!(&name[..len], b"cuMemsetD8Async");
}

#[test]
fn the_nth_call_of_any_function_fails() {
    let driver = Session::new();
    driver.fail("*", 2, OUT_OF_MEMORY);
    driver.device(8);
    let mut address = 0;
    // SAFETY: a pointer to a local.
    assert_eq!(unsafe { cuMemAlloc_v2(&mut address, 8) }, OUT_OF_MEMORY);
    driver.device(8);
}

#[test]
fn a_plan_can_be_taken_back() {
    let driver = Session::new();
    driver.fail("cuMemAlloc_v2", 1, INVALID_VALUE);
    driver.fail("cuMemAlloc_v2", 0, 0);
    driver.device(8);
}
