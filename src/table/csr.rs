//! FlashInfer's `kv_indptr`, `kv_indices` and `kv_last_page_len`.

use std::fmt;

use super::{I32_MOST, TableRow, check_fits, check_shape};
use crate::error::TableError;
use crate::memory::PageMemory;
use crate::pool::PagePool;

/// Pages of all rows in one list: `kv_indptr` `[rows + 1]` says where each row's begin, `kv_indices` are the pages, and
/// `kv_last_page_len` `[rows]` how many tokens are in the last one, 1 to `page_tokens`.
///
/// # Examples
///
/// ```
/// use pagestamp::table::CsrTable;
/// use pagestamp::{CapacityPlan, NullMemory, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, Request};
/// let geometry = PageGeometry::new(16, &[Plane::per_token(1, 64)])?;
/// let pool = PagePool::new(PoolConfig::new(18), NullMemory::new(geometry, 18)?)?;
/// let (proof, owner) = (pool.prove(CapacityPlan::new(64))?, OwnerId::new(7).ok_or("zero")?);
/// let (mut kv_indptr, mut kv_indices, mut kv_last_page_len) = ([0; 3], [0; 8], [0; 2]);
/// let mut table = CsrTable::new(&pool, &mut kv_indptr, &mut kv_indices, &mut kv_last_page_len)?;
/// let mut batch = Vec::new();
/// for tokens in [33, 16] {
///     let mut kv = pool.reserve(&proof, Request::new(owner, 64), tokens)?;
///     kv.assume_written(tokens)?;
///     table.push(kv.row(tokens))?;
///     batch.push(kv);
/// }
/// assert_eq!((table.rows(), table.pages()), (2, 4));
/// assert_eq!((kv_indptr, kv_last_page_len), ([0, 3, 4], [1, 16]));
/// assert_eq!(kv_indices[..4], [2, 3, 4, 5]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Source
///
/// FlashInfer 0.2, the page table layout of its documentation ("KV-Cache Layout in FlashInfer").
pub struct CsrTable<'b, M: PageMemory> {
    pool: &'b PagePool<M>,
    indptr: &'b mut [i32],
    indices: &'b mut [i32],
    last_page_len: &'b mut [i32],
    rows: u32,
    pages: u32,
}

impl<'b, M: PageMemory> CsrTable<'b, M> {
    /// Writes into these buffers. kv_indptr: `[rows + 1]`, kv_indices: `[pages]`, kv_last_page_len: `[rows]`.
    ///
    /// # Errors
    ///
    /// [`TableError::NoRows`], [`TableError::Shape`], [`TableError::Overflow`].
    pub fn new(
        pool: &'b PagePool<M>,
        kv_indptr: &'b mut [i32],
        kv_indices: &'b mut [i32],
        kv_last_page_len: &'b mut [i32],
    ) -> Result<Self, TableError> {
        let rows = kv_last_page_len.len();
        if rows == 0 {
            return Err(TableError::NoRows);
        }
        check_shape("kv_indptr", kv_indptr.len(), rows.saturating_add(1))?;
        check_fits(u64::from(pool.max_pages()) - 1, I32_MOST)?;
        check_fits(kv_indices.len() as u64, I32_MOST)?;
        check_fits(u64::from(pool.geometry().page_tokens()), I32_MOST)?;
        kv_indptr[0] = 0;
        Ok(Self { pool, indptr: kv_indptr, indices: kv_indices, last_page_len: kv_last_page_len, rows: 0, pages: 0 })
    }

    /// Adds a row behind the last, and answers its number.
    ///
    /// # Cost
    ///
    /// O(pages); allocates nothing.
    ///
    /// # Errors
    ///
    /// The table has no row more.
    ///
    /// - [`TableError::TooManyRows`], [`TableError::TooManyCells`].
    /// - [`TableError::Row`] says what is wrong with the row, and where.
    pub fn push(&mut self, row: TableRow<'_, M>) -> Result<u32, TableError> {
        let (at, rows) = (self.rows, self.last_page_len.len() as u32);
        if at >= rows {
            return Err(TableError::TooManyRows { row: at, rows });
        }
        let pool = self.pool;
        let is_wrong = |source| TableError::Row { row: at, source };
        let checked = row.check(&pool.inner).map_err(is_wrong)?;
        let room = &mut self.indices[self.pages as usize..];
        let (needed_cells, room_cells) = (u64::from(checked.pages()), room.len() as u64);
        if needed_cells > room_cells {
            return Err(TableError::TooManyCells { row: at, needed_cells, room_cells });
        }
        let cells = &mut room[..checked.pages() as usize];
        if let Err(source) = checked.fill(0, cells) {
            // What was written of it was not checked to its end.
            cells.fill(pool.null_page().map_or(-1, |page| page as i32));
            return Err(is_wrong(source));
        }
        self.pages += checked.pages();
        let page_tokens = u64::from(pool.geometry().page_tokens());
        self.last_page_len[at as usize] = ((checked.tokens() - 1) % page_tokens + 1) as i32;
        self.rows += 1;
        self.indptr[self.rows as usize] = self.pages as i32;
        Ok(at)
    }

    /// Rows that were added.
    #[must_use]
    pub const fn rows(&self) -> u32 {
        self.rows
    }

    /// Pages of all rows.
    #[must_use]
    pub const fn pages(&self) -> u32 {
        self.pages
    }
}

impl<M: PageMemory> fmt::Debug for CsrTable<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CsrTable").field("rows", &self.rows).field("pages", &self.pages).finish_non_exhaustive()
    }
}
