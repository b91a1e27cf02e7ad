//! The part of a model's cache that one pool holds.

use std::fmt;
use std::ops::Range;

use super::fingerprint::Encoder;
use super::{Fingerprint, LayoutError, ModelLayout, fingerprint::Domain};

/// Names a direction in which a model is cut.
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SliceAxis {
    /// Layers, as pipeline parallelism cuts.
    Layers,
    /// KV heads, as tensor parallelism cuts.
    Heads,
}

impl SliceAxis {
    /// The length of a range; an empty or backward one is refused.
    pub(super) fn count(self, range: &Range<u32>) -> Result<u32, LayoutError> {
        match range.end.checked_sub(range.start) {
            None | Some(0) => Err(LayoutError::EmptyRange { axis: self, start: range.start, end: range.end }),
            Some(count) => Ok(count),
        }
    }

    fn within(self, range: &Range<u32>, model: &Range<u32>) -> Result<(), LayoutError> {
        if range.start < model.start || range.end > model.end {
            return Err(LayoutError::OutsideModel { axis: self, start: range.start, end: range.end, count: model.end });
        }
        Ok(())
    }

    fn inside(self, range: &Range<u32>, of: &Range<u32>) -> Result<(), LayoutError> {
        if range.start < of.start || range.end > of.end {
            return Err(LayoutError::OutsideSlice {
                axis: self,
                start: range.start,
                end: range.end,
                of_start: of.start,
                of_end: of.end,
            });
        }
        Ok(())
    }
}

impl fmt::Display for SliceAxis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SliceAxis::Layers => "layers",
            SliceAxis::Heads => "heads",
        })
    }
}

/// Holds the part of a model that one pool caches: a range of layers and a range of KV heads.
///
/// Neither is empty. Both count in the whole model, so that heads 0..2 and heads 2..4 are different slices
/// although their pages have the same size.
///
/// Ranks that hold copies of the same heads (more ranks than KV heads) have equal slices. A latent (MLA) is
/// not cut by heads: each rank holds all of it, the model has one KV head, and the only head range is
/// 0..1; its layers are cut like any other's.
///
/// # Examples
/// ```
/// use pagestamp::geometry::{LayoutError, Slice};
///
/// let slice = Slice::new(0..40, 2..4)?;
/// assert_eq!(slice.heads(), 2..4);
/// assert!(matches!(Slice::new(0..40, 4..4), Err(LayoutError::EmptyRange { .. })));
/// # Ok::<(), LayoutError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Slice {
    layers: Range<u32>,
    heads: Range<u32>,
}

impl Slice {
    /// Names a range of layers and a range of KV heads, both counted in the whole model.
    ///
    /// # Errors
    /// - [`LayoutError::EmptyRange`]: a range is empty or runs backward
    pub fn new(layers: Range<u32>, heads: Range<u32>) -> Result<Self, LayoutError> {
        SliceAxis::Layers.count(&layers)?;
        SliceAxis::Heads.count(&heads)?;
        Ok(Self { layers, heads })
    }

    /// Names all layers and all KV heads of a model.
    #[must_use]
    pub fn whole(model: &ModelLayout) -> Self {
        Self { layers: 0..model.layers(), heads: 0..model.kv_heads() }
    }

    /// Returns the layers, counted in the whole model.
    #[must_use]
    pub fn layers(&self) -> Range<u32> {
        self.layers.clone()
    }

    /// Returns the KV heads, counted in the whole model.
    #[must_use]
    pub fn heads(&self) -> Range<u32> {
        self.heads.clone()
    }

    /// Checks that a model has these layers and heads.
    ///
    /// # Errors
    /// - [`LayoutError::OutsideModel`]
    pub fn check_within(&self, model: &ModelLayout) -> Result<(), LayoutError> {
        SliceAxis::Layers.within(&self.layers, &(0..model.layers()))?;
        SliceAxis::Heads.within(&self.heads, &(0..model.kv_heads()))
    }

    /// Checks that another slice has these layers and heads.
    ///
    /// # Errors
    /// - [`LayoutError::OutsideSlice`]
    pub fn check_inside(&self, of: &Slice) -> Result<(), LayoutError> {
        SliceAxis::Layers.inside(&self.layers, &of.layers)?;
        SliceAxis::Heads.inside(&self.heads, &of.heads)
    }

    /// Returns the fingerprint of the two ranges.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let mut encoder = Encoder::new(Domain::Slice);
        self.encode(&mut encoder);
        encoder.finish()
    }

    pub(super) fn encode(&self, encoder: &mut Encoder) {
        let Self { layers, heads } = self;
        encoder.range(layers).range(heads);
    }
}
