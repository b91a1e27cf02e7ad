//! Rows of pages with their generations, and their way to the device.
#![expect(unsafe_code, reason = "copies a table to the device and launches the check")]

use std::fmt;
use std::ptr::null_mut;
use std::sync::Arc;

use super::verdict::Findings;
use super::{GuardError, GuardVerdict};
use crate::memory::cuda::CudaMemory;
use crate::memory::cuda::device::{Pinned, Slab};
use crate::memory::cuda::driver::Stream;
use crate::memory::cuda::kernels::{CheckArgs, Entry, TableHead};
use crate::memory::cuda::staging::{get, put};
use crate::memory::cuda::stamps::Stamps;
use crate::memory::{Fence, FenceState, Lane, PageMemory};
use crate::pool::PagePool;
use crate::reservation::Reservation;
use crate::stamp::PageState;
use crate::table::TableRow;

/// Where attention's own table lies on the device: `[rows, row_cells]` page numbers of 32 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AttentionTable {
    /// Its address.
    pub address: u64,
    /// Cells of a row; 0 when rows follow one another as the entries do.
    pub row_cells: u32,
}

impl fmt::Debug for AttentionTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttentionTable").field("row_cells", &self.row_cells).finish_non_exhaustive()
    }
}

/// Where a table and the stamps lie on the device, for kernels that check for themselves: `stamp_check.cuh` has the types.
///
/// Such a kernel writes no round, so that [`GuardTable::verdict`] knows nothing of it: what it refused is its own to say.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceTable {
    /// `Stamp[max_pages]`
    pub stamps: u64,
    /// `Entry[entries]`
    pub entries: u64,
    /// `u32[rows + 1]`: where each row's entries begin.
    pub row_offsets: u64,
    /// `u64[rows]`: whose row it is.
    pub row_owners: u64,
    /// Pages of the pool's memory.
    pub max_pages: u32,
    /// The page that is everybody's.
    pub null_page: u32,
}

impl fmt::Debug for DeviceTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceTable").field("max_pages", &self.max_pages).finish_non_exhaustive()
    }
}

/// Pages with their generations, one row for each sequence, and the device's verdict.
///
/// Filled from reservations without an allocation, copied to the device and checked there on the engine's stream, right before
/// attention. A bad entry is taken out of attention's table (the null page stands in for it, which is zero), its row is
/// flagged, and the first one is described. The engine throws the output of a flagged row away: zeros are safe, not right.
///
/// No call waits for the device. A step that is prepared while the last one runs needs a second table.
///
/// # Graphs
///
/// [`capture`](Self::capture) puts the check into a graph, once; [`arm`](Self::arm) brings the table of a step to the device,
/// in front of each launch of the graph. A captured check looks at `max_rows` rows and takes those that the step has not for
/// empty ones.
///
/// # Examples
///
/// ```no_run
/// # fn step(pool: &pagestamp::PagePool<pagestamp::memory::cuda::CudaMemory>,
/// #     batch: &[pagestamp::Reservation<pagestamp::memory::cuda::CudaMemory>], lane: pagestamp::memory::Lane,
/// #     block_table: u64) -> Result<(), Box<dyn std::error::Error>> {
/// use pagestamp::memory::cuda::{AttentionTable, GuardTable};
///
/// let mut table = GuardTable::new(pool, 256, 16_384)?; // once
/// for kv in batch {
///     table.push(kv, kv.written_tokens())?;
/// }
/// let cells = AttentionTable { address: block_table, row_cells: 64 };
/// // SAFETY: (1) the engine's table has 256 rows of 64 cells, and attention reads it later on this stream.
/// unsafe { table.check(lane, Some(cells)) }?;
/// // ... attention on the same stream, and when the step is done:
/// let verdict = table.verdict()?; // an error as long as the device has not answered
/// if let Some(fault) = verdict.fault() {
///     eprintln!("{fault:?}: rows {:?} are thrown away", verdict.flagged().collect::<Vec<_>>());
/// }
/// table.clear()?; // for the next step
/// # Ok(())
/// # }
/// ```
pub struct GuardTable {
    /// whose stamps on the host say what left since a row was filled; keeps the memory alive
    pool: PagePool<CudaMemory>,
    stamps: Arc<Stamps>,
    null_page: u32,
    /// behind which the null page is zero, until that is known
    null_page_fence: Option<Fence>,
    max_rows: u32,
    max_entries: u32,
    rows: u32,
    entries: u32,
    /// as `Places` says, on both sides
    host: Pinned,
    there: Slab,
    scratch: Slab,
    findings: Findings,
    /// rows of the table that went to the device last, until it is changed: the device speaks of those alone
    judged_rows: Option<u32>,
    /// tables that went to the device so far
    round: u64,
    /// the round that the device is to answer, and where
    asked: Option<u64>,
    stream: Stream,
}

