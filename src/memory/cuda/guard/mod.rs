//! The check that the device makes itself, right before attention reads.
//!
//! *Owns* tables of pages with their generations, in the order in which attention reads them, and what the device found wrong
//! with them. *Does not know* engines' tables, but for an address that it was given.
//!
//! | file | owns |
//! |---|---|
//! | `table` | [`GuardTable`]: rows, and their way to the device |
//! | `verdict` | what the device answered |
//! | `error` | why it was not asked |

mod error;
mod table;
mod verdict;

pub use error::GuardError;
pub use table::{AttentionTable, DeviceTable, GuardTable};
pub use verdict::{GuardFault, GuardReason, GuardVerdict};
