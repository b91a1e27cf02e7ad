//! The handle of a page: which pool, which page, which life of it.
//!
//! *Owns* the layout of all handles ([`RawHandle`]), their 128-bit form, and [`PageHandle`]. *Does not know* whether a
//! handle is still valid: that is what the stamp says. O(1) throughout.

use std::marker::PhantomData;

use crate::id::{Generation, NONCE_BITS, PoolId, PoolIdentity};

const GENERATION_BITS: u32 = 40;
const GENERATION_MASK: u64 = (1 << GENERATION_BITS) - 1;
const _: () = assert!(GENERATION_BITS + NONCE_BITS == 64);

/// A handle before it is typed: the one layout of the handles of pages and of slots.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RawHandle {
    pool: PoolId,
    index: u32,
    /// nonce in the high 24 bits, generation in the low 40
    life: u64,
}

impl RawHandle {
    #[inline]
    pub(crate) const fn new(identity: PoolIdentity, index: u32, generation: Generation) -> Self {
        let life = (identity.nonce as u64) << GENERATION_BITS | generation.get();
        Self { pool: identity.pool, index, life }
    }

    #[inline]
    pub(crate) const fn pool(&self) -> PoolId {
        self.pool
    }

    #[inline]
    pub(crate) const fn index(&self) -> u32 {
        self.index
    }

    #[inline]
    pub(crate) fn generation(&self) -> Generation {
        Generation::new(self.life & GENERATION_MASK).unwrap_or(Generation::MAX)
    }

    #[inline]
    pub(crate) const fn nonce(&self) -> u32 {
        (self.life >> GENERATION_BITS) as u32
    }

    /// Says whether the pool of that identity issued the handle, or who forged it knew its random part.
    #[inline]
    pub(crate) const fn is_of(&self, identity: PoolIdentity) -> bool {
        self.pool.get() == identity.pool.get() && self.nonce() == identity.nonce
    }

    /// From the low bit: index 32, pool 32, generation 40, nonce 24.
    #[inline]
    pub(crate) const fn to_bits(self) -> u128 {
        (self.life as u128) << 64 | (self.pool.get() as u128) << 32 | self.index as u128
    }

    pub(crate) const fn from_bits(bits: u128) -> Option<Self> {
        match PoolId::new((bits >> 32) as u32) {
            Some(pool) => Some(Self { pool, index: bits as u32, life: (bits >> 64) as u64 }),
            None => None,
        }
    }
}

/// What every typed handle is: a copy of its raw form, compared in full, and printed as a letter, the index, the life.
macro_rules! handle_traits {
    ($handle:ident, $letter:literal) => {
        impl<T> Clone for $handle<T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $handle<T> {}

        impl<T> PartialEq for $handle<T> {
            fn eq(&self, other: &Self) -> bool {
                self.raw == other.raw
            }
        }

        impl<T> Eq for $handle<T> {}

        impl<T> std::hash::Hash for $handle<T> {
            fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
                self.raw.hash(state);
            }
        }

        impl<T> std::fmt::Debug for $handle<T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($letter, "{}@{}"), self.index(), self.generation())
            }
        }

        impl<T> std::fmt::Display for $handle<T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(self, f)
            }
        }
    };
}
pub(crate) use handle_traits;

/// Names one page in one of its lives. `Copy`, 16 bytes, typed by the memory `M` that the page lies in.
///
/// A handle is no capability: whoever reads names the owner too. After the page is released every use of the handle
/// fails, for ever, within this process image. `Option<PageHandle<M>>` is 16 bytes as well.
///
/// # Examples
///
/// ```
/// use pagestamp::{NullMemory, PageHandle};
/// assert!(PageHandle::<NullMemory>::from_bits(0).is_none(), "zero is never a handle");
/// ```
///
/// A handle of one memory is no handle of a pool of another:
///
/// ```compile_fail,E0308
/// # use pagestamp::*;
/// fn read_elsewhere(pool: &PagePool<HostMemory>, owner: OwnerId, handle: PageHandle<NullMemory>) {
///     let _ = pool.read(owner, handle);
/// }
/// ```
///
/// ```compile_fail,E0308
/// # use pagestamp::*;
/// fn release_elsewhere(pool: &PagePool<HostMemory>, owner: OwnerId, kv: &Reservation<NullMemory>) {
///     let handles: Vec<PageHandle<NullMemory>> = kv.handles().collect();
///     let _ = pool.release_pages(owner, &handles);
/// }
/// ```
pub struct PageHandle<M> {
    raw: RawHandle,
    memory: PhantomData<fn() -> M>,
}

