//! The door: proof, admission, promise, and the taking of pages.
//!
//! *Owns* every way in which a page becomes live. One function computes what a request needs, for the check and for the
//! taking alike. A promise is backed by pages that are free now, so that keeping it cannot fail.

use std::sync::Arc;

use super::state::Pending;
use super::{Inner, PagePool, RecordKey, State, StateGuard, Status};
use crate::admission::{Admitted, Barred, CapacityPlan, CapacityProof, Rejected, Request};
use crate::error::{AdmitError, CapacityError, GrowError, Refused, RejectReason, ReserveError};
use crate::id::OwnerId;
use crate::lease::{Core, Lease};
use crate::memory::{Lane, PageMemory};
use crate::prefix::Prefix;
use crate::quota::Limit;
use crate::reservation::Reservation;
use crate::sync::Ordering;

impl<M: PageMemory> PagePool<M> {
    /// Proves, on the live pool, that the largest request fits with the demanded headroom.
    ///
    /// # Cost
    ///
    /// O(1), one lock.
    ///
    /// # Errors
    ///
    /// - [`CapacityError::ZeroTokens`]: a plan for nothing.
    /// - [`CapacityError::PoolTooSmall`]: the pool does not carry it. Serve no such request.
    pub fn prove(&self, plan: CapacityPlan) -> Result<CapacityProof, CapacityError> {
        if plan.max_request_tokens() == 0 {
            return Err(CapacityError::ZeroTokens);
        }
        let inner = &*self.inner;
        let state = inner.state.lock();
        let usable_pages = inner.usable(&state);
        plan.prove(self.id(), state.epoch, inner.page_tokens(), usable_pages).map_err(|required_pages| {
            CapacityError::PoolTooSmall {
                max_request_tokens: plan.max_request_tokens(),
                headroom: plan.headroom(),
                required_pages,
                usable_pages,
                pool_tokens: usable_pages * u64::from(inner.page_tokens()),
            }
        })
    }

    /// Admits a request: promises it all its pages, growth included, and takes none yet.
    ///
    /// # Cost
    ///
    /// O(1) and one lock; when too few pages are free, also the zeroing of as many dirty ones as are missing.
    ///
    /// # Errors
    ///
    /// [`AdmitError`]; the pool is unchanged and, unless it was rejected, the request comes back.
    pub fn admit(&self, proof: &CapacityProof, request: Request) -> Result<Admitted<M>, AdmitError> {
        if request.claim().is_some() {
            return Err(AdmitError::Claim { request, source: super::ClaimError::NeedsReserve });
        }
        let (mut state, needed) = match self.inner.room_for(proof, &request, 0, 0) {
            Ok(room) => room,
            Err(refusal) => return Err(refusal.with(request)),
        };
        state.totals.admitted += 1;
        let core = state.open_record(request.owner, Status::Admitted, needed);
        drop(state);
        Ok(Admitted { lease: Lease::new(self.clone(), request.owner, core), max_tokens: request.max_tokens })
    }

    /// Admits a request and reserves its first `tokens` tokens, in one step under one lock.
    ///
    /// A request [with a claim](Request::with_claim) that was answered before gives the same pages again.
    ///
    /// # Cost
    ///
    /// O(pages) under the lock; when too few pages are free, also the zeroing of as many dirty ones as are missing.
    ///
    /// # Errors
    ///
    /// [`AdmitError`]; the pool is unchanged and, unless it was rejected, the request comes back.
    #[inline]
    pub fn reserve(&self, proof: &CapacityProof, request: Request, tokens: u64) -> Result<Reservation<M>, AdmitError> {
        if request.claim().is_some() {
            return self.reserve_claimed(proof, request, tokens);
        }
        // One word comes back from there and the reservation is made here: its copies would cost as much as its lock.
        match self.inner.reserve(proof, &request, tokens) {
            Ok(core) => {
                let lease = Lease::new(self.clone(), request.owner, core);
                Ok(Reservation::new(lease, request.max_tokens, tokens))
            }
            Err(refusal) => Err(refusal.with(request)),
        }
    }
}

