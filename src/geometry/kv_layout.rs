//! What the pages of a KV cache hold, and the planes that follow from it.

use std::ops::Range;

use super::fingerprint::{Domain, Encoder};
use super::plane_role::LayerPlane;
use super::{
    Fingerprint, GeometryError, HeadCache, LatentCache, LayoutError, PageGeometry, Plane, PlaneRole, SliceAxis,
};

/// Says what a layer caches.
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum LayerCache {
    /// K and V per head: multi-head, grouped-query, multi-query attention.
    Heads(HeadCache),
    /// One latent for all heads: multi-head latent attention.
    Latent(LatentCache),
}

impl LayerCache {
    /// The code of [`LayerCache::Heads`].
    pub(crate) const HEADS: u32 = 1;
    /// The code of [`LayerCache::Latent`].
    pub(crate) const LATENT: u32 = 2;

    /// The number that stands for the kind in a fingerprint and on the wire; never reused.
    pub(crate) const fn code(&self) -> u32 {
        match self {
            LayerCache::Heads(_) => Self::HEADS,
            LayerCache::Latent(_) => Self::LATENT,
        }
    }
}

impl From<HeadCache> for LayerCache {
    fn from(cache: HeadCache) -> Self {
        LayerCache::Heads(cache)
    }
}

impl From<LatentCache> for LayerCache {
    fn from(cache: LatentCache) -> Self {
        LayerCache::Latent(cache)
    }
}

/// Says whether layers have planes of their own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum LayerPlanes {
    /// Each layer has its own planes.
    #[default]
    PerLayer,
    /// All layers share planes: in each page all of the first layer, then all of the second, and so on.
    Shared,
}

impl LayerPlanes {
    /// The number that stands for it in a fingerprint and on the wire; never reused.
    pub(crate) const fn code(self) -> u32 {
        match self {
            LayerPlanes::PerLayer => 1,
            LayerPlanes::Shared => 2,
        }
    }
}

/// Describes what the pages of one pool hold: the layers and heads that are here, and how they are stored.
///
/// The planes come layer by layer: K, V, their scales; or the latent, its scales, the rotary part, the
/// indexer's keys, their scales. [`KvLayout::roles`] names them in the same order as
/// [`PageGeometry::planes`].
///
/// Two layouts are equal when every field is. What has the same sizes may still differ in meaning; then
/// neither the layouts nor their fingerprints are equal. Across machines use
/// [`ModelLayout`](super::ModelLayout), which also names the model.
///
/// # Examples
/// ```
/// use pagestamp::geometry::{Dtype, ElementFormat, HeadCache, KvLayout, LayoutError};
///
/// // SmolLM2-135M in f16: 30 layers, 3 KV heads of 64 elements, pages of 16 tokens
/// let layout = KvLayout::new(16, 30, HeadCache::new(3, 64, ElementFormat::plain(Dtype::F16)));
/// let geometry = layout.geometry()?;
/// assert_eq!(geometry.planes().len(), 60);
/// assert_eq!(geometry.total_page_bytes(), 368_640);
/// # Ok::<(), LayoutError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct KvLayout {
    page_tokens: u32,
    layers: Range<u32>,
    cache: LayerCache,
    layer_planes: LayerPlanes,
}

impl KvLayout {
    /// Describes pages of `page_tokens` tokens that hold the first `layers` layers, each with the same cache.
    ///
    /// Nothing is checked until [`KvLayout::validate`] or [`KvLayout::geometry`].
    #[must_use]
    pub fn new(page_tokens: u32, layers: u32, cache: impl Into<LayerCache>) -> Self {
        Self { page_tokens, layers: 0..layers, cache: cache.into(), layer_planes: LayerPlanes::PerLayer }
    }

    /// Sets which layers of the model are here; counted in the whole model.
    #[must_use]
    pub fn with_layers(mut self, layers: Range<u32>) -> Self {
        self.layers = layers;
        self
    }

    /// Sets whether layers share planes; they do not at first.
    #[must_use]
    pub fn with_layer_planes(mut self, layer_planes: LayerPlanes) -> Self {
        self.layer_planes = layer_planes;
        self
    }

    /// Returns the tokens in one page.
    #[must_use]
    pub fn page_tokens(&self) -> u32 {
        self.page_tokens
    }

    /// Returns the layers that are here, counted in the whole model.
    #[must_use]
    pub fn layers(&self) -> Range<u32> {
        self.layers.clone()
    }

    /// Returns the KV heads that are here, counted in the whole model; a latent counts as one head.
    #[must_use]
    pub fn heads(&self) -> Range<u32> {
        match &self.cache {
            LayerCache::Heads(cache) => cache.heads(),
            LayerCache::Latent(_) => 0..1,
        }
    }

    /// Returns what each layer caches.
    #[must_use]
    pub fn cache(&self) -> &LayerCache {
        &self.cache
    }

    /// Returns whether layers share planes.
    #[must_use]
    pub fn layer_planes(&self) -> LayerPlanes {
        self.layer_planes
    }

