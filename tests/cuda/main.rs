//! The pool on a CUDA device: on the stand-in driver, or on a real GPU by `PAGESTAMP_CUDA_DRIVER=libcuda.so.1`.
#![expect(unsafe_code, reason = "calls the driver as an engine does, and ends tickets")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod calm;
mod capture;
mod driver;
mod faults;
mod guard;
mod injected;
mod life;
mod order;
mod orders;
mod planes;

mod standin;
mod transform;
