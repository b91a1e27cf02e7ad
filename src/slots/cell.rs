//! The one place that turns a checked slot into its value.
//!
//! *Owns* the values, the guards and hands that give access to them, and all unsafe code of the slots. *Does not know*
//! lists, gates or claims.
//!
//! Why a reference given out here is sound:
//!
//! 1. *Shared or exclusive.* A guard is made after its access was counted in the slot's stamp, by the one step that checks
//!    that no exclusive access is open (for an exclusive one: none at all), and takes itself out when it ends. A guard
//!    that is forgotten stays counted.
//! 2. *In hand or accessed.* A [`Hand`] is made by whoever brought the stamp to `Cleaning`, which only happens while no
//!    access is counted, and in which none begins. There is one, since one change brings it there.
//! 3. *Valid.* A slot holds a valid `T` from the making of the pool to its end, at one address.
#![expect(unsafe_code, reason = "values lie in cells that the stamp beside them guards")]

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::stamp::{Denied, Ending, Left, Purpose, SlotStamp};
use super::{SlotHandle, SlotPool};
use crate::error::SlotError;
use crate::id::{Generation, OwnerId};
use crate::stamp::PageState;
use crate::sync::Ordering;

/// A type whose value may be all zero bytes, and may be overwritten by them at any time. [`SlotPool::zeroing`] resets such
/// slots byte for byte, padding included.
///
/// # Safety
///
/// (1) A `T` of zero bytes, padding included, is a valid value.
///
/// # Examples
///
/// ```
/// use pagestamp::{SlotConfig, SlotPool, ZeroBytes};
///
/// #[derive(Clone, Copy)]
/// #[repr(C)]
/// struct Position { x: f32, y: f32, room: u8 }
/// // SAFETY: (1) zeros are two floats and a byte.
/// unsafe impl ZeroBytes for Position {}
///
/// let pool = SlotPool::<Position>::zeroing(SlotConfig::new(8))?;
/// # assert_eq!(pool.slots(), 8);
/// # Ok::<(), pagestamp::ConfigError>(())
/// ```
pub unsafe trait ZeroBytes: Copy {}

macro_rules! zero_bytes {
    ($($number:ty),*) => {
        // SAFETY: (1) zero is a number.
        $(unsafe impl ZeroBytes for $number {})*
    };
}
zero_bytes!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64);

// SAFETY: (1) holds for each of the values, and there is nothing between them.
unsafe impl<T: ZeroBytes, const N: usize> ZeroBytes for [T; N] {}

/// Writes zero bytes over the whole of a value.
pub(super) fn write_zeros<T: ZeroBytes>(value: &mut T) {
    // SAFETY: a reference is valid for writes of one value, which is valid by obligation (1) of `ZeroBytes`; a `Copy` type
    // has nothing to drop.
    unsafe { std::ptr::write_bytes(std::ptr::from_mut(value), 0, 1) }
}

/// The value of a slot.
struct Value<T>(UnsafeCell<T>);

// SAFETY: by 1 and 2 of the module, a value is reached by many threads only through shared references, which asks for
// `Sync`, and by one at a time through an exclusive one, which asks for `Send`.
unsafe impl<T: Send + Sync> Sync for Value<T> {}

/// The slots of a pool: stamps, and values in the same order.
pub(super) struct Slots<T> {
    stamps: Box<[SlotStamp]>,
    values: Box<[Value<T>]>,
}

impl<T> Slots<T> {
    /// Makes `count` slots, each with a value from `make`. Answers the bytes that could not be allocated.
    pub(super) fn try_new(count: u32, mut make: impl FnMut() -> T) -> Result<Self, usize> {
        let (stamps, mut values) = Self::room_for(count as usize)?;
        values.extend((0..count).map(|_| Value(UnsafeCell::new(make()))));
        Ok(Self::of(stamps, values))
    }

    /// Makes `count` slots of zero bytes, padding included, in their place: a value may be larger than the stack.
    pub(super) fn try_zeroed(count: u32) -> Result<Self, usize>
    where
        T: ZeroBytes,
    {
        let count = count as usize;
        let (stamps, mut values) = Self::room_for(count)?;
        // SAFETY: there is room for `count` values from there on.
        unsafe { std::ptr::write_bytes(values.as_mut_ptr(), 0, count) };
        // SAFETY: `count` values were written, which are valid by obligation (1) of `ZeroBytes`.
        unsafe { values.set_len(count) };
        Ok(Self::of(stamps, values))
    }

    /// Room for `count` stamps and values.
    fn room_for(count: usize) -> Result<(Vec<SlotStamp>, Vec<Value<T>>), usize> {
        let (mut stamps, mut values) = (Vec::new(), Vec::new());
        let bytes = |each: usize| count.saturating_mul(each);
        stamps.try_reserve_exact(count).map_err(|_| bytes(size_of::<SlotStamp>()))?;
        values.try_reserve_exact(count).map_err(|_| bytes(size_of::<Value<T>>()))?;
        Ok((stamps, values))
    }