impl<M: PageMemory> PagePool<M> {
    /// Admits a request that goes on from a prefix which a [`lookup`](Self::lookup) found, and reserves its first `tokens`
    /// tokens, at least those of the prefix. What the prefix has counts as written and committed.
    ///
    /// # Cost
    ///
    /// As [`reserve`](Self::reserve), of the pages that the prefix does not have.
    ///
    /// # Errors
    ///
    /// The prefix comes back, with the request in the [`AdmitError`] unless it was rejected. Pool unchanged.
    ///
    /// - [`AdmitError::PrefixUnusable`]: the prefix is of another owner or pool, or its owner was reclaimed.
    /// - Otherwise as [`reserve`](Self::reserve); a request with a claim is refused, since an answer that is given twice has
    ///   one prefix only.
    pub fn reserve_with_prefix(
        &self,
        proof: &CapacityProof,
        request: Request,
        prefix: Prefix<M>,
        tokens: u64,
    ) -> Result<Reservation<M>, Refused<Prefix<M>, AdmitError>> {
        let (inner, held_tokens) = (&*self.inner, prefix.tokens());
        let reserved = tokens.max(held_tokens);
        let is_ours = Arc::ptr_eq(&self.inner, &prefix.pool().inner) && request.owner == prefix.owner();
        let result = if !is_ours {
            Err(Refusal::PrefixUnusable)
        } else if request.claim().is_some() {
            Err(Refusal::Claim(super::ClaimError::NeedsReserve))
        } else {
            inner.reserve_more(proof, &request, &prefix.lease, reserved)
        };
        match result {
            Ok(()) => {
                let Prefix { lease, chain, .. } = prefix;
                let kv = Reservation::new(lease, request.max_tokens, reserved).with_chain(chain);
                Ok(kv.with_extents(held_tokens, held_tokens))
            }
            Err(refusal) => Err(Refused::new(prefix, refusal.with(request))),
        }
    }
}

/// Why there is no room, before the request is put back into the error.
pub(super) enum Refusal {
    PastMax { asked_tokens: u64 },
    Claim(super::ClaimError),
    Full { needed_pages: u64, free_pages: u64, pending_pages: u64, promised_pages: u64, limit: Limit },
    Rejected(RejectReason),
    ProofVoid { proof_epoch: u64, epoch: u64, required_pages: u64, usable_pages: u64 },
    ForeignProof { proof: CapacityProof, pool: crate::id::PoolId },
    Suspended,
    PrefixUnusable,
}

impl Refusal {
    #[cold]
    pub(super) fn with(self, request: Request) -> AdmitError {
        match self {
            Self::PastMax { asked_tokens } => {
                let max_tokens = request.max_tokens;
                AdmitError::PastMax { request, asked_tokens, max_tokens }
            }
            Self::Claim(source) => AdmitError::Claim { request, source },
            Self::Full { needed_pages, free_pages, pending_pages, promised_pages, limit } => {
                AdmitError::Full { request, needed_pages, free_pages, pending_pages, promised_pages, limit }
            }
            Self::Rejected(reason) => AdmitError::Rejected(Rejected::new(request.owner, request.max_tokens, reason)),
            Self::ProofVoid { proof_epoch, epoch, required_pages, usable_pages } => {
                AdmitError::ProofVoid { request, proof_epoch, epoch, required_pages, usable_pages }
            }
            Self::ForeignProof { proof, pool } => AdmitError::ForeignProof { request, proof_pool: proof.pool, pool },
            Self::Suspended => AdmitError::Suspended { request },
            Self::PrefixUnusable => AdmitError::PrefixUnusable { request },
        }
    }
}

