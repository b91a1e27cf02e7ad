//! The cache of multi-head latent attention: one compressed latent for all heads.

use super::fingerprint::Encoder;
use super::plane_role::LayerPlane;
use super::{Dtype, ElementFormat, LayoutDim, LayoutError, PlaneKind};

/// Says whether the latent, its scales and the rotary part share a plane.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum LatentPacking {
    /// One run per token: the latent, then its scales, then the rotary part.
    #[default]
    Together,
    /// A plane for the latent, one for its scales if it has any, one for the rotary part.
    Apart,
}

impl LatentPacking {
    /// The number that stands for it in a fingerprint and on the wire; never reused.
    pub(crate) const fn code(self) -> u32 {
        match self {
            LatentPacking::Together => 1,
            LatentPacking::Apart => 2,
        }
    }
}

/// Describes the cache of one layer of multi-head latent attention (MLA), with or without an indexer.
///
/// All attention heads share the latent, so tensor-parallel ranks each hold a copy of it: to a
/// [`Slice`](super::Slice) such a model has exactly one KV head.
///
/// # Examples
/// ```
/// use pagestamp::geometry::{Dtype, ElementFormat, LatentCache, KvLayout, LayoutError};
///
/// let bf16 = ElementFormat::plain(Dtype::Bf16);
/// let layout = KvLayout::new(64, 61, LatentCache::new(512, 64, bf16));
/// assert_eq!(layout.geometry()?.page_bytes(0), Some(64 * 1152));
/// # Ok::<(), LayoutError>(())
/// ```
///
/// # Source
/// DeepSeek-V3's `config.json`: `kv_lora_rank` 512, `qk_rope_head_dim` 64, 61 layers. FlashMLA's fp8 sparse
/// cache: 512 fp8 bytes, 16 bytes of f32 scales, 128 bytes of bf16, 656 in one run. FlashInfer's MLA
/// wrapper takes the latent (`ckv`) and the rotary part (`kpe`) apart.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LatentCache {
    latent_dim: u32,
    rope_dim: u32,
    latent_format: ElementFormat,
    rope_dtype: Dtype,
    packing: LatentPacking,
    indexer: Option<(u32, ElementFormat)>,
}

impl LatentCache {
    /// Describes a latent of `kv_lora_rank` elements and a rotary part of `rope_dim`, of the same number format.
    ///
    /// The rotary part never has scales.
    #[must_use]
    pub const fn new(kv_lora_rank: u32, rope_dim: u32, format: ElementFormat) -> Self {
        Self {
            latent_dim: kv_lora_rank,
            rope_dim,
            latent_format: format,
            rope_dtype: format.dtype(),
            packing: LatentPacking::Together,
            indexer: None,
        }
    }

    /// Sets the number format of the rotary part, where it differs from the latent's.
    #[must_use]
    pub const fn with_rope_dtype(mut self, rope_dtype: Dtype) -> Self {
        self.rope_dtype = rope_dtype;
        self
    }

    /// Sets whether latent, scales and rotary part share a plane; together at first.
    #[must_use]
    pub const fn with_packing(mut self, packing: LatentPacking) -> Self {
        self.packing = packing;
        self
    }

    /// Adds the cache of a sparse attention's indexer: one key of `dim` elements per token.
    ///
    /// Its keys have a plane, and its scales have another.
    ///
    /// # Source
    /// DeepSeek-V3.2's `config.json`: `index_head_dim` 128.
    #[must_use]
    pub const fn with_indexer(mut self, dim: u32, format: ElementFormat) -> Self {
        self.indexer = Some((dim, format));
        self
    }

    /// Returns the elements of the latent.
    #[must_use]
    pub const fn latent_dim(&self) -> u32 {
        self.latent_dim
    }

    /// Returns the elements of the rotary part.
    #[must_use]
    pub const fn rope_dim(&self) -> u32 {
        self.rope_dim
    }

    /// Returns the format of the latent.
    #[must_use]
    pub const fn latent_format(&self) -> ElementFormat {
        self.latent_format
    }

    /// Returns the number format of the rotary part.
    #[must_use]
    pub const fn rope_dtype(&self) -> Dtype {
        self.rope_dtype
    }

    /// Returns whether latent, scales and rotary part share a plane.
    #[must_use]
    pub const fn packing(&self) -> LatentPacking {
        self.packing
    }

    /// Returns the elements and the format of an indexer's key, if there is one.
    #[must_use]
    pub const fn indexer(&self) -> Option<(u32, ElementFormat)> {
        self.indexer
    }

    pub(super) fn layer_planes(&self) -> Result<Vec<LayerPlane>, LayoutError> {
        let plane = |kind, run_bytes: u64| LayerPlane { kind, runs: 1, run_bytes: u128::from(run_bytes) };
        let latent = self.latent_format.row_bytes(LayoutDim::Latent, self.latent_dim)?;
        let scale = self.latent_format.row_scale_bytes(LayoutDim::Latent, self.latent_dim)?;
        let rope = ElementFormat::plain(self.rope_dtype).row_bytes(LayoutDim::Rope, self.rope_dim)?;
        let mut planes = match self.packing {
            // each is at most 2^34
            LatentPacking::Together => vec![plane(PlaneKind::Latent, latent + scale + rope)],
            LatentPacking::Apart => vec![
                plane(PlaneKind::Latent, latent),
                plane(PlaneKind::LatentScale, scale),
                plane(PlaneKind::Rope, rope),
            ],
        };
        if let Some((dim, format)) = self.indexer {
            planes.push(plane(PlaneKind::Indexer, format.row_bytes(LayoutDim::Indexer, dim)?));
            let scale = format.row_scale_bytes(LayoutDim::Indexer, dim)?;
            planes.push(plane(PlaneKind::IndexerScale, scale));
        }
        // rows of elements are never empty here: only absent scales go
        planes.retain(|plane| plane.run_bytes != 0);
        Ok(planes)
    }

    pub(super) fn encode(&self, encoder: &mut Encoder) {
        let Self { latent_dim, rope_dim, latent_format, rope_dtype, packing, indexer } = self;
        encoder.u32(*latent_dim).u32(*rope_dim);
        latent_format.encode(encoder);
        encoder.u32(rope_dtype.code()).u32(packing.code());
        match indexer {
            None => {
                encoder.u32(0);
            }
            Some((dim, format)) => {
                encoder.u32(1).u32(*dim);
                format.encode(encoder);
            }
        }
    }
}