    /// One stamp for each value; there is room for them.
    fn of(mut stamps: Vec<SlotStamp>, values: Vec<Value<T>>) -> Self {
        stamps.resize_with(values.len(), SlotStamp::new);
        Self { stamps: stamps.into_boxed_slice(), values: values.into_boxed_slice() }
    }

    #[inline]
    pub(super) fn stamps(&self) -> &[SlotStamp] {
        &self.stamps
    }

    /// Begins a shared access.
    #[inline]
    pub(super) fn read(&self, owner: OwnerId, handle: SlotHandle<T>) -> Result<SlotRef<'_, T>, Denied> {
        let (stamp, value) = self.slot(handle.index())?;
        stamp.share(owner, handle.generation())?;
        Ok(SlotRef { stamp, value, handle })
    }

    /// Begins an exclusive access.
    #[inline]
    pub(super) fn write(
        &self,
        owner: OwnerId,
        handle: SlotHandle<T>,
        purpose: Purpose,
    ) -> Result<SlotMut<'_, T>, Denied> {
        let (stamp, value) = self.slot(handle.index())?;
        stamp.seize(owner, handle.generation(), purpose)?;
        // A panic that was on its way before is no concern of this access.
        let was_panicking = std::thread::panicking();
        Ok(SlotMut { stamp, value, handle, purpose, was_panicking, is_inside: false })
    }

    /// Ends the life of a slot. `None`: somebody is at it, and it goes on the list of the quarantined.
    #[inline]
    pub(super) fn leave(&self, owner: OwnerId, slot: u32, life: Generation) -> Result<Option<Hand<'_, T>>, Denied> {
        let (stamp, value) = self.slot(slot)?;
        Ok(match stamp.leave(owner, life)? {
            Left::InHand => Some(Hand { stamp, value, slot }),
            Left::Accessed => None,
        })
    }

    /// Takes a quarantined slot in hand once nobody is at it; only under the central lock.
    pub(super) fn collect(&self, slot: u32) -> Option<Hand<'_, T>> {
        let (stamp, value) = self.slot(slot).ok()?;
        stamp.collect().then_some(Hand { stamp, value, slot })
    }

    #[inline]
    fn slot(&self, slot: u32) -> Result<(&SlotStamp, &Value<T>), Denied> {
        match (self.stamps.get(slot as usize), self.values.get(slot as usize)) {
            (Some(stamp), Some(value)) => Ok((stamp, value)),
            _ => Err(Denied::OutOfRange),
        }
    }
}

/// A slot that belongs to nobody but the thread that has this, until it is reset and put back. One that is dropped stays out
/// of circulation.
#[must_use = "a slot in hand is lost unless it is put back"]
pub(super) struct Hand<'a, T> {
    stamp: &'a SlotStamp,
    value: &'a Value<T>,
    slot: u32,
}

impl<T> Hand<'_, T> {
    #[inline]
    pub(super) const fn slot(&self) -> u32 {
        self.slot
    }

    #[inline]
    pub(super) const fn stamp(&self) -> &SlotStamp {
        self.stamp
    }

    /// Resets the value; `false` when that panicked.
    #[inline]
    pub(super) fn reset(&mut self, reset: fn(&mut T)) -> bool {
        // SAFETY: by 2 and 3 nobody else has a reference to the value, which is valid; the hand is borrowed for as long.
        let value = unsafe { &mut *self.value.0.get() };
        // Nobody sees what a panic leaves half done: the slot retires.
        let result = catch_unwind(AssertUnwindSafe(|| reset(value)));
        // What was thrown may panic again when it is dropped; it is left where it is.
        result.map_err(std::mem::forget).is_ok()
    }
}

/// Shared access to a slot's value. While it lives nobody changes the value, and the slot goes to nobody else: a release
/// ends the slot's life at once, returns, and leaves the slot quarantined until this ends.
///
/// Ends by being dropped. One that is forgotten keeps the slot from ever being used again.
///
/// The guard of a value that threads may not share stays on its thread:
///
/// ```compile_fail,E0277
/// # use pagestamp::*;
/// fn send(guard: SlotRef<'static, std::cell::Cell<u64>>) {
///     std::thread::spawn(move || guard.set(1));
/// }
/// ```
#[must_use = "the access ends when the guard is dropped"]
pub struct SlotRef<'a, T> {
    stamp: &'a SlotStamp,
    value: &'a Value<T>,
    handle: SlotHandle<T>,
}

impl<T> SlotRef<'_, T> {
    /// The slot that is read.
    #[must_use]
    pub const fn handle(&self) -> SlotHandle<T> {
        self.handle
    }
}

