//! The pool: pages that carry an owner and a generation, behind one door.
//!
//! **Owns** all changes of a page's state. Every one is made under one lock, by one of the files here, each named for
//! what it does: `admit`, `release`, `clean`, `tickets`, `steps`, `reclaim`, `resize`, `claims`, `audit`. Reads take no lock;
//! bytes are touched in [`access`](crate::access) only.
//!
//! **Does not know** engines, attention, networks.
//!
//! **Lifecycle of a page**
//!
//! ```text
//!            reserve, grow                     release: generation + 1
//!   free ─────────────────────▶ live ──────────────┬──────────────────────┐
//!    ▲ │                                           │ read, borrowed or    │ nobody touches it
//!    │ │ resize                                    │ by a ticket, a step  │
//!    │ ▼                                           ▼                      ▼
//!  parked ◀──────────────────────────────── quarantined ─────────────▶ cleaning ──▶ retired
//!    ▲                                                                 │     (lives used up,
//!    └──────────────────────── zero, and only now: free ◀──────────────┘      or not cleanable)
//! ```

mod admit;
mod audit;
pub(crate) mod claims;
mod clean;
mod evict;
mod prefix;
pub(crate) mod quota;
mod reclaim;
mod release;
mod resize;
mod share;
mod state;
mod stats;
mod steps;
mod tickets;
mod transfers;
mod waiting;

use std::fmt;
use std::sync::{Arc, OnceLock};

use parking_lot::Condvar;

use crate::config::{OwnPages, PoolConfig};
use crate::error::ConfigError;
use crate::free_list::FreeList;
use crate::geometry::PageGeometry;
use crate::handle::PageHandle;
use crate::id::{Generation, PoolId, PoolIdentity, next_pool_identity};
use crate::memory::{Fence, PageMemory};
use crate::prefix::{Index, PageHashes};
use crate::stamp::{Extent, PageMeta, PageState, StampWord};
use crate::sync::{AtomicBool, AtomicU64, Ordering};

pub use claims::{ClaimError, ClaimToken};
pub use clean::{Maintained, Scrubber};
pub use reclaim::{CloseError, EraseReceipt, Reclaimed};
pub use release::Released;
pub use resize::{Resized, Suspended};
pub(crate) use state::{RecordKey, State, Status};
pub use stats::PoolStats;
pub use waiting::RoomId;
pub(crate) use waiting::{StateGuard, StateLock};

/// A pool of pages of one geometry in one memory `M`. Cheap to clone; all clones are the same pool.
///
/// Pages are had through an admission only: [`prove`](Self::prove) that the live pool carries the largest request,
/// [`admit`](Self::admit) or [`reserve`](Self::reserve) under that proof, then work with the
/// [`Reservation`](crate::Reservation). Everything here returns at once: no call waits for a reader, a device or
/// another thread, beyond the short lock.
///
/// # Examples
///
/// ```
/// use pagestamp::{CapacityPlan, HostMemory, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, Request};
///
/// let geometry = PageGeometry::new(16, &[Plane::per_token(1, 64)])?; // 16 tokens a page, 64 bytes a token
/// let pool = PagePool::new(PoolConfig::new(34), HostMemory::new(geometry, 34)?)?;
/// let proof = pool.prove(CapacityPlan::new(256))?; // 256 tokens: the largest request that is served
///
/// let alice = OwnerId::new(1).ok_or("zero")?;
/// let mut kv = pool.reserve(&proof, Request::new(alice, 256), 32)?;
/// kv.write(2, &[&[7u8; 128]])?;
/// let handle = kv.handle(0).ok_or("no page")?;
/// assert_eq!(pool.read(alice, handle)?.run(0, 0)?, [7u8; 128]);
///
/// kv.release();
/// assert!(pool.read(alice, handle).is_err(), "stale for ever");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PagePool<M: PageMemory> {
    pub(crate) inner: Arc<Inner<M>>,
}

