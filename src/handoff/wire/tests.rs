//! White box: one message of each kind, byte by byte.

use std::num::NonZeroU32;

use super::*;
use crate::geometry::{
    Dtype, ElementFormat, HeadCache, HeadOrder, Interleave, KvLayout, LatentCache, LatentPacking, LayerPlanes,
    LayoutError, ModelLayout, ScaleDtype, Scales, Slice,
};
use crate::handoff::{Checksum, Digest, Offer, Receipt, Refusal, SentPart, Side, Writer};
use crate::id::{OwnerId, TransferId};
use crate::ticket::HolderId;

fn transfer() -> TransferId {
    TransferId::from_bits(0x00ab_cdef << 96 | 7 << 64 | 9).expect("a transfer")
}

fn owner() -> OwnerId {
    OwnerId::new(42).expect("not zero")
}

fn slice(layers: std::ops::Range<u32>, heads: std::ops::Range<u32>) -> Slice {
    Slice::new(layers, heads).expect("not empty")
}

fn heads() -> ModelLayout {
    let scaled = ElementFormat::scaled(Dtype::Int8, Scales::every(32, ScaleDtype::F16));
    let cache = HeadCache::new(4, 64, scaled).with_order(HeadOrder::Hnd).with_interleave(Interleave::Together);
    let layout = KvLayout::new(16, 6, cache).with_layer_planes(LayerPlanes::Shared);
    ModelLayout::new("model", "r1", layout).expect("valid")
}

fn latent() -> ModelLayout {
    let fp8 = ElementFormat::scaled(Dtype::Fp8E4m3, Scales::every(128, ScaleDtype::F32));
    let cache = LatentCache::new(512, 64, fp8)
        .with_rope_dtype(Dtype::Bf16)
        .with_packing(LatentPacking::Apart)
        .with_indexer(128, fp8);
    ModelLayout::new("latent", "r2", KvLayout::new(64, 3, cache)).expect("valid")
}

fn offer() -> Offer {
    Offer::new(transfer(), owner(), heads(), slice(0..6, 0..4))
        .with_writers(vec![Writer::new(HolderId(11), slice(0..6, 0..2)), Writer::new(HolderId(12), slice(0..6, 2..4))])
        .with_tokens(33, vec![7 << 32 | 1, 7 << 32 | 2, u128::MAX])
        .with_held_tokens(16)
        .with_checksum(Checksum::Xxh3)
        .with_batch_pages(NonZeroU32::MIN)
}

fn receipt() -> Receipt {
    let digests = vec![Digest::from_bytes([1; 16]), Digest::ZERO];
    Receipt::new(transfer(), owner(), latent(), HolderId(12)).with_extent(3, 130, 2).with_held_tokens(64).with_parts(
        Checksum::Crc32c,
        vec![
            SentPart::new(slice(0..1, 0..1), 1..3).with_digests(0..5, digests).with_group(3),
            SentPart::new(slice(1..3, 0..1), 0..0),
        ],
    )
}

fn refusal() -> Refusal {
    Refusal::new(transfer(), Side::Receiver, &std::fmt::Error)
}

fn messages() -> [Message; 3] {
    [Message::Offer(offer()), Message::Receipt(receipt()), Message::Refusal(refusal())]
}

fn bytes(message: &Message) -> Vec<u8> {
    message.to_bytes().expect("small")
}

/// Writes a number into a message.
fn with(mut message: Vec<u8>, offset: usize, number: &[u8]) -> Vec<u8> {
    message[offset..offset + number.len()].copy_from_slice(number);
    message
}

/// Where the model ends in an offer of [`heads`] and in a receipt of [`latent`].
const OFFER_WRITERS: usize = 80 + 4 + 5 + 4 + 2 + 16 + 44;
const RECEIPT_PARTS: usize = 76 + 4 + 6 + 4 + 2 + 16 + 44;

