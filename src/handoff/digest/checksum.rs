//! The names of the kinds.

use std::fmt;

use super::blake3;

/// Names how the pages of a handoff are digested.
///
/// | kind | bits | finds | resists | GB/s hot | GB/s cold |
/// |---|---|---|---|---|---|
/// | [`Checksum::BytesUnverified`] | 0 | nothing | nobody | | |
/// | [`Checksum::Crc32c`] | 32 | bursts of up to 32 bits; all other accidents but one in 2^32 | nobody | 24 to 27 | 9 to 14 |
/// | [`Checksum::Xxh3`], the default | 128 | all accidents but one in 2^128 | nobody | 30 to 36 | 7 to 9 |
/// | [`Checksum::Blake3Keyed`] | 128 | as XXH3 | who has not the key | 6 to 7 | 4 to 5 |
///
/// Rates are of pages of 16 to 256 KiB on one core of a Xeon of 2.8 GHz, cold ones from memory: there the bus is the limit
/// of the first two. `cargo bench --bench handoff --features blake3` remakes them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Checksum {
    /// Not at all: whatever is there is taken for what was sent, even if a writer from outside wrote nothing. Gives up C10 for the bytes themselves; extents, layouts,
    /// owners and ranges are still compared. No default accepts it.
    BytesUnverified,
    /// CRC-32C, which network cards and disks compute too. Finds every burst of up to 32 bits and misses one other accident
    /// in 2^32; does not resist a peer that forges.
    Crc32c,
    /// XXH3 in 128 bits. Finds every accident, but for a chance of 2^-128; does not resist a peer that forges.
    #[default]
    Xxh3,
    /// BLAKE3 with a key that both sides have, for a peer or a path that may forge. Needs the feature `blake3`.
    Blake3Keyed,
}

impl Checksum {
    /// Every kind, the one that stands for no digests first.
    pub const ALL: &'static [Self] =
        &[Checksum::BytesUnverified, Checksum::Crc32c, Checksum::Xxh3, Checksum::Blake3Keyed];

    /// Says whether pages are digested at all.
    #[must_use]
    pub const fn has_digests(self) -> bool {
        !matches!(self, Checksum::BytesUnverified)
    }

    /// Says whether a [`DigestKey`](super::DigestKey) must be given. The other kinds refuse one.
    #[must_use]
    pub const fn needs_key(self) -> bool {
        matches!(self, Checksum::Blake3Keyed)
    }

    /// Says whether this build can compute the kind; [`Checksum::BytesUnverified`] needs no computing.
    #[must_use]
    pub const fn is_built(self) -> bool {
        match self {
            Checksum::BytesUnverified | Checksum::Crc32c | Checksum::Xxh3 => true,
            Checksum::Blake3Keyed => blake3::BUILT,
        }
    }

    /// The name. A digest covers it: to change it is to change every digest of the kind.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Checksum::BytesUnverified => "no checksum",
            Checksum::Crc32c => "crc32c",
            Checksum::Xxh3 => "xxh3-128",
            Checksum::Blake3Keyed => "blake3-keyed",
        }
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
