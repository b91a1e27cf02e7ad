//! What each plane of a layout holds.

use std::ops::Range;

/// Says what kind of bytes a plane holds.
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PlaneKind {
    /// Keys.
    K,
    /// Values.
    V,
    /// Keys, then values, in one plane.
    Kv,
    /// Scales of the keys.
    KScale,
    /// Scales of the values.
    VScale,
    /// Scales of the keys, then of the values, in one plane.
    KvScale,
    /// MLA: the compressed latent; with the rotary part (and scales) when they are packed together.
    Latent,
    /// MLA: scales of the latent.
    LatentScale,
    /// MLA: the rotary part of the key, when it has a plane of its own.
    Rope,
    /// Keys of a sparse attention's indexer.
    Indexer,
    /// Scales of the indexer's keys.
    IndexerScale,
}

/// Describes one plane of a [`KvLayout`](super::KvLayout): which layers, and what of them.
///
/// Layers are counted in the whole model, not in the slice.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PlaneRole {
    layers: Range<u32>,
    kind: PlaneKind,
}

impl PlaneRole {
    pub(super) const fn new(layers: Range<u32>, kind: PlaneKind) -> Self {
        Self { layers, kind }
    }

    /// Returns the layers whose bytes lie in the plane: one, unless all layers share planes.
    #[must_use]
    pub fn layers(&self) -> Range<u32> {
        self.layers.clone()
    }

    /// Returns what the plane holds of each of these layers.
    #[must_use]
    pub const fn kind(&self) -> PlaneKind {
        self.kind
    }
}

/// The planes of one layer before they are laid out: runs and run bytes not yet checked.
pub(super) struct LayerPlane {
    pub(super) kind: PlaneKind,
    pub(super) runs: u128,
    pub(super) run_bytes: u128,
}
