//! More data for the same slots, in arrays of its own.

use std::fmt;

use super::{SlotHandle, SlotPool, ValueRefused};
use crate::error::SlotError;
use crate::id::Generation;

/// Values beside those of a [`SlotPool`], found by the same handles: positions in one array, inventories in another, each
/// walked without touching the rest.
///
/// It answers only for slots that are live: when a slot is released, what stood here for it is out of reach at once, and
/// dropped by the next [`insert`](Self::insert) for the slot or by [`remove_stale`](Self::remove_stale). It belongs to
/// whoever holds it, so that it asks for no owner.
///
/// # Examples
///
/// ```
/// use pagestamp::{CapacityPlan, OwnerId, SecondaryMap, SlotConfig, SlotPool};
///
/// let pool = SlotPool::<String>::new(SlotConfig::new(16))?;
/// let proof = pool.prove(CapacityPlan::new(1))?;
/// let mut positions = SecondaryMap::new(&pool);
///
/// let red = OwnerId::new(1).ok_or("zero")?;
/// let ann = pool.claim_one(&proof, red)?;
/// positions.insert(ann, (3, 4))?;
/// assert_eq!(positions.get(ann), Some(&(3, 4)));
///
/// pool.release(red, ann)?;
/// assert_eq!(positions.get(ann), None);
/// assert!(positions.insert(ann, (5, 6)).is_err(), "stale");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A handle of another kind of slot finds nothing here:
///
/// ```compile_fail,E0308
/// # use pagestamp::*;
/// fn position_of(positions: &SecondaryMap<String, (u32, u32)>, monster: SlotHandle<u64>) {
///     let _ = positions.get(monster);
/// }
/// ```
pub struct SecondaryMap<T, V> {
    pool: SlotPool<T>,
    /// By slot: the life that the value is for.
    entries: Vec<Option<(Generation, V)>>,
}

impl<T, V> SecondaryMap<T, V> {
    /// Makes an empty map for the slots of a pool. It grows to the highest slot that it has a value for.
    #[must_use]
    pub fn new(pool: &SlotPool<T>) -> Self {
        Self { pool: pool.clone(), entries: Vec::new() }
    }

    /// Puts a value beside a live slot, and gives back the one that stood there for the same life.
    ///
    /// # Errors
    ///
    /// The value comes back with the error.
    ///
    /// - [`SlotError::Stale`]: the slot was released.
    /// - [`SlotError::ForeignPool`], [`SlotError::OutOfRange`]: the handle is of another pool.
    pub fn insert(&mut self, handle: SlotHandle<T>, value: V) -> Result<Option<V>, ValueRefused<V>> {
        if let Err(error) = self.check(handle) {
            return Err(ValueRefused::new(value, error));
        }
        let at = handle.index() as usize;
        if self.entries.len() <= at {
            self.entries.resize_with(at + 1, || None);
        }
        let before = self.entries[at].replace((handle.generation(), value));
        Ok(before.filter(|(life, _)| *life == handle.generation()).map(|(_, value)| value))
    }

    /// The value beside a live slot.
    #[must_use]
    pub fn get(&self, handle: SlotHandle<T>) -> Option<&V> {
        let (life, value) = self.entries.get(handle.index() as usize)?.as_ref()?;
        (*life == handle.generation() && self.pool.is_live(handle)).then_some(value)
    }

    /// The value beside a live slot, to change it.
    #[must_use]
    pub fn get_mut(&mut self, handle: SlotHandle<T>) -> Option<&mut V> {
        let (life, value) = self.entries.get_mut(handle.index() as usize)?.as_mut()?;
        (*life == handle.generation() && self.pool.is_live(handle)).then_some(value)
    }

    /// Takes out the value beside a slot, live or not, if it was put there for that life.
    pub fn remove(&mut self, handle: SlotHandle<T>) -> Option<V> {
        if !handle.is_of(self.pool.inner.identity) {
            return None;
        }
        let entry = self.entries.get_mut(handle.index() as usize)?;
        entry.take_if(|(life, _)| *life == handle.generation()).map(|(_, value)| value)
    }

    /// Drops the values beside slots that were released. Answers how many.
    pub fn remove_stale(&mut self) -> u64 {
        let (pool, mut removed) = (&self.pool, 0);
        for (slot, entry) in self.entries.iter_mut().enumerate() {
            let is_stale = |life: Generation| !pool.is_live(SlotHandle::new(pool.inner.identity, slot as u32, life));
            removed += u64::from(entry.take_if(|(life, _)| is_stale(*life)).is_some());
        }
        removed
    }

    /// The values beside live slots, in the order of the slots.
    pub fn iter(&self) -> impl Iterator<Item = (SlotHandle<T>, &V)> {
        self.entries.iter().enumerate().filter_map(|(slot, entry)| {
            let (life, value) = entry.as_ref()?;
            let handle = SlotHandle::new(self.pool.inner.identity, slot as u32, *life);
            self.pool.is_live(handle).then_some((handle, value))
        })
    }

    /// The values beside live slots, in the order of the slots, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (SlotHandle<T>, &mut V)> {
        let pool = &self.pool;
        self.entries.iter_mut().enumerate().filter_map(move |(slot, entry)| {
            let (life, value) = entry.as_mut()?;
            let handle = SlotHandle::new(pool.inner.identity, slot as u32, *life);
            pool.is_live(handle).then_some((handle, value))
        })
    }

    fn check(&self, handle: SlotHandle<T>) -> Result<(), SlotError> {
        let word = self.pool.stamp_of(handle)?.word();
        if self.pool.is_live(handle) {
            return Ok(());
        }
        Err(SlotError::Stale {
            slot: handle.index(),
            handle_generation: handle.generation(),
            generation: word.generation(),
            state: word.state(),
        })
    }
}

impl<T, V> fmt::Debug for SecondaryMap<T, V> {
    /// Shows the pool, never a value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecondaryMap").field("pool", &self.pool).finish_non_exhaustive()
    }
}