/// What all clones share.
pub(crate) struct Inner<M: PageMemory> {
    pub(crate) identity: PoolIdentity,
    pub(crate) config: PoolConfig,
    pub(crate) metas: Box<[PageMeta]>,
    pub(crate) memory: M,
    /// Bytes written so far: the clock by which a page counts as recently written. A hint for zeroing.
    pub(crate) written_bytes: AtomicU64,
    /// Reads that were refused, by kind of fault that an operator wants to see.
    pub(crate) refused_reads: AtomicU64,
    /// Raw addresses were given out for writing: all of every page is suspect from then on.
    pub(crate) exposed: AtomicBool,
    /// The cleaning of the pool's own pages, where the memory starts dirty.
    pub(crate) own_pages_clean: OnceLock<Fence>,
    /// How tokens of pages are hashed.
    pub(crate) hashes: PageHashes,
    pub(crate) state: StateLock,
    /// Wakes a scrubber.
    pub(crate) dirtied: Condvar,
}

impl<M: PageMemory> PagePool<M> {
    /// Makes a pool over a memory, which it owns from now on. Unless the memory
    /// [starts dirty](crate::PageMemory::STARTS_DIRTY) it is taken to be zero: as it was made, or as
    /// [`close`](Self::close) gave it back.
    ///
    /// # Cost
    ///
    /// O(pages); 28 bytes of bookkeeping for each page of the memory, at most 1 more under
    /// [`Placement::Contiguous`](crate::Placement::Contiguous), and 4 more while it is reserved. A memory that
    /// starts dirty is cleaned first, whole.
    ///
    /// # Errors
    ///
    /// [`ConfigError`]; the memory is dropped.
    pub fn new(config: PoolConfig, memory: M) -> Result<Self, ConfigError> {
        config.validate()?;
        let max_pages = memory.max_pages();
        if config.pages() > max_pages {
            return Err(ConfigError::MoreThanMemory { pages: config.pages(), max_pages });
        }
        // One that an earlier pool gave back may have pages whose memory was given back too, by a resize or a suspension.
        memory.commit(0..config.pages())?;
        let identity = next_pool_identity().ok_or(ConfigError::NoPoolIds)?;
        let index = Index::new(memory.geometry().page_tokens(), max_pages, config.prefix_events());
        let mut state = State::new(config.pages(), index);
        let metas = make_metas::<M>(&config, max_pages, &mut state)?.into_boxed_slice();
        let state = StateLock::new(state);
        let inner = Inner {
            identity,
            config,
            metas,
            memory,
            written_bytes: AtomicU64::new(0),
            refused_reads: AtomicU64::new(0),
            exposed: AtomicBool::new(false),
            own_pages_clean: OnceLock::new(),
            hashes: PageHashes::new(),
            state,
            dirtied: Condvar::new(),
        };
        let pool = Self { inner: Arc::new(inner) };
        if M::STARTS_DIRTY {
            pool.clean_before_first_use()?;
        }
        Ok(pool)
    }

    /// The pool's id, as it stands in its handles.
    #[must_use]
    pub fn id(&self) -> PoolId {
        self.inner.identity.pool
    }

    /// How the pages are laid out.
    #[must_use]
    pub fn geometry(&self) -> &PageGeometry {
        self.inner.memory.geometry()
    }

    /// How the pool was set up.
    #[must_use]
    pub fn config(&self) -> &PoolConfig {
        &self.inner.config
    }

    /// Pages that have an address, in circulation or parked: as far as a resize can go.
    #[must_use]
    pub fn max_pages(&self) -> u32 {
        self.inner.metas.len() as u32
    }

    /// The page that padding reads: never written, and zero (in memory that starts dirty once the pool's first cleaning is
    /// done, which [`audit_bytes`](Self::audit_bytes) looks at). `None` when the pool keeps no pages of its own.
    #[must_use]
    pub fn null_page(&self) -> Option<u32> {
        self.inner.null_page()
    }

