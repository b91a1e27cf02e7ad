//! The cache of multi-head and grouped-query attention: K and V per head.

use std::ops::Range;

use super::fingerprint::Encoder;
use super::plane_role::LayerPlane;
use super::{ElementFormat, LayoutDim, LayoutError, PlaneKind, SliceAxis};

/// Says which of token and head is the outer one inside a page.
///
/// The names are those of the engines: N tokens, H heads, D elements, outermost first.
///
/// # Source
/// FlashInfer's `kv_layout` argument, `"NHD"` or `"HND"`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum HeadOrder {
    /// Token-major: all heads of a token lie together.
    #[default]
    Nhd,
    /// Head-major: all tokens of a head lie together.
    Hnd,
}

impl HeadOrder {
    /// The number that stands for the order in a fingerprint and on the wire; never reused.
    pub(crate) const fn code(self) -> u32 {
        match self {
            HeadOrder::Nhd => 1,
            HeadOrder::Hnd => 2,
        }
    }
}

/// Says whether K and V of a layer have planes of their own.
///
/// # Source
/// FlashInfer's paged KV cache is one tensor `[max_num_pages, 2, page_size, num_heads, head_dim]` (NHD), which
/// is [`Interleave::Together`], or a pair of tensors, which is [`Interleave::Apart`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Interleave {
    /// K has a plane, V has a plane.
    #[default]
    Apart,
    /// K and V share a plane: in each page all of K, then all of V.
    Together,
}

impl Interleave {
    /// The number that stands for it in a fingerprint and on the wire; never reused.
    pub(crate) const fn code(self) -> u32 {
        match self {
            Interleave::Apart => 1,
            Interleave::Together => 2,
        }
    }
}

/// Describes K and V of one layer for multi-head, grouped-query and multi-query attention.
///
/// To the cache these are one thing: what counts is the number of *KV* heads. For attention over a
/// compressed latent use [`LatentCache`](super::LatentCache).
///
/// # Examples
/// ```
/// use pagestamp::geometry::{Dtype, ElementFormat, HeadCache, HeadOrder};
///
/// // 8 KV heads, K of 192 elements and V of 128
/// let cache = HeadCache::new(8, 192, ElementFormat::plain(Dtype::Bf16))
///     .with_value_dim(128)
///     .with_order(HeadOrder::Hnd);
/// assert_eq!(cache.heads(), 0..8);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct HeadCache {
    heads: Range<u32>,
    key_dim: u32,
    value_dim: u32,
    key_format: ElementFormat,
    value_format: ElementFormat,
    order: HeadOrder,
    interleave: Interleave,
}

impl HeadCache {
    /// Describes `kv_heads` heads whose K and V have `head_dim` elements each, in one format.
    #[must_use]
    pub const fn new(kv_heads: u32, head_dim: u32, format: ElementFormat) -> Self {
        Self {
            heads: 0..kv_heads,
            key_dim: head_dim,
            value_dim: head_dim,
            key_format: format,
            value_format: format,
            order: HeadOrder::Nhd,
            interleave: Interleave::Apart,
        }
    }

    /// Sets which KV heads of the model are here; counted in the whole model.
    #[must_use]
    pub fn with_heads(mut self, heads: Range<u32>) -> Self {
        self.heads = heads;
        self
    }

    /// Sets the elements of V per head, where they differ from K's.
    #[must_use]
    pub const fn with_value_dim(mut self, value_dim: u32) -> Self {
        self.value_dim = value_dim;
        self
    }

    /// Sets the format of V, where it differs from K's.
    #[must_use]
    pub const fn with_value_format(mut self, value_format: ElementFormat) -> Self {
        self.value_format = value_format;
        self
    }

    /// Sets the order of tokens and heads inside a page; token-major at first.
    #[must_use]
    pub const fn with_order(mut self, order: HeadOrder) -> Self {
        self.order = order;
        self
    }

    /// Sets whether K and V share a plane; apart at first.
    #[must_use]
    pub const fn with_interleave(mut self, interleave: Interleave) -> Self {
        self.interleave = interleave;
        self
    }

    /// Returns the KV heads that are here, counted in the whole model.
    #[must_use]
    pub fn heads(&self) -> Range<u32> {
        self.heads.clone()
    }

    /// Returns the elements of K per head.
    #[must_use]
    pub const fn key_dim(&self) -> u32 {
        self.key_dim
    }

    /// Returns the elements of V per head.
    #[must_use]
    pub const fn value_dim(&self) -> u32 {
        self.value_dim
    }

    /// Returns the format of K.
    #[must_use]
    pub const fn key_format(&self) -> ElementFormat {
        self.key_format
    }

    /// Returns the format of V.
    #[must_use]
    pub const fn value_format(&self) -> ElementFormat {
        self.value_format
    }

    /// Returns the order of tokens and heads inside a page.
    #[must_use]
    pub const fn order(&self) -> HeadOrder {
        self.order
    }

    /// Returns whether K and V share a plane.
    #[must_use]
    pub const fn interleave(&self) -> Interleave {
        self.interleave
    }

    pub(super) fn layer_planes(&self) -> Result<Vec<LayerPlane>, LayoutError> {
        let heads = SliceAxis::Heads.count(&self.heads)?;
        let k = self.key_format.row_bytes(LayoutDim::Key, self.key_dim)?;
        let v = self.value_format.row_bytes(LayoutDim::Value, self.value_dim)?;
        let k_scale = self.key_format.row_scale_bytes(LayoutDim::Key, self.key_dim)?;
        let v_scale = self.value_format.row_scale_bytes(LayoutDim::Value, self.value_dim)?;
        let plane = |kind, row_bytes: u64, sides: u128| {
            let (runs, rows_per_run) = match self.order {
                HeadOrder::Nhd => (1, heads),
                HeadOrder::Hnd => (heads, 1),
            };
            LayerPlane {
                kind,
                runs: u128::from(runs) * sides,
                run_bytes: u128::from(rows_per_run) * u128::from(row_bytes),
            }
        };
        let mut planes = match self.interleave {
            Interleave::Apart => vec![
                plane(PlaneKind::K, k, 1),
                plane(PlaneKind::V, v, 1),
                plane(PlaneKind::KScale, k_scale, 1),
                plane(PlaneKind::VScale, v_scale, 1),
            ],
            Interleave::Together if k == v && k_scale == v_scale => {
                vec![plane(PlaneKind::Kv, k, 2), plane(PlaneKind::KvScale, k_scale, 2)]
            }
            Interleave::Together => {
                return Err(LayoutError::UnevenInterleave {
                    key_bytes: k,
                    key_scale_bytes: k_scale,
                    value_bytes: v,
                    value_scale_bytes: v_scale,
                });
            }
        };
        // rows of elements are never empty here: only absent scales go
        planes.retain(|plane| plane.run_bytes != 0);
        Ok(planes)
    }

    pub(super) fn encode(&self, encoder: &mut Encoder) {
        let Self { heads, key_dim, value_dim, key_format, value_format, order, interleave } = self;
        encoder.range(heads).u32(*key_dim).u32(*value_dim);
        key_format.encode(encoder);
        value_format.encode(encoder);
        encoder.u32(order.code()).u32(interleave.code());
    }
}