impl<M> PageHandle<M> {
    #[inline]
    pub(crate) fn new(identity: PoolIdentity, index: u32, generation: Generation) -> Self {
        Self { raw: RawHandle::new(identity, index, generation), memory: PhantomData }
    }

    /// Says which pool issued the handle.
    #[must_use]
    #[inline]
    pub const fn pool(&self) -> PoolId {
        self.raw.pool()
    }

    /// Gives the page number: what a `block_table` names. Alone it proves nothing.
    #[must_use]
    #[inline]
    pub const fn index(&self) -> u32 {
        self.raw.index()
    }

    /// Gives the life of the page that the handle was issued for.
    #[must_use]
    #[inline]
    pub fn generation(&self) -> Generation {
        self.raw.generation()
    }

    #[inline]
    pub(crate) const fn nonce(&self) -> u32 {
        self.raw.nonce()
    }

    /// Says whether it names that life of a page of that pool.
    #[inline]
    pub(crate) const fn is_life_of(&self, identity: PoolIdentity, generation: u64) -> bool {
        // Exclusive or: put together in one word first, the two halves would cost a double shift, which is slow.
        let nonce = (identity.nonce as u64) << GENERATION_BITS;
        self.raw.life ^ generation == nonce && self.raw.pool.get() == identity.pool.get()
    }

    /// Packs the handle for C, C++, Python or the wire; never zero.
    ///
    /// From the low bit: page index 32, pool 32, generation 40, nonce 24.
    #[must_use]
    pub fn to_bits(&self) -> u128 {
        self.raw.to_bits()
    }

    /// Unpacks what [`to_bits`](Self::to_bits) packed. `None` when the pool part is zero.
    ///
    /// Any other pattern makes *some* handle; a forged one fails when it is used, like a stale one.
    #[must_use]
    pub fn from_bits(bits: u128) -> Option<Self> {
        RawHandle::from_bits(bits).map(|raw| Self { raw, memory: PhantomData })
    }
}

handle_traits!(PageHandle, "p");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Here;

    fn handle(pool: u32, nonce: u32, index: u32, generation: u64) -> PageHandle<Here> {
        let identity = PoolIdentity { pool: PoolId::new(pool).expect("non-zero"), nonce };
        PageHandle::new(identity, index, Generation::new(generation).expect("40 bits"))
    }

    #[test]
    fn a_handle_is_sixteen_bytes_and_so_is_an_optional_one() {
        assert_eq!(size_of::<PageHandle<Here>>(), 16);
        assert_eq!(size_of::<Option<PageHandle<Here>>>(), 16);
    }

    #[test]
    fn a_handle_prints_as_page_and_generation() {
        assert_eq!(format!("{:?}", handle(7, 1, 12, 3)), "p12@3");
    }

    proptest! {
        #[test]
        fn the_128_bit_form_keeps_every_field(
            pool in 1u32.., nonce in 0u32..1 << 24, index: u32, generation in 0u64..1 << 40,
        ) {
            let one = handle(pool, nonce, index, generation);
            let two = PageHandle::<Here>::from_bits(one.to_bits()).expect("pool is not zero");
            prop_assert_eq!(one, two);
            prop_assert_eq!(
                (two.pool().get(), two.nonce(), two.index(), two.generation().get()),
                (pool, nonce, index, generation)
            );
        }

        #[test]
        fn handles_that_differ_in_any_one_bit_are_unequal(
            pool in 1u32.., nonce in 0u32..1 << 24, index: u32, generation in 0u64..1 << 40, bit in 0u32..128,
        ) {
            let one = handle(pool, nonce, index, generation);
            if let Some(two) = PageHandle::<Here>::from_bits(one.to_bits() ^ 1 << bit) {
                prop_assert_ne!(one, two);
            }
        }
    }
}
