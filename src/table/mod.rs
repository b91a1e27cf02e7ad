//! Tables for kernels, written into the caller's buffers.
//!
//! **Owns** the forms in which engines name pages, and the check of each row: whose pages they are, in which life, and how far
//! they are written. **Does not know** attention, devices, or when a kernel has finished: a
//! [step](crate::PagePool::open_step) says that.
//!
//! | form | of | written by |
//! |---|---|---|
//! | `block_table` `[seqs, max_pages]`, `seq_lens` | vLLM | [`BlockTable`] |
//! | `slot_mapping` | vLLM, SGLang (`out_cache_loc`) | [`SlotMapping`] |
//! | `kv_indptr`, `kv_indices`, `kv_last_page_len` | FlashInfer | [`CsrTable`] |
//! | token slots `[seqs, max_tokens]` | SGLang (`req_to_token`) | [`TokenTable`] |
//! | pages with generations and owners | this library's check on a device | [`StampedTable`] |
//!
//! A row is [a reservation's](crate::Reservation::row) or [a list of handles](TableRow::of_handles). It covers written tokens,
//! and those that are pending under the step that it names. A row of a reservation is right until its next call; what is
//! released after that stays as it is until the steps that are open end.
//!
//! **Cost.** O(cells written), no allocation. Under half a nanosecond a page from a reservation, and a look at each page's stamp
//! from handles.

mod block;
mod csr;
mod grid;
mod row;
mod slots;
mod stamped;

pub use block::BlockTable;
pub use csr::CsrTable;
pub use grid::RowMark;
pub use row::TableRow;
pub use slots::{SlotMapping, SlotNumber, SlotPadding, TokenTable};
pub use stamped::{StampedEntry, StampedTable};

pub(crate) use row::CheckedRow;

use crate::error::TableError;

/// Checks the size of a buffer.
fn check_shape(buffer: &'static str, given: usize, expected: usize) -> Result<(), TableError> {
    if given == expected { Ok(()) } else { Err(TableError::Shape { buffer, given, expected }) }
}

/// Checks that the largest number that may come to stand in a cell fits it.
fn check_fits(largest: u64, most: u64) -> Result<(), TableError> {
    if largest <= most { Ok(()) } else { Err(TableError::Overflow { largest, most }) }
}

const I32_MOST: u64 = i32::MAX as u64;
