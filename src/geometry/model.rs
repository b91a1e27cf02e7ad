//! What both sides of a handoff must agree on.

use std::fmt;
use std::sync::Arc;

use super::fingerprint::{Domain, Encoder};
use super::{Fingerprint, KvLayout, LayoutError, PageGeometry, Slice};

/// Names one of the two strings of a model's namespace.
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NamespacePart {
    /// The model's name.
    Model,
    /// Its revision.
    Revision,
}

impl fmt::Display for NamespacePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NamespacePart::Model => "model",
            NamespacePart::Revision => "revision",
        })
    }
}

/// Holds what is equal on both sides of a handoff: the model, its revision, and the layout of its whole cache.
///
/// A rank holds a [`Slice`] of it. Two model layouts are equal when every field is: page tokens, layers,
/// KV heads, dimensions, number formats, scales, order, interleaving, model and revision. The fingerprint
/// covers the same fields and is for the wire and for logs.
///
/// A layout cannot see what lies outside the pages and still changes what bytes mean: scales per tensor,
/// the order of two 4-bit elements in a byte, a kernel's swizzle of scales, changed rotary settings, merged
/// adapters. Name these in the revision.
///
/// # Examples
/// ```
/// use pagestamp::geometry::{Dtype, ElementFormat, HeadCache, KvLayout, LayoutError, ModelLayout, Slice};
///
/// let cache = HeadCache::new(8, 128, ElementFormat::plain(Dtype::Bf16));
/// let model = ModelLayout::new("llama-3-70b", "r1", KvLayout::new(16, 80, cache))?;
/// // the second of four tensor-parallel ranks, second of two pipeline stages
/// let slice = Slice::new(40..80, 2..4)?;
/// assert_eq!(model.geometry(&slice)?.token_bytes(), 40 * 2 * 2 * 128 * 2);
/// # Ok::<(), LayoutError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ModelLayout {
    model: Arc<str>,
    revision: Arc<str>,
    whole: KvLayout,
}

impl ModelLayout {
    /// Most bytes of the model's name, and of its revision.
    pub const MAX_NAME_BYTES: usize = 256;

    /// Names a model and the layout of its whole cache: all layers and all KV heads, from 0.
    ///
    /// # Errors
    /// - [`LayoutError::EmptyName`], [`LayoutError::NameTooLong`]: model or revision
    /// - [`LayoutError::NotWhole`]: the layout does not begin with layer 0 and head 0
    /// - and as [`KvLayout::geometry`]
    pub fn new(model: &str, revision: &str, whole: KvLayout) -> Result<Self, LayoutError> {
        for (part, name) in [(NamespacePart::Model, model), (NamespacePart::Revision, revision)] {
            if name.is_empty() {
                return Err(LayoutError::EmptyName { part });
            }
            if name.len() > Self::MAX_NAME_BYTES {
                return Err(LayoutError::NameTooLong {
                    part,
                    name_bytes: name.len(),
                    max_name_bytes: Self::MAX_NAME_BYTES,
                });
            }
        }
        whole.validate()?;
        if whole.layers().start != 0 || whole.heads().start != 0 {
            return Err(LayoutError::NotWhole { first_layer: whole.layers().start, first_head: whole.heads().start });
        }
        Ok(Self { model: model.into(), revision: revision.into(), whole })
    }

    /// Returns the model's name.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Returns the model's revision.
    #[must_use]
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// Returns the layout of the whole model's cache.
    #[must_use]
    pub fn whole(&self) -> &KvLayout {
        &self.whole
    }

    /// Returns the tokens in one page.
    #[must_use]
    pub fn page_tokens(&self) -> u32 {
        self.whole.page_tokens()
    }

    /// Returns the layers of the whole model.
    #[must_use]
    pub fn layers(&self) -> u32 {
        self.whole.layers().end
    }

    /// Returns the KV heads of the whole model; 1 for a latent.
    #[must_use]
    pub fn kv_heads(&self) -> u32 {
        self.whole.heads().end
    }

    /// Returns the layout of the pages that hold a slice of this model.
    ///
    /// # Errors
    /// - [`LayoutError::OutsideModel`]
    pub fn kv_layout(&self, slice: &Slice) -> Result<KvLayout, LayoutError> {
        slice.check_within(self)?;
        Ok(self.whole.sliced(slice.layers(), slice.heads()))
    }

    /// Returns the shape of the pages that hold a slice of this model.
    ///
    /// # Cost
    /// O(planes); allocates.
    ///
    /// # Errors
    /// - [`LayoutError::OutsideModel`]
    pub fn geometry(&self, slice: &Slice) -> Result<PageGeometry, LayoutError> {
        self.kv_layout(slice)?.geometry()
    }

    /// Returns the fingerprint of every field: both sides of a handoff have the same.
    ///
    /// # Cost
    /// O(1); allocates.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let mut encoder = Encoder::new(Domain::ModelLayout);
        self.encode(&mut encoder);
        encoder.finish()
    }

    /// Returns the fingerprint of this model together with a slice: what the bytes of a page mean.
    ///
    /// # Cost
    /// O(1); allocates.
    ///
    /// # Errors
    /// - [`LayoutError::OutsideModel`]
    pub fn slice_fingerprint(&self, slice: &Slice) -> Result<Fingerprint, LayoutError> {
        slice.check_within(self)?;
        let mut encoder = Encoder::new(Domain::ModelSlice);
        self.encode(&mut encoder);
        slice.encode(&mut encoder);
        Ok(encoder.finish())
    }

    fn encode(&self, encoder: &mut Encoder) {
        let Self { model, revision, whole } = self;
        encoder.text(model).text(revision);
        whole.encode(encoder);
    }
}
