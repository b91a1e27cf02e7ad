//! Rows of equal length, for pages or for tokens, written whole or as far as they changed.

use std::fmt;

use super::{CheckedRow, I32_MOST, TableRow, check_fits, check_shape};
use crate::error::{RowError, TableError};
use crate::memory::PageMemory;
use crate::pool::{PagePool, RecordKey};

/// What was written of a row, so that the next time only what changed is: kept by the caller beside the row's cells, and made
/// anew (`RowMark::default()`) when anybody else wrote them.
///
/// It knows the reservation, so a row that another one takes over is written whole, and so is one whose pages moved or were
/// given back.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RowMark(Option<Mark>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mark {
    pool: crate::id::PoolId,
    key: RecordKey,
    /// As the list of pages counts its changes.
    changes: u64,
    first: u32,
    cells: u64,
    row_cells: u64,
}

/// The cells of all rows.
pub(super) struct Grid<'b, M: PageMemory> {
    pool: &'b PagePool<M>,
    cells: &'b mut [i32],
    row_cells: usize,
    lens: Option<&'b mut [i32]>,
    rows: u32,
    max_rows: u32,
    /// Cells of a page.
    unit: u32,
}

impl<'b, M: PageMemory> Grid<'b, M> {
    /// `cells` is `[rows, row_cells]`; `lens`, if it is there, `[rows]`.
    pub(super) fn new(
        pool: &'b PagePool<M>,
        name: &'static str,
        cells: &'b mut [i32],
        row_cells: usize,
        lens: Option<&'b mut [i32]>,
        unit: u32,
    ) -> Result<Self, TableError> {
        let rows = match &lens {
            Some(lens) => lens.len(),
            None => cells.len().checked_div(row_cells).unwrap_or(0),
        };
        if rows == 0 || row_cells == 0 {
            return Err(TableError::NoRows);
        }
        check_shape(name, cells.len(), rows.saturating_mul(row_cells))?;
        check_fits(u64::from(pool.max_pages()) * u64::from(unit) - 1, I32_MOST)?;
        let max_rows = u32::try_from(rows).unwrap_or(u32::MAX);
        Ok(Self { pool, cells, row_cells, lens, rows: 0, max_rows, unit })
    }

    pub(super) const fn rows(&self) -> u32 {
        self.rows
    }

    /// Adds a row behind the last.
    pub(super) fn push(&mut self, row: TableRow<'_, M>) -> Result<u32, TableError> {
        let at = self.rows;
        self.write(at, row, &mut RowMark::default())?;
        Ok(at)
    }

    /// Writes a row, as far as it changed since `mark`, and answers how many cells that were.
    pub(super) fn write(&mut self, at: u32, row: TableRow<'_, M>, mark: &mut RowMark) -> Result<usize, TableError> {
        if at >= self.max_rows {
            return Err(TableError::TooManyRows { row: at, rows: self.max_rows });
        }
        let pool = self.pool;
        let is_wrong = |source| TableError::Row { row: at, source };
        let checked = row.check(&pool.inner).map_err(is_wrong)?;
        let needed_cells = self.cells_of(&checked);
        let room_cells = self.row_cells as u64;
        check_fits(checked.tokens(), I32_MOST)?;
        if needed_cells > room_cells {
            return Err(TableError::TooManyCells { row: at, needed_cells, room_cells });
        }
        let now = self.mark_of(&checked, needed_cells);
        let known = known_cells(mark.0, now);
        *mark = RowMark::default();
        let padding = self.padding(at, needed_cells as usize, known)?;
        let begin = at as usize * self.row_cells;
        let cells = &mut self.cells[begin..begin + self.row_cells];
        let written = write_cells(&checked, cells, needed_cells as usize, known, self.unit, padding);
        let written = written.map_err(|source| {
            // What was written of it was not checked to its end.
            cells.fill(padding.unwrap_or(-1));
            is_wrong(source)
        })?;
        if let Some(lens) = &mut self.lens {
            lens[at as usize] = checked.tokens() as i32;
        }
        *mark = RowMark(now);
        self.rows = self.rows.max(at + 1);
        Ok(written)
    }

