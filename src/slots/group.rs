//! A group: slots that were claimed together.

use std::fmt;

use super::cell::{SlotMut, SlotRef};
use super::release::ReleasedSlots;
use super::{Inner, SlotHandle, SlotPool, ValueRefused};
use crate::claims::Standing;
use crate::error::SlotError;
use crate::id::OwnerId;
use crate::pool::ClaimToken;

/// Slots that one owner claimed together: a lobby, a squad. Not `Clone`. Dropping it releases them, unless they were
/// [claimed under a name](SlotPool::claim_named) that was not confirmed.
///
/// Slots are named by their place in the group, from 0.
///
/// # Examples
///
/// ```
/// use pagestamp::{CapacityPlan, OwnerId, SlotConfig, SlotError, SlotPool};
///
/// let pool = SlotPool::<String>::new(SlotConfig::new(16))?;
/// let proof = pool.prove(CapacityPlan::new(2))?;
/// let lobby = pool.claim(&proof, OwnerId::new(1).ok_or("zero")?, 2)?;
/// lobby.init(1, "Ben".into())?; // in any order
/// assert!(matches!(lobby.ready(), Err(SlotError::Uninitialised { .. })), "Ann is still missing");
/// lobby.init(0, "Ann".into())?;
/// lobby.ready()?;
/// assert_eq!(*lobby.read(0)?, "Ann");
/// assert_eq!(lobby.release().slots, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It is released once:
///
/// ```compile_fail,E0382
/// # use pagestamp::*;
/// fn twice(lobby: SlotGroup<String>) {
///     lobby.release();
///     lobby.release();
/// }
/// ```
#[must_use = "dropping the group releases its slots"]
pub struct SlotGroup<T> {
    pool: SlotPool<T>,
    owner: OwnerId,
    handles: Vec<SlotHandle<T>>,
    claim: Option<ClaimToken>,
}

impl<T> SlotGroup<T> {
    pub(super) const fn new(
        pool: SlotPool<T>,
        owner: OwnerId,
        handles: Vec<SlotHandle<T>>,
        claim: Option<ClaimToken>,
    ) -> Self {
        Self { pool, owner, handles, claim }
    }

    /// Whose slots they are.
    #[must_use]
    pub const fn owner(&self) -> OwnerId {
        self.owner
    }

    /// The pool that they are of.
    #[must_use]
    pub const fn pool(&self) -> &SlotPool<T> {
        &self.pool
    }

    /// The handles, in the order of the group.
    #[must_use]
    pub fn handles(&self) -> &[SlotHandle<T>] {
        &self.handles
    }

    /// The handle of one slot; `None` past the end of the group.
    #[must_use]
    pub fn handle(&self, place: usize) -> Option<SlotHandle<T>> {
        self.handles.get(place).copied()
    }

    /// Gives a slot its first value; see [`SlotPool::init`].
    ///
    /// # Errors
    ///
    /// [`SlotError`], with the value.
    pub fn init(&self, place: usize, value: T) -> Result<(), ValueRefused<T>> {
        match self.find(place) {
            Ok(handle) => self.pool.init(self.owner, handle, value).map_err(|refused| {
                let (value, error) = refused.into_parts();
                ValueRefused::new(value, revoked(error))
            }),
            Err(error) => Err(ValueRefused::new(value, error)),
        }
    }

    /// Reads a slot; see [`SlotPool::read`].
    ///
    /// # Errors
    ///
    /// - [`SlotError::Revoked`]: the slot left the group: it was reclaimed, or released by handle.
    /// - [`SlotError::NoSuchPlace`]: past the end of the group.
    /// - [`SlotError`]: as there.
    pub fn read(&self, place: usize) -> Result<SlotRef<'_, T>, SlotError> {
        self.pool.read(self.owner, self.find(place)?).map_err(revoked)
    }

    /// Has a slot to oneself; see [`SlotPool::write`].
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn write(&self, place: usize) -> Result<SlotMut<'_, T>, SlotError> {
        self.pool.write(self.owner, self.find(place)?).map_err(revoked)
    }

    /// Checks that every slot is initialised, and none poisoned or gone: the match may begin.
    ///
    /// # Errors
    ///
    /// Of the first slot that is not: [`SlotError::Uninitialised`], [`SlotError::Poisoned`], [`SlotError::Revoked`].
    pub fn ready(&self) -> Result<(), SlotError> {
        self.handles.iter().try_for_each(|handle| match self.pool.check(self.owner, *handle) {
            // Somebody is changing a value: it has one.
            Err(SlotError::Busy { .. }) => Ok(()),
            other => other.map_err(revoked),
        })
    }

    /// Releases all slots: their handles are stale from now on; see [`SlotPool::release`]. A claim under a name ends.
    #[expect(clippy::must_use_candidate, reason = "done for its effect; the answer is for reports")]
    pub fn release(mut self) -> ReleasedSlots {
        self.confirm_claim();
        let handles = std::mem::take(&mut self.handles);
        self.pool.inner.release_all(self.owner, &handles)
    }

    /// Gives up the group and keeps the slots: from now on they are released one by one, or [reclaimed](SlotPool::reclaim).
    /// A claim under a name is confirmed.
    #[must_use = "the slots stay claimed until each is released"]
    pub fn into_handles(mut self) -> Vec<SlotHandle<T>> {
        self.confirm_claim();
        std::mem::take(&mut self.handles)
    }

    /// Says that the handles of a [named claim](SlotPool::claim_named) arrived: whoever asks again under that name is told that
    /// it has ended, and dropping the group releases it.
    pub fn confirm_claim(&mut self) {
        if let Some(token) = self.claim.take() {
            self.pool.inner.claims.lock().end(token, |handles| *handles == self.handles);
        }
    }

    fn find(&self, place: usize) -> Result<SlotHandle<T>, SlotError> {
        self.handle(place).ok_or(SlotError::NoSuchPlace { place, slots: self.handles.len() })
    }
}

/// The group did not release the slot, or it would be gone itself.
fn revoked(error: SlotError) -> SlotError {
    match error {
        SlotError::Stale { slot, .. } => SlotError::Revoked { slot },
        other => other,
    }
}

impl<T> Inner<T> {
    /// Keeps the slots of a named claim whose group was dropped before it was confirmed.
    fn keep_claim(&self, token: ClaimToken, owner: OwnerId, handles: Vec<SlotHandle<T>>) {
        let mut claims = self.claims.lock();
        if let Some(claim) = claims.out_mut(token, |out| *out == handles) {
            claim.standing = Standing::Kept(handles);
            return;
        }
        drop(claims);
        self.release_all(owner, &handles);
    }
}

impl<T> Drop for SlotGroup<T> {
    fn drop(&mut self) {
        let handles = std::mem::take(&mut self.handles);
        match self.claim.take() {
            _ if handles.is_empty() => {}
            Some(token) => self.pool.inner.keep_claim(token, self.owner, handles),
            None => drop(self.pool.inner.release_all(self.owner, &handles)),
        }
    }
}

impl<T> fmt::Debug for SlotGroup<T> {
    /// Shows the handles, never a value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotGroup").field("owner", &self.owner).field("handles", &self.handles).finish_non_exhaustive()
    }
}
