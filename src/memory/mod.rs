//! Where the bytes of pages live.
//!
//! **Owns** the mapping, its protections, how bytes become zero, and how the system is asked for the end of a process
//! that reaches them ([`HolderProcess`]).
//!
//! **Does not know** owners, generations or states: it obeys whoever holds a page, so a wrong order here is
//! a wrong byte there. The pool owns its memory by value and lends it to nobody, which is what makes its
//! promises about pages promises about bytes.
//!
//! **Invariants.** Page *i* of a plane begins at `base + i * stride`, and neither moves while the memory
//! lives. No two pages have a byte in common. Bytes between `page_bytes` and `stride` are padding:
//! [`read`](PageMemory::read) and [`write`](PageMemory::write) never reach them, a whole-page
//! [`clean`](PageMemory::clean) zeroes them where the memory owns them. Between foreign pages may lie an
//! engine's other data, which is never touched.
//!
//! **Cost.** Every call is O(bytes named) or O(pages named); none takes a lock except in the test double
//! [`HeldMemory`].
//!
//! | memory | bytes | use |
//! |---|---|---|
//! | [`HostMemory`] | an anonymous map per plane, guard pages around each | the default |
//! | [`NullMemory`] | none | bookkeeping for an engine that keeps its own bytes, benchmarks |
//! | [`ForeignMemory`] | planes that the engine allocated | an engine with tensors of its own |
//! | [`HeldMemory`] | [`HostMemory`]'s, cleaned when a test says so | tests of everything that waits for a device |
#![expect(unsafe_code, reason = "declares the unsafe traits and functions through which bytes are reached")]

mod crc32c;
#[cfg(feature = "cuda")]
pub mod cuda;
mod error;
mod foreign;
mod held;
mod host;
mod map;
mod null;
mod outside;
mod planes;
mod process;
mod scratch;
mod wipe;
mod zero;

#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::ops::Range;
use std::ptr::NonNull;

use crate::geometry::{PageGeometry, PlaneWindow};
use crate::id::{Generation, OwnerId};

pub(crate) use crc32c::Crc32c;
pub use error::{Exposure, MemoryError};
pub use foreign::{ForeignMemory, ForeignPlane};
pub use held::{HeldControl, HeldMemory};
pub use host::{HostMemory, HostOptions};
pub use null::NullMemory;
pub use process::{HolderProcess, ProcessError};
pub(crate) use scratch::Scratch;
pub(crate) use wipe::wipe;

