//! What pages should hold, worked out from the words of the layouts alone: no window, digest or coverage of the library is
//! asked where a byte belongs.

use std::ops::Range;

use pagestamp::geometry::{
    Dtype, ElementFormat, HeadCache, HeadOrder, Interleave, KvLayout, LatentCache, LatentPacking, LayerPlanes,
    ModelLayout, Slice,
};
use proptest::prelude::*;

/// What a layer caches.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cache {
    /// K of 3 bytes and V of 2 bytes a head.
    Apart(HeadOrder),
    /// K and V of 3 bytes a head in one plane.
    Together(HeadOrder),
    /// A latent of 4 bytes, a rotary part of 2.
    Latent(LatentPacking),
}

/// A small model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) page_tokens: u32,
    pub(crate) layers: u32,
    pub(crate) heads: u32,
    pub(crate) cache: Cache,
    pub(crate) layer_planes: LayerPlanes,
}

/// A plane of one layer: so many sides (K, V), each of so many bytes a head.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) sides: u32,
    pub(crate) bytes: u32,
}

/// Whose prompt it is: all bytes of one are other bytes than those of another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Prompt {
    pub(crate) owner: u64,
    pub(crate) request: u64,
}

/// The name of a byte of a model's cache.
#[derive(Clone, Copy)]
pub(crate) struct Name {
    pub(crate) layer: u32,
    pub(crate) row: u32,
    pub(crate) side: u32,
    pub(crate) head: u32,
    pub(crate) token: u64,
    pub(crate) at: u32,
}

impl Prompt {
    /// The byte of that name; never zero.
    pub(crate) fn byte(self, name: Name) -> u8 {
        let Name { layer, row, side, head, token, at } = name;
        let mut hash = self.request.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ self.owner;
        for part in [layer, row, side, head, token as u32, at] {
            hash = (hash ^ u64::from(part)).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23);
        }
        ((hash ^ hash >> 31) % 255 + 1) as u8
    }
}

impl Shape {
    pub(crate) fn model(&self) -> ModelLayout {
        let int8 = ElementFormat::plain(Dtype::Int8);
        let cache = match self.cache {
            Cache::Apart(order) => HeadCache::new(self.heads, 3, int8).with_value_dim(2).with_order(order).into(),
            Cache::Together(order) => {
                let cache = HeadCache::new(self.heads, 3, int8).with_order(order);
                pagestamp::geometry::LayerCache::from(cache.with_interleave(Interleave::Together))
            }
            Cache::Latent(packing) => LatentCache::new(4, 2, int8).with_packing(packing).into(),
        };
        let layout = KvLayout::new(self.page_tokens, self.layers, cache).with_layer_planes(self.layer_planes);
        ModelLayout::new("channel", "r1", layout).unwrap()
    }

