//! What the bytes of a page are compared by, bound to the place that they are meant for.
//!
//! *Owns* the order in which a page is digested and what is digested with it. *Does not know* pools.

use std::fmt;

use thiserror::Error;
use twox_hash::XxHash3_128;

use crate::geometry::{Fingerprint, LayoutError, ModelLayout, Slice};
use crate::id::TransferId;

/// Raised whenever what a digest covers, or its order, changes.
const DIGEST_VERSION: u32 = 2;

/// Names how the pages of a handoff are digested.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Checksum {
    /// Not at all: whatever arrived is taken for what was sent. Gives up C10 for the bytes themselves; extents, layouts,
    /// owners and ranges are still compared. No default accepts it.
    BytesUnverified,
    /// CRC-32C, which network cards and disks compute too. Finds every burst of up to 32 bits and misses one other accident
    /// in 2^32; does not resist a peer that forges.
    Crc32c,
    /// XXH3 in 128 bits. Finds every accident; does not resist a peer that forges.
    #[default]
    Xxh3,
    /// BLAKE3 with a key that both sides have, for a peer or a path that may forge. Needs the feature `blake3`.
    Blake3Keyed,
}

impl Checksum {
    /// Checks that pages can be digested so here.
    pub(super) fn check_key(self, key: Option<&DigestKey>) -> Result<(), DigestError> {
        let checksum = self;
        match checksum {
            Checksum::Blake3Keyed if key.is_none() => Err(DigestError::NoKey { checksum }),
            Checksum::Blake3Keyed | Checksum::Crc32c => Err(DigestError::NotBuilt { checksum }),
            Checksum::BytesUnverified | Checksum::Xxh3 => Ok(()),
        }
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Checksum::BytesUnverified => "no checksum",
            Checksum::Crc32c => "crc32c",
            Checksum::Xxh3 => "xxh3-128",
            Checksum::Blake3Keyed => "blake3-keyed",
        })
    }
}

/// Holds the secret that both sides of a handoff digest with, for [`Checksum::Blake3Keyed`]. `Debug` does not show it.
#[derive(Clone)]
pub struct DigestKey([u8; 32]);

impl DigestKey {
    /// Takes a secret, which should be random and known to the two sides only.
    #[must_use]
    pub const fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey(..)")
    }
}

/// Says why pages cannot be digested as wanted.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DigestError {
    /// The slice is not of the model.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The kind stands for no digests.
    #[error("{} stands for pages that are not digested; choose a checksum", Checksum::BytesUnverified)]
    NoDigests,
    /// A keyed kind without its key.
    #[error("{checksum} needs the key that both sides have; give it one")]
    NoKey {
        /// The kind.
        checksum: Checksum,
    },
    /// This build has no such kind.
    #[error("{checksum} is not in this build; enable the feature `blake3` of pagestamp, or choose another")]
    NotBuilt {
        /// The kind.
        checksum: Checksum,
    },
}

/// Holds the digest of one page of one transfer.
///
/// `Debug` and `Display` do not show the value: who knows a page's digest can test guesses of what the page holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(u128);

impl Digest {
    /// Stands for a digest that nobody computed. No page has it.
    pub const ZERO: Self = Self(0);

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

/// Digests the pages of one transfer, for an engine that moves the bytes itself. [`Outbound::send`](super::Outbound::send)
/// does it in the same pass as its copy.
///
/// A digest covers the checksum kind, the transfer, model layout and slice, the page's ordinal and its fill, then the bytes.
/// A right page in a wrong place, or of another transfer, has a wrong digest.
///
/// # Examples
///
/// ```
/// use pagestamp::geometry::{Dtype, ElementFormat, HeadCache, KvLayout, ModelLayout, Slice};
/// use pagestamp::{Checksum, Digester, TransferId};
///
/// let cache = HeadCache::new(1, 4, ElementFormat::plain(Dtype::F16));
/// let model = ModelLayout::new("tiny", "r1", KvLayout::new(16, 1, cache))?;
/// let transfer = TransferId::from_bits(1 << 64 | 1).ok_or("no transfer")?;
/// let digester = Digester::new(Checksum::Xxh3, None, transfer, &model, &Slice::whole(&model))?;
/// let digest_at = |ordinal| {
///     let mut page = digester.page(ordinal, 16);
///     page.update(&[7; 16 * 8]); // K
///     page.update(&[9; 16 * 8]); // V
///     page.finish()
/// };
/// assert_ne!(digest_at(0), digest_at(1), "the same bytes in another place");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Digester {
    /// what is equal for all pages of the transfer
    head: Vec<u8>,
}

impl Digester {
    /// Begins the digests of one slice of a transfer: of a [writer](super::Writer), or of a [part](super::SentPart) of one.
    ///
    /// # Errors
    ///
    /// - [`DigestError::Layout`]: the slice is not of the model.
    /// - [`DigestError::NoDigests`], [`DigestError::NoKey`], [`DigestError::NotBuilt`]: the kind cannot be computed here.
    pub fn new(
        checksum: Checksum,
        key: Option<&DigestKey>,
        transfer: TransferId,
        model: &ModelLayout,
        slice: &Slice,
    ) -> Result<Self, DigestError> {
        Self::over(checksum, key, transfer, model.slice_fingerprint(slice)?)
    }

    /// `meaning` is the slice fingerprint.
    pub(super) fn over(
        checksum: Checksum,
        key: Option<&DigestKey>,
        transfer: TransferId,
        meaning: Fingerprint,
    ) -> Result<Self, DigestError> {
        match checksum {
            Checksum::BytesUnverified => return Err(DigestError::NoDigests),
            Checksum::Blake3Keyed if key.is_none() => return Err(DigestError::NoKey { checksum }),
            Checksum::Blake3Keyed | Checksum::Crc32c => return Err(DigestError::NotBuilt { checksum }),
            Checksum::Xxh3 => {}
        }
        let mut head = b"pagestamp.page-digest".to_vec();
        head.extend_from_slice(&DIGEST_VERSION.to_le_bytes());
        head.extend_from_slice(b"xxh3-128");
        head.extend_from_slice(&transfer.to_bits().to_le_bytes());
        head.extend_from_slice(&meaning.to_bytes());
        Ok(Self { head })
    }

    /// Begins the digest of the page with this ordinal, which holds `tokens` tokens.
    ///
    /// # Cost
    ///
    /// O(1); allocates.
    pub fn page(&self, ordinal: u32, tokens: u32) -> PageDigester {
        let mut hasher = XxHash3_128::new();
        hasher.write(&self.head);
        hasher.write(&ordinal.to_le_bytes());
        hasher.write(&tokens.to_le_bytes());
        PageDigester { hasher }
    }
}

/// Digests one page: plane by plane, of each `[tokens, runs, run_bytes]`, token by token, its filled tokens only.
///
/// The bytes may come in pieces of any size.
#[must_use = "a digest is there once it is finished"]
pub struct PageDigester {
    hasher: XxHash3_128,
}

impl PageDigester {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.hasher.write(bytes);
    }

    /// Ends the page. Never [`Digest::ZERO`].
    #[must_use]
    pub fn finish(self) -> Digest {
        Digest(self.hasher.finish_128().max(1))
    }
}

impl fmt::Debug for PageDigester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageDigester").finish_non_exhaustive()
    }
}
