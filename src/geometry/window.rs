//! Where a slice of a model lies in the pages of a larger slice.

use super::{HeadOrder, LayerCache, LayerPlanes, LayoutError, ModelLayout, PageGeometry, Plane, Slice};

/// Says where one plane of a slice's pages lies in the pages of a larger slice: which plane, and which bytes of
/// each token's runs.
///
/// The smaller slice is the *part*, the larger one the *whole*. Both sides of a handoff use it: a writer's tile is
/// a part of the receiver's slice and of the sender's, and the tokens of a page are the same in all three. So run
/// *r* of token *t* of the part is a range of bytes in one run of token *t* of the whole, and
/// [`PlaneWindow::place`] says which.
///
/// # Examples
/// ```
/// use pagestamp::geometry::{Dtype, ElementFormat, HeadCache, KvLayout, LayoutError, ModelLayout, Slice};
///
/// // K and V of 8 heads of 128 bf16 elements, token-major; this part has heads 2..4 of layer 41
/// let cache = HeadCache::new(8, 128, ElementFormat::plain(Dtype::Bf16));
/// let model = ModelLayout::new("llama-3-70b", "r1", KvLayout::new(16, 80, cache))?;
/// let windows = model.windows(&Slice::new(40..80, 0..8)?, &Slice::new(41..42, 2..4)?)?;
/// assert_eq!(windows.iter().map(|window| window.plane()).collect::<Vec<_>>(), [2, 3]);
/// // its only run lies from byte 512 on in the only run of the whole
/// assert_eq!((windows[0].run_bytes(), windows[0].place(0)), (512, Some((0, 512))));
/// # Ok::<(), LayoutError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PlaneWindow {
    plane: usize,
    part: Plane,
    whole: Plane,
    /// Neighbouring runs that stay neighbours in the whole: the heads, or one. A layer's K is a group, and its V.
    group_runs: u32,
    /// From one group's first run to the next one's in the whole.
    group_stride_runs: u32,
    first_run: u32,
    first_byte: u32,
}

impl PlaneWindow {
    /// A window that shows all of each plane of a shape.
    pub(crate) fn all(geometry: &PageGeometry) -> Vec<Self> {
        let whole = |(plane, shape): (usize, &Plane)| Self {
            plane,
            part: *shape,
            whole: *shape,
            group_runs: shape.runs(),
            group_stride_runs: shape.runs(),
            first_run: 0,
            first_byte: 0,
        };
        geometry.planes().iter().enumerate().map(whole).collect()
    }

    /// Whether the window lies in pages of this shape.
    pub(crate) fn is_of(&self, geometry: &PageGeometry) -> bool {
        geometry.planes().get(self.plane) == Some(&self.whole)
    }

    /// Returns the plane of the whole in which this plane of the part lies.
    #[must_use]
    #[inline]
    pub const fn plane(&self) -> usize {
        self.plane
    }

    /// Returns the runs of one token in the part's plane.
    #[must_use]
    #[inline]
    pub const fn runs(&self) -> u32 {
        self.part.runs()
    }

    /// Returns the bytes of one run of one token in the part's plane.
    #[must_use]
    #[inline]
    pub const fn run_bytes(&self) -> u32 {
        self.part.run_bytes()
    }

    /// Returns the bytes of one token in the part's plane, all runs together.
    #[must_use]
    #[inline]
    pub const fn token_bytes(&self) -> u64 {
        self.part.token_bytes()
    }

    /// Returns where a run of the part lies: the run of the whole's plane, and the first byte within that run.
    ///
    /// `None` when the part has no such run. The [`PlaneWindow::run_bytes`] from that byte on are inside the run.
    #[must_use]
    #[inline]
    pub const fn place(&self, run: u32) -> Option<(u32, u32)> {
        if run >= self.part.runs() {
            return None;
        }
        // a run of the whole, which has a u32 of them
        let group_start = self.first_run + run / self.group_runs * self.group_stride_runs;
        Some((group_start + run % self.group_runs, self.first_byte))
    }

    /// Returns whether the part's plane is all of the whole's plane: then their pages are equal byte for byte.
    #[must_use]
    #[inline]
    pub const fn is_whole(&self) -> bool {
        self.part.runs() == self.whole.runs() && self.part.run_bytes() == self.whole.run_bytes()
    }
}

impl ModelLayout {
    /// Returns where each plane of the slice `part` lies in the pages of the slice `of`: one window for each plane of
    /// `part`'s geometry, in that order.
    ///
    /// # Cost
    /// O(planes); allocates.
    ///
    /// # Errors
    /// - [`LayoutError::OutsideModel`]: the model lacks layers or heads of `of`
    /// - [`LayoutError::OutsideSlice`]: `of` lacks layers or heads of `part`
    ///
    /// # Examples
    /// See [`PlaneWindow`].
    pub fn windows(&self, of: &Slice, part: &Slice) -> Result<Vec<PlaneWindow>, LayoutError> {
        let whole = self.kv_layout(of)?;
        part.check_inside(of)?;
        let whole_shape = whole.geometry()?;
        let part_shape = self.geometry(part)?;
        // all are runs, bytes and planes of the whole, which has a u32 of each: nothing below wraps
        let skipped_layers = part.layers().start - of.layers().start;
        let skipped_heads = part.heads().start - of.heads().start;
        let [whole_heads, part_heads] = [of, part].map(|slice| slice.heads().end - slice.heads().start);
        let [whole_layers, part_layers] = [of, part].map(|slice| slice.layers().end - slice.layers().start);
        let order = match whole.cache() {
            LayerCache::Heads(cache) => cache.order(),
            // all of a token is one row, which no slice cuts
            LayerCache::Latent(_) => HeadOrder::Nhd,
        };
        let (skipped_planes, skipped_layers_in_plane) = match whole.layer_planes() {
            LayerPlanes::PerLayer => (part_shape.planes().len() / part_layers as usize * skipped_layers as usize, 0),
            LayerPlanes::Shared => (0, skipped_layers),
        };
        let layers_in_plane = match whole.layer_planes() {
            LayerPlanes::PerLayer => 1,
            LayerPlanes::Shared => whole_layers,
        };
        let window = |(&part, (plane, &whole)): (&Plane, (usize, &Plane))| {
            let layer_start = whole.runs() / layers_in_plane * skipped_layers_in_plane;
            let (group_runs, group_stride_runs, first_run, first_byte) = match order {
                HeadOrder::Nhd => (1, 1, layer_start, part.run_bytes() / part_heads * skipped_heads),
                HeadOrder::Hnd => (part_heads, whole_heads, layer_start + skipped_heads, 0),
            };
            PlaneWindow { plane, part, whole, group_runs, group_stride_runs, first_run, first_byte }
        };
        let wholes = whole_shape.planes().iter().enumerate().skip(skipped_planes);
        Ok(part_shape.planes().iter().zip(wholes).map(window).collect())
    }
}