/// A memory of fixed-size pages: a pool reserves, writes, reads and cleans pages through it and knows no
/// other way to their bytes.
///
/// Cleaning is asynchronous from day one: [`clean`](Self::clean) answers with a [`Fence`], because a device
/// zeroes behind its own queue. Host memory answers with [`Fence::DONE`].
///
/// # Memory ordering
///
/// What one thread did to a page before it hands the page to another thread is seen there only by what the
/// *callers* do to hand it over (the pool's stamps: Release, then Acquire). A memory adds one thing: when
/// `poll` answers [`FenceState::Done`] to a thread that got the fence from the thread that called `clean`,
/// by whatever orders the two, the zeroes happen before everything that the polling thread does next, and
/// what it publishes afterwards with Release carries them.
///
/// # Safety
///
/// A pool's promises rest on these; an implementor keeps them for every geometry and every argument that
/// safe code can pass:
///
/// 1. [`read`](Self::read), [`look`](Self::look) and [`write`](Self::write) touch exactly the bytes of the span,
///    and only when they answer `Ok`; `look` shows each of them once, in order. [`copy_from`](Self::copy_from) writes no byte
///    but of the pages and tokens of its list.
/// 2. Once [`poll`](Self::poll) answers [`FenceState::Done`] for the fence of a [`clean`](Self::clean),
///    every byte that the batch named reads as zero, and no store of that `clean` is still on its way. Nor is one once
///    it answers [`FenceState::Failed`], or when `clean` answered an error or panicked.
/// 3. Addresses never move, and stay valid for reading and writing, while `self` lives; planes and pages
///    never overlap.
/// 4. Unless [`STARTS_DIRTY`](Self::STARTS_DIRTY), every byte reads as zero before its first write.
/// 5. After [`decommit`](Self::decommit) answered `Ok`, every byte of those pages reads as zero until it is
///    written, whether they were clean before or not. Pages may be named that were decommitted, or committed, before;
///    [`commit`](Self::commit) changes no byte of a page that was not decommitted, even while it is read.
/// 6. Calls on one page that overlap in time (`clean` with `clean` or `decommit`) are no data race:
///    each stores zeroes and nothing else, and only to bytes that they name.
/// 7. [`geometry`](Self::geometry) and [`max_pages`](Self::max_pages) always answer the same.
///
/// A pool makes some of its calls (`poll`, `order_after`, `read`, `write`) under its lock: none of them waits for another
/// thread or calls the pool that the memory is in. A panic reaches whoever called the pool, and costs no page.
pub unsafe trait PageMemory: Send + Sync + Debug + Sized + 'static {
    /// A short name for reports: "host", "null".
    const NAME: &'static str;

    /// False for memory without bytes: nothing ever has to be zeroed, and every read and write answers
    /// [`MemoryError::NoBytes`].
    const HAS_BYTES: bool;

    /// True where somebody outside has the addresses of pages: they hold that party's bytes before this library
    /// touched them, and may be written beside it. A pool then cleans every page before its first issue, and all of
    /// it after each.
    const STARTS_DIRTY: bool;

    /// True where a device keeps a mirror of the stamps, so that it can check pages itself. A pool then tells the memory of
    /// every page that it hands out.
    const MIRRORS_STAMPS: bool = false;

    /// True where [`crc32c`](Self::crc32c) may answer, so that it is worth to ask.
    const DIGESTS_IN_PLACE: bool = false;

    /// Notes that a page is `owner`'s in this life, until the next [`clean`](Self::clean) of it. Called under the pool's
    /// lock, in front of everything that the owner does with the page; waits for nothing.
    fn issued(&self, _page: u32, _generation: Generation, _owner: OwnerId) {}

    /// Tells how pages are laid out.
    #[must_use]
    fn geometry(&self) -> &PageGeometry;

    /// Counts the pages, `0..max_pages`, that have an address here, committed or not.
    #[must_use]
    fn max_pages(&self) -> u32;

    /// Begins to zero the pages of a batch, and answers with the fence behind which they are zero.
    ///
    /// Nobody may read or write these pages until the fence is [`FenceState::Done`]. A page may stand in a
    /// batch twice; that costs twice. An empty batch is done at once. `tokens: 0` names no bytes.
    ///
    /// # Cost
    ///
    /// O(bytes named) on the host, before it returns; a device only queues. Allocates nothing on the host.
    ///
    /// # Errors
    ///
    /// All or nothing: on `Err` not one byte was or will be changed.
    ///
    /// - [`MemoryError::NoSuchPage`]: a page is not below [`max_pages`](Self::max_pages).
    /// - [`MemoryError::TooManyTokens`]: a prefix is longer than a page.
    /// - A device may refuse for reasons of its own.
    ///
    /// # Safety
    ///
    /// 1. Nobody reads or writes the bytes that the batch names until the fence is [`FenceState::Done`], even if that is
    ///    after the memory was given to a pool.
    unsafe fn clean(&self, batch: &[CleanPage]) -> Result<Fence, MemoryError>;

    /// Tells what became of a [`clean`](Self::clean). Never waits.
    ///
    /// A fence that this memory never gave out answers [`FenceState::Failed`]: nothing is known to be zero
    /// behind it. `Done` and `Failed` are final.
    fn poll(&self, fence: Fence) -> FenceState;

    /// Makes everything that `lane` runs from now on wait for the fence, without waiting here.
    ///
    /// On `Ok`, work queued on that lane afterwards sees the zeroes, though the host may not yet.
    ///
    /// # Errors
    ///
    /// Nothing was queued.
    ///
    /// - [`MemoryError::UnknownFence`]: this memory never gave it out, or it has failed.
    /// - [`MemoryError::UnknownLane`], [`MemoryError::Capturing`]: a device cannot make that lane wait, or not now.
    fn order_after(&self, fence: Fence, lane: Lane) -> Result<(), MemoryError>;

    /// Gives the physical memory of these pages back to the system; they read as zero afterwards.
    ///
    /// The caller cleaned the pages and nobody reads or writes them. Much slower than
    /// [`clean`](Self::clean) followed by reuse: for shrinking, not for zeroing. A memory that has nothing
    /// to give back (foreign planes, part of a system page) zeroes instead.
    ///
    /// # Errors
    ///
    /// - [`MemoryError::NoSuchPage`], [`MemoryError::BackwardRange`]: nothing changed.
    /// - [`MemoryError::Backing`]: the system refused; some of the pages may have lost their bytes, none
    ///   has an address less.
    fn decommit(&self, pages: Range<u32>) -> Result<(), MemoryError>;

    /// Makes decommitted pages usable again; they read as zero.
    ///
    /// # Errors
    ///
    /// - [`MemoryError::NoSuchPage`], [`MemoryError::BackwardRange`]: nothing changed.
    /// - [`MemoryError::Lock`]: the memory is to be locked into RAM and the system refused; the pages stay
    ///   decommitted.
    fn commit(&self, pages: Range<u32>) -> Result<(), MemoryError>;

    /// Copies `src` into a page.
    ///
    /// # Errors
    ///
    /// - [`MemoryError::NoSuchPage`], [`MemoryError::NoSuchPlane`], [`MemoryError::OutOfRange`],
    ///   [`MemoryError::NoBytes`]: nothing was written.
    ///
    /// # Safety
    ///
    /// 1. The caller holds the right to write these bytes: until the call returns nobody else reads or
    ///    writes them, and no `clean` or `decommit` that names them is running or has an open fence.
    unsafe fn write(&self, at: Span, src: &[u8]) -> Result<(), MemoryError>;

    /// Copies out of a page into `dst`.
    ///
    /// # Errors
    ///
    /// - [`MemoryError::NoSuchPage`], [`MemoryError::NoSuchPlane`], [`MemoryError::OutOfRange`],
    ///   [`MemoryError::NoBytes`]: `dst` is unchanged.
    ///
    /// # Safety
    ///
    /// 1. Until the call returns nobody writes these bytes, and no `clean` or `decommit` that names them is
    ///    running or has an open fence.
    unsafe fn read(&self, at: Span, dst: &mut [u8]) -> Result<(), MemoryError>;

    /// Shows `len_bytes` bytes of a page, in pieces that follow one another: where they lie, if the CPU can address
    /// them, else copied by [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read). What was shown before is right.
    ///
    /// # Safety
    ///
    /// 1. As [`read`](Self::read).
    unsafe fn look(&self, at: Span, len_bytes: u64, look: &mut dyn FnMut(&[u8])) -> Result<(), MemoryError> {
        let mut scratch = Scratch::of_bytes(len_bytes.min(LOOK_BYTES));
        let mut first = 0;
        while first < len_bytes {
            // at most LOOK_BYTES
            let bytes = scratch.take((len_bytes - first).min(LOOK_BYTES) as usize);
            // Past the end of what can be named nothing is there, and `read` says so.
            let offset = at.offset.saturating_add(first);
            // SAFETY: (1) of the caller, whose span this is a part of.
            unsafe { self.read(Span { offset, ..at }, bytes) }?;
            look(bytes);
            first += bytes.len() as u64;
        }
        Ok(())
    }

    /// Continues the CRC-32C of pages over their first tokens, where the bytes are: window by window, run by run. Waits.
    ///
    /// `None` where the memory cannot do that; the bytes are then shown by [`look`](Self::look). Windows lie in planes of
    /// the geometry.
    ///
    /// # Errors
    ///
    /// - [`MemoryError::NoSuchPage`], or what a device refused.
    ///
    /// # Safety
    ///
    /// 1. As [`read`](Self::read), of the first `tokens` tokens of each page.
    unsafe fn crc32c(&self, _windows: &[PlaneWindow], _pages: &mut [PageCrc]) -> Option<Result<(), MemoryError>> {
        None
    }

    /// Copies the first tokens of pages of another memory, where the bytes are. Waits.
    ///
    /// `None` where the memories cannot do that; the bytes then go through the host.
    ///
    /// # Errors
    ///
    /// - [`MemoryError::NoSuchPage`], or what a device refused. Some of the pages may be written.
    ///
    /// # Safety
    ///
    /// 1. As [`read`](Self::read), of the first `tokens` tokens of each page of `from`.
    /// 2. As [`write`](Self::write), of the same tokens of each page of this memory, which stands in the list once.
    unsafe fn copy_from<N: PageMemory>(&self, _from: &N, _pages: &[PageCopy]) -> Option<Result<(), MemoryError>> {
        None
    }
}

