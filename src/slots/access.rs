//! Access by handle: shared, exclusive, and the first one, which initialises.
//!
//! *Owns* the words for what was refused. The check itself is the stamp's.

use super::cell::{SlotMut, SlotRef};
use super::stamp::{Denied, Purpose, SlotStamp};
use super::{Inner, SlotHandle, SlotPool, ValueRefused};
use crate::error::SlotError;
use crate::id::OwnerId;
use crate::stamp::PageState;
use crate::sync::Ordering;

impl<T> SlotPool<T> {
    /// Reads a slot. Others may read it too; who wants to write finds it [`Busy`](SlotError::Busy) until the guard ends.
    ///
    /// # Cost
    ///
    /// One compare-and-swap here and one subtraction when the guard ends, on the slot's stamp. No lock.
    ///
    /// # Memory ordering
    ///
    /// What the last exclusive access wrote is visible.
    ///
    /// # Errors
    ///
    /// [`SlotError`]; nothing changed, and the refusal is counted.
    #[inline]
    pub fn read(&self, owner: OwnerId, handle: SlotHandle<T>) -> Result<SlotRef<'_, T>, SlotError> {
        let inner = &*self.inner;
        inner.check_pool(handle)?;
        inner.slots.read(owner, handle).map_err(|why| inner.refused(owner, handle, why))
    }

    /// Has a slot to oneself. Everybody else finds it [`Busy`](SlotError::Busy) until the guard ends. When a panic unwinds
    /// through the guard the slot is [`Poisoned`](SlotError::Poisoned), until its release resets it.
    ///
    /// # Cost
    ///
    /// As [`read`](Self::read).
    ///
    /// # Memory ordering
    ///
    /// Every access before is before this one, and this one before every access that follows.
    ///
    /// # Errors
    ///
    /// [`SlotError`]; nothing changed, and the refusal is counted.
    #[inline]
    pub fn write(&self, owner: OwnerId, handle: SlotHandle<T>) -> Result<SlotMut<'_, T>, SlotError> {
        self.seize(owner, handle, Purpose::Change)
    }

    /// Reads a slot within a closure.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read); the closure did not run.
    #[inline]
    pub fn with<R>(&self, owner: OwnerId, handle: SlotHandle<T>, look: impl FnOnce(&T) -> R) -> Result<R, SlotError> {
        self.read(owner, handle).map(|slot| look(&slot))
    }

    /// Changes a slot within a closure. When the closure panics the slot is [`Poisoned`](SlotError::Poisoned).
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write); the closure did not run.
    #[inline]
    pub fn with_mut<R>(
        &self,
        owner: OwnerId,
        handle: SlotHandle<T>,
        change: impl FnOnce(&mut T) -> R,
    ) -> Result<R, SlotError> {
        self.write(owner, handle).map(|slot| slot.run(change))
    }

    /// Gives a slot its first value in this life. The blank one that was there is dropped.
    ///
    /// # Errors
    ///
    /// The value comes back with the error, and nothing changed.
    ///
    /// - [`SlotError::AlreadyInitialised`]: use [`with_mut`](Self::with_mut).
    /// - [`SlotError`]: as [`write`](Self::write).
    pub fn init(&self, owner: OwnerId, handle: SlotHandle<T>, value: T) -> Result<(), ValueRefused<T>> {
        match self.seize(owner, handle, Purpose::Initialise) {
            Ok(slot) => {
                slot.run(|blank| *blank = value);
                Ok(())
            }
            Err(error) => Err(ValueRefused::new(value, error)),
        }
    }

    /// Initialises a slot in place: the closure gets the reset value, with whatever [`Reset`](crate::Reset) kept.
    ///
    /// # Errors
    ///
    /// As [`init`](Self::init); the closure did not run.
    pub fn init_with<R>(
        &self,
        owner: OwnerId,
        handle: SlotHandle<T>,
        make: impl FnOnce(&mut T) -> R,
    ) -> Result<R, SlotError> {
        self.seize(owner, handle, Purpose::Initialise).map(|slot| slot.run(make))
    }

    /// Says what an access to a slot would find now, without one: for a message that may have come late.
    ///
    /// # Errors
    ///
    /// [`SlotError`], as [`read`](Self::read).
    pub fn check(&self, owner: OwnerId, handle: SlotHandle<T>) -> Result<(), SlotError> {
        let stamp = self.stamp_of(handle)?;
        let why = match stamp.look(owner, handle.generation()) {
            Err(why) => why,
            Ok(word) if word.is_poisoned() => Denied::Poisoned,
            Ok(word) if word.is_blank() => Denied::Blank,
            Ok(word) if word.is_writing() => Denied::Busy(word),
            Ok(_) => return Ok(()),
        };
        Err(self.inner.refused(owner, handle, why))
    }

    fn seize(&self, owner: OwnerId, handle: SlotHandle<T>, purpose: Purpose) -> Result<SlotMut<'_, T>, SlotError> {
        let inner = &*self.inner;
        inner.check_pool(handle)?;
        inner.slots.write(owner, handle, purpose).map_err(|why| inner.refused(owner, handle, why))
    }

    /// The stamp of the slot that a handle of this pool names. Says nothing about its life.
    pub(super) fn stamp_of(&self, handle: SlotHandle<T>) -> Result<&SlotStamp, SlotError> {
        self.inner.check_pool(handle)?;
        let (slot, slots) = (handle.index(), self.slots());
        self.inner.slots.stamps().get(slot as usize).ok_or(SlotError::OutOfRange { slot, slots })
    }

    /// Says whether the handle names a life that goes on.
    pub(super) fn is_live(&self, handle: SlotHandle<T>) -> bool {
        self.stamp_of(handle).is_ok_and(|stamp| {
            let word = stamp.word();
            word.state() == PageState::Live && word.generation() == handle.generation()
        })
    }
}

impl<T> Inner<T> {
    #[inline]
    pub(super) fn check_pool(&self, handle: SlotHandle<T>) -> Result<(), SlotError> {
        if handle.is_of(self.identity) {
            return Ok(());
        }
        self.counters.refused.fetch_add(1, Ordering::Relaxed);
        Err(SlotError::ForeignPool { handle_pool: handle.pool(), pool: self.identity.pool })
    }

    /// The error for an access that was denied; counts it.
    #[cold]
    pub(super) fn refused(&self, owner: OwnerId, handle: SlotHandle<T>, why: Denied) -> SlotError {
        // Relaxed: a count of events.
        self.counters.refused.fetch_add(1, Ordering::Relaxed);
        let slot = handle.index();
        match why {
            Denied::Stale(word) => SlotError::Stale {
                slot,
                handle_generation: handle.generation(),
                generation: word.generation(),
                state: word.state(),
            },
            Denied::OutOfRange => SlotError::OutOfRange { slot, slots: self.config.slots() },
            Denied::ForeignOwner => SlotError::ForeignOwner { slot, asked_owner: owner },
            Denied::Poisoned => SlotError::Poisoned { slot },
            Denied::Blank => SlotError::Uninitialised { slot },
            Denied::NotBlank => SlotError::AlreadyInitialised { slot },
            Denied::Busy(word) if word.is_writing() => SlotError::Busy { slot, readers: 0 },
            Denied::Busy(word) => SlotError::Busy { slot, readers: word.holds() },
            Denied::TooMany => SlotError::TooManyReaders { slot },
        }
    }
}
