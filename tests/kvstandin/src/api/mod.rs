//! The functions of the driver: arguments in, code out.
//!
//! Names, arguments and order of arguments are `libcuda`'s, so that what binds the one binds the other. Handles are numbers
//! in the place of pointers.
//!
//! # Safety
//!
//! Of every function here: pointers are null or valid for what is read and written there, as the driver's manual says.
#![expect(clippy::missing_safety_doc, reason = "stated above for all of them")]
#![expect(missing_docs, reason = "documented by libcuda's manual; what differs is said at the module")]

pub mod device;
pub mod error;
pub mod event;
pub mod graph;
pub mod memory;
pub mod module;
pub mod stream;

/// A handle; libcuda says pointer.
pub type Handle = u64;