/// A page to digest where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageCrc {
    /// The page.
    pub page: u32,
    /// Its first tokens, of each run.
    pub tokens: u32,
    /// The CRC-32C of what comes before the page; afterwards with the page.
    pub crc: u32,
}

/// A page to copy where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageCopy {
    /// The page of the other memory.
    pub from: u32,
    /// The page of this one.
    pub to: u32,
    /// Its first tokens, of each run.
    pub tokens: u32,
}

/// Bytes that a memory which the CPU cannot address shows at once.
const LOOK_BYTES: u64 = 16 << 10;

/// Memory whose bytes the CPU can address, so that slices of it can be lent without a copy.
///
/// # Safety
///
/// 1. [`plane`](Self::plane) answers `Some` exactly for the planes of the geometry, and always the same.
/// 2. For every page `i` below `max_pages`, `base + i * stride` is valid for reads and writes of
///    `page_bytes` bytes while `self` lives, within one allocation, and `page_bytes` is the geometry's.
/// 3. These are the bytes that [`PageMemory::read`] reads and [`PageMemory::write`] writes.
pub unsafe trait HostBytes: PageMemory {
    /// Tells where a plane lies. Reading or writing there is `unsafe` and the caller's to justify, with the
    /// obligations of [`PageMemory::read`] and [`PageMemory::write`].
    #[must_use]
    fn plane(&self, plane: usize) -> Option<HostPlane>;
}