// SAFETY: the stream's handle may be used by any thread, and is never dereferenced here.
unsafe impl Send for GuardTable {}
// SAFETY: as above.
unsafe impl Sync for GuardTable {}

/// Where the parts of a table begin, in bytes.
struct Places {
    offsets: usize,
    owners: usize,
    entries: usize,
    bytes: usize,
}

const fn places(max_rows: u32, max_entries: u32) -> Places {
    const fn align(at: usize) -> usize {
        at.next_multiple_of(16)
    }
    let offsets = size_of::<TableHead>();
    let owners = align(offsets + (max_rows as usize + 1) * 4);
    let entries = align(owners + max_rows as usize * 8);
    Places { offsets, owners, entries, bytes: entries + max_entries as usize * size_of::<Entry>() }
}

impl GuardTable {
    /// Makes a table for so many sequences, and pages of all of them together.
    ///
    /// It keeps the pool: [`close`](PagePool::close) waits for its end.
    ///
    /// # Cost
    ///
    /// O(rows + entries) bytes, pinned and on the device.
    ///
    /// # Errors
    ///
    /// - [`GuardError::NoNullPage`]
    /// - [`GuardError::Driver`]: no memory.
    pub fn new(pool: &PagePool<CudaMemory>, max_rows: u32, max_entries: u32) -> Result<Self, GuardError> {
        let null_page = pool.null_page().ok_or(GuardError::NoNullPage)?;
        let stamps = Arc::clone(&pool.inner.memory.stamps);
        let device = Arc::clone(&stamps.device);
        let bytes = places(max_rows, max_entries).bytes;
        // The device's first: what it has no room for is refused before the host is asked to pin as much.
        let (there, host) = (Slab::new(&device, bytes as u64)?, Pinned::new(&device, bytes)?);
        let findings = Findings::new(Pinned::new(&device, Findings::bytes(max_rows))?, max_rows);
        let scratch = Slab::new(&device, 16)?;
        let mut clean = [0_u8; 16];
        clean[..8].fill(0xFF); // no lowest fault yet
        // SAFETY: (1) the slab has so many bytes, and is nobody else's yet.
        unsafe { pool.inner.memory.staging.upload(scratch.address(), &clean) }?;
        Ok(Self {
            pool: pool.clone(),
            stamps,
            null_page,
            null_page_fence: pool.inner.own_pages_clean.get().copied(),
            max_rows,
            max_entries,
            rows: 0,
            entries: 0,
            host,
            there,
            scratch,
            findings,
            judged_rows: None,
            round: 0,
            asked: None,
            stream: null_mut(),
        })
    }

    /// Returns the rows that the table has.
    #[must_use]
    pub const fn rows(&self) -> u32 {
        self.rows
    }

    /// Returns the pages of all rows.
    #[must_use]
    pub const fn entries(&self) -> u32 {
        self.entries
    }

    /// Says whether the device has not finished with the table.
    fn is_in_use(&self) -> bool {
        self.asked.is_some_and(|round| self.findings.round() != round)
    }

    fn free(&self) -> Result<(), GuardError> {
        if self.is_in_use() { Err(GuardError::Unfinished) } else { Ok(()) }
    }

    /// Empties the table for the next step.
    ///
    /// # Errors
    ///
    /// - [`GuardError::Unfinished`]
    pub fn clear(&mut self) -> Result<(), GuardError> {
        self.free()?;
        (self.rows, self.entries, self.judged_rows) = (0, 0, None);
        Ok(())
    }