impl<M: PageMemory> Inner<M> {
    /// Finds room for a request and takes its first pages.
    pub(super) fn reserve(&self, proof: &CapacityProof, request: &Request, tokens: u64) -> Result<Arc<Core>, Refusal> {
        if tokens > request.max_tokens {
            return Err(Refusal::PastMax { asked_tokens: tokens });
        }
        let now = self.memory.geometry().pages_for_tokens(tokens);
        let (mut state, needed) = self.room_for(proof, request, now, 0)?;
        // Another try may have come first while the lock was free.
        if request.claim().is_some_and(|token| state.claims.contains(token)) {
            return Err(Refusal::Claim(super::ClaimError::InUse));
        }
        let behind_fences = needed.saturating_sub(state.unpromised());
        state.totals.admitted += 1;
        let core = state.open_record(request.owner, Status::Reserved, needed - now);
        self.issue_free(&mut state, &core, request.owner, now - behind_fences);
        if behind_fences > 0 {
            self.issue_fenced(&mut state, &core, request.owner, behind_fences);
        }
        if let Some(token) = request.claim() {
            state.claims.note(token, request.owner, (request.max_tokens, tokens), Arc::clone(&core));
        }
        Ok(core)
    }

    /// Finds room for what a request needs beyond the pages that it holds already, and takes its first ones.
    fn reserve_more(
        &self,
        proof: &CapacityProof,
        request: &Request,
        lease: &Lease<M>,
        tokens: u64,
    ) -> Result<(), Refusal> {
        if tokens > request.max_tokens {
            return Err(Refusal::PastMax { asked_tokens: tokens });
        }
        let core = lease.core();
        let pages = self.memory.geometry().pages_for_tokens(tokens);
        core.pages.make_room(pages);
        // The caller has the lease to itself: the list does not change.
        let held = u64::from(core.pages.len());
        let now = pages.saturating_sub(held);
        let (mut state, needed) = self.room_for(proof, request, now, held)?;
        let record = state.records.get_mut(core.key).filter(|_| !core.header.is_revoked());
        let Some(record) = record else { return Err(Refusal::PrefixUnusable) };
        record.promised += needed - now;
        let owner = record.owner;
        let behind_fences = needed.saturating_sub(state.unpromised());
        state.promised += needed - now;
        state.count_in(owner, needed - now);
        state.totals.admitted += 1;
        self.issue_free(&mut state, core, owner, now - behind_fences);
        if behind_fences > 0
            && let Some(core) = state.records.get(core.key).map(|record| Arc::clone(&record.core))
        {
            self.issue_fenced(&mut state, &core, owner, behind_fences);
        }
        Ok(())
    }

    /// Finds room for a request beyond the pages that it holds, or says why there is none. On success the lock is still held.
    /// When the request names a lane, up to `now` pages may come from behind fences that the lane was told to wait for.
    #[inline]
    fn room_for(
        &self,
        proof: &CapacityProof,
        request: &Request,
        now: u64,
        held: u64,
    ) -> Result<(StateGuard<'_>, u64), Refusal> {
        if proof.pool != self.identity.pool {
            return Err(Refusal::ForeignProof { proof: *proof, pool: self.identity.pool });
        }
        let all_pages = self.memory.geometry().pages_for_tokens(request.max_tokens);
        let needed_pages = all_pages.saturating_sub(held);
        let mut state = self.state.lock();
        self.check_gate(&mut state, proof, request, all_pages)?;
        self.check_quota(&mut state, request.owner, needed_pages)?;
        if state.unpromised() < needed_pages {
            state = self.find_room(state, proof, request, needed_pages, now)?;
        }
        Ok((state, needed_pages))
    }

