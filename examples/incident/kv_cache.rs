//! Where keys and values live: the one seam between the model and the memory.
//!
//! The same forward pass runs over one contiguous buffer, over pages of a plain list, and over pages of a pool.
//! The arithmetic sees the same f32 rows in the same order, so all of them give bit-identical logits.

use std::error::Error;

/// Tokens per page, in every paged cache of this example.
pub(crate) const PAGE_TOKENS: usize = 16;

/// Keys or values: each layer has a plane for either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    Key,
    Value,
}

impl Half {
    /// Index of this half's plane; K and V of a layer are neighbours.
    pub(crate) fn plane(self, layer: usize) -> usize {
        2 * layer + usize::from(self == Self::Value)
    }
}

/// What one sequence has in its cache.
pub(crate) trait KvCache {
    /// Why a row could not be stored or read.
    type Error: Error;
    /// The cache while some tokens go through the layers.
    type Step<'s>: KvStep<Error = Self::Error>
    where
        Self: 's;

    /// Begins to put `tokens` tokens from position `first` on through the layers.
    fn step(&mut self, first: usize, tokens: usize) -> Result<Self::Step<'_>, Self::Error>;
}

/// Some tokens on their way through the layers. A row is one token's K, or V, of one layer: `[kv_heads, head_dim]` in f32.
pub(crate) trait KvStep {
    /// Why a row could not be stored or read.
    type Error: Error;

    /// Stores K and V of `layer` for the tokens from `first` on; `keys` and `values` are `[tokens, kv_dim]`.
    ///
    /// The forward pass calls it for each layer in turn, before it scans that layer.
    fn put(&mut self, layer: usize, first: usize, keys: &[f32], values: &[f32]) -> Result<(), Self::Error>;

    /// Calls `visit(token, rows)` for runs of consecutive tokens that together are tokens `0..end`, in order.
    ///
    /// `rows` are little-endian f32, whole rows, starting with that of `token`. A paged cache hands over one run per
    /// page, in place: `[tokens, kv_heads, head_dim]`, at most [`PAGE_TOKENS`] tokens.
    fn scan(
        &self,
        layer: usize,
        half: Half,
        end: usize,
        visit: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), Self::Error>;
}

impl<S: KvStep> KvStep for &mut S {
    type Error = S::Error;

    fn put(&mut self, layer: usize, first: usize, keys: &[f32], values: &[f32]) -> Result<(), S::Error> {
        (**self).put(layer, first, keys, values)
    }

    fn scan(&self, layer: usize, half: Half, end: usize, visit: &mut dyn FnMut(usize, &[u8])) -> Result<(), S::Error> {
        (**self).scan(layer, half, end, visit)
    }
}

/// Stores floats as the little-endian bytes that [`KvStep::scan`] hands over.
pub(crate) fn store_floats(bytes: &mut [u8], floats: &[f32]) {
    let (places, _) = bytes.as_chunks_mut::<4>();
    for (place, float) in places.iter_mut().zip(floats) {
        *place = float.to_le_bytes();
    }
}

/// Reads floats from the bytes that [`KvStep::scan`] hands over.
pub(crate) fn load_floats(floats: &mut [f32], bytes: &[u8]) {
    let (places, _) = bytes.as_chunks::<4>();
    for (float, place) in floats.iter_mut().zip(places) {
        *float = f32::from_le_bytes(*place);
    }
}