    /// Adds a sequence: the pages of its first `tokens` tokens, in order. Answers its row.
    ///
    /// Name all tokens that attention will read of the row. Cells past the row's pages become the null page and are no fault:
    /// what the engine reads there is zero, and it alone knows whether it meant to.
    ///
    /// # Cost
    ///
    /// O(pages); allocates nothing.
    ///
    /// # Errors
    ///
    /// As [`push_row`](Self::push_row).
    pub fn push(&mut self, kv: &Reservation<CudaMemory>, tokens: u64) -> Result<u32, GuardError> {
        self.push_row(kv.row(tokens))
    }

    /// As [`push`](Self::push), of any row that a [table](crate::table) takes: with tokens that are pending under a step, or from
    /// handles.
    ///
    /// # Errors
    ///
    /// The table is as it was.
    ///
    /// - [`GuardError::TooManyRows`], [`GuardError::TooManyEntries`], [`GuardError::ForeignPool`].
    /// - [`GuardError::Read`]: the tokens are not written, or the owner was reclaimed.
    /// - [`GuardError::Row`]: what else is wrong with the row.
    /// - [`GuardError::Unfinished`]
    pub fn push_row(&mut self, row: TableRow<'_, CudaMemory>) -> Result<u32, GuardError> {
        self.free()?;
        let checked = row.check(&self.pool.inner)?;
        if self.rows == self.max_rows {
            return Err(GuardError::TooManyRows { max_rows: self.max_rows });
        }
        let needed_entries = u64::from(self.entries) + u64::from(checked.pages());
        if needed_entries > u64::from(self.max_entries) {
            return Err(GuardError::TooManyEntries { needed_entries, max_entries: self.max_entries });
        }
        let places = places(self.max_rows, self.max_entries);
        let bytes = self.host.bytes();
        let mut at = places.entries + self.entries as usize * size_of::<Entry>();
        checked.each(0, |page, generation| at = put(bytes, at, &Entry { generation, page, seen: 0 }))?;
        self.entries += checked.pages();
        put(bytes, places.owners + self.rows as usize * 8, &row.owner().get());
        put(bytes, places.offsets + (self.rows as usize + 1) * 4, &self.entries);
        self.rows += 1;
        self.judged_rows = None;
        Ok(self.rows - 1)
    }

    /// Copies the table to the device and checks it there, behind the stamps of all pages that were handed out until now:
    /// [`arm`](Self::arm) and the check in one.
    ///
    /// # Errors
    ///
    /// As [`arm`](Self::arm). After [`GuardError::Driver`] treat the step as not checked, and make another table.
    ///
    /// # Safety
    ///
    /// 1. `attention`, if there is one, is memory of the context with `rows` rows of `row_cells` cells, or as many cells as
    ///    there are entries; what writes it is in front of this in the lane's order, and it is not freed before the check is
    ///    done.
    /// 2. What reads pages by the table is queued before any of its pages is released: a release waits for what lanes hold
    ///    by then, and neither it nor the check can see what comes later.
    pub unsafe fn check(&mut self, lane: Lane, attention: Option<AttentionTable>) -> Result<(), GuardError> {
        self.arm(lane)?;
        let _current = self.stamps.device.enter()?;
        // SAFETY: (1) the lane is live by (1) of `add_lane`; the addresses are this table's, which is not freed while it is in
        // use, and attention's by (1) of the caller.
        Ok(unsafe { self.stamps.kernels.check(self.args(self.rows, attention), lane.raw() as Stream) }?)
    }

