//! How a slot forgets its last owner.

/// Clears a value between two owners, in place: what a pool of the value's own kind would do.
///
/// The pool calls it once for each life of a slot: after the slot left its owner, outside every lock, and before anybody
/// else can have it. A reset that panics takes the slot out of circulation.
///
/// What must go is everything that the next owner could see: a reset that only empties a list may keep its capacity, since
/// a list shows nothing past its length. The pool's claim covers the slot's own bytes as far as the reset clears them; heap
/// memory that a value frees goes to the allocator as it is.
///
/// # Examples
///
/// ```
/// use pagestamp::{Reset, SlotConfig, SlotPool};
///
/// struct Match { players: Vec<u64>, tick: u64 }
///
/// impl Reset for Match {
///     fn reset(&mut self) {
///         self.players.clear(); // keeps its capacity for the next match
///         self.tick = 0;
///     }
/// }
///
/// let make = || Match { players: Vec::with_capacity(8), tick: 0 };
/// let pool = SlotPool::resetting(SlotConfig::new(64), make)?;
/// # assert_eq!(pool.slots(), 64);
/// # Ok::<(), pagestamp::ConfigError>(())
/// ```
pub trait Reset {
    /// Makes the value what it was before anybody used it.
    fn reset(&mut self);
}