    /// The planes of one layer.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let row = |sides, bytes| Row { sides, bytes };
        match self.cache {
            Cache::Apart(_) => vec![row(1, 3), row(1, 2)],
            Cache::Together(_) => vec![row(2, 3)],
            Cache::Latent(LatentPacking::Together) => vec![row(1, 6)],
            Cache::Latent(LatentPacking::Apart) => vec![row(1, 4), row(1, 2)],
        }
    }

    const fn order(&self) -> HeadOrder {
        match self.cache {
            Cache::Apart(order) | Cache::Together(order) => order,
            Cache::Latent(_) => HeadOrder::Nhd,
        }
    }

    pub(crate) fn planes(&self, slice: &Slice) -> u32 {
        let rows = self.rows().len() as u32;
        if self.layer_planes == LayerPlanes::Shared { rows } else { rows * slice.layers().len() as u32 }
    }

    /// The layers in a plane of a slice's pages, and which plane of each layer it is.
    pub(crate) fn plane(&self, slice: &Slice, plane: u32) -> (Range<u32>, u32) {
        if self.layer_planes == LayerPlanes::Shared {
            return (slice.layers(), plane);
        }
        let rows = self.rows().len() as u32;
        let layer = slice.layers().start + plane / rows;
        (layer..layer + 1, plane % rows)
    }

    /// Tokens of a plane of a slice, token by token: layers, then sides, then heads.
    pub(crate) fn token_major(&self, slice: &Slice, plane: u32, tokens: Range<u64>, prompt: Prompt) -> Vec<u8> {
        let (layers, row) = self.plane(slice, plane);
        let Row { sides, bytes } = self.rows()[row as usize];
        let mut all = Vec::new();
        for token in tokens {
            for layer in layers.clone() {
                for side in 0..sides {
                    for head in slice.heads() {
                        all.extend((0..bytes).map(|at| prompt.byte(Name { layer, row, side, head, token, at })));
                    }
                }
            }
        }
        all
    }

    /// Where the bytes of one head of one token of a layer begin in a slice's page: plane, and offset in the page.
    pub(crate) fn place(&self, slice: &Slice, name: Name) -> (u32, usize) {
        let Name { layer, row, side, head, token, .. } = name;
        let Row { sides, bytes } = self.rows()[row as usize];
        let (skipped, head) = (layer - slice.layers().start, head - slice.heads().start);
        let heads = slice.heads().len() as u32;
        let (plane, skipped) = if self.layer_planes == LayerPlanes::Shared {
            (row, skipped)
        } else {
            (skipped * self.rows().len() as u32 + row, 0)
        };
        let side = skipped * sides + side;
        let (run, run_bytes, first) = match self.order() {
            HeadOrder::Nhd => (side, heads * bytes, head * bytes),
            HeadOrder::Hnd => (side * heads + head, bytes, 0),
        };
        let token = token as u32 % self.page_tokens;
        (plane, ((run * self.page_tokens + token) * run_bytes + first) as usize)
    }

    /// Calls `each` with every head's bytes of some tokens of a slice: its name (of the first byte) and its length.
    pub(crate) fn for_each(&self, slice: &Slice, tokens: Range<u64>, mut each: impl FnMut(Name, u32)) {
        for token in tokens {
            for layer in slice.layers() {
                for (row, Row { sides, bytes }) in (0..).zip(self.rows()) {
                    for side in 0..sides {
                        for head in slice.heads() {
                            each(Name { layer, row, side, head, token, at: 0 }, bytes);
                        }
                    }
                }
            }
        }
    }

    /// Tokens of a page of a prompt of `tokens` tokens.
    pub(crate) fn tokens_of(&self, page: u32, tokens: u64) -> Range<u64> {
        let first = u64::from(page) * u64::from(self.page_tokens);
        first.min(tokens)..(first + u64::from(self.page_tokens)).min(tokens)
    }

    pub(crate) fn pages(&self, tokens: u64) -> u32 {
        tokens.div_ceil(u64::from(self.page_tokens)) as u32
    }
}

pub(crate) fn shape() -> impl Strategy<Value = Shape> {
    let order = prop_oneof![Just(HeadOrder::Nhd), Just(HeadOrder::Hnd)];
    let cache = prop_oneof![
        3 => order.clone().prop_map(Cache::Apart),
        3 => order.prop_map(Cache::Together),
        1 => Just(Cache::Latent(LatentPacking::Together)),
        1 => Just(Cache::Latent(LatentPacking::Apart)),
    ];
    let planes = prop_oneof![Just(LayerPlanes::PerLayer), Just(LayerPlanes::Shared)];
    let page_tokens = prop_oneof![Just(1u32), Just(2), Just(4), Just(7), Just(16)];
    (page_tokens, 1u32..4, 1u32..5, cache, planes).prop_map(|(page_tokens, layers, heads, cache, layer_planes)| {
        let heads = if matches!(cache, Cache::Latent(_)) { 1 } else { heads };
        Shape { page_tokens, layers, heads, cache, layer_planes }
    })
}