    /// Copies the table to the device, behind everything that the lane holds, and makes the lane wait for the stamps of all
    /// pages that were handed out until now. For a graph in which the check was captured, which the engine launches next, on
    /// this lane. Entries whose pages were released since their rows were filled are struck out.
    ///
    /// # Cost
    ///
    /// O(entries): a look at each page's stamp on the host, one copy.
    ///
    /// # Errors
    ///
    /// - [`GuardError::UnknownLane`], [`GuardError::Capturing`], [`GuardError::Unfinished`]: nothing was queued.
    /// - [`GuardError::NullPageDirty`]: of a young pool, while another lane is captured, or after a cleaning that failed; nothing was
    ///   queued.
    /// - [`GuardError::Driver`]: the table was not copied.
    pub fn arm(&mut self, lane: Lane) -> Result<(), GuardError> {
        if !self.stamps.has_lane(lane) {
            return Err(GuardError::UnknownLane { lane });
        }
        self.free()?;
        // What was found of the round before is gone, whatever becomes of this one.
        self.judged_rows = None;
        self.strike_out();
        let stream = lane.raw() as Stream;
        let stamps = Arc::clone(&self.stamps);
        let driver = &stamps.device.driver;
        let _current = stamps.device.enter()?;
        // SAFETY: (1) the lane is one that was named, and live by (1) of `add_lane`.
        if unsafe { driver.is_capturing(stream) }? {
            return Err(GuardError::Capturing { lane });
        }
        self.wait_for_null_page(lane)?;
        // SAFETY: (1) as above.
        unsafe { stamps.write_before(stream) }?;
        self.findings.forget();
        put(self.host.bytes(), 0, &TableHead { n_rows: self.rows, reserved: 0, round: self.round + 1 });
        let used = places(self.max_rows, self.max_entries).entries + self.entries as usize * size_of::<Entry>();
        let (there, host) = (self.there.address(), self.host.as_ptr().cast());
        // SAFETY: (1) as many bytes are on both sides; they stay as they are until the check is finished.
        unsafe { driver.cuMemcpyHtoDAsync_v2(there, host, used, stream) }?;
        self.round += 1;
        (self.asked, self.stream) = (Some(self.round), stream);
        self.judged_rows = Some(self.rows);
        Ok(())
    }

    /// Makes a lane wait until the null page is zero, which a bad entry becomes: a pool may be a young one, whose first cleaning
    /// was held up by a capture.
    fn wait_for_null_page(&mut self, lane: Lane) -> Result<(), GuardError> {
        if let Some(fence) = self.null_page_fence {
            let memory = &self.pool.inner.memory;
            memory.order_after(fence, lane).map_err(GuardError::NullPageDirty)?;
            self.null_page_fence = Some(fence).filter(|fence| memory.poll(*fence) != FenceState::Done);
        }
        Ok(())
    }

    /// Strikes out the entries whose pages have left since their rows were filled. The device learns of a release behind
    /// everybody who may still use the page; a table that comes after the release must not pass until then.
    fn strike_out(&mut self) {
        let first = places(self.max_rows, self.max_entries).entries;
        let end = first + self.entries as usize * size_of::<Entry>();
        for entry in self.host.bytes()[first..end].chunks_exact_mut(size_of::<Entry>()) {
            let mut found: Entry = get(entry);
            if found.page == self.null_page {
                continue;
            }
            let word = self.pool.inner.meta(found.page).word_for_reader();
            if word.generation().get() != found.generation || word.state() != PageState::Live {
                found.generation |= Entry::STRUCK_OUT;
                put(entry, 0, &found);
            }
        }
    }

    /// Puts the check into the graph that the lane is being captured into; the table goes to the device by
    /// [`arm`](Self::arm).
    ///
    /// # Errors
    ///
    /// - [`GuardError::UnknownLane`], [`GuardError::NotCapturing`]: nothing was captured.
    /// - [`GuardError::Driver`]
    ///
    /// # Safety
    ///
    /// 1. `attention`, if there is one, is memory of the context with `max_rows` rows of `row_cells` cells, or `max_entries`
    ///    cells, as long as the graph is launched.
    /// 2. The table lives as long as the graph is launched, and is armed in front of each launch, on the stream of the launch;
    ///    no page of it is released between the two.
    pub unsafe fn capture(&self, lane: Lane, attention: Option<AttentionTable>) -> Result<(), GuardError> {
        if !self.stamps.has_lane(lane) {
            return Err(GuardError::UnknownLane { lane });
        }
        let stream = lane.raw() as Stream;
        let _current = self.stamps.device.enter()?;
        // SAFETY: (1) the lane is one that was named, and live by (1) of `add_lane`.
        if !unsafe { self.stamps.device.driver.is_capturing(stream) }? {
            return Err(GuardError::NotCapturing { lane });
        }
        // SAFETY: (1) the lane is live by (1) of `add_lane`; the addresses are this table's by (2) of the caller, and attention's
        // by (1).
        Ok(unsafe { self.stamps.kernels.check(self.args(self.max_rows, attention), stream) }?)
    }

