//! Slots: places of tokens. A slot is `page * page_tokens + place in the page`.

use std::fmt;

use super::grid::{Grid, RowMark};
use super::{TableRow, check_fits};
use crate::error::{RowError, TableError};
use crate::memory::PageMemory;
use crate::pool::PagePool;
use crate::reservation::Reservation;
use crate::step::Step;

/// Where a step writes: a `slot_mapping`, one slot for each token that is [pending](Reservation::export) under it. No other
/// token has a place here: what is written is not written again.
///
/// # Examples
///
/// ```
/// use pagestamp::table::{SlotMapping, SlotPadding};
/// use pagestamp::{CapacityPlan, NullMemory, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, Request};
/// let geometry = PageGeometry::new(16, &[Plane::per_token(1, 64)])?;
/// let pool = PagePool::new(PoolConfig::new(18), NullMemory::new(geometry, 18)?)?;
/// let (proof, owner) = (pool.prove(CapacityPlan::new(64))?, OwnerId::new(7).ok_or("zero")?);
/// let mut kv = pool.reserve(&proof, Request::new(owner, 64), 40)?;
/// kv.assume_written(14)?;
///
/// let step = pool.open_step();
/// kv.export(&step, 3)?;
/// let mut slot_mapping = [0_i64; 4];
/// let mut slots = SlotMapping::new(&pool, &mut slot_mapping)?;
/// slots.push(&kv, &step)?;
/// slots.finish(SlotPadding::Skip)?;
/// assert_eq!(slot_mapping, [2 * 16 + 14, 2 * 16 + 15, 3 * 16, -1]);
///
/// kv.wrote(&step)?; // when the kernel has finished
/// // SAFETY: (1) no kernel was launched in this example.
/// unsafe { pool.end_step(step) }.map_err(|refused| *refused.error())?;
/// assert_eq!(kv.written_tokens(), 17);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Source
///
/// vLLM 0.33, `vllm/v1/worker/block_table.py`: `slot_mapping` of int64, -1 for tokens that are not stored. SGLang 0.5.23:
/// `out_cache_loc`.
pub struct SlotMapping<'b, M: PageMemory, S: SlotNumber> {
    pool: &'b PagePool<M>,
    slots: &'b mut [S],
    used: usize,
    rows: u32,
}

/// A number that stands in a cell for a slot: `i32` or `i64`.
pub trait SlotNumber: Copy + std::fmt::Debug + sealed::Sealed {
    /// The largest one.
    const MOST: u64;

    /// A slot that is at most [`MOST`](Self::MOST).
    fn of(slot: u64) -> Self;

    /// What kernels skip.
    const SKIP: Self;
}

mod sealed {
    /// Cells have 32 or 64 bits, and nobody else's kind.
    pub trait Sealed {}
    impl Sealed for i32 {}
    impl Sealed for i64 {}
}

impl SlotNumber for i32 {
    const MOST: u64 = i32::MAX as u64;
    const SKIP: Self = -1;

    fn of(slot: u64) -> Self {
        slot as Self
    }
}

impl SlotNumber for i64 {
    const MOST: u64 = i64::MAX as u64;
    const SKIP: Self = -1;

    fn of(slot: u64) -> Self {
        slot as Self
    }
}

/// What stands in cells of a `slot_mapping` behind the last token.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum SlotPadding {
    /// -1, which the kernel skips.
    Skip,
    /// The first slot of the pool's sink page, which nobody reads.
    Sink,
}

impl<'b, M: PageMemory, S: SlotNumber> SlotMapping<'b, M, S> {
    /// Writes into this buffer.
    ///
    /// # Errors
    ///
    /// [`TableError::NoRows`], [`TableError::Overflow`].
    pub fn new(pool: &'b PagePool<M>, slot_mapping: &'b mut [S]) -> Result<Self, TableError> {
        if slot_mapping.is_empty() {
            return Err(TableError::NoRows);
        }
        check_fits(u64::from(pool.max_pages()) * u64::from(pool.geometry().page_tokens()) - 1, S::MOST)?;
        Ok(Self { pool, slots: slot_mapping, used: 0, rows: 0 })
    }

