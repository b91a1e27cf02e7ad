//! Slots: a fixed pool of typed values for game servers, on the stamps of the page pool.
//!
//! *Owns* [`SlotPool`] and everything that changes a slot's state. *Does not know* games, ticks or networks.
//!
//! **Lifecycle of a slot**
//!
//! ```text
//!          claim            init                    release: generation + 1
//!   free ────────▶ live ──────────▶ live, initialised ──────┬───────────────┐
//!    ▲            (blank)                                   │ accessed      │ nobody is at it
//!    │                                                      ▼               ▼
//!    └────────────── reset, and only now ◀── cleaning ◀── quarantined    cleaning ──▶ retired
//!                                                                        (lives used up, or the reset panicked)
//! ```
//!
//! **Invariants.** A slot holds a valid `T` from the pool's making to its end, at one address. No user code runs under a lock:
//! not `T`'s reset or drop, and no closure. No call waits for an access: a conflict is `Busy`.
//!
//! **Cost.** 20 bytes for each slot beside its value, and 4 more while it is quarantined. One short lock for each claim and each release, none for an access.

mod access;
mod audit;
mod cell;
mod claim;
mod config;
mod error;
mod group;
mod handle;
mod iterate;
mod lane;
mod release;
mod reset;
mod secondary;
mod stamp;
mod stats;
mod stock;

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use self::cell::Slots;
use self::claim::GroupClaims;
use self::stock::Stock;
use crate::error::ConfigError;
use crate::id::{PoolId, PoolIdentity, next_pool_identity};
use crate::sync::AtomicU64;

pub use cell::{SlotMut, SlotRef, ZeroBytes};
pub use config::SlotConfig;
pub use error::ValueRefused;
pub use group::SlotGroup;
pub use handle::SlotHandle;
pub use iterate::{Visited, Whose};
pub use release::{ReclaimedSlots, ReleasedSlots};
pub use reset::Reset;
pub use secondary::SecondaryMap;
pub use stats::SlotStats;

/// A fixed pool of slots that each hold a `T`: matches, players, actors. Cheap to clone; all clones are the same pool.
///
/// The pool makes all its values when it is made, and hands them out for one life each: a slot that is
/// [claimed](Self::claim) is *blank* until it is [initialised](Self::init), and when it is [released](Self::release) its
/// handles are stale at once, its value is reset, and only then may somebody else have it. A message that comes late, for a
/// match that is over, finds [`SlotError::Stale`](crate::SlotError::Stale) and never the next match.
///
/// Values are reached by handle, and whoever asks names the owner: shared with [`read`](Self::read) or
/// [`with`](Self::with), exclusively with [`write`](Self::write) or [`with_mut`](Self::with_mut). A conflict is
/// [`SlotError::Busy`](crate::SlotError::Busy), at once: nothing here waits.
///
/// The claim covers the slot's own bytes, as far as its [reset](Reset) clears them. Heap memory that a `T` frees goes to the
/// allocator as it is.
///
/// # Examples
///
/// ```
/// use pagestamp::{CapacityPlan, OwnerId, SlotConfig, SlotError, SlotPool};
///
/// #[derive(Default)]
/// struct Player { name: String, gold: u64 }
///
/// let pool = SlotPool::<Player>::new(SlotConfig::new(64))?;
/// let proof = pool.prove(CapacityPlan::new(8))?; // the largest lobby has 8 players
///
/// let (red, blue) = (OwnerId::new(1).ok_or("zero")?, OwnerId::new(2).ok_or("zero")?);
/// let lobby = pool.claim(&proof, red, 8)?; // 8 slots, or none
/// let ann = lobby.handle(0).ok_or("no slot")?;
/// assert!(matches!(pool.with(red, ann, |p| p.gold), Err(SlotError::Uninitialised { .. })));
/// pool.init(red, ann, Player { name: "Ann".into(), gold: 7 })?;
/// pool.with_mut(red, ann, |player| player.gold += 1)?;
/// assert_eq!(pool.read(red, ann)?.gold, 8);
/// assert!(matches!(pool.read(blue, ann), Err(SlotError::ForeignOwner { .. })));
///
/// lobby.release(); // the match is over
/// assert!(matches!(pool.read(red, ann), Err(SlotError::Stale { .. })), "for ever");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Any thread may read and write a slot, so that only values go to other threads that may be shared and sent:
///
/// ```compile_fail,E0277
/// # use pagestamp::*;
/// fn share(counters: &SlotPool<std::cell::Cell<u64>>) {
///     std::thread::scope(|scope| { scope.spawn(|| counters.stats()); });
/// }
/// ```
///
/// A guard borrows the pool, and what is seen within a closure stays there:
///
/// ```compile_fail,E0505
/// # use pagestamp::*;
/// fn outlive(players: SlotPool<u64>, owner: OwnerId, player: SlotHandle<u64>) {
///     let guard = players.read(owner, player);
///     drop(players);
///     drop(guard);
/// }
/// ```
///
/// ```compile_fail,E0521
/// # use pagestamp::*;
/// fn keep(players: &SlotPool<u64>) {
///     let mut all = Vec::new();
///     players.for_each_mut(Whose::All, |_, player| all.push(player));
/// }
/// ```
pub struct SlotPool<T> {
    inner: Arc<Inner<T>>,
}

