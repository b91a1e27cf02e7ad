//! The door: proof, claim, and the claims that are asked again.

use super::{Inner, SlotGroup, SlotHandle, SlotPool, lane};
use crate::admission::{Barred, CapacityPlan, CapacityProof, Rejected};
use crate::claims::{Claims, Mismatch, Standing};
use crate::error::{CapacityError, RejectReason, SlotClaimError};
use crate::id::OwnerId;
use crate::pool::{ClaimError, ClaimToken};
use crate::sync::Ordering;

/// What was asked under each token: so many slots; and what was given.
pub(super) type GroupClaims<T> = Claims<u32, Vec<SlotHandle<T>>, Vec<SlotHandle<T>>>;

impl<T> SlotPool<T> {
    /// Proves, on the live pool, that the largest group fits with the demanded headroom: `CapacityPlan::new(8)` for lobbies
    /// of up to 8. In a proof of a slot pool a page is a slot.
    ///
    /// # Errors
    ///
    /// - [`CapacityError::ZeroTokens`]: a plan for nothing.
    /// - [`CapacityError::TooFewSlots`]: the pool does not carry it. Open no such lobby.
    pub fn prove(&self, plan: CapacityPlan) -> Result<CapacityProof, CapacityError> {
        if plan.max_request_tokens() == 0 {
            return Err(CapacityError::ZeroTokens);
        }
        let (epoch, usable_slots) = self.inner.capacity();
        plan.prove(self.id(), epoch, 1, usable_slots).map_err(|required_slots| CapacityError::TooFewSlots {
            largest_group_slots: plan.max_request_tokens(),
            headroom: plan.headroom(),
            required_slots,
            usable_slots,
        })
    }

    /// Claims one slot, and gives its handle: nothing is released by itself, so keep the handle, and
    /// [`release`](Self::release) or [`reclaim`](Self::reclaim). For players that come and go one by one; a lobby takes a
    /// [group](Self::claim).
    ///
    /// # Cost
    ///
    /// One short lock: the pool's, or when another thread has it the lock of a magazine that this thread shares with few.
    ///
    /// # Errors
    ///
    /// [`SlotClaimError`]; the pool is unchanged.
    #[inline]
    pub fn claim_one(&self, proof: &CapacityProof, owner: OwnerId) -> Result<SlotHandle<T>, SlotClaimError> {
        let inner = &*self.inner;
        inner.check_gate(proof, owner, 1)?;
        let mut handle = None;
        let give = |slot, generation| handle = Some(SlotHandle::new(inner.identity, slot, generation));
        lane::with(|lane| inner.stock.issue(inner.slots.stamps(), owner, 1, lane, give));
        handle.map_or_else(|| inner.take_last_one(owner), Ok)
    }

    /// Claims `slots` slots together, or none. They are blank, and may be initialised in any order.
    ///
    /// # Cost
    ///
    /// O(`slots`) under the lock; when too few are free, also the reset of as many quarantined ones as are missing.
    ///
    /// # Errors
    ///
    /// [`SlotClaimError`]; the pool is unchanged.
    pub fn claim(&self, proof: &CapacityProof, owner: OwnerId, slots: u32) -> Result<SlotGroup<T>, SlotClaimError> {
        self.inner.check_gate(proof, owner, slots)?;
        let handles = self.inner.take(owner, slots)?;
        Ok(SlotGroup::new(self.clone(), owner, handles, None))
    }

