//! What a message says, as JSON: taken from its getters, in the words and numbers of the format's tables.

use std::ops::Range;

use pagestamp::geometry::Dtype;
use pagestamp::geometry::{
    ElementFormat, HeadOrder, Interleave, LatentPacking, LayerCache, LayerPlanes, ModelLayout, ScaleDtype, Slice,
};
use pagestamp::{Checksum, Message, Offer, Receipt, Refusal, Side, TransferId};
use serde_json::{Value, json};

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn json(message: &Message) -> Value {
    match message {
        Message::Offer(message) => offer(message),
        Message::Receipt(message) => receipt(message),
        Message::Refusal(message) => refusal(message),
        other => panic!("a kind without a test: {other:?}"),
    }
}

fn offer(message: &Offer) -> Value {
    let writers = message.writers().iter().map(|one| json!({ "holder": one.holder().0, "slice": slice(one.slice()) }));
    let page = |bits: &u128| {
        json!({
            "index": *bits as u32, "pool": (bits >> 32) as u32,
            "generation": (bits >> 64) as u64 & 0xff_ffff_ffff, "nonce": (bits >> 104) as u32,
        })
    };
    json!({
        "kind": 1, "transfer": transfer(message.transfer()), "owner": message.owner().get(), "tokens": message.tokens(),
        "held_tokens": message.held_tokens(), "checksum": checksum(message.checksum()),
        "batch_pages": message.batch_pages().get(), "slice": slice(message.slice()), "model": model(message.model()),
        "writers": writers.collect::<Value>(), "destinations": message.destinations().iter().map(page).collect::<Value>(),
    })
}

fn receipt(message: &Receipt) -> Value {
    let parts = message.parts().iter().map(|part| {
        let digests = part.digests().iter().map(|digest| hex(&digest.to_bytes()));
        json!({
            "group": part.group(), "slice": slice(part.slice()), "pages": range(part.pages()),
            "planes": range(part.planes()), "digests": digests.collect::<Vec<_>>(),
        })
    });
    json!({
        "kind": 2, "transfer": transfer(message.transfer()), "owner": message.owner().get(), "tokens": message.tokens(),
        "held_tokens": message.held_tokens(), "writer": message.writer().0, "pages": message.pages(),
        "last_page_tokens": message.last_page_tokens(), "checksum": checksum(message.checksum()),
        "model": model(message.model()), "parts": parts.collect::<Value>(),
    })
}

fn refusal(message: &Refusal) -> Value {
    let side = match message.side() {
        Side::Sender => 1,
        Side::Receiver => 2,
    };
    json!({ "kind": 3, "transfer": transfer(message.transfer()), "side": side, "reason": message.reason() })
}

fn transfer(id: TransferId) -> Value {
    json!({ "sequence": id.sequence(), "pool": id.pool().get(), "nonce": (id.to_bits() >> 96) as u32 })
}

fn range(range: Range<u32>) -> Value {
    json!([range.start, range.end])
}

fn slice(slice: &Slice) -> Value {
    json!({ "layers": range(slice.layers()), "heads": range(slice.heads()) })
}

fn checksum(checksum: Checksum) -> u32 {
    match checksum {
        Checksum::BytesUnverified => 0,
        Checksum::Crc32c => 1,
        Checksum::Xxh3 => 2,
        Checksum::Blake3Keyed => 3,
        other => panic!("a checksum without a number: {other}"),
    }
}

fn model(model: &ModelLayout) -> Value {
    let whole = model.whole();
    let mut value = json!({
        "name": model.model(), "revision": model.revision(), "page_tokens": model.page_tokens(), "layers": model.layers(),
        "layer_planes": if whole.layer_planes() == LayerPlanes::PerLayer { 1 } else { 2 },
    });
    let more = match whole.cache() {
        LayerCache::Heads(cache) => json!({
            "cache": 1, "kv_heads": model.kv_heads(), "key_dim": cache.key_dim(), "value_dim": cache.value_dim(),
            "key_format": format(cache.key_format()), "value_format": format(cache.value_format()),
            "order": if cache.order() == HeadOrder::Nhd { 1 } else { 2 },
            "interleave": if cache.interleave() == Interleave::Apart { 1 } else { 2 },
        }),
        LayerCache::Latent(cache) => json!({
            "cache": 2, "latent_dim": cache.latent_dim(), "rope_dim": cache.rope_dim(),
            "latent_format": format(cache.latent_format()), "rope_dtype": dtype(cache.rope_dtype()),
            "packing": if cache.packing() == LatentPacking::Together { 1 } else { 2 },
            "indexer_dim": cache.indexer().map_or(0, |(dim, _)| dim),
            "indexer_format": cache.indexer().map_or_else(|| json!([0, 0, 0]), |(_, one)| format(one)),
        }),
        other => panic!("a cache without a test: {other:?}"),
    };
    value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    value
}

fn format(format: ElementFormat) -> Value {
    let (block, scale) =
        format.scales().map_or((0, 0), |scales| (scales.block_elements(), scale_dtype(scales.dtype())));
    json!([dtype(format.dtype()), block, scale])
}

fn dtype(dtype: Dtype) -> u32 {
    match dtype {
        Dtype::F32 => 1,
        Dtype::F16 => 2,
        Dtype::Bf16 => 3,
        Dtype::Fp8E4m3 => 4,
        Dtype::Fp8E5m2 => 5,
        Dtype::Fp8E4m3Fnuz => 6,
        Dtype::Fp8E5m2Fnuz => 7,
        Dtype::Int8 => 8,
        Dtype::Fp4E2m1 => 9,
        Dtype::Int4 => 10,
        other => panic!("a number format without a number: {other}"),
    }
}

fn scale_dtype(dtype: ScaleDtype) -> u32 {
    match dtype {
        ScaleDtype::F32 => 1,
        ScaleDtype::F16 => 2,
        ScaleDtype::Bf16 => 3,
        ScaleDtype::E8m0 => 4,
        ScaleDtype::E4m3 => 5,
        other => panic!("a number format without a number: {other}"),
    }
}
