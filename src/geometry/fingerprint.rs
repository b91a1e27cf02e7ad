//! 128-bit names of shapes and layouts, and the byte encoding that they are taken over.

use std::fmt;
use std::ops::Range;

use twox_hash::XxHash3_128;

/// Names a shape or a layout in 128 bits, for the wire and for logs.
///
/// Two layouts that would misread each other's bytes have different fingerprints, but for a chance of
/// 2^-128 per pair. It is no proof of equality and no defence against a peer that forges: where
/// both layouts are at hand, compare them, which compares each field in full.
///
/// The encoding is canonical: a domain, a version, then each field in a fixed order, little-endian, with
/// lists and strings preceded by their length. Values are the same on every machine for one encoding version.
/// The hash is XXH3 in 128 bits without a seed.
///
/// # Examples
/// ```
/// use pagestamp::geometry::{Fingerprint, GeometryError, PageGeometry};
///
/// let print = PageGeometry::bytes(4096)?.fingerprint();
/// assert_eq!(Fingerprint::from_bytes(print.to_bytes()), print);
/// assert_eq!(print.to_string().len(), 32);
/// # Ok::<(), GeometryError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(u128);

impl Fingerprint {
    /// Returns the fingerprint as it travels: 16 bytes, the most significant first.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// Takes a fingerprint from the 16 bytes of [`Fingerprint::to_bytes`].
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// What a fingerprint is taken of; no two kinds share an encoding.
#[derive(Clone, Copy)]
pub(super) enum Domain {
    PageGeometry,
    KvLayout,
    ModelLayout,
    Slice,
    ModelSlice,
}

impl Domain {
    const fn name(self) -> &'static str {
        match self {
            Domain::PageGeometry => "pagestamp.page-geometry",
            Domain::KvLayout => "pagestamp.kv-layout",
            Domain::ModelLayout => "pagestamp.model-layout",
            Domain::Slice => "pagestamp.slice",
            Domain::ModelSlice => "pagestamp.model-slice",
        }
    }
}

/// Raised whenever the encoding of any domain changes.
const ENCODING_VERSION: u32 = 1;

/// Writes the canonical encoding, then hashes it.
pub(super) struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    pub(super) fn new(domain: Domain) -> Self {
        let mut encoder = Self { bytes: Vec::with_capacity(256) };
        encoder.text(domain.name()).u32(ENCODING_VERSION);
        encoder
    }

    pub(super) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(super) fn range(&mut self, value: &Range<u32>) -> &mut Self {
        self.u32(value.start).u32(value.end)
    }

    pub(super) fn count(&mut self, value: usize) -> &mut Self {
        // usize is at most 64 bits wide on every target of Rust
        self.bytes.extend_from_slice(&(value as u64).to_le_bytes());
        self
    }

    pub(super) fn text(&mut self, value: &str) -> &mut Self {
        self.count(value.len());
        self.bytes.extend_from_slice(value.as_bytes());
        self
    }

    pub(super) fn finish(&self) -> Fingerprint {
        Fingerprint(XxHash3_128::oneshot(&self.bytes))
    }
}
