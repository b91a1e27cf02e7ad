//! What changes the shape of a reservation beside its growth: publishing, forking, sliding, owning.
//!
//! *Owns* what these mean in tokens. *Does not know* how pages are counted and moved: the pool does that.

use std::ops::Range;

use crate::admission::{CapacityProof, Request};
use crate::error::{ExtentError, ForkError, PublishError, TicketError, WriteError};
use crate::lease::Lease;
use crate::memory::{MemoryError, PageMemory};
use crate::pool::Released;
use crate::prefix::{Chain, Prefix, PrefixTokens, Retention};
use crate::reservation::Reservation;

impl<M: PageMemory> Reservation<M> {
    /// Lets later requests of this owner find the full pages of what is [committed](Self::commit), by their tokens. Answers
    /// how many pages were not published before, by this reservation or another of the same prefix.
    ///
    /// `prefix` names the tokens of the request from the first one on; those behind the committed ones may stand in it too.
    /// Call it again as more is committed: it goes on where it ended, and does not hash again what it hashed. A page has one
    /// name. Under another salt, adapter or extras all pages are named anew, and are found under the last name only.
    ///
    /// Published pages are never rewritten: who rolls back behind one and goes on writes to a fresh page. Who publishes what
    /// another has published before makes it stay at least as long.
    ///
    /// # Cost
    ///
    /// O(pages not published yet by this reservation), hashed outside the pool's lock; O(pages) when they are named anew, are
    /// to stay longer, or what they continue was evicted. An entry is 32 bytes and the tokens; the table has 5 to 12 bytes
    /// for each page of the pool from the first one on.
    ///
    /// # Errors
    ///
    /// Nothing was published: all pages are looked at first. Only when another holder of one of them names it otherwise
    /// at the same moment, or the system has no memory for extras, pages before it stay published.
    ///
    /// - [`PublishError::TooFewTokens`]: fewer token ids than there are in full committed pages.
    /// - [`PublishError::OtherTokens`]: a page is published under other tokens.
    /// - [`PublishError::OffLimits`]: an outside party writes a page, or a device cleans it.
    /// - [`PublishError::NoMemory`], [`PublishError::Revoked`].
    ///
    /// # Examples
    ///
    /// See [`PrefixTokens`].
    pub fn publish(&mut self, prefix: &PrefixTokens<'_>, retention: Retention) -> Result<u32, PublishError> {
        let (full_pages, page_tokens) = (self.full_pages(), u64::from(self.pool().inner.page_tokens()));
        let (given_tokens, needed_tokens) = (prefix.tokens(), u64::from(full_pages) * page_tokens);
        if given_tokens < needed_tokens {
            return Err(PublishError::TooFewTokens { given_tokens, needed_tokens });
        }
        let mut chain = self.chain;
        let published = self.pool().inner.publish(self.lease(), &mut chain, full_pages, prefix, retention);
        self.chain = chain;
        published
    }

    /// Sets what becomes of published pages with these ordinals when their last holder leaves, and answers how many of them are
    /// published. What comes before them in the reservation then stays at least as long. Pages that continue them, here or in
    /// other reservations, are as they were: behind a page that goes nothing is found.
    #[expect(clippy::must_use_candidate, reason = "done for its effect; the answer is for reports")]
    pub fn retain(&self, pages: Range<u32>, retention: Retention) -> u32 {
        self.pool().inner.retain(self.lease(), pages, retention)
    }

