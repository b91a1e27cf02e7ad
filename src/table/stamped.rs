//! Pages with their generations, as the check on a device takes them.

use std::fmt;

use super::{TableRow, check_shape};
use crate::error::TableError;
use crate::memory::PageMemory;
use crate::pool::PagePool;

/// A page and the life in which a row names it: 16 bytes, as `Entry` in `stamp_check.cuh`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StampedEntry {
    /// The life; 0 for the null page, which has none.
    pub generation: u64,
    /// The page.
    pub page: u32,
    /// For the device.
    pub reserved: u32,
}

/// Rows of pages with their generations and owners, one row for each sequence: what a check of a kernel's own compares with the
/// stamps. `memory::cuda::GuardTable` brings them to a device by itself.
///
/// `row_offsets` `[rows + 1]` says where each row's entries begin, `row_owners` `[rows]` whose row it is.
pub struct StampedTable<'b, M: PageMemory> {
    pool: &'b PagePool<M>,
    entries: &'b mut [StampedEntry],
    row_offsets: &'b mut [u32],
    row_owners: &'b mut [u64],
    rows: u32,
    used: u32,
}

impl<'b, M: PageMemory> StampedTable<'b, M> {
    /// Writes into these buffers. entries: `[pages]`, row_offsets: `[rows + 1]`, row_owners: `[rows]`.
    ///
    /// # Errors
    ///
    /// [`TableError::NoRows`], [`TableError::Shape`].
    pub fn new(
        pool: &'b PagePool<M>,
        entries: &'b mut [StampedEntry],
        row_offsets: &'b mut [u32],
        row_owners: &'b mut [u64],
    ) -> Result<Self, TableError> {
        if row_owners.is_empty() {
            return Err(TableError::NoRows);
        }
        check_shape("row_offsets", row_offsets.len(), row_owners.len().saturating_add(1))?;
        super::check_fits(entries.len() as u64, u64::from(u32::MAX))?;
        row_offsets[0] = 0;
        Ok(Self { pool, entries, row_offsets, row_owners, rows: 0, used: 0 })
    }

    /// Adds a row behind the last, and answers its number.
    ///
    /// # Cost
    ///
    /// O(pages), a look at each stamp; allocates nothing.
    ///
    /// # Errors
    ///
    /// The table has no row more.
    ///
    /// - [`TableError::TooManyRows`], [`TableError::TooManyCells`].
    /// - [`TableError::Row`] says what is wrong with the row, and where.
    pub fn push(&mut self, row: TableRow<'_, M>) -> Result<u32, TableError> {
        let (at, rows) = (self.rows, self.row_owners.len() as u32);
        if at >= rows {
            return Err(TableError::TooManyRows { row: at, rows });
        }
        let pool = self.pool;
        let is_wrong = |source| TableError::Row { row: at, source };
        let checked = row.check(&pool.inner).map_err(is_wrong)?;
        let room = &mut self.entries[self.used as usize..];
        let (needed_cells, room_cells) = (u64::from(checked.pages()), room.len() as u64);
        if needed_cells > room_cells {
            return Err(TableError::TooManyCells { row: at, needed_cells, room_cells });
        }
        let mut cells = room.iter_mut();
        let written = checked.each(0, |page, generation| {
            if let Some(cell) = cells.next() {
                *cell = StampedEntry { generation, page, reserved: 0 };
            }
        });
        if let Err(source) = written {
            room[..needed_cells as usize].fill(StampedEntry::default());
            return Err(is_wrong(source));
        }
        self.used += checked.pages();
        self.row_owners[at as usize] = row.owner().get();
        self.rows += 1;
        self.row_offsets[self.rows as usize] = self.used;
        Ok(at)
    }

    /// Rows that were added.
    #[must_use]
    pub const fn rows(&self) -> u32 {
        self.rows
    }

    /// Entries of all rows.
    #[must_use]
    pub const fn entries(&self) -> u32 {
        self.used
    }
}

impl<M: PageMemory> fmt::Debug for StampedTable<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StampedTable").field("rows", &self.rows).field("used", &self.used).finish_non_exhaustive()
    }
}