/// What all clones share.
struct Inner<T> {
    identity: PoolIdentity,
    config: SlotConfig,
    slots: Slots<T>,
    stock: Stock,
    reset: fn(&mut T),
    /// Slots out of circulation for good. The capacity epoch is one more: nothing else changes the capacity.
    retired: AtomicU64,
    claims: Mutex<GroupClaims<T>>,
    counters: Counters,
}

/// Events that no lock guards. They only rise.
#[derive(Default)]
struct Counters {
    full: AtomicU64,
    rejected: AtomicU64,
    refused: AtomicU64,
    reset_panics: AtomicU64,
    trusted_ends: AtomicU64,
}

impl<T> SlotPool<T> {
    /// Makes a pool whose slots start as `T::default()`, and are reset by being replaced with it: what a life left in the
    /// slot is dropped.
    ///
    /// # Cost
    ///
    /// O(slots); 20 bytes for each slot beside its value, and 4 more while it is quarantined.
    ///
    /// # Errors
    ///
    /// [`ConfigError`].
    pub fn new(config: SlotConfig) -> Result<Self, ConfigError>
    where
        T: Default,
    {
        Self::make(config, |slots| Slots::try_new(slots, T::default), |value| *value = T::default())
    }

    /// Makes a pool whose slots start as `make` makes them, and are [reset](Reset) in place. For values that keep something
    /// between lives: buffers, connections to their own engine objects.
    ///
    /// # Errors
    ///
    /// [`ConfigError`].
    pub fn resetting(config: SlotConfig, make: impl FnMut() -> T) -> Result<Self, ConfigError>
    where
        T: Reset,
    {
        Self::make(config, |slots| Slots::try_new(slots, make), T::reset)
    }

    /// Makes a pool whose slots start as zero bytes, and are reset by writing zeros over every byte, padding included.
    ///
    /// # Errors
    ///
    /// [`ConfigError`].
    pub fn zeroing(config: SlotConfig) -> Result<Self, ConfigError>
    where
        T: ZeroBytes,
    {
        Self::make(config, Slots::try_zeroed, cell::write_zeros)
    }

    fn make(
        config: SlotConfig,
        make: impl FnOnce(u32) -> Result<Slots<T>, usize>,
        reset: fn(&mut T),
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let no_memory = |bytes| ConfigError::NoMemory { bytes };
        // The values first: what has no room is refused before anything is written.
        let slots = make(config.slots()).map_err(no_memory)?;
        let stock = Stock::try_new(config.slots(), config.magazines()).map_err(no_memory)?;
        let identity = next_pool_identity().ok_or(ConfigError::NoPoolIds)?;
        let (claims, counters, retired) = (Mutex::default(), Counters::default(), AtomicU64::new(0));
        Ok(Self { inner: Arc::new(Inner { identity, config, slots, stock, reset, retired, claims, counters }) })
    }

    /// The pool's id, as it stands in its handles.
    #[must_use]
    pub fn id(&self) -> PoolId {
        self.inner.identity.pool
    }

    /// How the pool was set up.
    #[must_use]
    pub fn config(&self) -> &SlotConfig {
        &self.inner.config
    }

    /// Slots of the pool, in whatever state.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.inner.config.slots()
    }
}

impl<T> Clone for SlotPool<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<T> fmt::Debug for SlotPool<T> {
    /// Shows the pool, never a value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotPool").field("id", &self.id()).field("slots", &self.slots()).finish_non_exhaustive()
    }
}
