//! Refusals of tables.

use thiserror::Error;

use super::{ReadError, StepError};
use crate::id::PoolId;
use crate::step::StepId;

/// Why a table was not made, or a row not added. The table is as it was; cells of the row that was refused name no page of
/// anybody.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableError {
    /// A buffer of the wrong size.
    #[error("{buffer} has {given} cells, {expected} are expected")]
    Shape {
        /// The buffer, as engines call it.
        buffer: &'static str,
        /// Its cells.
        given: usize,
        /// Cells that the other sizes ask for.
        expected: usize,
    },
    /// Buffers for no row.
    #[error("the buffers have no row")]
    NoRows,
    /// A number of the pool that a cell cannot hold.
    #[error("{largest} stands in a table of this pool, and a cell holds {most} at the most; make a smaller pool")]
    Overflow {
        /// The largest number there may be.
        largest: u64,
        /// The largest that a cell holds.
        most: u64,
    },
    /// The pool keeps no page to pad with.
    #[error("cells of row {row} need padding, and the pool keeps no page for it; make the pool with its own pages")]
    NoPadding {
        /// The row.
        row: u32,
    },
    /// A row more than the buffers have.
    #[error("row {row} is past the {rows} rows of the buffers")]
    TooManyRows {
        /// The row.
        row: u32,
        /// Rows of the buffers.
        rows: u32,
    },
    /// More cells than there is room for.
    #[error("row {row} needs {needed_cells} cells, there is room for {room_cells}; give a larger buffer")]
    TooManyCells {
        /// The row.
        row: u32,
        /// Cells that it needs.
        needed_cells: u64,
        /// Cells that are left for it.
        room_cells: u64,
    },
    /// The row itself.
    #[error("row {row}: {source}")]
    Row {
        /// The row.
        row: u32,
        /// What is wrong with it.
        #[source]
        source: RowError,
    },
}

/// What is wrong with a row of a table.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowError {
    /// It is of another pool.
    #[error("the pages are of {found}, the table of {expected}")]
    ForeignPool {
        /// The table's pool.
        expected: PoolId,
        /// The row's.
        found: PoolId,
    },
    /// It names no token.
    #[error("no token is named; leave the row out")]
    NoTokens,
    /// Past what is written, or pending under the step that was named.
    #[error(
        "tokens up to {to_tokens} are named, those up to {readable_tokens} are written, or pending under the step named"
    )]
    Unwritten {
        /// End of the row.
        to_tokens: u64,
        /// Tokens that it may name.
        readable_tokens: u64,
    },
    /// The step under which tokens are pending is over, or one whose tokens are in front of them.
    #[error(transparent)]
    Step(#[from] StepError),
    /// Nothing of the reservation is pending under the step: no slot may be written.
    #[error("no token is pending under {0}; export those that it writes")]
    NotExported(StepId),
    /// A page may not be read.
    #[error("page {position} of the row: {source}")]
    Page {
        /// Its place in the row.
        position: u32,
        /// Why.
        #[source]
        source: ReadError,
    },
    /// A window slid past pages of the row, and the pool keeps no page to stand in for them.
    #[error("a window slid past the first {first_pages} pages, and the pool has no null page to stand in for them")]
    Slid {
        /// Pages that are gone.
        first_pages: u32,
    },
    /// Not as many handles as the tokens have pages.
    #[error("{given} handles for tokens of {needed} pages")]
    Handles {
        /// Handles given.
        given: u64,
        /// Pages of the tokens.
        needed: u64,
    },
    /// The owner was reclaimed.
    #[error("the reservation was revoked by a reclaim of its owner")]
    Revoked,
    /// Too many guards are alive.
    #[error("too many guards are alive")]
    TooManyGuards,
}
