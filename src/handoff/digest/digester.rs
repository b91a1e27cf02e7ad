//! The pages of a transfer, digested one by one.

use std::fmt;

use super::blake3::{Blake3Page, Keyed};
use super::crc32c::Crc32cPage;
use super::head::Head;
use super::xxh3::Xxh3Page;
use super::{Checksum, Digest, DigestError, DigestKey};
use crate::access::OrdinalCrc;
use crate::geometry::{Fingerprint, ModelLayout, Slice};
use crate::id::TransferId;

/// Digests the pages of one transfer, for an engine that moves the bytes itself.
/// [`Outbound::send`](crate::handoff::Outbound::send) does it in the same pass as its copy.
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
#[derive(Clone)]
pub struct Digester {
    kind: Kind,
    /// what is equal for all pages of the transfer
    head: Head,
}

#[derive(Clone)]
enum Kind {
    Crc32c,
    Xxh3,
    Blake3Keyed(Keyed),
}

impl Kind {
    fn new(checksum: Checksum, key: Option<&DigestKey>) -> Result<Self, DigestError> {
        match checksum {
            Checksum::BytesUnverified => Err(DigestError::NoDigests),
            Checksum::Crc32c | Checksum::Xxh3 if key.is_some() => Err(DigestError::UnusedKey { checksum }),
            Checksum::Crc32c => Ok(Self::Crc32c),
            Checksum::Xxh3 => Ok(Self::Xxh3),
            Checksum::Blake3Keyed => Ok(Self::Blake3Keyed(Keyed::new(key)?)),
        }
    }
}

impl Checksum {
    /// Checks that a handoff can be digested so here, with the key that it is given; one without digests takes no key.
    pub(in crate::handoff) fn check_key(self, key: Option<&DigestKey>) -> Result<(), DigestError> {
        match (self, key) {
            (Checksum::BytesUnverified, None) => Ok(()),
            (Checksum::BytesUnverified, Some(_)) => Err(DigestError::UnusedKey { checksum: self }),
            _ => Kind::new(self, key).map(drop),
        }
    }
}

impl Digester {
    /// Begins the digests of one slice of a transfer: of a [writer](crate::Writer), or of a [part](crate::SentPart) of
    /// one.
    ///
    /// A kind without a key refuses one: a key that was silently left out would pass for a protection.
    ///
    /// # Errors
    ///
    /// - [`DigestError::Layout`]: the slice is not of the model.
    /// - [`DigestError::NoDigests`], [`DigestError::NotBuilt`]: the kind cannot be computed here, with a key or without.
    /// - [`DigestError::NoKey`], [`DigestError::UnusedKey`]: the key is missing, or one too many.
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
    pub(in crate::handoff) fn over(
        checksum: Checksum,
        key: Option<&DigestKey>,
        transfer: TransferId,
        meaning: Fingerprint,
    ) -> Result<Self, DigestError> {
        Ok(Self { kind: Kind::new(checksum, key)?, head: Head::new(checksum, transfer, meaning) })
    }

    /// Returns the kind.
    #[must_use]
    pub const fn checksum(&self) -> Checksum {
        match self.kind {
            Kind::Crc32c => Checksum::Crc32c,
            Kind::Xxh3 => Checksum::Xxh3,
            Kind::Blake3Keyed(_) => Checksum::Blake3Keyed,
        }
    }

    /// Begins the digest of the page with this ordinal, which holds `tokens` tokens.
    ///
    /// # Cost
    ///
    /// O(1); allocates nothing.
    pub fn page(&self, ordinal: u32, tokens: u32) -> PageDigester {
        let head = self.head.of_page(ordinal, tokens);
        PageDigester(match &self.kind {
            Kind::Crc32c => Page::Crc32c(Crc32cPage::begin(&head)),
            Kind::Xxh3 => Page::Xxh3(Xxh3Page::begin(&head)),
            Kind::Blake3Keyed(keyed) => Page::Blake3Keyed(keyed.begin(&head)),
        })
    }

    /// Begins the digests of pages, each with so many tokens, whose bytes a memory digests where they are: `None` for a kind
    /// that no memory knows. [`of_crc`](Self::of_crc) ends them.
    pub(in crate::handoff) fn in_place(&self, pages: impl Iterator<Item = (u32, u32)>) -> Option<Vec<OrdinalCrc>> {
        let begin = |(ordinal, tokens)| {
            let crc = Crc32cPage::begin(&self.head.of_page(ordinal, tokens)).crc();
            OrdinalCrc { ordinal, tokens, crc }
        };
        matches!(self.kind, Kind::Crc32c).then(|| pages.map(begin).collect())
    }

    /// The digest of a page by the CRC of head and bytes.
    pub(in crate::handoff) fn of_crc(page: &OrdinalCrc) -> Digest {
        Crc32cPage::digest(page.crc)
    }
}

impl fmt::Debug for Digester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Digester").field("checksum", &self.checksum()).finish_non_exhaustive()
    }
}

/// Digests one page: plane by plane, run by run, of each `[tokens, run_bytes]`, its filled tokens only. That is the order in
/// which a page lies in memory, and in which [`PageView::run`](crate::PageView::run) lends it.
///
/// The bytes may come in pieces of any size. [`Checksum::Blake3Keyed`] works on the KiBs of one piece side by side: it likes
/// pieces of 16 KiB and more, where the others are content with less than one.
#[must_use = "a digest is there once it is finished"]
pub struct PageDigester(Page);

#[expect(clippy::large_enum_variant, reason = "one per page, where its caller works; a box would allocate for each")]
enum Page {
    Crc32c(Crc32cPage),
    Xxh3(Xxh3Page),
    Blake3Keyed(Blake3Page),
}

impl PageDigester {
    /// Adds bytes.
    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            Page::Crc32c(page) => page.update(bytes),
            Page::Xxh3(page) => page.update(bytes),
            Page::Blake3Keyed(page) => page.update(bytes),
        }
    }

    /// Ends the page. Never [`Digest::ZERO`].
    #[must_use]
    pub fn finish(self) -> Digest {
        match &self.0 {
            Page::Crc32c(page) => page.finish(),
            Page::Xxh3(page) => page.finish(),
            Page::Blake3Keyed(page) => page.finish(),
        }
    }
}

impl fmt::Debug for PageDigester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageDigester").finish_non_exhaustive()
    }
}