    /// The page that padding writes: never readable. `None` when the pool keeps no pages of its own.
    #[must_use]
    pub fn sink_page(&self) -> Option<u32> {
        self.inner.own_page(1)
    }
}

impl<M: PageMemory> Inner<M> {
    /// As [`PagePool::null_page`].
    pub(crate) fn null_page(&self) -> Option<u32> {
        self.own_page(0)
    }

    fn own_page(&self, page: u32) -> Option<u32> {
        (self.config.own_pages() == OwnPages::NullAndSink).then_some(page)
    }

    pub(crate) fn page_tokens(&self) -> u32 {
        self.memory.geometry().page_tokens()
    }

    /// The bookkeeping of a page that one of the pool's own lists names.
    pub(crate) fn meta(&self, page: u32) -> &PageMeta {
        &self.metas[page as usize]
    }

    /// The handle of a live page; only under the pool's lock.
    pub(crate) fn handle_of(&self, page: u32) -> PageHandle<M> {
        PageHandle::new(self.identity, page, self.meta(page).word_for_reader().generation())
    }

    /// The handle of a page of a borrowed reservation. `None` once it was revoked: the stamp then has the generation of the
    /// page's next life already, and the borrow keeps the page out of that life.
    pub(crate) fn handle_while_live(&self, page: u32) -> Option<PageHandle<M>> {
        let word = self.meta(page).word_for_reader();
        (word.state() == PageState::Live).then(|| PageHandle::new(self.identity, page, word.generation()))
    }

    /// The byte clock, in ticks of 64 KiB. It wraps after 4 GiB: one page in 4,096 that was written long ago then counts as
    /// just written, and is zeroed through the cache.
    pub(crate) fn tick(&self) -> u16 {
        (self.written_bytes.load(Ordering::Relaxed) >> 16) as u16
    }

    /// Pages that requests can use: in circulation and wanted, less the pool's own and the retired.
    pub(crate) fn usable(&self, state: &State) -> u64 {
        let circulating = self.metas.len() as u64 - state.parked.len() as u64;
        let wanted = circulating.min(u64::from(state.target));
        wanted.saturating_sub(u64::from(self.config.own_page_count()) + state.retired)
    }
}

/// Stamps of all pages, and the lists they start in.
fn make_metas<M: PageMemory>(
    config: &PoolConfig,
    max_pages: u32,
    state: &mut State,
) -> Result<Vec<PageMeta>, ConfigError> {
    let count = max_pages as usize;
    let mut metas = Vec::new();
    let too_large = |_| ConfigError::NoMemory { bytes: count.saturating_mul(size_of::<PageMeta>()) };
    metas.try_reserve_exact(count).map_err(too_large)?;
    state.free = FreeList::try_new(config.placement(), max_pages).map_err(too_large)?;
    let extent = if M::STARTS_DIRTY { Extent::DIRTY } else { Extent::default() };
    for page in 0..max_pages {
        let first = match page {
            _ if page < config.own_page_count() => PageState::Reserved,
            _ if page >= config.pages() => PageState::Parked,
            _ if M::STARTS_DIRTY => PageState::Cleaning,
            _ => PageState::Free,
        };
        metas.push(PageMeta::new(StampWord::new(Generation::FIRST, first), extent));
        match first {
            PageState::Parked => state.parked.push(page),
            PageState::Cleaning => state.dirty.push_back(page),
            _ => {}
        }
    }
    if !M::STARTS_DIRTY {
        // Last in, first out: the lowest page goes first.
        state.free.extend((config.own_page_count()..config.pages()).rev());
        state.free.settle();
    }
    Ok(metas)
}

impl<M: PageMemory> Clone for PagePool<M> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<M: PageMemory> fmt::Debug for PagePool<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagePool")
            .field("id", &self.id())
            .field("memory", &M::NAME)
            .field("max_pages", &self.max_pages())
            .finish_non_exhaustive()
    }
}