/// Where a plane lies in the address space: page `i` begins at `base + i * stride`.
///
/// A value of plain numbers: it keeps nothing alive and gives no right to any byte. `Debug` shows sizes and
/// no address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HostPlane {
    base: NonNull<u8>,
    stride: usize,
    page_bytes: usize,
}

// SAFETY: an address and two numbers; nothing here dereferences, whoever does is bound by its own obligations.
unsafe impl Send for HostPlane {}
// SAFETY: as above; `&HostPlane` only lets the numbers be read.
unsafe impl Sync for HostPlane {}

impl HostPlane {
    /// Names a plane. Creating one gives no right to its bytes.
    #[must_use]
    pub fn new(base: NonNull<u8>, stride: usize, page_bytes: usize) -> Self {
        Self { base, stride, page_bytes }
    }

    /// Where page 0 begins.
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes from the beginning of a page to the beginning of the next.
    #[must_use]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Bytes of a page; what follows up to the stride is padding.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// Where a page begins, computed and not dereferenced: valid only for a page of the memory that gave
    /// out this plane.
    #[must_use]
    pub fn page(&self, page: u32) -> *mut u8 {
        self.base.as_ptr().wrapping_add((page as usize).wrapping_mul(self.stride))
    }
}

impl Debug for HostPlane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostPlane")
            .field("stride", &self.stride)
            .field("page_bytes", &self.page_bytes)
            .finish_non_exhaustive()
    }
}

/// A page to zero, and how much of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CleanPage {
    /// The page.
    pub page: u32,
    /// Dirty prefix, in tokens: in every run of every plane the first `tokens` tokens are zeroed.
    /// `page_tokens` means the whole page, and its padding where the memory owns it; use it as soon as
    /// anybody outside this library could write the page.
    pub tokens: u32,
    /// Whether the page is likely to be in the cache.
    pub heat: Heat,
}

/// How recently a page was written; decides how it is zeroed fastest, never whether.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Heat {
    /// Likely in the cache: stores that keep it there.
    Hot,
    /// Likely not: stores that go around the cache.
    Cold,
}

/// Bytes of a page: where they begin. Their number is the length of the slice that goes with it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Span {
    /// The page.
    pub page: u32,
    /// The plane.
    pub plane: u32,
    /// First byte, counted within the page's slice of the plane.
    pub offset: u64,
}

/// A point in a memory's work behind which a batch is clean. Meaningful only to the memory that gave it out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[must_use = "a page is zero only once its fence is done"]
pub struct Fence(u64);

impl Fence {
    /// The fence of work that is done already. Every memory answers [`FenceState::Done`] for it.
    pub const DONE: Self = Self(0);

    /// Makes a fence from the number of a device's own event; 0 is [`DONE`](Self::DONE).
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The number.
    #[must_use]
    pub const fn raw(self) -> u64 {
        self.0
    }
}

/// What became of the work before a fence.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
#[must_use = "a page whose fence is not done may hold bytes"]
pub enum FenceState {
    /// All of it is done and visible.
    Done,
    /// Some of it may be under way.
    Pending,
    /// It will never be done: the pages keep unknown bytes and must not be handed out.
    Failed,
}

/// An ordered queue of a device, a stream; opaque here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Lane(u64);

impl Lane {
    /// The host's own order, in which everything done is done.
    pub const HOST: Self = Self(0);

    /// Makes a lane from a device's stream handle; 0 is [`HOST`](Self::HOST).
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The number.
    #[must_use]
    pub const fn raw(self) -> u64 {
        self.0
    }
}
