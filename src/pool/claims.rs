//! Claims: a reserve that is repeated after a lost answer gives the same pages.
//!
//! *Owns* what the [table](crate::claims) of claims means for pages: a claim is *out* while its reservation exists somewhere,
//! *kept* when that was dropped before it was confirmed.

use std::sync::Arc;

use thiserror::Error;

use super::PagePool;
use crate::admission::{CapacityProof, Request};
use crate::claims::{Claims, Mismatch, Standing};
use crate::error::AdmitError;
use crate::lease::{Core, Lease};
use crate::memory::PageMemory;
use crate::pool::Inner;
use crate::reservation::{Extents, Reservation};

/// Names a request across tries: the caller's own number and the time after which nobody will ask again.
///
/// # Examples
///
/// ```
/// use pagestamp::{
///     AdmitError, CapacityPlan, ClaimError, ClaimToken, NullMemory, OwnerId, PageGeometry, PagePool, Plane, PoolConfig,
///     Request,
/// };
/// let geometry = PageGeometry::new(16, &[Plane::per_token(1, 64)])?;
/// let pool = PagePool::new(PoolConfig::new(6), NullMemory::new(geometry, 6)?)?;
/// let proof = pool.prove(CapacityPlan::new(64))?;
/// let owner = OwnerId::new(7).ok_or("zero")?;
/// let token = ClaimToken { id: 0xfeed, expires_at_ns: 1_000 };
/// let ask = || pool.reserve(&proof, Request::new(owner, 32).with_claim(token), 32);
///
/// let first = ask()?;
/// let page = first.handle(0);
/// drop(first); // the answer was lost on its way
/// let mut again = ask()?;
/// assert_eq!(again.handle(0), page, "the same pages, not more of them");
///
/// again.confirm_claim(); // the answer arrived
/// again.release();
/// assert!(matches!(ask(), Err(AdmitError::Claim { source: ClaimError::Ended, .. })), "a late duplicate gets nothing");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ClaimToken {
    /// The name; unique among the caller's requests.
    pub id: u128,
    /// When a claim whose answer was lost may be given up, in the caller's nanoseconds.
    pub expires_at_ns: u64,
}

/// Why a claim does not give its pages again.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// The reservation of the first try still exists.
    #[error("the claim's reservation is in use; its answer was not lost")]
    InUse,
    /// The claim was confirmed, released or has expired.
    #[error("the claim has ended; ask anew under another token")]
    Ended,
    /// `admit` was asked, which gives no pages yet.
    #[error("a claim is answered by reserve, which gives pages; admit gives only a promise")]
    NeedsReserve,
    /// Another owner claimed it.
    #[error("the claim belongs to another owner")]
    ForeignOwner,
    /// The first try asked for another number of slots.
    #[error("the claim was for {slots} slots")]
    OtherGroup {
        /// Slots, in the first try.
        slots: u64,
    },
    /// The first try asked for something else.
    #[error("the claim was for {max_tokens} tokens, {tokens} at once")]
    Different {
        /// Tokens at the most, in the first try.
        max_tokens: u64,
        /// Tokens at once, in the first try.
        tokens: u64,
    },
}

/// What was asked under each token: tokens at the most, and at once; and what was given.
pub(crate) type PageClaims = Claims<(u64, u64), Arc<Core>, (Arc<Core>, Extents)>;

impl<M: PageMemory> PagePool<M> {
    /// Gives the pages of an earlier try again, or new ones when there was none.
    #[cold]
    pub(super) fn reserve_claimed(
        &self,
        proof: &CapacityProof,
        request: Request,
        tokens: u64,
    ) -> Result<Reservation<M>, AdmitError> {
        if let Some(token) = request.claim().filter(|_| tokens <= request.max_tokens) {
            match self.claimed_before(token, &request, tokens) {
                Ok(Some(again)) => return Ok(again),
                Ok(None) => {}
                Err(source) => return Err(AdmitError::Claim { request, source }),
            }
        }
        match self.inner.reserve(proof, &request, tokens) {
            Ok(core) => {
                let lease = Lease::new(self.clone(), request.owner, core);
                Ok(Reservation::new(lease, request.max_tokens, tokens).with_claim(request.claim()))
            }
            Err(refusal) => Err(refusal.with(request)),
        }
    }

    /// Gives the pages of an earlier try again. `None` when there was none.
    fn claimed_before(
        &self,
        token: ClaimToken,
        request: &Request,
        tokens: u64,
    ) -> Result<Option<Reservation<M>>, ClaimError> {
        let mut state = self.inner.state.lock();
        let claim = match state.claims.find(token, request.owner, (request.max_tokens, tokens)) {
            Ok(Some(claim)) => claim,
            Ok(None) => return Ok(None),
            Err(Mismatch::Owner) => return Err(ClaimError::ForeignOwner),
            Err(Mismatch::Asked((max_tokens, tokens))) => return Err(ClaimError::Different { max_tokens, tokens }),
        };
        match std::mem::replace(&mut claim.standing, Standing::Ended) {
            // A reclaim took the pages, and the reservation may have been forgotten: nothing is in use.
            Standing::Out(core) if core.header.is_revoked() => Err(ClaimError::Ended),
            Standing::Out(core) => {
                claim.standing = Standing::Out(core);
                Err(ClaimError::InUse)
            }
            Standing::Ended => Err(ClaimError::Ended),
            Standing::Kept((core, extents)) => {
                claim.expires_at_ns = token.expires_at_ns;
                if core.header.is_revoked() {
                    drop(state);
                    self.inner.end_lease(core);
                    return Err(ClaimError::Ended);
                }
                claim.standing = Standing::Out(Arc::clone(&core));
                drop(state);
                let lease = Lease::new(self.clone(), request.owner, core);
                Ok(Some(Reservation::resume(lease, extents).with_claim(Some(token))))
            }
        }
    }

    /// Gives up [claims](ClaimToken) whose answer was lost and that nobody asked for again in time: their pages are
    /// released. A claim whose reservation exists is never touched.
    #[expect(clippy::must_use_candidate, reason = "done for its effect; the answer is for reports")]
    pub fn expire_claims(&self, now_ns: u64) -> u64 {
        // A revoked one's pages went with a reclaim: nobody will end it.
        let expired = self.inner.state.lock().claims.expire(now_ns, |core| core.header.is_revoked());
        let count = expired.len() as u64;
        for (_, (core, _)) in expired {
            self.inner.end_lease(core);
        }
        count
    }
}

impl<M: PageMemory> Inner<M> {
    /// Keeps the pages of a claim whose reservation was dropped before it was confirmed.
    pub(crate) fn keep_claim(&self, token: ClaimToken, core: Arc<Core>, extents: Extents) {
        let mut state = self.state.lock();
        if let Some(claim) = state.claims.out_mut(token, |out| Arc::ptr_eq(out, &core)) {
            if !core.header.is_revoked() {
                let key = core.key;
                claim.standing = Standing::Kept((core, extents));
                state.end_transfer(key);
                return;
            }
            claim.standing = Standing::Ended;
        }
        drop(state);
        self.end_lease(core);
    }
}
