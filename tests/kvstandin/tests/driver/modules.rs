//! Modules: what is known is loaded, what is not is named.

use std::ptr::null;

use kvstandin::api::module::{cuLaunchKernel, cuModuleGetFunction, cuModuleUnload};
use kvstandin::control::{kvstandin_hold, kvstandin_refusal, kvstandin_release};
use kvstandin::result::{INVALID_HANDLE, INVALID_PTX, INVALID_VALUE, NOT_FOUND};

use crate::session::{NON_BLOCKING, STORE, Session, ok};

const KERNELS: &str = include_str!("../../../../src/memory/cuda/kernels.ptx");

#[test]
fn the_kernels_of_the_library_are_loaded() {
    let driver = Session::new();
    let module = driver.load(KERNELS).expect("every instruction is known");
    let names = [c"pagestamp_clean", c"pagestamp_stamp", c"pagestamp_check", c"pagestamp_copy", c"pagestamp_digest"];
    let mut function = 0;
    for name in names {
        // SAFETY: a pointer to a local, and a name that ends with a zero.
        ok(unsafe { cuModuleGetFunction(&mut function, module, name.as_ptr()) });
    }
    // SAFETY: as above.
    assert_eq!(unsafe { cuModuleGetFunction(&mut function, module, c"pagestamp".as_ptr()) }, NOT_FOUND);
}

#[test]
fn an_instruction_that_is_not_known_is_refused_by_name() {
    let driver = Session::new();
    for (statement, put) in [
        ("st.global.u64 [%rd1], %rd2", "st.global.f64 [%rd1], %rd2;"),
        ("st.global.u64 [%rd1], %rd2", "st.global.u64 [%rd1], %rd3;"),
        ("ret", "bra $nowhere; ret;"),
        ("ret", "@%rd1 exit; ret;"),
        ("ret", "add.s32 %rd1, %rd1; ret;"),
    ] {
        let text = STORE.replace(&format!("{statement};"), put);
        assert_eq!(driver.load(&text), Err(INVALID_PTX), "{put}");
        let mut buffer = [0u8; 256];
        let len = kvstandin_refusal(buffer.as_mut_ptr().cast(), buffer.len());
        let said = std::str::from_utf8(&buffer[..len]).expect("a text");
        assert!(said.contains(put.split(';').next().expect("a statement")), "{said}");
    }
    assert_eq!(driver.load(".version 8.0\n.extern .func f;\n"), Err(INVALID_PTX));
    assert!(driver.load(STORE).is_ok());
}

#[test]
fn a_kernel_whose_end_can_be_passed_is_refused() {
    let driver = Session::new();
    assert_eq!(driver.load(&STORE.replace("ret;", "")), Err(INVALID_PTX));
}

#[test]
fn a_launch_outlives_the_unloading_of_its_module() {
    let driver = Session::new();
    let (stream, memory) = (driver.stream(NON_BLOCKING), driver.device(8));
    let module = driver.load(STORE).expect("every instruction is known");
    let mut function = 0;
    // SAFETY: a pointer to a local, and a name that ends with a zero.
    ok(unsafe { cuModuleGetFunction(&mut function, module, c"store".as_ptr()) });
    ok(kvstandin_hold(stream));
    ok(driver.store(function, memory, 9, stream));
    // SAFETY: no pointer.
    ok(unsafe { cuModuleUnload(module) });
    assert_eq!(driver.store(function, memory, 10, stream), INVALID_HANDLE);
    ok(kvstandin_release(stream));
    ok(driver.synchronize(stream));
    assert_eq!(driver.peek(memory), 9u64.to_le_bytes());
}

#[test]
fn a_launch_of_no_blocks_or_too_many_threads_is_refused() {
    let driver = Session::new();
    let (kernel, memory, value) = (driver.store_kernel(), driver.device(8), 0u64);
    let parameters = [(&raw const memory).cast::<u8>(), (&raw const value).cast::<u8>()];
    for (blocks, threads) in [([0, 1, 1], [1, 1, 1]), ([1, 1, 1], [1, 0, 1]), ([1, 1, 1], [64, 32, 1])] {
        // SAFETY: a pointer for each of the kernel's parameters, to 8 bytes each.
        let code = unsafe {
            let ([x, y, z], [tx, ty, tz]) = (blocks, threads);
            cuLaunchKernel(kernel, x, y, z, tx, ty, tz, 0, 0, parameters.as_ptr(), null())
        };
        assert_eq!(code, INVALID_VALUE);
    }
    // SAFETY: no parameters, which must be noticed.
    assert_eq!(unsafe { cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, null(), null()) }, INVALID_VALUE);
}