// C10
#[test]
fn every_message_comes_back_as_it_was_and_so_do_its_bytes() {
    for message in messages() {
        let bytes = bytes(&message);
        assert_eq!(Message::from_bytes(&bytes).as_ref(), Ok(&message));
        let header = bytes.first_chunk().expect("a header");
        assert_eq!(Message::body_bytes(header), Ok(bytes.len() - HEADER_BYTES));
    }
    assert_eq!(Offer::from_bytes(&bytes(&Message::Offer(offer()))), Ok(offer()));
    assert_eq!(Receipt::from_bytes(&bytes(&Message::Receipt(receipt()))), Ok(receipt()));
    assert_eq!(Refusal::from_bytes(&bytes(&Message::Refusal(refusal()))), Ok(refusal()));
}

// C10
#[test]
fn layouts_that_come_back_have_the_fingerprints_that_they_had() {
    let back = Offer::from_bytes(&bytes(&Message::Offer(offer()))).expect("well-formed");
    assert_eq!(back.model().fingerprint(), heads().fingerprint());
    let back = Receipt::from_bytes(&bytes(&Message::Receipt(receipt()))).expect("well-formed");
    assert_eq!(back.model().fingerprint(), latent().fingerprint());
}

// C10
#[test]
fn a_message_of_another_kind_is_refused_by_name() {
    let [offer, receipt, _] = messages();
    let wrong = WireError::WrongKind { expected: MessageKind::Receipt, found: MessageKind::Offer };
    assert_eq!(Receipt::from_bytes(&bytes(&offer)), Err(wrong));
    let wrong = WireError::WrongKind { expected: MessageKind::Refusal, found: MessageKind::Receipt };
    assert_eq!(Refusal::from_bytes(&bytes(&receipt)), Err(wrong));
}

// C10
#[test]
fn a_header_that_is_not_of_this_version_is_refused_field_by_field() {
    let good = bytes(&Message::Refusal(refusal()));
    let refused = |offset: usize, number: &[u8]| {
        let bad = with(good.clone(), offset, number);
        let error = Message::from_bytes(&bad).expect_err("not this version");
        assert_eq!(Message::body_bytes(bad.first_chunk().expect("a header")), Err(error.clone()));
        error
    };
    assert_eq!(refused(0, b"q"), WireError::NotAMessage);
    assert_eq!(refused(4, &[2]), WireError::UnknownVersion { version: 2, known: 1 });
    let kind = |code| WireError::UnknownCode { field: "kind", offset: 6, code, least: 1, most: 3 };
    assert_eq!([refused(6, &[0]), refused(6, &[4])], [kind(0), kind(4)]);
    assert_eq!(refused(7, &[1]), WireError::NotZero { field: "reserved", offset: 7, found: 1 });
    assert_eq!(refused(15, &[1]), WireError::NotZero { field: "reserved", offset: 12, found: 1 << 24 });
    let message_bytes = MAX_MESSAGE_BYTES as u64 + 1;
    assert_eq!(
        refused(8, &(MAX_MESSAGE_BYTES as u32 - 15).to_le_bytes()),
        WireError::TooLarge { message_bytes, max_message_bytes: MAX_MESSAGE_BYTES }
    );
}

// C10
#[test]
fn bytes_that_are_not_one_whole_message_are_refused() {
    let good = bytes(&Message::Refusal(refusal()));
    let body_bytes = good.len() - HEADER_BYTES;
    let wrong = |found_bytes| Err(WireError::WrongLength { body_bytes, found_bytes });
    assert_eq!(Message::from_bytes(&good[..good.len() - 1]), wrong(body_bytes - 1));
    assert_eq!(Message::from_bytes(&[&good[..], &[0]].concat()), wrong(body_bytes + 1));
    let truncated = WireError::Truncated { field: "version", offset: 4, needed_bytes: 2, left_bytes: 1 };
    assert_eq!(Message::from_bytes(&good[..5]), Err(truncated));
    let longer = with([&good[..], &[0]].concat(), 8, &(body_bytes as u32 + 1).to_le_bytes());
    assert_eq!(Message::from_bytes(&longer), Err(WireError::Trailing { offset: good.len(), trailing_bytes: 1 }));
}

