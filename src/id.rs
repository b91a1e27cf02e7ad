//! Small identities: who owns a page, which pool it is of, which page, which life of it.
//!
//! *Owns* the newtypes and the random identity of a pool. *Does not know* pools or memory. All are `Copy`, compared
//! in full, and print no page content.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::OnceLock;

use crate::sync::{AtomicU64, Ordering};

/// Names the isolation principal that pages belong to: a tenant, a session, a match.
///
/// Two requests that must never see each other's bytes have two owners. An engine that *wants* two tenants to share
/// maps both to one owner; pagestamp never guesses.
///
/// # Examples
///
/// ```
/// use pagestamp::OwnerId;
/// let tenant = OwnerId::new(42).ok_or("owner ids start at 1")?;
/// assert_eq!(tenant.get(), 42);
/// assert!(OwnerId::new(0).is_none());
/// # Ok::<(), &'static str>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(NonZeroU64);

impl OwnerId {
    /// Makes an owner id; `None` for zero, which means "nobody" in a stamp.
    #[must_use]
    #[inline]
    pub const fn new(id: u64) -> Option<Self> {
        match NonZeroU64::new(id) {
            Some(id) => Some(Self(id)),
            None => None,
        }
    }

    /// Gives the number back.
    #[must_use]
    #[inline]
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl From<NonZeroU64> for OwnerId {
    fn from(id: NonZeroU64) -> Self {
        Self(id)
    }
}

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "owner {}", self.0)
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Names one pool; unique among the pools of this process image.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(NonZeroU32);

impl PoolId {
    /// Makes a pool id from its number, as it stands in a handle; `None` for zero.
    #[must_use]
    #[inline]
    pub const fn new(id: u32) -> Option<Self> {
        match NonZeroU32::new(id) {
            Some(id) => Some(Self(id)),
            None => None,
        }
    }

    /// Gives the number back.
    #[must_use]
    #[inline]
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Debug for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pool {:08x}", self.0)
    }
}

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// Counts the lives of one page: it rises by one each time the page leaves an owner.
///
/// 40 bits. A page that has used up its last generation is retired, never wrapped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(u64);

impl Generation {
    /// The last generation: 2^40 - 1, which is reached and never issued. A page released a million times each second
    /// gets there in twelve days, one released ten times each second in three thousand years.
    pub const MAX: Self = Self((1 << 40) - 1);
    /// The generation of a page that was never handed out.
    pub const FIRST: Self = Self(1);

    /// Makes a generation; `None` past [`Generation::MAX`].
    #[must_use]
    #[inline]
    pub const fn new(generation: u64) -> Option<Self> {
        if generation > Self::MAX.0 {
            return None;
        }
        Some(Self(generation))
    }

    /// Gives the number back.
    #[must_use]
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Names one handoff. Issued by the pool that receives, and never twice within that pool's life.
///
/// It holds the pool's id and random part, as a [`PageHandle`](crate::PageHandle) does, and the number of the handoff in
/// that pool: an id that a peer made up, kept from another process image or took from another pool fits no handoff here.
///
/// # Examples
///
/// ```
/// use pagestamp::TransferId;
/// assert!(TransferId::from_bits(0).is_none(), "zero is never a transfer");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TransferId {
    identity: PoolIdentity,
    sequence: NonZeroU64,
}

impl TransferId {
    pub(crate) const fn new(identity: PoolIdentity, sequence: NonZeroU64) -> Self {
        Self { identity, sequence }
    }

    pub(crate) const fn identity(self) -> PoolIdentity {
        self.identity
    }

    pub(crate) const fn number(self) -> NonZeroU64 {
        self.sequence
    }

    /// The pool that issued it.
    #[must_use]
    pub const fn pool(self) -> PoolId {
        self.identity.pool
    }

    /// Its number: the transfers of a pool are counted from 1.
    #[must_use]
    pub const fn sequence(self) -> u64 {
        self.sequence.get()
    }

    /// Packs the id for C, C++, Python or the wire; never zero.
    ///
    /// From the low bit: sequence 64, pool 32, nonce 24, and 8 bits that are zero.
    #[must_use]
    pub fn to_bits(self) -> u128 {
        pack(self.identity, self.sequence)
    }

