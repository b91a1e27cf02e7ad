//! Several ranks: whole models in pools of slices, whose bytes have names of their own.

use std::ops::Range;

use pagestamp::geometry::*;
use pagestamp::*;

use crate::world::*;

/// The byte of a prompt at a layer, head, plane of that layer, token and place. It is never zero.
fn named_byte(seed: u64, layer: u32, head: u32, plane: usize, token: u64, at: usize) -> u8 {
    let mixed = [u64::from(layer), u64::from(head), plane as u64, token, at as u64]
        .into_iter()
        .fold(seed, |mixed, part| (mixed ^ part.wrapping_add(1)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23));
    (mixed % 251) as u8 + 1
}

/// Some tokens of each plane of a pool that holds a slice: `[tokens, runs, run_bytes]`.
pub(crate) fn planes_of(model: &ModelLayout, slice: &Slice, seed: u64, tokens: Range<u64>) -> Vec<Vec<u8>> {
    let geometry = model.geometry(slice).expect("of the model");
    let count = (tokens.end - tokens.start) as usize;
    let mut planes: Vec<Vec<u8>> =
        geometry.planes().iter().map(|plane| vec![0; count * plane.token_bytes() as usize]).collect();
    for (layer, head) in slice.layers().flat_map(|layer| slice.heads().map(move |head| (layer, head))) {
        let one = Slice::new(layer..layer + 1, head..head + 1).expect("one of each");
        for (kind, window) in model.windows(slice, &one).expect("within").iter().enumerate() {
            let shape = geometry.planes()[window.plane()];
            for (row, token) in tokens.clone().enumerate() {
                for run in 0..window.runs() {
                    let (to, first) = window.place(run).expect("a run");
                    let begin = row * shape.token_bytes() as usize + (to * shape.run_bytes() + first) as usize;
                    for at in 0..window.run_bytes() as usize {
                        let name = run as usize * window.run_bytes() as usize + at;
                        planes[window.plane()][begin + at] = named_byte(seed, layer, head, kind, token, name);
                    }
                }
            }
        }
    }
    planes
}

pub(crate) fn append(kv: &mut Reservation<HostMemory>, model: &ModelLayout, slice: &Slice, seed: u64, to_tokens: u64) {
    let range = kv.written_tokens()..to_tokens;
    let planes = planes_of(model, slice, seed, range.clone());
    let planes: Vec<&[u8]> = planes.iter().map(Vec::as_slice).collect();
    kv.write(range.end - range.start, &planes).expect("within the reservation");
    kv.commit(to_tokens).expect("written");
}

/// What is readable is what the name says, byte for byte.
pub(crate) fn assert_named(kv: &Reservation<HostMemory>, model: &ModelLayout, slice: &Slice, seed: u64, tokens: u64) {
    assert_eq!((kv.written_tokens(), kv.committed_tokens()), (tokens, tokens));
    let guard = kv.read(0..tokens).expect("accepted tokens are readable");
    for (plane, expected) in planes_of(model, slice, seed, 0..tokens).into_iter().enumerate() {
        let mut found = vec![0; expected.len()];
        guard.copy(plane, &mut found).expect("the right size");
        assert!(found == expected, "plane {plane} differs");
    }
}

pub(crate) fn pool_of(model: &ModelLayout, slice: &Slice) -> PagePool<HostMemory> {
    host(model.geometry(slice).expect("of the model"))
}

/// A sending rank with a prompt in a pool of its slice.
pub(crate) fn sender(model: &ModelLayout, slice: &Slice, rank: u64, seed: u64, tokens: u64) -> Outbound<HostMemory> {
    let pool = pool_of(model, slice);
    let mut kv = reserve(&pool, owner(1), tokens.max(1), tokens);
    append(&mut kv, model, slice, seed, tokens);
    Outbound::seal(kv, model, slice).expect("it is sealed").with_writer(HolderId(rank))
}

pub(crate) fn writers(slices: &[Slice]) -> Vec<Writer> {
    (0..).zip(slices).map(|(rank, slice)| Writer::new(HolderId(rank), slice.clone())).collect()
}

pub(crate) fn slice(layers: Range<u32>, heads: Range<u32>) -> Slice {
    Slice::new(layers, heads).expect("not empty")
}

/// Models of 4 layers and 4 heads in every order of bytes, and a latent one.
pub(crate) fn models() -> Vec<ModelLayout> {
    let f16 = ElementFormat::plain(Dtype::F16);
    let scaled = ElementFormat::scaled(Dtype::Fp8E4m3, Scales::every(4, ScaleDtype::F32));
    let mut models = Vec::new();
    for format in [f16, scaled] {
        for order in [HeadOrder::Nhd, HeadOrder::Hnd] {
            for interleave in [Interleave::Apart, Interleave::Together] {
                let cache = HeadCache::new(4, 4, format).with_order(order).with_interleave(interleave);
                for planes in [LayerPlanes::PerLayer, LayerPlanes::Shared] {
                    let layout = KvLayout::new(4, 4, cache.clone()).with_layer_planes(planes);
                    models.push(ModelLayout::new("ranks", "r1", layout).expect("a good layout"));
                }
            }
        }
    }
    let latent = LatentCache::new(8, 2, f16).with_indexer(4, scaled);
    models.push(ModelLayout::new("latent", "r1", KvLayout::new(4, 4, latent)).expect("a good layout"));
    models
}
