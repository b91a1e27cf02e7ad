//! The gate: no page without an admission, no admission without a proof that the live pool carries the largest request.
//!
//! *Owns* the plan, the proof, the request, and its two ends [`Admitted`] and [`Rejected`]. *Does not know* how pages are
//! kept. The incident on the crate's front page began here: a pool smaller than the advertised context, and a rejection
//! that did not stick.

use std::fmt;

use crate::error::{CapacityError, Refused, RejectReason, ReserveError};
use crate::id::{OwnerId, PoolId};
use crate::lease::Lease;
use crate::memory::{Lane, PageMemory};
use crate::pool::ClaimToken;
use crate::reservation::Reservation;

/// What the pool must be able to carry: the largest request that is advertised, times headroom.
///
/// A [`SlotPool`](crate::SlotPool) counts in slots: there one token is one slot, and a request is a group of them.
///
/// # Examples
///
/// ```
/// use pagestamp::{CapacityPlan, CapacityError};
/// let plan = CapacityPlan::new(1_048_576).with_headroom(1.25)?;
/// assert_eq!(plan.required_pages(16), 81_920);
/// assert!(matches!(CapacityPlan::new(1).with_headroom(0.5), Err(CapacityError::BadHeadroom { .. })));
/// # Ok::<(), CapacityError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CapacityPlan {
    max_request_tokens: u64,
    headroom: f64,
}

impl CapacityPlan {
    /// Plans for requests of at most this many tokens, prompt and output together, with headroom 1.
    #[must_use]
    #[inline]
    pub const fn new(max_request_tokens: u64) -> Self {
        Self { max_request_tokens, headroom: 1.0 }
    }

    /// Demands room for `headroom` such requests.
    ///
    /// # Errors
    ///
    /// - [`CapacityError::BadHeadroom`]: not a number between 1 and 1000.
    pub fn with_headroom(mut self, headroom: f64) -> Result<Self, CapacityError> {
        if !(1.0..=1000.0).contains(&headroom) {
            return Err(CapacityError::BadHeadroom { headroom });
        }
        self.headroom = headroom;
        Ok(self)
    }

    /// The largest request, in tokens.
    #[must_use]
    #[inline]
    pub const fn max_request_tokens(&self) -> u64 {
        self.max_request_tokens
    }

    /// The headroom, 1 or more.
    #[must_use]
    pub const fn headroom(&self) -> f64 {
        self.headroom
    }

    /// Pages that the plan needs at `page_tokens` tokens a page. Headroom counts to a millionth, so that 1.1 times 10
    /// pages are 11 and not, by a rounding of binary fractions, 12.
    #[must_use]
    pub fn required_pages(&self, page_tokens: u32) -> u64 {
        const MILLION: u128 = 1_000_000;
        let pages = u128::from(self.max_request_tokens.div_ceil(u64::from(page_tokens.max(1))));
        let millionths = (self.headroom * MILLION as f64).round() as u128;
        u64::try_from((pages * millionths).div_ceil(MILLION)).unwrap_or(u64::MAX)
    }

    /// The proof that a pool of `usable_pages` carries the plan; the pages that it needs where the pool does not.
    pub(crate) fn prove(
        self,
        pool: PoolId,
        epoch: u64,
        page_tokens: u32,
        usable_pages: u64,
    ) -> Result<CapacityProof, u64> {
        let required_pages = self.required_pages(page_tokens);
        if required_pages > usable_pages {
            return Err(required_pages);
        }
        Ok(CapacityProof { pool, plan: self, required_pages, epoch, usable_pages })
    }
}

/// Evidence, taken from the live pool, that it carries the plan.
///
/// It names the capacity epoch it was taken in. When the capacity changes (resize, a page that retires) the pool checks
/// the plan again at the next admission and, while it no longer holds, answers `ProofVoid`.
///
/// Nobody but a pool makes one:
///
/// ```compile_fail,E0451
/// # use pagestamp::*;
/// fn forge(pool: PoolId, plan: CapacityPlan) -> CapacityProof {
///     CapacityProof { pool, plan, required_pages: 0, epoch: 1, usable_pages: u64::MAX }
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CapacityProof {
    pub(crate) pool: PoolId,
    pub(crate) plan: CapacityPlan,
    pub(crate) required_pages: u64,
    pub(crate) epoch: u64,
    pub(crate) usable_pages: u64,
}

impl CapacityProof {
    /// The plan that was proved.
    #[must_use]
    pub const fn plan(&self) -> CapacityPlan {
        self.plan
    }

    /// The pool that was looked at.
    #[must_use]
    pub const fn pool(&self) -> PoolId {
        self.pool
    }

