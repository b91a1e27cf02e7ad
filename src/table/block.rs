//! vLLM's `block_table` and `seq_lens`.

use super::TableRow;
use super::grid::{Grid, RowMark};
use crate::error::TableError;
use crate::memory::PageMemory;
use crate::pool::PagePool;

/// A `block_table`: `[seqs, row_pages]` page numbers of 32 bits, in the order of the tokens, padded with the null page, which
/// also stands in for pages that a window slid past; and `seq_lens`: `[seqs]`.
///
/// # Examples
///
/// ```
/// use pagestamp::table::{BlockTable, RowMark};
/// use pagestamp::{CapacityPlan, NullMemory, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, Request};
/// let geometry = PageGeometry::new(16, &[Plane::per_token(1, 64)])?;
/// let pool = PagePool::new(PoolConfig::new(18), NullMemory::new(geometry, 18)?)?;
/// let (proof, owner) = (pool.prove(CapacityPlan::new(64))?, OwnerId::new(7).ok_or("zero")?);
/// let mut kv = pool.reserve(&proof, Request::new(owner, 64), 40)?;
/// kv.assume_written(32)?;
///
/// let step = pool.open_step();
/// kv.export(&step, 1)?; // a kernel will write token 32
/// let (mut block_table, mut seq_lens) = ([-7; 2 * 4], [-7; 2]);
/// let mut table = BlockTable::new(&pool, &mut block_table, 4, &mut seq_lens)?;
/// table.push(kv.row(33).under(&step))?;
/// assert_eq!(table.finish()?, 1);
/// assert_eq!((block_table, seq_lens), ([2, 3, 4, 0, 0, 0, 0, 0], [33, 0]));
///
/// // SAFETY: (1) no kernel was launched in this example.
/// unsafe { pool.end_step(step) }.map_err(|refused| *refused.error())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Source
///
/// vLLM 0.33, `vllm/v1/worker/block_table.py`: `block_table` `[max_num_reqs, max_num_blocks_per_req]` of int32.
#[derive(Debug)]
pub struct BlockTable<'b, M: PageMemory> {
    grid: Grid<'b, M>,
}

impl<'b, M: PageMemory> BlockTable<'b, M> {
    /// Writes into these buffers. block_table: `[seqs, row_pages]`, seq_lens: `[seqs]`.
    ///
    /// # Errors
    ///
    /// [`TableError::NoRows`], [`TableError::Shape`], [`TableError::Overflow`].
    pub fn new(
        pool: &'b PagePool<M>,
        block_table: &'b mut [i32],
        row_pages: usize,
        seq_lens: &'b mut [i32],
    ) -> Result<Self, TableError> {
        Ok(Self { grid: Grid::new(pool, "block_table", block_table, row_pages, Some(seq_lens), 1)? })
    }

    /// Adds a row behind the last, and answers its number.
    ///
    /// # Cost
    ///
    /// O(row_pages); allocates nothing.
    ///
    /// # Errors
    ///
    /// The table has no row more. What was written of this one was made padding again.
    ///
    /// - [`TableError::TooManyRows`], [`TableError::TooManyCells`], [`TableError::NoPadding`], [`TableError::Overflow`].
    /// - [`TableError::Row`] says what is wrong with the row, and where.
    #[inline]
    pub fn push(&mut self, row: TableRow<'_, M>) -> Result<u32, TableError> {
        self.grid.push(row)
    }

    /// Writes row `at`, as far as it changed since `mark`, in buffers that stay: answers how many cells that were.
    ///
    /// # Cost
    ///
    /// O(cells written): of a sequence that grew, the new ones.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push), and the mark is empty after all but the first of these.
    #[inline]
    pub fn update(&mut self, at: u32, row: TableRow<'_, M>, mark: &mut RowMark) -> Result<usize, TableError> {
        self.grid.write(at, row, mark)
    }

    /// Rows up to the last that was written.
    #[must_use]
    pub const fn rows(&self) -> u32 {
        self.grid.rows()
    }

    /// Makes padding of the rows behind the last, of length 0, as captured graphs want it; answers how many rows there are.
    ///
    /// # Errors
    ///
    /// [`TableError::NoPadding`]: the pool keeps no null page.
    pub fn finish(self) -> Result<u32, TableError> {
        self.grid.finish()
    }
}
