//! Why pages cannot be digested.

use thiserror::Error;

use super::Checksum;
use crate::geometry::LayoutError;

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
    /// A key for a kind that has none: its digests would not keep a peer from forging, as who gives a key expects.
    #[error("{checksum} takes no key and resists no forger; leave the key out, or choose {}", Checksum::Blake3Keyed)]
    UnusedKey {
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