    /// The capacity epoch it was taken in.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Pages that the plan needs.
    #[must_use]
    pub const fn required_pages(&self) -> u64 {
        self.required_pages
    }

    /// Pages that requests could use when it was taken.
    #[must_use]
    pub const fn usable_pages(&self) -> u64 {
        self.usable_pages
    }

    /// The gate: what no amount of waiting changes for a request of `asked_tokens`. What is usable now is asked only in
    /// another epoch than the proof's.
    #[inline]
    pub(crate) fn check(&self, asked_tokens: u64, epoch: u64, usable_now: impl FnOnce() -> u64) -> Result<(), Barred> {
        let usable_pages = if self.epoch == epoch { self.usable_pages } else { usable_now() };
        if asked_tokens == 0 {
            Err(Barred::AskedForNothing)
        } else if asked_tokens > self.plan.max_request_tokens {
            Err(Barred::NeverFits { usable_pages })
        } else if self.required_pages > usable_pages {
            Err(Barred::ProofVoid { usable_pages })
        } else {
            Ok(())
        }
    }
}

/// Why the gate lets a request not through, however empty the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Barred {
    AskedForNothing,
    NeverFits { usable_pages: u64 },
    ProofVoid { usable_pages: u64 },
}

/// A wish for pages: whose, and how many tokens at the very most. Not `Clone`: it is admitted or rejected once.
///
/// ```compile_fail,E0382
/// # use pagestamp::*;
/// fn admit_what_was_rejected(pool: &PagePool<NullMemory>, proof: &CapacityProof, request: Request) {
///     let _rejected = request.reject("too long");
///     let _ = pool.admit(proof, request);
/// }
/// ```
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a request does nothing until it is admitted"]
pub struct Request {
    pub(crate) owner: OwnerId,
    pub(crate) max_tokens: u64,
    /// Boxed, because few requests have one and every refusal carries the request.
    claim: Option<Box<ClaimToken>>,
    pub(crate) lane: Option<Lane>,
}

impl Request {
    /// Asks for up to `max_tokens` tokens, prompt and output together, for `owner`.
    #[inline]
    pub const fn new(owner: OwnerId, max_tokens: u64) -> Self {
        Self { owner, max_tokens, claim: None, lane: None }
    }

    /// Names the request, so that asking again after a lost answer gives the same pages.
    pub fn with_claim(mut self, token: ClaimToken) -> Self {
        self.claim = Some(Box::new(token));
        self
    }

    /// The claim that the request was named with.
    #[must_use]
    pub fn claim(&self) -> Option<ClaimToken> {
        self.claim.as_deref().copied()
    }

    /// Names the device stream that will use the pages. Its first pages may then still be being cleaned: the stream waits
    /// for them, the host does not, and may not touch them before ([`ReadError::Pending`](crate::ReadError::Pending)). Pages
    /// whose cleaning was not begun yet ([`CleanMode::Later`](crate::CleanMode::Later)) do not count: call
    /// [`maintain`](crate::PagePool::maintain) first.
    pub const fn on_lane(mut self, lane: Lane) -> Self {
        self.lane = Some(lane);
        self
    }

    /// Whose request it is.
    #[must_use]
    #[inline]
    pub const fn owner(&self) -> OwnerId {
        self.owner
    }

    /// Tokens at the very most.
    #[must_use]
    #[inline]
    pub const fn max_tokens(&self) -> u64 {
        self.max_tokens
    }

    /// The same request once more, for an error that comes after the admission. One with a claim is never forked.
    pub(crate) fn again(&self) -> Self {
        Self { owner: self.owner, max_tokens: self.max_tokens, claim: None, lane: self.lane }
    }

    /// Ends the request for good, with the caller's reason.
    pub fn reject(self, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Rejected {
        Rejected::new(self.owner, self.max_tokens, RejectReason::Caller(error.into()))
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request of owner {} for {} tokens", self.owner, self.max_tokens)
    }
}

/// A request that was rejected: terminal. No function takes it as a request, and it keeps its first error.
///
/// ```compile_fail,E0308
/// # use pagestamp::*;
/// fn admit_anyway(pool: &PagePool<NullMemory>, proof: &CapacityProof, rejected: Rejected) {
///     let _ = pool.admit(proof, rejected);
/// }
/// ```
///
/// ```compile_fail,E0308
/// # use pagestamp::*;
/// fn reserve_anyway(pool: &PagePool<NullMemory>, proof: &CapacityProof, rejected: Rejected) {
///     let _ = pool.reserve(proof, rejected, 1);
/// }
/// ```
///
/// ```compile_fail,E0599
/// # use pagestamp::*;
/// fn use_as_an_admission(rejected: Rejected) {
///     let _ = rejected.reserve(1);
/// }
/// ```
#[derive(Debug)]
#[must_use = "a rejection is an answer: tell the client"]
pub struct Rejected {
    owner: OwnerId,
    max_tokens: u64,
    reason: RejectReason,
}

impl Rejected {
    #[inline]
    pub(crate) const fn new(owner: OwnerId, max_tokens: u64, reason: RejectReason) -> Self {
        Self { owner, max_tokens, reason }
    }

