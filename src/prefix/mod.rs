//! Prefix sharing: committed pages that later requests of the same owner find again by their tokens.
//!
//! **Owns** the words in which a prefix is named, and the index of published pages. **Does not know** who holds a page:
//! the pool does that, under whose lock the index lives.
//!
//! **What a hit compares.** A page is found by a hash, and then compared in full: the entry of the page before it (or the
//! owner, salt and adapter in front of the first), its tokens, and its extras. By induction the whole prefix is equal, under
//! any hash function. The hash is keyed by the pool, so that nobody outside can aim at one bucket.
//!
//! **Never across owners.** The owner is part of what stands in front of the first page; so are salt and adapter, each in a
//! field of its own: a salt never equals an adapter name.

mod entries;
mod event;
mod hit;
mod index;
mod key;
mod order;

use std::ops::Range;

pub(crate) use event::EventRing;
pub use event::{PrefixEvent, PrefixKey};
pub use hit::Prefix;
pub(crate) use hit::{Chain, Link};
pub(crate) use index::{Index, Parent};
pub(crate) use key::{Namespace, PageHashes, PageName, PageNames};

/// What names a prefix: its tokens, and everything else that decides what their KV is.
///
/// # Examples
///
/// ```
/// use pagestamp::{CapacityPlan, NullMemory, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, PrefixTokens, Request, Retention};
/// let geometry = PageGeometry::new(16, &[Plane::per_token(1, 64)])?;
/// let pool = PagePool::new(PoolConfig::new(18), NullMemory::new(geometry, 18)?)?;
/// let proof = pool.prove(CapacityPlan::new(64))?;
/// let (alice, bob) = (OwnerId::new(1).ok_or("zero")?, OwnerId::new(2).ok_or("zero")?);
///
/// let prompt: Vec<u32> = (0..40).collect();
/// let mut kv = pool.reserve(&proof, Request::new(alice, 64), 40)?;
/// kv.assume_written(40)?;
/// kv.commit(40)?;
/// kv.publish(&PrefixTokens::new(&prompt), Retention::default())?; // 2 full pages of 3
/// kv.release(); // both stay, cached
///
/// let hit = pool.lookup(alice, &PrefixTokens::new(&prompt)).ok_or("cached")?;
/// assert_eq!(hit.tokens(), 32);
/// assert!(pool.lookup(bob, &PrefixTokens::new(&prompt)).is_none(), "never across owners");
/// let kv = pool.reserve_with_prefix(&proof, Request::new(alice, 64), hit, 40)?;
/// assert_eq!((kv.written_tokens(), kv.reserved_tokens()), (32, 40), "32 tokens need no prefill");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Default)]
pub struct PrefixTokens<'a> {
    pub(crate) tokens: &'a [u32],
    pub(crate) salt: &'a [u8],
    pub(crate) adapter: &'a [u8],
    pub(crate) extras: &'a [PrefixExtra<'a>],
}

impl<'a> PrefixTokens<'a> {
    /// Names a prefix by its token ids, from the first token of the request on.
    #[must_use]
    pub const fn new(tokens: &'a [u32]) -> Self {
        Self { tokens, salt: &[], adapter: &[], extras: &[] }
    }

    /// Shares with nothing that has another salt.
    #[must_use]
    pub const fn with_salt(mut self, salt: &'a [u8]) -> Self {
        self.salt = salt;
        self
    }

    /// Shares with nothing that was computed under another adapter (LoRA).
    #[must_use]
    pub const fn with_adapter(mut self, adapter: &'a [u8]) -> Self {
        self.adapter = adapter;
        self
    }

    /// Names what stands behind placeholder tokens: hashes of images, prompt embeddings.
    #[must_use]
    pub const fn with_extras(mut self, extras: &'a [PrefixExtra<'a>]) -> Self {
        self.extras = extras;
        self
    }

    /// Tokens of the prefix.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.tokens.len() as u64
    }
}

/// Shows how much, never what: prompts are secrets.
impl std::fmt::Debug for PrefixTokens<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PrefixTokens")
            .field("tokens", &self.tokens.len())
            .field("extras", &self.extras.len())
            .finish_non_exhaustive()
    }
}

/// Something beside the token ids that decides the KV of some tokens: an image behind its placeholders.
#[derive(Clone, PartialEq, Eq)]
pub struct PrefixExtra<'a> {
    /// What kind of thing it is; kinds never equal one another.
    pub tag: &'a str,
    /// The tokens that stand for it, counted from the beginning of the request.
    pub tokens: Range<u64>,
    /// Its hash, or all of it.
    pub bytes: &'a [u8],
}

impl std::fmt::Debug for PrefixExtra<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PrefixExtra").field("tag", &self.tag).field("tokens", &self.tokens).finish_non_exhaustive()
    }
}

/// What becomes of a published page when its last holder leaves.
///
/// Ordered by how long it stays.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Retention {
    /// It goes back: shared only while somebody holds it.
    WhileHeld,
    /// It stays until its room is needed. Among cached pages those of the lowest priority go first, of these the least
    /// recently used.
    Cached {
        /// Higher stays longer. What is published raises what it continues to at least its own.
        priority: u8,
    },
}

impl Default for Retention {
    /// Cached, of priority 0: least recently used first.
    fn default() -> Self {
        Self::Cached { priority: 0 }
    }
}