    /// Claims `slots` slots under a name, so that asking again after a lost answer gives the same slots, not more of them.
    ///
    /// The group keeps its slots when it is dropped before [`SlotGroup::confirm_claim`]: its handles never arrived. Only such
    /// a claim [expires](Self::expire_claims).
    ///
    /// # Examples
    ///
    /// ```
    /// use pagestamp::{CapacityPlan, ClaimToken, OwnerId, SlotConfig, SlotPool};
    ///
    /// let pool = SlotPool::<u64>::new(SlotConfig::new(16))?;
    /// let proof = pool.prove(CapacityPlan::new(8))?;
    /// let red = OwnerId::new(1).ok_or("zero")?;
    /// let token = ClaimToken { id: 0xfeed, expires_at_ns: 1_000 };
    ///
    /// let first = pool.claim_named(&proof, red, 8, token)?;
    /// let handles = first.handles().to_vec();
    /// drop(first); // the answer was lost on its way
    /// let mut again = pool.claim_named(&proof, red, 8, token)?;
    /// assert_eq!(again.handles(), handles, "the same slots");
    /// again.confirm_claim(); // it arrived
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`SlotClaimError::Claim`]: the group of the first try exists, or the claim has ended, or it was for something else.
    /// - [`SlotClaimError`]: as [`claim`](Self::claim).
    pub fn claim_named(
        &self,
        proof: &CapacityProof,
        owner: OwnerId,
        slots: u32,
        token: ClaimToken,
    ) -> Result<SlotGroup<T>, SlotClaimError> {
        let group = |handles| SlotGroup::new(self.clone(), owner, handles, Some(token));
        if let Some(handles) = self.claimed_before(owner, slots, token)? {
            return Ok(group(handles));
        }
        self.inner.check_gate(proof, owner, slots)?;
        let handles = self.inner.take(owner, slots)?;
        let mut claims = self.inner.claims.lock();
        if claims.contains(token) {
            // Another try came first.
            drop(claims);
            self.inner.release_all(owner, &handles);
            return Err(ClaimError::InUse.into());
        }
        claims.note(token, owner, slots, handles.clone());
        Ok(group(handles))
    }

    /// Gives up named claims whose answer was lost and that nobody asked for again in time: their slots are released. A claim
    /// whose group exists is never touched. Answers how many.
    #[expect(clippy::must_use_candidate, reason = "done for its effect; the answer is for reports")]
    pub fn expire_claims(&self, now_ns: u64) -> u64 {
        let expired = self.inner.claims.lock().expire(now_ns, |handles| !self.is_any_live(handles));
        let count = expired.len() as u64;
        for (owner, handles) in expired {
            self.inner.release_all(owner, &handles);
        }
        count
    }

    /// Gives the slots of an earlier try again. `None` when there was none.
    fn claimed_before(
        &self,
        owner: OwnerId,
        slots: u32,
        token: ClaimToken,
    ) -> Result<Option<Vec<SlotHandle<T>>>, ClaimError> {
        let mut claims = self.inner.claims.lock();
        let claim = match claims.find(token, owner, slots) {
            Ok(Some(claim)) => claim,
            Ok(None) => return Ok(None),
            Err(Mismatch::Owner) => return Err(ClaimError::ForeignOwner),
            Err(Mismatch::Asked(slots)) => return Err(ClaimError::OtherGroup { slots: u64::from(slots) }),
        };
        let handles = match std::mem::replace(&mut claim.standing, Standing::Ended) {
            Standing::Out(handles) if self.is_any_live(&handles) => {
                claim.standing = Standing::Out(handles);
                return Err(ClaimError::InUse);
            }
            // A reclaim took the slots, and the group may have been forgotten.
            Standing::Out(_) | Standing::Ended => return Err(ClaimError::Ended),
            Standing::Kept(handles) => handles,
        };
        if handles.iter().all(|handle| self.is_live(*handle)) {
            claim.standing = Standing::Out(handles.clone());
            claim.expires_at_ns = token.expires_at_ns;
            return Ok(Some(handles));
        }
        // Some of them were released or reclaimed: what is left is no group.
        drop(claims);
        self.inner.release_all(owner, &handles);
        Err(ClaimError::Ended)
    }

    fn is_any_live(&self, handles: &[SlotHandle<T>]) -> bool {
        handles.iter().any(|handle| self.is_live(*handle))
    }
}

impl<T> Inner<T> {
    /// The capacity epoch, and the slots that claims can use.
    #[inline]
    pub(super) fn capacity(&self) -> (u64, u64) {
        // Acquire, paired with the Release of a retirement.
        let retired = self.retired.load(Ordering::Acquire);
        (1 + retired, u64::from(self.config.slots()).saturating_sub(retired))
    }

    #[inline]
    fn check_gate(&self, proof: &CapacityProof, owner: OwnerId, slots: u32) -> Result<(), SlotClaimError> {
        if proof.pool != self.identity.pool {
            return Err(SlotClaimError::ForeignProof { proof_pool: proof.pool, pool: self.identity.pool });
        }
        let (epoch, usable_slots) = self.capacity();
        proof
            .check(u64::from(slots), epoch, || usable_slots)
            .map_err(|barred| self.barred(proof, owner, slots, epoch, barred))
    }

    #[cold]
    fn barred(&self, proof: &CapacityProof, owner: OwnerId, slots: u32, epoch: u64, barred: Barred) -> SlotClaimError {
        let asked_slots = u64::from(slots);
        let reason = match barred {
            Barred::AskedForNothing => RejectReason::ZeroSlots,
            Barred::NeverFits { usable_pages: usable_slots } => RejectReason::GroupNeverFits {
                asked_slots,
                largest_group_slots: proof.plan.max_request_tokens(),
                usable_slots,
            },
            Barred::ProofVoid { usable_pages: usable_slots } => {
                let (proof_epoch, required_slots) = (proof.epoch, proof.required_pages);
                return SlotClaimError::ProofVoid { proof_epoch, epoch, required_slots, usable_slots };
            }
        };
        self.counters.rejected.fetch_add(1, Ordering::Relaxed);
        SlotClaimError::Rejected(Rejected::new(owner, asked_slots, reason))
    }

    /// Issues `slots` slots, or none.
    fn take(&self, owner: OwnerId, slots: u32) -> Result<Vec<SlotHandle<T>>, SlotClaimError> {
        let (stamps, wanted) = (self.slots.stamps(), slots as usize);
        let mut handles = Vec::with_capacity(wanted);
        let mut give = |slot, generation| handles.push(SlotHandle::new(self.identity, slot, generation));
        if lane::with(|lane| self.stock.issue(stamps, owner, wanted, lane, &mut give)) {
            return Ok(handles);
        }
        loop {
            let mut central = self.stock.central();
            let Err(free) = self.stock.issue_last(&mut central, stamps, owner, wanted, &mut give) else {
                return Ok(handles);
            };
            let idle = central.quarantined.iter().filter(|slot| stamps[**slot as usize].is_idle()).count();
            if free + idle < wanted {
                self.counters.full.fetch_add(1, Ordering::Relaxed);
                return Err(SlotClaimError::Full {
                    needed_slots: u64::from(slots),
                    free_slots: free as u64,
                    pending_slots: central.quarantined.len() as u64,
                });
            }
            let hands = self.collect(&mut central, wanted - free);
            drop(central);
            self.finish(hands);
        }
    }

    /// One slot, when the cheap way found none.
    #[cold]
    fn take_last_one(&self, owner: OwnerId) -> Result<SlotHandle<T>, SlotClaimError> {
        let handles = self.take(owner, 1)?;
        Ok(handles[0])
    }
}