// C10
#[test]
fn a_field_that_no_sender_writes_is_refused_by_name_and_place() {
    let offer = bytes(&Message::Offer(offer()));
    let refused = |offset: usize, number: &[u8]| {
        Offer::from_bytes(&with(offer.clone(), offset, number)).expect_err("no sender writes it")
    };
    let transfer = WireError::NoId { field: "transfer", offset: 16 };
    assert_eq!(refused(16, &[0; 8]), transfer, "sequence 0");
    assert_eq!(refused(24, &[0; 4]), transfer, "pool 0");
    assert_eq!(refused(31, &[1]), transfer, "a reserved bit");
    assert_eq!(refused(32, &[0; 8]), WireError::Zero { field: "owner", offset: 32 });
    assert_eq!(refused(56, &[4]), WireError::UnknownCode { field: "checksum", offset: 56, code: 4, least: 0, most: 3 });
    assert_eq!(refused(60, &[0; 4]), WireError::Zero { field: "batch_pages", offset: 60 });
    let backward = LayoutError::EmptyRange { axis: crate::geometry::SliceAxis::Layers, start: 7, end: 6 };
    assert_eq!(refused(64, &[7]), WireError::Layout { field: "slice", offset: 64, error: backward });
    let page = OFFER_WRITERS + 4 + 2 * 24 + 4 + 16;
    assert_eq!(refused(page + 4, &[0; 4]), WireError::NoId { field: "destinations", offset: page });
}

// C10
#[test]
fn a_part_that_no_sender_writes_is_refused_by_name_and_place() {
    let receipt = bytes(&Message::Receipt(receipt()));
    let part = RECEIPT_PARTS + 4;
    let refused = |offset: usize, number: &[u8]| {
        Receipt::from_bytes(&with(receipt.clone(), offset, number)).expect_err("no sender writes it")
    };
    let backward = |field, offset, start, end| WireError::Backward { field, offset, start, end };
    assert_eq!(refused(part + 20, &[4]), backward("parts.pages", part + 20, 4, 3));
    assert_eq!(refused(part + 28, &[6]), backward("parts.planes", part + 28, 6, 5));
}

// C10
#[test]
fn a_model_that_cannot_exist_is_refused_by_its_own_constructor() {
    let offer = bytes(&Message::Offer(offer()));
    let model = |error| WireError::Layout { field: "model", offset: 80, error };
    let cache = OFFER_WRITERS - 44;
    let refused = |offset: usize, number: &[u8]| {
        Offer::from_bytes(&with(offer.clone(), offset, number)).expect_err("no such model")
    };
    let dim = crate::geometry::LayoutDim::Key;
    assert_eq!(refused(cache + 4, &[0; 4]), model(LayoutError::ZeroDim { dim }));
    let uneven = LayoutError::UnevenScaleBlock { dim, elements: 64, block_elements: 33 };
    assert_eq!(refused(cache + 16, &[33]), model(uneven));
    let code = |field, offset| WireError::UnknownCode { field, offset, code: 3, least: 1, most: 2 };
    assert_eq!(refused(cache - 8, &[3]), code("model.layer_planes", cache - 8));
    assert_eq!(refused(cache - 4, &[3]), code("model.cache", cache - 4));
    assert_eq!(refused(cache + 36, &[3]), code("model.order", cache + 36));
    assert_eq!(refused(cache + 40, &[3]), code("model.interleave", cache + 40));
    let dtype = WireError::UnknownCode { field: "model.key_format", offset: cache + 12, code: 11, least: 1, most: 10 };
    assert_eq!(refused(cache + 12, &[11]), dtype);
    let absent = WireError::NotZero { field: "model.key_format", offset: cache + 20, found: 2 };
    assert_eq!(refused(cache + 16, &[0]), absent, "no block, and a scale");
    assert_eq!(refused(85, &[0xff]), WireError::NotUtf8 { field: "model.name", offset: 85 });
    let long = WireError::TextTooLong { field: "model.name", offset: 80, text_bytes: 257, max_text_bytes: 256 };
    assert_eq!(refused(80, &[1, 1]), long);
}

// C10
#[test]
fn an_indexer_that_is_absent_has_no_format() {
    let receipt = bytes(&Message::Receipt(receipt()));
    let indexer = RECEIPT_PARTS - 16;
    let refused = Receipt::from_bytes(&with(receipt, indexer, &[0; 4]));
    assert_eq!(refused, Err(WireError::NotZero { field: "model.indexer_format", offset: indexer + 4, found: 4 }));
}

