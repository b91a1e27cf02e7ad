//! XXH3 in 128 bits, without a seed, of the head, then the bytes.

use twox_hash::xxhash3_128::{DEFAULT_SECRET_LENGTH, RawHasher, SecretBuffer};

use super::Digest;
use super::head::Head;

/// Borrows the constant that XXH3 calls its secret: `twox_hash::XxHash3_128` has a copy on the heap for each hasher.
pub(super) struct Xxh3Page(RawHasher<&'static [u8; DEFAULT_SECRET_LENGTH]>);

impl Xxh3Page {
    pub(super) fn begin(head: &[u8; Head::BYTES]) -> Self {
        let mut hasher = RawHasher::new(SecretBuffer::default());
        hasher.write(head);
        Self(hasher)
    }

    #[inline]
    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    pub(super) fn finish(&self) -> Digest {
        Digest::of(self.0.finish_128())
    }
}
