//! One message of each kind, and the bytes that version 1 gives it: those never change.

use std::num::NonZeroU32;

use pagestamp::geometry::{
    Dtype, ElementFormat, HeadCache, HeadOrder, KvLayout, LatentCache, LatentPacking, ModelLayout, ScaleDtype, Scales,
    Slice,
};
use pagestamp::{
    Checksum, Digest, HolderId, Message, Offer, OwnerId, Receipt, Refusal, SentPart, Side, TransferId, Writer,
};

/// A message and its bytes in hex, as they stand in a file that readers in other languages use too.
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) message: Message,
    lines: &'static str,
}

impl Known {
    pub(crate) fn hex(&self) -> String {
        self.lines.split_whitespace().collect()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let hex = self.hex();
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }
}

pub(crate) fn messages() -> [Known; 3] {
    [
        Known { name: "offer", message: Message::Offer(offer()), lines: include_str!("../wire_reader/offer.hex") },
        Known {
            name: "receipt",
            message: Message::Receipt(receipt()),
            lines: include_str!("../wire_reader/receipt.hex"),
        },
        Known {
            name: "refusal",
            message: Message::Refusal(refusal()),
            lines: include_str!("../wire_reader/refusal.hex"),
        },
    ]
}

fn transfer() -> TransferId {
    TransferId::from_bits(0x00c0_ffee << 96 | 0x1234_5678 << 64 | 0x0102_0304_0506_0708).unwrap()
}

fn slice(layers: std::ops::Range<u32>, heads: std::ops::Range<u32>) -> Slice {
    Slice::new(layers, heads).unwrap()
}

fn offer() -> Offer {
    let key = ElementFormat::scaled(Dtype::Int8, Scales::every(64, ScaleDtype::F16));
    let cache = HeadCache::new(8, 128, key)
        .with_value_dim(96)
        .with_value_format(ElementFormat::plain(Dtype::Fp8E5m2))
        .with_order(HeadOrder::Hnd);
    let model = ModelLayout::new("modèle", "r1", KvLayout::new(16, 40, cache)).unwrap();
    let page = |index: u128| 0xabc_def << 104 | 5 << 64 | 0x1234_5678 << 32 | index;
    Offer::new(transfer(), OwnerId::new(42).unwrap(), model, slice(0..20, 2..6))
        .with_writers(vec![
            Writer::new(HolderId(3), slice(0..20, 2..4)),
            Writer::new(HolderId(u64::MAX), slice(0..20, 4..6)),
        ])
        .with_tokens(33, vec![page(7), page(9), page(8)])
        .with_held_tokens(16)
        .with_checksum(Checksum::Xxh3)
        .with_batch_pages(NonZeroU32::new(2).unwrap())
}

fn receipt() -> Receipt {
    let fp8 = ElementFormat::scaled(Dtype::Fp8E4m3, Scales::every(128, ScaleDtype::F32));
    let cache = LatentCache::new(512, 64, fp8)
        .with_rope_dtype(Dtype::Bf16)
        .with_packing(LatentPacking::Apart)
        .with_indexer(128, fp8);
    let model = ModelLayout::new("latent", "2026-01", KvLayout::new(64, 61, cache)).unwrap();
    let digests = [0x00, 0xf0].map(|first| Digest::from_bytes(std::array::from_fn(|n| first + n as u8))).to_vec();
    Receipt::new(transfer(), OwnerId::new(42).unwrap(), model, HolderId(3))
        .with_extent(3, 130, 2)
        .with_held_tokens(64)
        .with_parts(
            Checksum::Crc32c,
            vec![
                SentPart::new(slice(0..30, 0..1), 1..3).with_digests(0..150, digests),
                SentPart::new(slice(30..61, 0..1), 0..0).with_group(1),
            ],
        )
}

fn refusal() -> Refusal {
    Refusal::new(transfer(), Side::Receiver, &std::fmt::Error)
}