    /// Unpacks what [`to_bits`](Self::to_bits) packed. `None` when the pool or the sequence is zero, or one of the 8 high
    /// bits is not.
    #[must_use]
    pub fn from_bits(bits: u128) -> Option<Self> {
        unpack(bits).map(|(identity, sequence)| Self { identity, sequence })
    }
}

impl fmt::Debug for TransferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transfer {} of {:?}", self.sequence, self.identity.pool)
    }
}

impl fmt::Display for TransferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What tells one pool from every other: its id and 24 random bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct PoolIdentity {
    pub(crate) pool: PoolId,
    pub(crate) nonce: u32,
}

/// Bits of the random part of a handle.
pub(crate) const NONCE_BITS: u32 = 24;

/// Packs what a pool counts. From the low bit: sequence 64, pool 32, nonce 24, and 8 bits that are zero.
pub(crate) fn pack(identity: PoolIdentity, sequence: NonZeroU64) -> u128 {
    u128::from(identity.nonce) << 96 | u128::from(identity.pool.get()) << 64 | u128::from(sequence.get())
}

/// Unpacks what [`pack`] packed; `None` for what it never gives.
pub(crate) fn unpack(bits: u128) -> Option<(PoolIdentity, NonZeroU64)> {
    let pool = PoolId::new((bits >> 64) as u32)?;
    let sequence = NonZeroU64::new(bits as u64)?;
    let nonce = u32::try_from(bits >> 96).ok().filter(|nonce| *nonce < 1 << NONCE_BITS)?;
    Some((PoolIdentity { pool, nonce }, sequence))
}

/// Gives the next pool identity; `None` once 2^32 - 1 pools were made in this process.
///
/// The first id of a process is random too, so that a handle kept from another process image agrees in pool *and*
/// nonce with probability 2^-56 only.
pub(crate) fn next_pool_identity() -> Option<PoolIdentity> {
    static BASE: OnceLock<u32> = OnceLock::new();
    static MADE: AtomicU64 = AtomicU64::new(0);
    const IDS: u64 = u32::MAX as u64;
    let base = u64::from(*BASE.get_or_init(|| random_bits() as u32));
    // Relaxed: only the uniqueness of the number matters, which a read-modify-write gives under any ordering.
    let made = MADE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < IDS).then_some(n + 1)).ok()?;
    let id = u32::try_from((base + made) % IDS).ok()? + 1;
    let nonce = (random_bits() >> 40) as u32;
    PoolId::new(id).map(|pool| PoolIdentity { pool, nonce })
}

/// 64 random bits from the keys that the standard library seeds from the operating system.
pub(crate) fn random_bits() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn owner_zero_is_nobody() {
        assert!(OwnerId::new(0).is_none());
        assert_eq!(size_of::<Option<OwnerId>>(), 8);
    }

    #[test]
    fn generation_stops_at_forty_bits() {
        assert_eq!(Generation::new((1 << 40) - 1), Some(Generation::MAX));
        assert!(Generation::new(1 << 40).is_none());
    }

    // C10
    #[test]
    fn the_128_bit_form_of_a_transfer_keeps_every_field_and_refuses_what_is_none() {
        let pool = PoolId::new(7).expect("non-zero");
        let sequence = NonZeroU64::new(u64::MAX - 1).expect("non-zero");
        let id = TransferId::new(PoolIdentity { pool, nonce: (1 << NONCE_BITS) - 1 }, sequence);
        assert_eq!(TransferId::from_bits(id.to_bits()), Some(id));
        assert_eq!(TransferId::from_bits(id.to_bits() >> 64 << 64), None, "sequence 0");
        assert_eq!(TransferId::from_bits(1), None, "pool 0");
        assert_eq!(TransferId::from_bits(id.to_bits() | 1 << 120), None, "a bit that means nothing");
        assert_eq!(format!("{id}"), "transfer 18446744073709551614 of pool 00000007");
    }

    #[test]
    fn pools_of_one_process_have_different_ids() {
        let made: Vec<PoolIdentity> = (0..1000).filter_map(|_| next_pool_identity()).collect();
        let ids: HashSet<u32> = made.iter().map(|i| i.pool.get()).collect();
        assert_eq!(ids.len(), 1000);
        let nonces: HashSet<u32> = made.iter().map(|i| i.nonce).collect();
        assert!(nonces.len() > 900, "the nonce is random per pool, not a constant");
        assert!(made.iter().all(|i| i.nonce < 1 << NONCE_BITS));
    }
}