impl<T> Deref for SlotRef<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: by 1 and 3 nobody has an exclusive reference while this guard lives, and the value is valid.
        unsafe { &*self.value.0.get() }
    }
}

impl<T> Drop for SlotRef<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.stamp.end_share();
    }
}

impl<T> fmt::Debug for SlotRef<'_, T> {
    /// Shows the handle, never the value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotRef").field("handle", &self.handle).finish_non_exhaustive()
    }
}

/// Exclusive access to a slot's value; else as [`SlotRef`]. When a panic unwinds through it the slot is *poisoned*: the
/// value may be half changed, and nobody has access to it until the slot is released and reset.
#[must_use = "the access ends when the guard is dropped"]
pub struct SlotMut<'a, T> {
    stamp: &'a SlotStamp,
    value: &'a Value<T>,
    handle: SlotHandle<T>,
    purpose: Purpose,
    was_panicking: bool,
    /// A closure has not come back from the value.
    is_inside: bool,
}

impl<T> SlotMut<'_, T> {
    /// Runs a change to its end. A panic in it is seen even while another one is on its way.
    #[inline]
    pub(super) fn run<R>(mut self, change: impl FnOnce(&mut T) -> R) -> R {
        self.is_inside = true;
        let result = change(&mut self);
        self.is_inside = false;
        result
    }

    /// The slot that is written.
    #[must_use]
    pub const fn handle(&self) -> SlotHandle<T> {
        self.handle
    }
}

impl<T> Deref for SlotMut<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: by 1 and 3 nobody else has a reference while this guard lives, and the value is valid.
        unsafe { &*self.value.0.get() }
    }
}

impl<T> DerefMut for SlotMut<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; the guard is borrowed exclusively.
        unsafe { &mut *self.value.0.get() }
    }
}

impl<T> Drop for SlotMut<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let ending = match self.purpose {
            _ if self.is_inside || !self.was_panicking && std::thread::panicking() => Ending::Panicked,
            Purpose::Initialise => Ending::Initialised,
            Purpose::Change => Ending::Changed,
        };
        self.stamp.end_seize(ending);
    }
}

impl<T> fmt::Debug for SlotMut<'_, T> {
    /// Shows the handle, never the value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotMut").field("handle", &self.handle).finish_non_exhaustive()
    }
}

impl<T> SlotPool<T> {
    /// Takes the caller's word that the guards on a released slot were forgotten, so that it may be reset and used again by
    /// the next [`maintain`](Self::maintain) or claim. `handle` is the one that the slot was released by.
    ///
    /// # Errors
    ///
    /// - [`SlotError::NotQuarantined`]: the slot is not released, or nobody is at it, or it is in a later life.
    /// - [`SlotError::ForeignPool`], [`SlotError::OutOfRange`]: the handle is of another pool.
    ///
    /// # Safety
    ///
    /// (1) No [`SlotRef`] or [`SlotMut`] on that life of the slot is ever used or dropped again, nor any reference got from
    /// one. A lie lets whoever uses it see the next owner's value.
    pub unsafe fn assume_forgotten(&self, handle: SlotHandle<T>) -> Result<(), SlotError> {
        let stamp = self.stamp_of(handle)?;
        let _central = self.inner.stock.central();
        let word = stamp.word();
        let ended = handle.generation().get() + 1 == word.generation().get();
        if word.state() != PageState::Quarantined || !ended || word.holds() == 0 {
            let (slot, generation) = (handle.index(), word.generation());
            return Err(SlotError::NotQuarantined { slot, state: word.state(), generation });
        }
        stamp.forget_accesses();
        self.inner.counters.trusted_ends.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CapacityPlan, SlotConfig};

    #[derive(Clone, Copy)]
    #[repr(C)]
    struct Padded(u8, u32);
    // SAFETY: (1) zero is a number.
    unsafe impl ZeroBytes for Padded {}

    // C3
    #[test]
    fn padding_is_zero_from_the_first_life_on() {
        let pool = SlotPool::<Padded>::zeroing(SlotConfig::new(2)).expect("valid");
        let proof = pool.prove(CapacityPlan::new(1)).expect("fits");
        let owner = OwnerId::new(1).expect("non-zero");
        let bytes = |slot: u32| {
            let value = pool.inner.slots.values[slot as usize].0.get();
            // SAFETY: nobody has the slot, and all its bytes were written as bytes.
            unsafe { value.cast::<[u8; 8]>().read() }
        };
        for _ in 0..2 {
            let handle = pool.claim_one(&proof, owner).expect("free");
            assert_eq!(bytes(handle.index()), [0; 8]);
            let value = pool.inner.slots.values[handle.index() as usize].0.get();
            // SAFETY: nobody is at the slot, and any bytes are two numbers.
            unsafe { std::ptr::write_bytes(value, 0xff, 1) };
            pool.release(owner, handle).expect("live");
        }
    }
}