    /// Looks for room behind quarantine, fences and zeroing, while the gate lets the request through.
    #[cold]
    fn find_room<'a>(
        &'a self,
        mut state: StateGuard<'a>,
        proof: &CapacityProof,
        request: &Request,
        needed_pages: u64,
        now: u64,
    ) -> Result<StateGuard<'a>, Refusal> {
        while state.unpromised() < needed_pages {
            state = match self.gather(state, request.owner, needed_pages) {
                Gathered::Some(state) => state,
                Gathered::Nothing(mut state) => {
                    if let Some(lane) = request.lane {
                        let missing = needed_pages - state.unpromised();
                        if missing <= now && self.order_fences(&mut state, lane, missing) {
                            return Ok(state);
                        }
                    }
                    state.totals.full += 1;
                    return Err(Refusal::Full {
                        needed_pages,
                        free_pages: state.unpromised(),
                        pending_pages: state.coming(),
                        promised_pages: state.promised,
                        limit: state.limit_for(request.owner, needed_pages),
                    });
                }
            };
            self.check_gate(&mut state, proof, request, needed_pages)?;
            self.check_quota(&mut state, request.owner, needed_pages)?;
        }
        Ok(state)
    }

    /// What no amount of waiting for pages would change.
    #[inline]
    fn check_gate(
        &self,
        state: &mut State,
        proof: &CapacityProof,
        request: &Request,
        needed_pages: u64,
    ) -> Result<(), Refusal> {
        let answer = proof.check(request.max_tokens, state.epoch, || self.usable(state));
        if answer.is_ok() && !state.suspended && needed_pages <= state.hard_quota(request.owner) {
            return Ok(());
        }
        Err(self.refuse_at_gate(state, proof, request, needed_pages, answer.err()))
    }

    /// Says what the gate does not let a request through for.
    #[cold]
    fn refuse_at_gate(
        &self,
        state: &mut State,
        proof: &CapacityProof,
        request: &Request,
        needed_pages: u64,
        barred: Option<Barred>,
    ) -> Refusal {
        if state.suspended {
            return Refusal::Suspended;
        }
        let never_fits = |usable_pages, limit| {
            let (asked_tokens, max_request_tokens) = (request.max_tokens, proof.plan.max_request_tokens());
            RejectReason::NeverFits { asked_tokens, needed_pages, max_request_tokens, usable_pages, limit }
        };
        let reason = match barred {
            None => never_fits(state.hard_quota(request.owner), Limit::HardQuota),
            Some(Barred::AskedForNothing) => RejectReason::ZeroTokens,
            Some(Barred::NeverFits { usable_pages }) => never_fits(usable_pages, Limit::Pool),
            Some(Barred::ProofVoid { usable_pages }) => {
                let (proof_epoch, epoch, required_pages) = (proof.epoch, state.epoch, proof.required_pages);
                return Refusal::ProofVoid { proof_epoch, epoch, required_pages, usable_pages };
            }
        };
        state.totals.rejected += 1;
        Refusal::Rejected(reason)
    }

    /// Refuses what would bring an owner past its hard quota now.
    #[inline]
    fn check_quota(&self, state: &mut State, owner: OwnerId, needed_pages: u64) -> Result<(), Refusal> {
        let free_pages = state.quota_room(owner);
        if needed_pages <= free_pages {
            return Ok(());
        }
        state.totals.full += 1;
        let (pending_pages, promised_pages, limit) = (0, state.promised, Limit::HardQuota);
        Err(Refusal::Full { needed_pages, free_pages, pending_pages, promised_pages, limit })
    }

    /// Tries to bring pages back to `free`: quarantine, fences, zeroing of no more than what is missing, then eviction of no
    /// more than what is not on its way back already.
    pub(super) fn gather<'a>(&'a self, mut state: StateGuard<'a>, owner: OwnerId, needed: u64) -> Gathered<'a> {
        self.poll_fences(&mut state);
        self.collect_quarantine(&mut state);
        if state.unpromised() >= needed {
            return Gathered::Some(state);
        }
        let missing = needed - state.unpromised();
        if state.dirty.len() as u64 + state.unpromised() < needed {
            return self.gather_cached(state, owner, needed);
        }
        let errors = state.totals.clean_errors;
        let batch = self.take_dirty(&mut state, usize::try_from(missing).unwrap_or(usize::MAX));
        drop(state);
        self.clean_in_hand(batch);
        let state = self.state.lock();
        // A memory that refuses to clean must not keep the caller here.
        if state.totals.clean_errors > errors { Gathered::Nothing(state) } else { Gathered::Some(state) }
    }

    /// Evicts cached pages for an owner who needs `needed` pages. Pages behind fences and steps come back by themselves, others
    /// in quarantine perhaps never.
    #[cold]
    fn gather_cached<'a>(&'a self, mut state: StateGuard<'a>, owner: OwnerId, needed: u64) -> Gathered<'a> {
        let coming = state.unpromised() + state.coming_surely();
        let before = state.index.cached();
        let leaving = self.evict_for(&mut state, owner, needed, needed.saturating_sub(coming));
        if !leaving.batch.is_empty() {
            self.put_off(&mut state, leaving.batch);
        }
        if state.index.cached() < before { Gathered::Some(state) } else { Gathered::Nothing(state) }
    }

    /// Takes promised pages: cannot fail, since a promise is backed by free pages.
    fn take(&self, state: &mut State, key: RecordKey, core: &Core, owner: OwnerId, pages: u64) {
        if let Some(record) = state.records.get_mut(key) {
            record.promised -= pages;
        }
        state.promised -= pages;
        state.count_out(owner, pages);
        self.issue_free(state, core, owner, pages);
    }

    /// Makes free pages live and appends them to a reservation's list.
    #[inline]
    fn issue_free(&self, state: &mut State, core: &Core, owner: OwnerId, pages: u64) {
        let (metas, taken) = (&*self.metas, state.free.top(pages as usize));
        for page in taken {
            let generation = metas[*page as usize].issue(owner);
            if M::MIRRORS_STAMPS {
                self.memory.issued(*page, generation, owner);
            }
        }
        core.pages.extend(taken.iter().rev().copied());
        state.free.drop_top(pages as usize);
        state.count_in(owner, pages);
        state.live += pages;
        state.totals.pages_issued += pages;
    }

    /// Makes a lane wait for the fences of `missing` pages, oldest first, and brings those fences to the front. `false`
    /// when there are too few such pages, or the memory refused: a lane that waits for too much loses time, nothing else.
    fn order_fences(&self, state: &mut State, lane: Lane, missing: u64) -> bool {
        let last = self.config.last_generation();
        let mut pages = 0;
        for fenced in &state.fenced {
            if pages >= missing {
                break;
            }
            if self.memory.order_after(fenced.fence, lane).is_err() {
                return false;
            }
            pages += fenced.pages.iter().filter(|page| !self.meta(**page).word().is_spent(last)).count() as u64;
        }
        pages >= missing
    }

    /// Makes pages live that are still being cleaned, in front of a lane that waits for them.
    fn issue_fenced(&self, state: &mut State, core: &Arc<Core>, owner: OwnerId, pages: u64) {
        let last = self.config.last_generation();
        let mut missing = pages as usize;
        for at in 0..state.fenced.len() {
            let (spent, mut usable): (Vec<u32>, Vec<u32>) =
                state.fenced[at].pages.iter().partition(|page| self.meta(**page).word().is_spent(last));
            let kept = usable.split_off(missing.min(usable.len()));
            missing -= usable.len();
            let fence = state.fenced[at].fence;
            state.fenced[at].pages = [spent, kept].concat();
            if usable.is_empty() {
                continue;
            }
            state.former.extend(usable.iter().filter_map(|page| self.former(*page)));
            core.pages.extend(usable.iter().map(|page| {
                self.meta(*page).issue_pending(owner);
                if M::MIRRORS_STAMPS {
                    self.memory.issued(*page, self.meta(*page).word().generation(), owner);
                }
                *page
            }));
            state.count_in(owner, usable.len() as u64);
            state.live += usable.len() as u64;
            state.totals.pages_issued += usable.len() as u64;
            core.off_limits.fetch_add(1, Ordering::Release);
            state.pending.push(Pending { fence, pages: usable, core: Arc::clone(core) });
        }
        state.fenced.retain(|fenced| !fenced.pages.is_empty());
    }

    /// Turns an admission's promise into pages.
    pub(crate) fn take_promised(&self, lease: &Lease<M>, tokens: u64) -> Result<(), ReserveError> {
        let core = lease.core();
        let pages = self.memory.geometry().pages_for_tokens(tokens);
        core.pages.make_room(pages);
        let mut state = self.state.lock();
        if core.header.is_revoked() {
            return Err(ReserveError::Revoked);
        }
        self.take(&mut state, lease.key(), core, lease.owner(), pages);
        super::release::set_status(&mut state, lease.key(), Status::Reserved);
        Ok(())
    }

    /// Grows a reservation from its present list to `pages` pages: out of its promise first, then out of what is free.
    pub(crate) fn grow(&self, lease: &Lease<M>, max_tokens: u64, pages: u64) -> Result<(), GrowError> {
        let core = lease.core();
        if pages <= self.metas.len() as u64 {
            core.pages.make_room(pages);
        }
        let mut state = self.state.lock();
        loop {
            if core.header.is_revoked() {
                return Err(GrowError::Revoked);
            }
            let usable_pages = self.usable(&state);
            if pages > usable_pages.max(u64::from(core.pages.len())) && pages > self.promised_size(&state, lease) {
                return Err(GrowError::NeverFits { needed_pages: pages, usable_pages, limit: Limit::Pool });
            }
            let missing = pages.saturating_sub(u64::from(core.pages.len()));
            let promised = state.records.get(lease.key()).map_or(0, |record| record.promised);
            let beyond = missing.saturating_sub(promised);
            self.check_growth_quota(&state, lease, max_tokens, beyond)?;
            if state.unpromised() >= beyond {
                self.take(&mut state, lease.key(), core, lease.owner(), missing.min(promised));
                self.issue_free(&mut state, core, lease.owner(), beyond);
                return Ok(());
            }
            state = match self.gather(state, lease.owner(), beyond) {
                Gathered::Some(state) => state,
                Gathered::Nothing(state) => {
                    return Err(GrowError::Full {
                        max_tokens,
                        needed_pages: beyond,
                        free_pages: state.unpromised(),
                        pending_pages: state.coming(),
                        limit: state.limit_for(lease.owner(), beyond),
                    });
                }
            };
        }
    }

    /// Refuses growth beyond the promise that would bring the owner past its hard quota.
    fn check_growth_quota(
        &self,
        state: &State,
        lease: &Lease<M>,
        max_tokens: u64,
        beyond: u64,
    ) -> Result<(), GrowError> {
        let (free_pages, limit) = (state.quota_room(lease.owner()), Limit::HardQuota);
        if beyond == 0 || beyond <= free_pages {
            return Ok(());
        }
        let (held, usable_pages) = (u64::from(lease.core().pages.count()), state.hard_quota(lease.owner()));
        if held + beyond > usable_pages {
            return Err(GrowError::NeverFits { needed_pages: held + beyond, usable_pages, limit });
        }
        Err(GrowError::Full { max_tokens, needed_pages: beyond, free_pages, pending_pages: 0, limit })
    }

    /// Pages that a reservation may reach without asking anybody.
    fn promised_size(&self, state: &State, lease: &Lease<M>) -> u64 {
        let promised = state.records.get(lease.key()).map_or(0, |record| record.promised);
        promised + u64::from(lease.core().pages.len())
    }
}

/// What an attempt to bring pages back gave.
pub(super) enum Gathered<'a> {
    /// Something changed: look again.
    Some(StateGuard<'a>),
    /// Nothing more is to be had now.
    Nothing(StateGuard<'a>),
}