    /// Cells of a row, one for each page or one for each token.
    fn cells_of(&self, row: &CheckedRow<'_, M>) -> u64 {
        if self.unit == 1 { u64::from(row.pages()) } else { row.tokens() }
    }

    fn mark_of(&self, row: &CheckedRow<'_, M>, cells: u64) -> Option<Mark> {
        let core = row.core()?;
        Some(Mark {
            pool: self.pool.id(),
            key: core.key,
            changes: core.pages.changes(),
            first: core.pages.first(),
            cells,
            row_cells: self.row_cells as u64,
        })
    }

    /// What pads the row, if anything has to be padded.
    fn padding(&self, row: u32, needed: usize, known: Option<Known>) -> Result<Option<i32>, TableError> {
        let null_page = self.pool.null_page().map(|page| (page * self.unit) as i32);
        let padded_to = known.map_or(self.row_cells, |known| known.cells);
        match null_page {
            None if padded_to > needed => Err(TableError::NoPadding { row }),
            found => Ok(found),
        }
    }

    /// Makes padding of the rows behind the last, and answers how many rows there are.
    pub(super) fn finish(self) -> Result<u32, TableError> {
        if self.rows < self.max_rows {
            let padding = self.padding(self.rows, 0, None)?.unwrap_or(-1);
            self.cells[self.rows as usize * self.row_cells..].fill(padding);
            if let Some(lens) = self.lens {
                lens[self.rows as usize..].fill(0);
            }
        }
        Ok(self.rows)
    }
}

/// What stands in a row still: so many cells, of which those before `first` pages were slid past already.
#[derive(Clone, Copy)]
struct Known {
    first: u32,
    cells: usize,
}

fn known_cells(before: Option<Mark>, now: Option<Mark>) -> Option<Known> {
    let (before, now) = (before?, now?);
    let same = Mark { first: before.first, cells: before.cells, ..now } == before;
    same.then_some(Known { first: before.first, cells: before.cells as usize })
}

/// Writes the cells that are not known, pads what is left over, and answers how many cells were written.
fn write_cells<M: PageMemory>(
    row: &CheckedRow<'_, M>,
    cells: &mut [i32],
    needed: usize,
    known: Option<Known>,
    unit: u32,
    padding: Option<i32>,
) -> Result<usize, RowError> {
    let (from, padded_to) = known.map_or((0, cells.len()), |known| (known.cells.min(needed), known.cells));
    let mut written = needed - from;
    if let Some(known) = known {
        let slid = (known.first * unit) as usize..((row.first() * unit) as usize).min(from);
        if !slid.is_empty() {
            written += slid.len();
            write_units(row, &mut cells[..from], slid.start, unit)?;
        }
    }
    write_units(row, &mut cells[..needed], from, unit)?;
    if padded_to > needed {
        // Without a page to pad with nothing is left over.
        cells[needed..padded_to].fill(padding.unwrap_or(-1));
        written += padded_to - needed;
    }
    Ok(written)
}

/// Writes the cells from `from` on.
fn write_units<M: PageMemory>(
    row: &CheckedRow<'_, M>,
    cells: &mut [i32],
    from: usize,
    unit: u32,
) -> Result<(), RowError> {
    if unit == 1 {
        return row.fill(from as u32, &mut cells[from..]);
    }
    let (first, unit) = ((from / unit as usize) as u32, unit as usize);
    let (mut at, mut offset) = (from, from % unit);
    row.each(first, |page, _| {
        let end = (at + unit - offset).min(cells.len());
        let slot = page as usize * unit + offset;
        cells[at..end].iter_mut().zip(slot..).for_each(|(cell, slot)| *cell = slot as i32);
        (at, offset) = (end, 0);
    })
}

impl<M: PageMemory> fmt::Debug for Grid<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grid")
            .field("rows", &self.rows)
            .field("max_rows", &self.max_rows)
            .field("row_cells", &self.row_cells)
            .finish_non_exhaustive()
    }
}