    /// Whose request it was.
    #[must_use]
    #[inline]
    pub const fn owner(&self) -> OwnerId {
        self.owner
    }

    /// Tokens that were asked for; slots, where it is a slot pool's.
    #[must_use]
    #[inline]
    pub const fn max_tokens(&self) -> u64 {
        self.max_tokens
    }

    /// The first error, which stays.
    #[must_use]
    pub const fn reason(&self) -> &RejectReason {
        &self.reason
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.reason {
            RejectReason::GroupNeverFits { .. } | RejectReason::ZeroSlots => "slots",
            _ => "tokens",
        };
        write!(f, "request of owner {} for {} {unit} rejected: {}", self.owner, self.max_tokens, self.reason)
    }
}

impl std::error::Error for Rejected {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.reason)
    }
}

/// A request that was admitted: its pages are promised, growth included, and reserving them cannot fail for lack of room.
///
/// Dropping it gives the promise back.
///
/// # Examples
///
/// ```
/// use pagestamp::{AdmitError, CapacityPlan, NullMemory, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, Request};
/// let geometry = PageGeometry::new(16, &[Plane::per_token(1, 64)])?;
/// let pool = PagePool::new(PoolConfig::new(6), NullMemory::new(geometry, 6)?)?; // 4 pages for requests
/// let proof = pool.prove(CapacityPlan::new(64))?;
/// let owner = OwnerId::new(7).ok_or("zero")?;
///
/// let admitted = pool.admit(&proof, Request::new(owner, 48))?; // 3 pages are promised
/// let Err(AdmitError::Full { request, needed_pages, .. }) = pool.admit(&proof, Request::new(owner, 32)) else {
///     return Err("2 pages, and 1 is promised to nobody".into());
/// };
/// assert_eq!(needed_pages, 2);
///
/// let mut kv = admitted.reserve(16)?; // the prompt
/// kv.grow(48)?; // the answer: it cannot fail
/// kv.release();
/// assert_eq!(pool.admit(&proof, request)?.max_tokens(), 32, "the request came back, and now it fits");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It is used once:
///
/// ```compile_fail,E0382
/// # use pagestamp::*;
/// fn twice(admitted: Admitted<NullMemory>) {
///     let _ = admitted.reserve(1);
///     let _ = admitted.reserve(1);
/// }
/// ```
///
/// ```compile_fail,E0382
/// # use pagestamp::*;
/// fn reserve_what_was_rejected(admitted: Admitted<NullMemory>) {
///     let _rejected = admitted.reject("the client is gone");
///     let _ = admitted.reserve(1);
/// }
/// ```
#[derive(Debug)]
#[must_use = "dropping the admission gives its promised pages back"]
pub struct Admitted<M: PageMemory> {
    pub(crate) lease: Lease<M>,
    pub(crate) max_tokens: u64,
}

impl<M: PageMemory> Admitted<M> {
    /// Whose request it is.
    #[must_use]
    #[inline]
    pub const fn owner(&self) -> OwnerId {
        self.lease.owner()
    }

    /// Tokens that were admitted.
    #[must_use]
    #[inline]
    pub const fn max_tokens(&self) -> u64 {
        self.max_tokens
    }

    /// Turns the promise into a reservation of `tokens` tokens; the rest stays promised for growth.
    ///
    /// # Cost
    ///
    /// O(pages) under the pool's lock.
    ///
    /// # Errors
    ///
    /// The admission comes back with the error, unchanged.
    ///
    /// - [`ReserveError::PastMax`]: more than was admitted.
    /// - [`ReserveError::Revoked`]: the owner was reclaimed meanwhile.
    pub fn reserve(self, tokens: u64) -> Result<Reservation<M>, Refused<Self, ReserveError>> {
        if tokens > self.max_tokens {
            let max_tokens = self.max_tokens;
            return Err(Refused::new(self, ReserveError::PastMax { asked_tokens: tokens, max_tokens }));
        }
        if let Err(error) = self.lease.take_promised(tokens) {
            return Err(Refused::new(self, error));
        }
        Ok(Reservation::new(self.lease, self.max_tokens, tokens))
    }

    /// Ends the request for good: the promise goes back, and `error` stays with the rejection.
    pub fn reject(self, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Rejected {
        Rejected::new(self.owner(), self.max_tokens, RejectReason::Caller(error.into()))
    }
}
