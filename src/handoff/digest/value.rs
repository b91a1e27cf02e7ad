//! The digest of a page.

use std::fmt;

/// Holds the digest of one page of one transfer.
///
/// `Debug` does not show the value: who knows a page's digest can test guesses of what the page holds. It is no secret to
/// the peer that it is sent to, and comparing two may take longer the more they agree in.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(u128);

impl Digest {
    /// Stands for a digest that nobody computed. No page has it.
    pub const ZERO: Self = Self(0);

    /// What a hash says of a page. The one hash in 2^128 that would read as [`Digest::ZERO`] becomes its neighbour.
    pub(super) const fn of(hash: u128) -> Self {
        Self(if hash == 0 { 1 } else { hash })
    }

    /// Says whether this is [`Digest::ZERO`].
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Returns the digest as it travels: 16 bytes, the most significant first.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// Takes a digest from the 16 bytes of [`Digest::to_bytes`].
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_zero() { "Digest(zero)" } else { "Digest(..)" })
    }
}
