//! The handle of a slot.

use std::marker::PhantomData;

use crate::handle::{RawHandle, handle_traits};
use crate::id::{Generation, PoolId, PoolIdentity};

/// Names one slot in one of its lives. `Copy`, 16 bytes, typed by the value `T` that the slot holds.
///
/// Keep it wherever the game keeps a reference to a match, a player or an actor, and put its
/// [128-bit form](Self::to_bits) into messages. A handle is no capability: whoever reads names the owner too. After the
/// slot is released every use of the handle fails, for ever, within this process image. `Option<SlotHandle<T>>` is 16
/// bytes as well.
///
/// # Examples
///
/// ```
/// use pagestamp::SlotHandle;
/// assert_eq!(size_of::<Option<SlotHandle<String>>>(), 16);
/// assert!(SlotHandle::<String>::from_bits(0).is_none(), "zero is never a handle");
/// ```
///
/// A handle of one kind of slot is no handle of a pool of another:
///
/// ```compile_fail,E0308
/// # use pagestamp::*;
/// fn read_elsewhere(players: &SlotPool<String>, owner: OwnerId, monster: SlotHandle<u64>) {
///     let _ = players.read(owner, monster);
/// }
/// ```
///
/// ```compile_fail,E0308
/// # use pagestamp::*;
/// fn release_elsewhere(players: &SlotPool<String>, owner: OwnerId, monster: SlotHandle<u64>) {
///     let _ = players.release(owner, monster);
/// }
/// ```
pub struct SlotHandle<T> {
    raw: RawHandle,
    value: PhantomData<fn() -> T>,
}

impl<T> SlotHandle<T> {
    #[inline]
    pub(crate) const fn new(identity: PoolIdentity, index: u32, generation: Generation) -> Self {
        Self { raw: RawHandle::new(identity, index, generation), value: PhantomData }
    }

    #[inline]
    pub(crate) const fn is_of(&self, identity: PoolIdentity) -> bool {
        self.raw.is_of(identity)
    }

    /// Says which pool issued the handle.
    #[must_use]
    #[inline]
    pub const fn pool(&self) -> PoolId {
        self.raw.pool()
    }

    /// Gives the slot number, for arrays of one's own. Alone it proves nothing, and nothing here takes it.
    #[must_use]
    #[inline]
    pub const fn index(&self) -> u32 {
        self.raw.index()
    }

    /// Gives the life of the slot that the handle was issued for.
    #[must_use]
    #[inline]
    pub fn generation(&self) -> Generation {
        self.raw.generation()
    }

    /// Packs the handle for a message, C or C#; never zero.
    ///
    /// From the low bit: slot index 32, pool 32, generation 40, nonce 24. The same layout as that of a
    /// [`PageHandle`](crate::PageHandle).
    #[must_use]
    pub const fn to_bits(&self) -> u128 {
        self.raw.to_bits()
    }

    /// Unpacks what [`to_bits`](Self::to_bits) packed. `None` when the pool part is zero.
    ///
    /// Any other pattern makes *some* handle; a forged one fails when it is used, like a stale one.
    #[must_use]
    pub fn from_bits(bits: u128) -> Option<Self> {
        RawHandle::from_bits(bits).map(|raw| Self { raw, value: PhantomData })
    }
}

handle_traits!(SlotHandle, "s");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_handle_is_sixteen_bytes_and_prints_as_slot_and_generation() {
        let identity = PoolIdentity { pool: PoolId::new(7).expect("non-zero"), nonce: 5 };
        let handle = SlotHandle::<String>::new(identity, 12, Generation::new(3).expect("small"));
        assert_eq!((size_of::<SlotHandle<String>>(), size_of::<Option<SlotHandle<String>>>()), (16, 16));
        assert_eq!(format!("{handle:?}"), "s12@3");
        assert_eq!(SlotHandle::from_bits(handle.to_bits()), Some(handle));
    }
}
