//! A stand-in for `libcuda` that executes the PTX of pagestamp's kernels on the CPU.
//!
//! It exports the driver's symbols that the library binds, and a few of its own, `kvstandin_*`, by which a test holds
//! streams and injects faults ([`control`]). Where a device is free to be nasty, it is:
//!
//! - Device addresses are unmapped on the host: following one faults.
//! - Fresh memory is 0xA5 and memory that was freed comes back, the last first, as it was left.
//! - Work starts when the stream's own thread comes to it, and only then reads pinned memory. Pageable memory is read at the
//!   call.
//! - What a kernel does not own faults, and the fault sticks to the context, as codes 700, 716 and 719.
//!
//! | file | owns |
//! |---|---|
//! | `api/` | the exported functions of the driver: arguments in, code out |
//! | `control` | the exported functions for tests |
//! | `driver` | the one state behind all of them, and what every call begins with |
//! | `injection` | which call is to fail, and how many there were |
//! | `stream` | queues, their threads, order between them, holds |
//! | `work` | what stands in a queue, and how it is executed |
//! | `event` | points in a stream's queue |
//! | `capture` | what a stream is told while it is captured, and graphs |
//! | `memory` | device and pinned memory |
//! | `space` | which addresses exist |
//! | `ptx/` | reading and executing kernels |
//!
//! **It is not** a GPU: blocks run one after another, so that races between blocks do not show (the differential tests run
//! kernels in two orders instead); one device, one context; a graph replays its work in the order of its capture.

pub mod api;
mod capture;
pub mod control;
mod driver;
mod event;
mod injection;
mod memory;
pub mod ptx;
pub mod result;
pub mod space;
mod stream;
mod work;