    /// Makes a second reservation of the same tokens, for beams and parallel samples: full pages are shared, the partial last
    /// one is copied. What either writes from now on the other does not see.
    ///
    /// The copy is admitted like any request, less the pages that it shares. A page that it rolls back into and writes anew
    /// is beyond what was admitted: see [`WriteError::NoFreshPage`].
    ///
    /// # Cost
    ///
    /// O(pages) under the lock, and the copy of at most one page outside it.
    ///
    /// # Errors
    ///
    /// The reservation is unchanged, and the request comes back unless it was rejected.
    ///
    /// - [`ForkError::Admit`]: no room, or a request for fewer tokens than are written.
    /// - [`ForkError::ForeignOwner`]: the request is of another owner.
    /// - [`ForkError::Page`]: an outside party writes a page, or a device cleans it; or it has too many holders.
    /// - [`ForkError::Memory`]: the partial page could not be copied.
    ///
    /// # Examples
    ///
    /// ```
    /// use pagestamp::{CapacityPlan, HostMemory, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, Request};
    /// let geometry = PageGeometry::new(16, &[Plane::per_token(1, 1)])?;
    /// let pool = PagePool::new(PoolConfig::new(18), HostMemory::new(geometry, 18)?)?;
    /// let (proof, owner) = (pool.prove(CapacityPlan::new(64))?, OwnerId::new(7).ok_or("zero")?);
    /// let mut kv = pool.reserve(&proof, Request::new(owner, 64), 20)?;
    /// kv.write(20, &[&[7; 20]])?;
    ///
    /// let mut beam = kv.fork(&proof, Request::new(owner, 64))?;
    /// beam.grow(21)?;
    /// beam.write(1, &[&[8]])?;
    /// assert_eq!(pool.stats().live_pages, 3, "one full page is shared, each has a last one of its own");
    /// assert_eq!((kv.written_tokens(), beam.written_tokens()), (20, 21));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fork(&self, proof: &CapacityProof, request: Request) -> Result<Self, ForkError> {
        if request.owner() != self.owner() {
            return Err(ForkError::ForeignOwner { request, owner: self.owner() });
        }
        let (pool, written) = (self.pool(), self.written_tokens());
        let page_tokens = u64::from(pool.inner.page_tokens());
        let (full_pages, rest) = ((written / page_tokens) as u32, (written % page_tokens) as u32);
        let core = match pool.inner.share(self.lease(), full_pages) {
            Ok(core) => core,
            Err(source) => return Err(ForkError::Page { request, source }),
        };
        let again = request.again();
        let lease = Lease::new(pool.clone(), self.owner(), core);
        let chain = if self.chain.pages <= full_pages { self.chain } else { Chain::default() };
        let shared = Prefix::new(lease, chain, u64::from(full_pages) * page_tokens);
        let copy = pool.reserve_with_prefix(proof, request, shared, written);
        let copy = copy.map_err(|refused| ForkError::Admit(refused.into_parts().1))?;
        if rest > 0 {
            match self.copy_page_to(&copy, full_pages, rest) {
                Ok(Ok(())) => {}
                Ok(Err(source)) => return Err(ForkError::Memory { request: again, source }),
                Err(source) => return Err(ForkError::Page { request: again, source }),
            }
        }
        Ok(copy.with_extents(written, self.committed_tokens()))
    }

    /// Copies the first tokens of the page with this ordinal to that of a fork which nobody has yet.
    fn copy_page_to(&self, copy: &Self, ordinal: u32, tokens: u32) -> Result<Result<(), MemoryError>, TicketError> {
        let revoked = |_| TicketError::Revoked;
        let (from, to) = (self.borrow().map_err(revoked)?, copy.borrow().map_err(revoked)?);
        self.pool().inner.copy_borrowed(&from, &to, ordinal, tokens)
    }

    /// Makes pages of its own for the next `tokens` tokens, so that an outside kernel may write them: pages that are shared,
    /// published, or looked at by a reader who saw more of them before a rollback, move to fresh ones, with what is written.
    ///
    /// [`write`](Self::write) does so by itself. Tables exported before are stale where a page moved.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write); the reservation is unchanged.
    pub fn own(&mut self, tokens: u64) -> Result<(), WriteError> {
        self.prepare_filling(tokens).map(drop)
    }

    /// Lets go of the pages that lie wholly before token `from_tokens`: a sliding window moved on. Ordinals of the others stay
    /// as they are.
    ///
    /// The promise for growth stays as it was. Pages that were published stay cached for others.
    ///
    /// # Errors
    ///
    /// The reservation is unchanged.
    ///
    /// - [`ExtentError::PastWritten`]: past what is written.
    /// - [`ExtentError::Revoked`].
    ///
    /// # Examples
    ///
    /// ```
    /// use pagestamp::{CapacityPlan, NullMemory, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, ReadError, Request};
    /// let geometry = PageGeometry::new(16, &[Plane::per_token(1, 1)])?;
    /// let pool = PagePool::new(PoolConfig::new(18), NullMemory::new(geometry, 18)?)?;
    /// let (proof, owner) = (pool.prove(CapacityPlan::new(64))?, OwnerId::new(7).ok_or("zero")?);
    /// let mut kv = pool.reserve(&proof, Request::new(owner, 64), 64)?;
    /// kv.assume_written(64)?;
    /// kv.slide(40)?; // a window of 24 tokens
    /// assert_eq!((kv.pages(), kv.first_tokens()), (2, 32));
    /// assert!(matches!(kv.read(16..48), Err(ReadError::Slid { first_tokens: 32, .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn slide(&mut self, from_tokens: u64) -> Result<Released, ExtentError> {
        let written_tokens = self.written_tokens();
        if from_tokens > written_tokens {
            return Err(ExtentError::PastWritten { to_tokens: from_tokens, written_tokens });
        }
        let inner = &self.pool().inner;
        let first = (from_tokens / u64::from(inner.page_tokens())) as u32;
        inner.slide(self.lease(), first).ok_or(ExtentError::Revoked)
    }

    /// The first token that is here: 0 unless a window [slid](Self::slide).
    #[must_use]
    #[inline]
    pub fn first_tokens(&self) -> u64 {
        u64::from(self.lease().core().pages.first()) * u64::from(self.pool().inner.page_tokens())
    }

    /// Full pages of what is committed.
    pub(crate) fn full_pages(&self) -> u32 {
        (self.committed_tokens() / u64::from(self.pool().inner.page_tokens())) as u32
    }

    pub(crate) fn check_not_slid(&self, to_tokens: u64) -> Result<(), ExtentError> {
        let first_tokens = self.first_tokens();
        if to_tokens < first_tokens { Err(ExtentError::Slid { to_tokens, first_tokens }) } else { Ok(()) }
    }
}
