//! Drivers that are missing, strange, or refuse: an error that says which, and nothing lost.

use std::path::Path;

use pagestamp::memory::MemoryError;
use pagestamp::memory::cuda::{CudaError, CudaMemory, Driver, DriverError};

use crate::driver::{driver, turn};
use crate::life::geometry;

// C11
#[test]
fn a_missing_driver_or_another_library_is_an_error_that_says_so() {
    let _turn = turn();
    // SAFETY: (1) there is no such file.
    let missing = unsafe { Driver::open(Path::new("/nowhere/libcuda.so.1")) }.unwrap_err();
    assert!(matches!(&missing, DriverError::NotFound { path, .. } if path.ends_with("libcuda.so.1")), "{missing}");
    assert!(missing.to_string().contains("No such file"), "what the loader said: {missing}");
    // SAFETY: (1) the C library is loaded already, and nothing of it is called.
    let other = unsafe { Driver::open(Path::new("libc.so.6")) }.unwrap_err();
    assert!(matches!(other, DriverError::NoFunction { function: "cuInit", .. }), "{other}");
}

// C11
#[test]
fn a_device_that_is_not_there_and_memory_that_it_has_not_are_errors() {
    let _turn = turn();
    let count = driver().devices().unwrap();
    let missing = CudaMemory::new(driver(), count, geometry(), 4).unwrap_err();
    assert!(matches!(missing, CudaError::Driver(DriverError::Failed { call: "cuDeviceGet", .. })), "{missing}");
    let none = CudaMemory::new(driver(), 0, geometry(), 0).unwrap_err();
    assert_eq!(none, CudaError::Memory(MemoryError::NoPages));
    let much = CudaMemory::new(driver(), 0, geometry(), u32::MAX).unwrap_err();
    let CudaError::Driver(error) = &much else { panic!("{much}") };
    assert!(error.is_out_of_memory(), "{error}");
}