    /// Checks that pages of this layout can exist.
    ///
    /// # Cost
    /// O(planes); allocates.
    ///
    /// # Errors
    /// As [`KvLayout::geometry`].
    pub fn validate(&self) -> Result<(), LayoutError> {
        self.geometry().map(drop)
    }

    /// Returns the shape of a page: one plane for each of [`KvLayout::roles`], in that order.
    ///
    /// # Cost
    /// O(planes); allocates.
    ///
    /// # Errors
    /// - [`LayoutError::EmptyRange`]: no layer or no head
    /// - [`LayoutError::ZeroDim`], [`LayoutError::PartialByte`]
    /// - [`LayoutError::ZeroScaleBlock`], [`LayoutError::UnevenScaleBlock`]
    /// - [`LayoutError::UnevenInterleave`]: K and V share a plane, but differ in bytes
    /// - [`LayoutError::TooManyRuns`], [`LayoutError::RunTooLarge`]
    /// - [`LayoutError::Geometry`]: page tokens, planes or bytes of a page out of range
    pub fn geometry(&self) -> Result<PageGeometry, LayoutError> {
        let one_layer = self.one_layer()?;
        let layers = SliceAxis::Layers.count(&self.layers)?;
        let planes = match self.layer_planes {
            LayerPlanes::Shared => {
                one_layer.iter().map(|plane| checked_plane(plane, layers)).collect::<Result<Vec<_>, _>>()?
            }
            LayerPlanes::PerLayer => one_layer
                .iter()
                .map(|plane| checked_plane(plane, 1))
                .collect::<Result<Vec<_>, _>>()?
                .repeat(self.repeats(one_layer.len(), layers)?),
        };
        Ok(PageGeometry::new(self.page_tokens, &planes)?)
    }

    /// Returns what each plane holds, in the order of the planes.
    ///
    /// # Cost
    /// O(planes); allocates.
    ///
    /// # Errors
    /// As [`KvLayout::geometry`].
    pub fn roles(&self) -> Result<Vec<PlaneRole>, LayoutError> {
        self.validate()?;
        let one_layer = self.one_layer()?;
        let of_layers =
            |layers: Range<u32>| one_layer.iter().map(move |plane| PlaneRole::new(layers.clone(), plane.kind));
        Ok(match self.layer_planes {
            LayerPlanes::Shared => of_layers(self.layers()).collect(),
            LayerPlanes::PerLayer => {
                self.layers().flat_map(|layer| of_layers(layer..layer.saturating_add(1))).collect()
            }
        })
    }

    /// Returns the fingerprint of every field. It names no model: see [`ModelLayout`](super::ModelLayout).
    ///
    /// # Cost
    /// O(1); allocates.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let mut encoder = Encoder::new(Domain::KvLayout);
        self.encode(&mut encoder);
        encoder.finish()
    }

    pub(super) fn encode(&self, encoder: &mut Encoder) {
        let Self { page_tokens, layers, cache, layer_planes } = self;
        encoder.u32(*page_tokens).range(layers);
        encoder.u32(layer_planes.code()).u32(cache.code());
        match cache {
            LayerCache::Heads(cache) => cache.encode(encoder),
            LayerCache::Latent(cache) => cache.encode(encoder),
        }
    }

    /// The same storage for other layers and heads; the ranges were checked against the model.
    pub(super) fn sliced(&self, layers: Range<u32>, heads: Range<u32>) -> Self {
        let cache = match &self.cache {
            LayerCache::Heads(cache) => LayerCache::Heads(cache.clone().with_heads(heads)),
            LayerCache::Latent(cache) => LayerCache::Latent(cache.clone()),
        };
        Self { page_tokens: self.page_tokens, layers, cache, layer_planes: self.layer_planes }
    }

    fn one_layer(&self) -> Result<Vec<LayerPlane>, LayoutError> {
        match &self.cache {
            LayerCache::Heads(cache) => cache.layer_planes(),
            LayerCache::Latent(cache) => cache.layer_planes(),
        }
    }

    /// How often one layer's planes are repeated; refuses before anything of that size is allocated.
    fn repeats(&self, planes_per_layer: usize, layers: u32) -> Result<usize, LayoutError> {
        let layers = usize::try_from(layers).unwrap_or(usize::MAX);
        let planes = layers.saturating_mul(planes_per_layer);
        if planes > PageGeometry::MAX_PLANES {
            return Err(LayoutError::Geometry(GeometryError::TooManyPlanes {
                planes,
                max_planes: PageGeometry::MAX_PLANES,
            }));
        }
        Ok(layers)
    }
}

fn checked_plane(plane: &LayerPlane, layers: u32) -> Result<Plane, LayoutError> {
    // at most 2 * 2^32 heads in 2^32 layers
    let runs = plane.runs * u128::from(layers);
    let max = u32::MAX;
    Ok(Plane::per_token(
        u32::try_from(runs).map_err(|_| LayoutError::TooManyRuns { runs, max_runs: max })?,
        u32::try_from(plane.run_bytes)
            .map_err(|_| LayoutError::RunTooLarge { run_bytes: plane.run_bytes, max_run_bytes: max })?,
    ))
}
