//! PTX: what NVRTC writes for the kernels of the library and of its example, and nothing else.
//!
//! *Owns* reading and executing it. *Does not know* streams or contexts.
//!
//! **Invariant.** The instructions that are known are a list of exact spellings (`opcode.rs`). Any other makes the whole
//! module unloadable, by name: a kernel either runs as PTX means it or not at all.

mod execute;
mod float;
mod instruction;
mod opcode;
mod parse;
mod thread;

pub use execute::{Launch, Order};
pub use instruction::Kernel;
pub use parse::{Module, Refused};