    /// `rows` is how many rows attention's table has; those that the guard's has not become the null page.
    fn args(&self, rows: u32, attention: Option<AttentionTable>) -> CheckArgs {
        let (there, places) = (self.there.address(), places(self.max_rows, self.max_entries));
        CheckArgs {
            stamps: self.stamps.address(),
            entries: there + places.entries as u64,
            row_offsets: there + places.offsets as u64,
            row_owners: there + places.owners as u64,
            head: there,
            table: attention.map_or(0, |table| table.address),
            flags: self.findings.flags_address(),
            scratch: self.scratch.address(),
            fault: self.findings.fault_address(),
            max_pages: self.stamps.max_pages(),
            null_page: self.null_page,
            max_rows: rows,
            max_entries: self.max_entries,
            row_cells: attention.map_or(0, |table| table.row_cells),
            reserved: 0,
        }
    }

    /// Returns what the device answered of the table that it was given last. It says so itself, behind all that it found: a
    /// check that did not run is never a clean one.
    ///
    /// # Errors
    ///
    /// - [`GuardError::NeverChecked`], [`GuardError::Unfinished`]: nothing is known of the rows; read no output by them.
    pub fn verdict(&self) -> Result<GuardVerdict<'_>, GuardError> {
        let rows = self.judged_rows.ok_or(GuardError::NeverChecked)?;
        self.free()?;
        Ok(GuardVerdict::new(&self.findings, rows))
    }

    /// Takes the table back without a verdict: after kernels of the engine that checked by it themselves, or when a graph that
    /// it was armed for is not launched.
    ///
    /// # Safety
    ///
    /// 1. Nothing that was queued reads the table any more, or will.
    pub unsafe fn take_back(&mut self) {
        (self.asked, self.judged_rows) = (None, None);
    }

    /// Returns what a kernel that checks for itself, by `stamp_check.cuh`, is launched with. The table must be armed in front
    /// of each launch, as for a captured check: only then the host has struck out what left.
    #[must_use]
    pub fn on_device(&self) -> DeviceTable {
        let CheckArgs { stamps, entries, row_offsets, row_owners, max_pages, null_page, .. } =
            self.args(self.max_rows, None);
        DeviceTable { stamps, entries, row_offsets, row_owners, max_pages, null_page }
    }

    /// Waits for everything that the lane holds.
    fn wait(&self) -> Result<(), GuardError> {
        let (driver, stream) = (&self.stamps.device.driver, self.stream);
        let _current = self.stamps.device.enter()?;
        // SAFETY: (1) the lane is live by (1) of `add_lane`.
        if unsafe { driver.is_capturing(stream) }? {
            return Err(GuardError::Capturing { lane: Lane::from_raw(stream as u64) });
        }
        // SAFETY: (1) as above.
        Ok(unsafe { driver.cuStreamSynchronize(stream) }?)
    }

    /// Returns where the flags lie, one byte for each row, for kernels that read them behind the check: pinned memory of the
    /// host. [`arm`](Self::arm) and [`check`](Self::check) clear them on the host, at once: call neither before such kernels
    /// have ended, or they find no row flagged.
    #[must_use]
    pub fn flags_address(&self) -> u64 {
        self.findings.flags_address()
    }
}

impl Drop for GuardTable {
    /// Waits for a check that the device has not finished. During a capture of its lane nobody can wait: the table's memory
    /// is then left to the device, and with it the pool's.
    fn drop(&mut self) {
        if !self.is_in_use() || self.wait().or_else(|_| self.wait()).is_ok() {
            return;
        }
        self.host.leave();
        self.there.leave();
        self.scratch.leave();
        self.findings.leave();
        std::mem::forget(self.pool.clone());
    }
}

impl fmt::Debug for GuardTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardTable").field("rows", &self.rows).field("entries", &self.entries).finish_non_exhaustive()
    }
}
