//! BLAKE3 with a key. The head, hashed under the secret, gives the key of the page; the digest is the first 128 bits of
//! the bytes' hash under that key.
//!
//! To hash the head before the bytes would be as safe, and half as fast for small pages: BLAKE3 hashes chunks of 1 KiB side by
//! side, in groups that begin at a multiple of their size, and a head moves all of them. This way the secret is in the
//! [`Keyed`] only; what a page's hasher has is good for that page.

use super::head::Head;
use super::{Checksum, Digest, DigestError, DigestKey};

/// Whether this build computes the kind.
pub(super) const BUILT: bool = true;

/// A copy of the secret on the heap: it stays where it is when its owner moves, so that no other is left behind.
pub(super) struct Keyed(Box<DigestKey>);

impl Keyed {
    /// # Errors
    ///
    /// [`DigestError::NoKey`].
    pub(super) fn new(key: Option<&DigestKey>) -> Result<Self, DigestError> {
        key.map(Self::copy_of).ok_or(DigestError::NoKey { checksum: Checksum::Blake3Keyed })
    }

    /// Copies from place to place, and not by way of the stack.
    fn copy_of(key: &DigestKey) -> Self {
        let mut copy = Box::new(DigestKey::new([0; DigestKey::BYTES]));
        copy.0.copy_from_slice(&key.0);
        Self(copy)
    }

    pub(super) fn begin(&self, head: &[u8; Head::BYTES]) -> Blake3Page {
        let key = ::blake3::keyed_hash(&self.0.0, head);
        Blake3Page(::blake3::Hasher::new_keyed(key.as_bytes()))
    }
}

impl Clone for Keyed {
    fn clone(&self) -> Self {
        Self::copy_of(&self.0)
    }
}

pub(super) struct Blake3Page(::blake3::Hasher);

impl Blake3Page {
    #[inline]
    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(super) fn finish(&self) -> Digest {
        let mut first = [0; 16];
        self.0.finalize_xof().fill(&mut first);
        Digest::of(u128::from_be_bytes(first))
    }
}
