//! What an owner may hold at the most: the words.
//!
//! *Owns* [`OwnerQuota`], [`QuotaInfo`] and [`Limit`]. *Does not know* how pages are counted: the pool does that.

use crate::id::OwnerId;

/// Which limit a request ran into.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Limit {
    /// The pages of the pool.
    Pool,
    /// The hard quota of the owner: only its own pages that come back make room.
    HardQuota,
    /// The soft quota of the owner: past it, no cached page of another owner makes room.
    SoftQuota,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Pool => "the pool",
            Self::HardQuota => "the owner's hard quota",
            Self::SoftQuota => "the owner's soft quota",
        })
    }
}

/// How many pages an owner may have: held by its reservations, each page once however many share it, and promised to its
/// admissions. Cached pages do not count: anybody's admission may take them.
///
/// # Examples
///
/// ```
/// use pagestamp::{AdmitError, CapacityPlan, Limit, NullMemory, OwnerId, OwnerQuota, PageGeometry, PagePool, Plane, PoolConfig, Request};
/// let geometry = PageGeometry::new(16, &[Plane::per_token(1, 64)])?;
/// let pool = PagePool::new(PoolConfig::new(18), NullMemory::new(geometry, 18)?)?;
/// let proof = pool.prove(CapacityPlan::new(64))?;
/// let owner = OwnerId::new(7).ok_or("zero")?;
/// pool.set_quota(owner, OwnerQuota::NONE.with_hard_pages(3));
///
/// let kv = pool.reserve(&proof, Request::new(owner, 32), 16)?; // 1 page held, 1 promised
/// let full = pool.reserve(&proof, Request::new(owner, 32), 16);
/// assert!(matches!(full, Err(AdmitError::Full { limit: Limit::HardQuota, needed_pages: 2, free_pages: 1, .. })));
/// let never = pool.reserve(&proof, Request::new(owner, 64), 16);
/// assert!(matches!(never, Err(AdmitError::Rejected(_))), "4 pages never fit into 3");
/// # drop(kv);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OwnerQuota {
    pub(crate) hard_pages: Option<u64>,
    pub(crate) soft_pages: Option<u64>,
}

impl OwnerQuota {
    /// No limit.
    pub const NONE: Self = Self { hard_pages: None, soft_pages: None };

    /// Refuses what would bring the owner past so many pages.
    #[must_use]
    pub const fn with_hard_pages(mut self, pages: u64) -> Self {
        self.hard_pages = Some(pages);
        self
    }

    /// Past so many pages the owner's cached pages go first, and cached pages of other owners do not make room for it.
    #[must_use]
    pub const fn with_soft_pages(mut self, pages: u64) -> Self {
        self.soft_pages = Some(pages);
        self
    }

    /// The hard limit.
    #[must_use]
    pub const fn hard_pages(&self) -> Option<u64> {
        self.hard_pages
    }

    /// The soft limit.
    #[must_use]
    pub const fn soft_pages(&self) -> Option<u64> {
        self.soft_pages
    }
}

/// Where an owner with a quota stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct QuotaInfo {
    /// The owner.
    pub owner: OwnerId,
    /// Its limits.
    pub quota: OwnerQuota,
    /// Pages held and promised.
    pub used_pages: u64,
}

impl QuotaInfo {
    /// Pages past the soft limit.
    #[must_use]
    pub fn over_soft_pages(&self) -> u64 {
        self.used_pages.saturating_sub(self.quota.soft_pages.unwrap_or(u64::MAX))
    }
}
