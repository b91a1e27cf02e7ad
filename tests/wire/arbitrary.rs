//! Messages of every shape.

use std::num::NonZeroU32;

use pagestamp::geometry::{
    Dtype, ElementFormat, HeadCache, HeadOrder, Interleave, KvLayout, LatentCache, LatentPacking, LayerCache,
    LayerPlanes, ModelLayout, ScaleDtype, Scales, Slice,
};
use pagestamp::{
    Checksum, Digest, HolderId, Message, Offer, OwnerId, Receipt, Refusal, SentPart, Side, TransferId, Writer,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

pub(crate) fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        offer().prop_map(Message::Offer),
        receipt().prop_map(Message::Receipt),
        refusal().prop_map(Message::Refusal),
    ]
}

fn offer() -> impl Strategy<Value = Offer> {
    let head = (transfer(), owner(), model(), slice(), any::<u64>(), any::<u64>());
    let writers = prop_oneof![vec(writer(), 0..4), vec(writer(), 0..200)];
    // a page is any bits whose pool is not 0
    let destination = (any::<u32>(), 1u32.., any::<u64>())
        .prop_map(|(index, pool, life)| u128::from(life) << 64 | u128::from(pool) << 32 | u128::from(index));
    let tail = (writers, vec(destination, 0..100), checksum(), 1u32..);
    (head, tail).prop_map(|(head, (writers, destinations, checksum, batch_pages))| {
        let (transfer, owner, model, slice, tokens, held_tokens) = head;
        Offer::new(transfer, owner, model, slice)
            .with_writers(writers)
            .with_tokens(tokens, destinations)
            .with_held_tokens(held_tokens)
            .with_checksum(checksum)
            .with_batch_pages(NonZeroU32::new(batch_pages).unwrap())
    })
}

fn receipt() -> impl Strategy<Value = Receipt> {
    let head = (transfer(), owner(), model(), any::<u64>());
    let extent = (any::<u32>(), any::<u64>(), any::<u32>(), any::<u64>());
    (head, extent, checksum(), vec(part(), 0..20)).prop_map(|(head, extent, checksum, parts)| {
        let (transfer, owner, model, writer) = head;
        let (pages, tokens, last_page_tokens, held_tokens) = extent;
        Receipt::new(transfer, owner, model, HolderId(writer))
            .with_extent(pages, tokens, last_page_tokens)
            .with_held_tokens(held_tokens)
            .with_parts(checksum, parts)
    })
}

fn refusal() -> impl Strategy<Value = Refusal> {
    // longer than the limit as well: what is too long is cut between two characters
    let reason = prop_oneof!["\\PC{0,40}", "[aé€🦀]{0,600}"];
    (transfer(), select(&[Side::Sender, Side::Receiver][..]), reason)
        .prop_map(|(transfer, side, reason)| Refusal::new(transfer, side, &Reason(reason)))
}

#[derive(Debug)]
struct Reason(String);

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Reason {}

fn transfer() -> impl Strategy<Value = TransferId> {
    (0u32..1 << 24, 1u32.., 1u64..).prop_map(|(nonce, pool, sequence)| {
        TransferId::from_bits(u128::from(nonce) << 96 | u128::from(pool) << 64 | u128::from(sequence)).unwrap()
    })
}

fn owner() -> impl Strategy<Value = OwnerId> {
    (1u64..).prop_map(|owner| OwnerId::new(owner).unwrap())
}

fn checksum() -> impl Strategy<Value = Checksum> {
    select(&[Checksum::BytesUnverified, Checksum::Crc32c, Checksum::Xxh3, Checksum::Blake3Keyed][..])
}

fn writer() -> impl Strategy<Value = Writer> {
    (any::<u64>(), slice()).prop_map(|(holder, slice)| Writer::new(HolderId(holder), slice))
}

/// Any slice: whether it is of the model is not a matter of form.
fn slice() -> impl Strategy<Value = Slice> {
    let range = || (any::<u32>(), any::<u32>()).prop_map(|(a, b)| a.min(b).min(u32::MAX - 1)..a.max(b).max(1));
    (range(), range()).prop_filter_map("an empty range", |(layers, heads)| Slice::new(layers, heads).ok())
}

fn part() -> impl Strategy<Value = SentPart> {
    let range = || (any::<u32>(), any::<u32>()).prop_map(|(a, b)| a.min(b)..a.max(b));
    let digests = vec(any::<[u8; 16]>().prop_map(Digest::from_bytes), 0..40);
    (any::<u32>(), slice(), range(), range(), digests).prop_map(|(group, slice, pages, planes, digests)| {
        SentPart::new(slice, pages).with_group(group).with_digests(planes, digests)
    })
}

fn model() -> impl Strategy<Value = ModelLayout> {
    let cache = prop_oneof![heads().prop_map(LayerCache::from), latent().prop_map(LayerCache::from)];
    let planes = select(&[LayerPlanes::PerLayer, LayerPlanes::Shared][..]);
    let name = || prop_oneof!["[a-zé/-]{1,20}", "\\PC{1,64}"];
    (name(), name(), 1u32..65, 1u32..100, planes, cache).prop_map(
        |(name, revision, page_tokens, layers, planes, cache)| {
            let layout = KvLayout::new(page_tokens, layers, cache).with_layer_planes(planes);
            ModelLayout::new(&name, &revision, layout).unwrap()
        },
    )
}

fn heads() -> impl Strategy<Value = HeadCache> {
    let order = select(&[HeadOrder::Nhd, HeadOrder::Hnd][..]);
    (1u32..200, row(), row(), order, any::<bool>()).prop_map(|(kv_heads, key, value, order, together)| {
        let ((key_dim, key_format), (value_dim, value_format)) = (key, if together { key } else { value });
        HeadCache::new(kv_heads, key_dim, key_format)
            .with_value_dim(value_dim)
            .with_value_format(value_format)
            .with_order(order)
            .with_interleave(if together { Interleave::Together } else { Interleave::Apart })
    })
}

fn latent() -> impl Strategy<Value = LatentCache> {
    let packing = select(&[LatentPacking::Together, LatentPacking::Apart][..]);
    let rope = (1u32..100, select(Dtype::ALL)).prop_map(|(half, dtype)| (2 * half, dtype));
    (row(), rope, packing, proptest::option::of(row())).prop_map(|(latent, rope, packing, indexer)| {
        let cache = LatentCache::new(latent.0, rope.0, latent.1).with_rope_dtype(rope.1).with_packing(packing);
        match indexer {
            None => cache,
            Some((dim, format)) => cache.with_indexer(dim, format),
        }
    })
}

/// Elements of a row, an even number of them, and a format that fits.
fn row() -> impl Strategy<Value = (u32, ElementFormat)> {
    let scales = proptest::option::of((1u32..5, select(ScaleDtype::ALL)));
    (select(Dtype::ALL), 1u32..65, scales).prop_map(|(dtype, block, scales)| match scales {
        None => (2 * block, ElementFormat::plain(dtype)),
        Some((blocks, scale)) => (2 * block * blocks, ElementFormat::scaled(dtype, Scales::every(2 * block, scale))),
    })
}
