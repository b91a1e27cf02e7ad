//! Why the device was not asked.

use thiserror::Error;

use crate::error::{ReadError, RowError};
use crate::id::PoolId;
use crate::memory::cuda::DriverError;
use crate::memory::{Lane, MemoryError};

/// Says why a table was not filled, or not checked. It is as it was.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum GuardError {
    /// The table is full of rows.
    #[error("a row more than the {max_rows} that the table was made for; make a larger one")]
    TooManyRows {
        /// Rows of the table.
        max_rows: u32,
    },
    /// The table is full of pages.
    #[error("{needed_entries} entries are needed, the table was made for {max_entries}; make a larger one")]
    TooManyEntries {
        /// Entries needed with this row.
        needed_entries: u64,
        /// Entries of the table.
        max_entries: u32,
    },
    /// A reservation of another pool.
    #[error("the reservation is of {found}, the table of {expected}")]
    ForeignPool {
        /// The table's pool.
        expected: PoolId,
        /// The reservation's.
        found: PoolId,
    },
    /// Past what is written, or revoked.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// What else is wrong with a row.
    #[error(transparent)]
    Row(RowError),
    /// The pool has no null page, which would stand in for a bad one.
    #[error("the pool has no null page to read in the place of a bad one; make the pool with one")]
    NoNullPage,
    /// The null page is not known to be zero, and the lane cannot be made to wait until it is.
    #[error(
        "the null page, which is read in the place of a bad one, is not known to be zero; call `maintain` and ask again, or make \
         the pool anew"
    )]
    NullPageDirty(#[source] MemoryError),
    /// The table, as it is now, was never checked.
    #[error("the table was not checked since it changed; nothing is known of its rows")]
    NeverChecked,
    /// The device has not finished the last check.
    #[error("the device has not finished the last check of this table; ask again later, use another table meanwhile")]
    Unfinished,
    /// The lane is being captured.
    #[error("lane {} is being captured into a graph; `arm` the table outside, and `capture` its check", lane.raw())]
    Capturing {
        /// The lane.
        lane: Lane,
    },
    /// The lane is not being captured: the check would run at once, over whatever table lies on the device.
    #[error("lane {} is not being captured into a graph; `check` the table", lane.raw())]
    NotCapturing {
        /// The lane.
        lane: Lane,
    },
    /// The stream was not named to the memory.
    #[error("lane {} is not one that the memory was told of; name it with `add_lane`", lane.raw())]
    UnknownLane {
        /// The lane.
        lane: Lane,
    },
    /// The driver refused.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

impl From<RowError> for GuardError {
    fn from(error: RowError) -> Self {
        match error {
            RowError::ForeignPool { expected, found } => Self::ForeignPool { expected, found },
            RowError::Unwritten { to_tokens, readable_tokens } => {
                ReadError::Unwritten { to_tokens, written_tokens: readable_tokens }.into()
            }
            RowError::Revoked => ReadError::Revoked.into(),
            other => Self::Row(other),
        }
    }
}