    /// Adds the slots of the tokens that a reservation has pending under the step, and answers how many.
    ///
    /// # Cost
    ///
    /// O(tokens), one lock; allocates nothing.
    ///
    /// # Errors
    ///
    /// Nothing was added.
    ///
    /// - [`TableError::TooManyCells`]: the buffer is full.
    /// - [`TableError::Row`] says what is wrong with the row: [`RowError::NotExported`], [`RowError::Step`], and as for any.
    pub fn push(&mut self, kv: &Reservation<M>, step: &Step) -> Result<usize, TableError> {
        let (pool, row) = (self.pool, self.rows);
        let is_wrong = |source| TableError::Row { row, source };
        let pending = pool.inner.pending_under(kv, step.id()).map_err(|error| is_wrong(error.into()))?;
        let (from, to) = pending.ok_or(is_wrong(RowError::NotExported(step.id())))?;
        let checked = kv.row(to).under(step).check(&pool.inner).map_err(is_wrong)?;
        let room = &mut self.slots[self.used..];
        let (needed_cells, room_cells) = (to - from, room.len() as u64);
        if needed_cells > room_cells {
            return Err(TableError::TooManyCells { row, needed_cells, room_cells });
        }
        let page_tokens = u64::from(pool.geometry().page_tokens());
        let cells = &mut room[..needed_cells as usize];
        let (mut at, mut offset) = (0, from % page_tokens);
        let written = checked.each((from / page_tokens) as u32, |page, _| {
            let end = (at + (page_tokens - offset) as usize).min(cells.len());
            let slot = u64::from(page) * page_tokens + offset;
            cells[at..end].iter_mut().zip(slot..).for_each(|(cell, slot)| *cell = S::of(slot));
            (at, offset) = (end, 0);
        });
        if let Err(source) = written {
            cells.fill(S::SKIP);
            return Err(is_wrong(source));
        }
        self.used += needed_cells as usize;
        self.rows += 1;
        Ok(needed_cells as usize)
    }

    /// Cells that are used.
    #[must_use]
    pub const fn used(&self) -> usize {
        self.used
    }

    /// Makes padding of the rest, and answers how many cells are used.
    ///
    /// # Errors
    ///
    /// [`TableError::NoPadding`]: the pool keeps no sink page.
    pub fn finish(self, padding: SlotPadding) -> Result<usize, TableError> {
        let padding = match padding {
            SlotPadding::Skip => S::SKIP,
            SlotPadding::Sink => {
                let sink = self.pool.sink_page().ok_or(TableError::NoPadding { row: self.rows })?;
                S::of(u64::from(sink) * u64::from(self.pool.geometry().page_tokens()))
            }
        };
        self.slots[self.used..].fill(padding);
        Ok(self.used)
    }
}

/// Where the tokens of each sequence lie: `[seqs, row_tokens]` slots of 32 bits, in the order of the tokens, padded with slots of
/// the null page.
///
/// # Source
///
/// SGLang 0.5.23, `python/sglang/srt/mem_cache/memory_pool.py`: `req_to_token` of int32.
#[derive(Debug)]
pub struct TokenTable<'b, M: PageMemory> {
    grid: Grid<'b, M>,
}

impl<'b, M: PageMemory> TokenTable<'b, M> {
    /// Writes into this buffer. req_to_token: `[seqs, row_tokens]`.
    ///
    /// # Errors
    ///
    /// [`TableError::NoRows`], [`TableError::Shape`], [`TableError::Overflow`].
    pub fn new(pool: &'b PagePool<M>, req_to_token: &'b mut [i32], row_tokens: usize) -> Result<Self, TableError> {
        let unit = pool.geometry().page_tokens();
        Ok(Self { grid: Grid::new(pool, "req_to_token", req_to_token, row_tokens, None, unit)? })
    }

    /// As [`BlockTable::push`](super::BlockTable::push).
    ///
    /// # Errors
    ///
    /// As there.
    pub fn push(&mut self, row: TableRow<'_, M>) -> Result<u32, TableError> {
        self.grid.push(row)
    }

    /// As [`BlockTable::update`](super::BlockTable::update).
    ///
    /// # Errors
    ///
    /// As there.
    pub fn update(&mut self, at: u32, row: TableRow<'_, M>, mark: &mut RowMark) -> Result<usize, TableError> {
        self.grid.write(at, row, mark)
    }

    /// As [`BlockTable::finish`](super::BlockTable::finish).
    ///
    /// # Errors
    ///
    /// As there.
    pub fn finish(self) -> Result<u32, TableError> {
        self.grid.finish()
    }
}

impl<M: PageMemory, S: SlotNumber> fmt::Debug for SlotMapping<'_, M, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotMapping").field("rows", &self.rows).field("used", &self.used).finish_non_exhaustive()
    }
}