// C10
#[test]
fn a_count_beyond_the_bytes_that_are_left_is_refused_before_anything_is_made() {
    let offer = bytes(&Message::Offer(offer()));
    let left_bytes = offer.len() - OFFER_WRITERS - 4;
    let (field, offset, item_bytes) = ("writers", OFFER_WRITERS, 24);
    for count in [5, u32::MAX] {
        let forged = with(offer.clone(), OFFER_WRITERS, &count.to_le_bytes());
        let many = WireError::TooMany { field, offset, count, item_bytes, left_bytes };
        assert_eq!(Offer::from_bytes(&forged), Err(many));
    }
}

// C10
#[test]
fn a_message_that_no_reader_takes_is_not_written() {
    let none = offer().with_tokens(16, vec![7 << 32, 7]);
    let page = OFFER_WRITERS + 4 + 2 * 24 + 4 + 16;
    assert_eq!(none.to_bytes(), Err(WireError::NoId { field: "destinations", offset: page }));
    let backward = receipt()
        .with_parts(Checksum::Xxh3, vec![SentPart::new(slice(0..1, 0..1), std::ops::Range { start: 2, end: 1 })]);
    let offset = RECEIPT_PARTS + 4 + 20;
    assert_eq!(backward.to_bytes(), Err(WireError::Backward { field: "parts.pages", offset, start: 2, end: 1 }));
}

// C10
#[test]
fn a_message_is_written_up_to_the_bound_and_no_further() {
    let room = MAX_MESSAGE_BYTES - (OFFER_WRITERS + 4 + 2 * 24 + 4);
    let most = vec![7 << 32 | 1; room / 16];
    let bytes = offer().with_tokens(0, most.clone()).to_bytes().expect("within the bound");
    assert!(MAX_MESSAGE_BYTES - bytes.len() < 16);
    assert_eq!(Offer::from_bytes(&bytes).map(|offer| offer.destinations().len()), Ok(room / 16));
    let message_bytes = bytes.len() as u64 + 16;
    let more = offer().with_tokens(0, [most, vec![7 << 32 | 1]].concat());
    assert_eq!(more.to_bytes(), Err(WireError::TooLarge { message_bytes, max_message_bytes: MAX_MESSAGE_BYTES }));
}

// C10
#[test]
fn a_receipt_of_many_small_parts_is_held_to_the_bound_too() {
    let part = SentPart::new(slice(0..1, 0..1), 0..1).with_digests(0..1, vec![Digest::ZERO; 1 << 16]);
    let parts = vec![part; 64];
    let refused = receipt().with_parts(Checksum::Xxh3, parts).to_bytes();
    assert!(matches!(refused, Err(WireError::TooLarge { .. })), "{:?}", refused.map(|bytes| bytes.len()));
}

// C11
#[test]
fn no_error_shows_a_digest_or_the_bits_of_a_page() {
    let canary = 0xdead_beef_u32;
    let receipt = receipt().with_parts(
        Checksum::Xxh3,
        vec![SentPart::new(slice(0..1, 0..1), 0..1).with_digests(0..1, vec![Digest::from_bytes([0xa5; 16])])],
    );
    let sent = receipt.to_bytes().expect("small");
    for end in 0..sent.len() {
        let cut = with(sent[..end.max(16)].to_vec(), 8, &(end.max(16) as u32 - 16).to_le_bytes());
        let shown = Message::from_bytes(&cut).map_or_else(|error| format!("{error} {error:?}"), |_| String::new());
        assert!(!shown.is_empty(), "a message cut at {end} was taken");
        assert!(!shown.contains("a5a5") && !shown.contains("165, 165"), "{shown}");
    }
    let page = offer().with_tokens(1, vec![u128::from(canary)]).to_bytes().expect_err("no pool");
    let shown = format!("{page} {page:?}");
    assert!(!shown.contains("deadbeef") && !shown.contains(&canary.to_string()), "{shown}");
}
