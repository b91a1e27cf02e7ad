//! Group 2: handoffs that are partial, mismatched or mislabelled.

use std::ops::Range;

use pagestamp::geometry::{Dtype, ElementFormat, HeadCache, HeadOrder, Interleave, KvLayout, ModelLayout, Slice};
use pagestamp::{
    Checksum, Digest, Digester, HolderId, HostMemory, Inbound, InboundError, InboundPlan, LandError, Landed, Offer,
    OpenError, Outbound, OutboundError, PagePool, ReadError, Receipt, Refusal, SentPart, Side, TransferError,
    UnfitPool, Writer,
};

use crate::stage::*;
use crate::two_pools::*;

/// A receipt that an engine writes itself: all pages of the only writer, with these digests.
fn receipt_with(receipt: &Receipt, digests: Vec<Digest>) -> Receipt {
    let part = &receipt.parts()[0];
    let part = SentPart::new(part.slice().clone(), part.pages()).with_digests(part.planes(), digests);
    receipt.clone().with_parts(receipt.checksum(), vec![part])
}

/// The digests that an honest sender would make of a prompt, page by page.
fn digests_of(offer: &Offer, slice: &Slice, seed: u64) -> Vec<Digest> {
    let digester = Digester::new(Checksum::Xxh3, None, offer.transfer(), offer.model(), slice).unwrap();
    let geometry = offer.model().geometry(slice).unwrap();
    let page = |(ordinal, tokens): (u64, Range<u32>)| {
        let mut digest = digester.page(ordinal as u32, tokens.end);
        for plane in 0..geometry.planes().len() {
            let first = ordinal * P;
            digest.update(&plane_bytes(&geometry, seed, plane, first..first + u64::from(tokens.end)));
        }
        digest.finish()
    };
    geometry.split_tokens(0..offer.tokens()).map(page).collect()
}

/// Puts some tokens of a page of a prompt, in one plane.
fn put(
    inbound: &mut Inbound<HostMemory>,
    seed: u64,
    page: u32,
    plane: usize,
    tokens: Range<u32>,
) -> Result<Landed, LandError> {
    let offer = inbound.offer();
    let geometry = offer.model().geometry(offer.slice()).unwrap();
    let first = u64::from(page) * P;
    let bytes = plane_bytes(&geometry, seed, plane, first + u64::from(tokens.start)..first + u64::from(tokens.end));
    inbound.landing(Writer::ONLY).unwrap().put(page, plane, tokens, &bytes)
}

/// Puts a whole page of a prompt where another one of its pages belongs.
fn put_page_at(inbound: &mut Inbound<HostMemory>, seed: u64, page: u32, source: u64) {
    let offer = inbound.offer();
    let geometry = offer.model().geometry(offer.slice()).unwrap();
    let mut landing = inbound.landing(Writer::ONLY).unwrap();
    for plane in 0..4 {
        landing.put(page, plane, 0..16, &plane_bytes(&geometry, seed, plane, source * P..(source + 1) * P)).unwrap();
    }
}

// B18, C5, C10
#[test]
fn a_quarter_of_each_page_that_is_declared_complete_is_not_readable() {
    let pair = Pair::new(4);
    let (mut outbound, mut inbound) = (pair.sealed(1, 1, 4 * P), pair.open(1, 4 * P));
    let offer = inbound.offer();
    let handles = handles_of(&offer);
    let receipt = told(&mut outbound, &offer);
    for page in 0..4 {
        assert_eq!(put(&mut inbound, 1, page, 0, 0..16), Ok(Landed::Now)); // one plane of four
    }
    inbound.receive(&receipt).unwrap();
    let (mut inbound, error) = not_yet(inbound);
    assert_eq!(
        error,
        InboundError::Gap {
            writer: Writer::ONLY,
            page: 0,
            layer: 0,
            plane: 1,
            expected_tokens: 16,
            landed_tokens: 0,
            expected_pages: 4,
            complete_pages: 0
        }
    );
    assert_eq!(readable(&pair.decode, 1, &handles), 0);
    // The rest comes, but for one token of one plane of one page.
    for page in 0..4 {
        for plane in 1..4 {
            let end = if (page, plane) == (2, 3) { 15 } else { 16 };
            assert_eq!(put(&mut inbound, 1, page, plane, 0..end), Ok(Landed::Now));
        }
    }
    let (mut inbound, error) = not_yet(inbound);
    assert!(
        matches!(error, InboundError::Gap { page: 2, layer: 1, plane: 1, landed_tokens: 15, complete_pages: 3, .. }),
        "{error:?}"
    );
    assert_eq!(readable(&pair.decode, 1, &handles), 0);
    assert_eq!(put(&mut inbound, 1, 2, 3, 15..16), Ok(Landed::Now));
    let kv = inbound.accept().unwrap();
    assert!(holds(&kv, 1, 4 * P));
    drop((kv, outbound));
    pair.assert_untouched();
}

// B18, C10
#[test]
fn two_slices_at_one_place_are_no_two_parts() {
    let pair = Pair::new(4);
    let (mut outbound, mut inbound) = (pair.sealed(1, 1, 4 * P), pair.open(1, 4 * P));
    let receipt = told(&mut outbound, &inbound.offer());
    for page in 0..4 {
        for plane in 0..4 {
            put(&mut inbound, 1, page, plane, 0..8).unwrap();
            if (page, plane) != (1, 1) {
                put(&mut inbound, 1, page, plane, 8..16).unwrap();
            }
        }
    }
    // The second half of one plane is aimed at the first half, and then beside it as well.
    let geometry = pair.decode.geometry().clone();
    let second = plane_bytes(&geometry, 1, 1, P + 8..2 * P);
    assert_eq!(inbound.landing(Writer::ONLY).unwrap().put(1, 1, 0..8, &second), Ok(Landed::Before), "it counts once");
    inbound.receive(&receipt).unwrap();
    let (mut inbound, error) = not_yet(inbound);
    assert!(matches!(error, InboundError::Gap { page: 1, landed_tokens: 8, .. }), "{error:?}");
    let overlap = inbound.landing(Writer::ONLY).unwrap().put(1, 1, 4..12, &second);
    assert_eq!(overlap, Err(LandError::Overlap { page: 1, layer: 0, plane: 1, landed: 0..8, sent: 4..12 }));
    assert_eq!(
        refused(inbound),
        InboundError::Overlap { writer: Writer::ONLY, page: 1, layer: 0, plane: 1, landed: 0..8, sent: 4..12 }
    );
    drop(outbound);
    pair.assert_untouched();
}

// B18, C5, C10
#[test]
fn one_rank_of_four_is_no_page() {
    let pair = Pair::new(4);
    let tiles = [slice(0..1, 0..1), slice(0..1, 1..2), slice(1..2, 0..1), slice(1..2, 1..2)];
    let ranks: Vec<PagePool<HostMemory>> = tiles.iter().map(|tile| pool_for(&pair.model, tile, 4)).collect();
    let plan = pair.plan(2 * P + 1).with_writers(writers(&tiles));
    let mut inbound = Inbound::open(room(&pair.decode, owner(1), 3 * P), plan).unwrap();
    let handles = handles_of(&inbound.offer());
    let mut outbounds = Vec::new();
    for (rank, (pool, tile)) in (0..).zip(ranks.iter().zip(&tiles)) {
        let (back, error) = not_yet(inbound);
        assert_eq!(error, InboundError::Untold { writer: HolderId(rank), page: 0, layer: tile.layers().start });
        assert_eq!(readable(&pair.decode, 1, &handles), 0);
        inbound = back;
        let mut kv = room(pool, owner(1), 3 * P);
        compute(&mut kv, 10 + rank, 2 * P + 1);
        let mut outbound = Outbound::seal(kv, &pair.model, tile).unwrap().with_writer(HolderId(rank));
        let receipt = send(&mut outbound, &mut inbound);
        inbound.receive(&receipt).unwrap();
        outbounds.push(outbound);
    }
    let kv = inbound.accept().unwrap();
    // Each rank's bytes are where its layer and its head are: token-major, so head 0 is the first half of a token.
    for (rank, tile) in (0..).zip(&tiles) {
        let geometry = pair.model.geometry(tile).unwrap();
        let (layer, head) = (tile.layers().start as usize, tile.heads().start as usize);
        let guard = kv.read(0..2 * P + 1).unwrap();
        for plane in 0..2 {
            let mut all = vec![0; 16 * (2 * P as usize + 1)];
            guard.copy(layer * 2 + plane, &mut all).unwrap();
            let found: Vec<u8> = all.chunks_exact(16).flat_map(|token| token[head * 8..][..8].to_vec()).collect();
            assert_eq!(found, plane_bytes(&geometry, 10 + rank, plane, 0..2 * P + 1));
        }
    }
    drop((kv, outbounds));
    pair.assert_untouched();
}

// B19, C3, C5, C6
#[test]
fn one_writer_that_fails_fails_all_of_the_receive() {
    let pair = Pair::new(4);
    let stages = [slice(0..1, 0..2), slice(1..2, 0..2)];
    let plan = pair.plan(2 * P).with_writers(writers(&stages));
    let mut inbound = Inbound::open(room(&pair.decode, owner(1), 2 * P), plan).unwrap();
    let offer = inbound.offer();
    let handles = handles_of(&offer);
    let mut first = pair.sealed(1, 1, 2 * P);
    let receipt = send(&mut first, &mut inbound);
    inbound.receive(&receipt).unwrap();
    let failed = Refusal::new(offer.transfer(), Side::Sender, &std::fmt::Error);
    assert_eq!(readable(&pair.decode, 1, &handles), 0);
    let (inbound, error) = not_yet(inbound);
    assert!(matches!(error, InboundError::Untold { writer: HolderId(1), layer: 1, .. }));
    let rejected = inbound.reject(failed);
    assert_eq!(rejected.owner(), owner(1));
    assert!(handles.iter().all(|handle| is_stale(&pair.decode, owner(1), *handle)), "no prefix of it is kept");
    assert_eq!(pair.decode.transfer(offer.transfer()), Err(TransferError::Over(offer.transfer())));
    drop(first);
    pair.assert_untouched();
}

// B21, C3, C5, C10
#[test]
fn a_page_more_at_the_receiver_stays_empty_zero_and_its_own() {
    for (sent, reserved) in [(4 * P, 4 * P + 1), (4 * P - 1, 4 * P), (4 * P, 4 * P), (P, P + 1), (0, 1)] {
        let pair = Pair::new(8);
        let mut outbound = pair.sealed(1, 1, sent);
        let mut inbound = Inbound::open(room(&pair.decode, owner(1), reserved), pair.plan(sent)).unwrap();
        assert_eq!(u64::from(inbound.pages()), sent.div_ceil(P));
        let past = inbound.pages();
        let past_the_end = inbound.landing(Writer::ONLY).unwrap().put(past, 0, 0..1, &[1; 16]);
        assert_eq!(past_the_end, Err(LandError::NoSuchPage { page: past, expected_pages: past }));
        let receipt = send(&mut outbound, &mut inbound);
        inbound.receive(&receipt).unwrap();
        let mut kv = inbound.accept().unwrap();
        assert!(holds(&kv, 1, sent));
        assert_eq!(kv.reserved_tokens(), reserved);
        assert!(kv.handles().skip(past as usize).all(|handle| is_zero(&pair.decode, handle.index())));
        assert!(matches!(kv.read(0..sent + 1).map(drop), Err(ReadError::Unwritten { .. })));
        compute(&mut kv, 1, reserved - sent);
        assert!(holds(&kv, 1, reserved));
        drop((kv, outbound));
        pair.assert_untouched();
    }
}

// B21, C10
#[test]
fn a_page_more_at_the_sender_is_refused_by_both_ends() {
    for (sealed, expected) in [(4 * P + 1, 4 * P), (P + 1, P), (1, 0)] {
        let pair = Pair::new(8);
        let (mut outbound, mut inbound) = (pair.sealed(1, 1, sealed), pair.open(1, expected));
        assert!(matches!(outbound.start(&inbound.offer()), Err(OutboundError::Pages { .. })));
        let (pages, last) = (sealed.div_ceil(P) as u32, 1);
        let offer = inbound.offer();
        let lie = Receipt::new(offer.transfer(), owner(1), pair.model.clone(), Writer::ONLY);
        let lie = lie.with_extent(pages, sealed, last);
        let error = InboundError::Pages { expected_pages: pages - 1, found_pages: pages };
        assert_eq!(inbound.receive(&lie), Err(error.clone()));
        assert_eq!(refused(inbound), error);
        drop(outbound);
        pair.assert_untouched();
    }
}

// B22, C10
#[test]
fn a_look_ahead_page_at_the_sender_shifts_nothing() {
    let pair = Pair::new(8);
    // 16 tokens of a prompt and the slot of a draft: two pages, of which the second is not sealed.
    let mut kv = room(&pair.prefill, owner(1), P + 1);
    compute(&mut kv, 1, P);
    let draft = prompt(&kv, 1, 1);
    kv.write(1, &draft.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
    let mut outbound = Outbound::seal(kv, &pair.model, &pair.slice).unwrap();
    assert_eq!((outbound.pages(), outbound.tokens(), outbound.handles().count()), (1, P, 1));
    assert!(matches!(outbound.read(0..P + 1).map(drop), Err(ReadError::Unwritten { .. })));
    let mut inbound = pair.open(1, P);
    let receipt = send(&mut outbound, &mut inbound);
    inbound.receive(&receipt).unwrap();
    let received = inbound.accept().unwrap();
    assert!(holds(&received, 1, P), "the first page, and not the last");
    drop((received, outbound));
    pair.assert_untouched();
}

// B22, C10
#[test]
fn pages_are_matched_by_their_place_in_the_sequence_whatever_prefix_is_held() {
    for held in [0, P, 2 * P] {
        let pair = Pair::new(8);
        let mut kv = room(&pair.decode, owner(1), 2 * P + 1);
        compute(&mut kv, 1, held);
        let (mut outbound, mut inbound) =
            (pair.sealed(1, 1, 2 * P + 1), Inbound::open(kv, pair.plan(2 * P + 1)).unwrap());
        assert_eq!(outbound.start(&inbound.offer()).unwrap().pages(), (held / P) as u32..3);
        let receipt = send(&mut outbound, &mut inbound);
        assert_eq!(receipt.held_tokens(), held);
        inbound.receive(&receipt).unwrap();
        let kv = inbound.accept().unwrap();
        assert!(holds(&kv, 1, 2 * P + 1));
        drop((kv, outbound));
        pair.assert_untouched();
    }
}

// B22, C10
#[test]
fn a_held_prefix_of_other_bytes_or_a_page_that_is_shifted_is_refused() {
    let pair = Pair::new(8);
    let mut kv = room(&pair.decode, owner(1), 2 * P + 1);
    compute(&mut kv, 2, P); // another prompt's
    let (mut outbound, mut inbound) = (pair.sealed(1, 1, 2 * P + 1), Inbound::open(kv, pair.plan(2 * P + 1)).unwrap());
    let receipt = send(&mut outbound, &mut inbound);
    inbound.receive(&receipt).unwrap();
    let error = refused(inbound);
    assert!(matches!(error, InboundError::HeldDigest { page: 0, .. }), "{error:?}");

    // Right pages, each one place too early: what cutting the list to the same count would do.
    let mut inbound = pair.open(1, 2 * P);
    let offer = inbound.offer();
    put_page_at(&mut inbound, 1, 0, 1);
    put_page_at(&mut inbound, 1, 1, 2);
    let shorter = Receipt::new(offer.transfer(), owner(1), pair.model.clone(), Writer::ONLY).with_extent(2, 2 * P, 16);
    let part = SentPart::new(pair.slice.clone(), 0..2).with_digests(0..4, digests_of(&offer, &pair.slice, 1));
    inbound.receive(&shorter.with_parts(Checksum::Xxh3, vec![part])).unwrap();
    let error = refused(inbound);
    assert!(matches!(error, InboundError::Digest { page: 0, .. }), "{error:?}");
    drop(outbound);
    pair.assert_untouched();
}

// B25, C10
#[test]
fn what_is_sealed_is_what_is_there_at_the_seal() {
    let pair = Pair::new(8);
    let mut kv = room(&pair.prefill, owner(1), 2 * P);
    compute(&mut kv, 1, 2 * P);
    kv.grow(4 * P).unwrap();
    compute(&mut kv, 1, 2 * P);
    let mut outbound = Outbound::seal(kv, &pair.model, &pair.slice).unwrap();
    assert_eq!((outbound.tokens(), outbound.handles().count()), (4 * P, 4));
    // An offer from before the growth asks for less than there is.
    let early = pair.open(1, 2 * P);
    assert!(matches!(
        outbound.start(&early.offer()),
        Err(OutboundError::Pages { expected_pages: 4, found_pages: 2, .. })
    ));
    // What is appended after the seal is no part of it.
    let mut append = outbound.append();
    append.grow(5 * P).unwrap();
    let more = prompt(append.reservation(), 1, P);
    append.write(P, &more.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
    append.commit(5 * P).unwrap();
    assert_eq!((outbound.tokens(), outbound.sealed_tokens(), outbound.handles().count()), (4 * P, 4 * P, 4));
    let mut inbound = pair.open(1, 4 * P);
    let receipt = send(&mut outbound, &mut inbound);
    assert_eq!((receipt.pages(), receipt.tokens()), (4, 4 * P));
    inbound.receive(&receipt).unwrap();
    let received = inbound.accept().unwrap();
    assert!(holds(&received, 1, 4 * P));
    drop((received, early, outbound));
    pair.assert_untouched();
}

// B25, C10
#[test]
fn a_prompt_that_is_computed_in_chunks_is_sent_to_its_last_page() {
    let pair = Pair::new(8);
    let mut kv =
        pair.prefill.reserve(&proof(&pair.prefill, 4 * P), pagestamp::Request::new(owner(1), 4 * P), 2 * P).unwrap();
    compute(&mut kv, 1, 2 * P);
    let mut outbound = Outbound::stream(kv, &pair.model, &pair.slice, 4 * P).unwrap();
    let mut inbound = pair.open(1, 4 * P);
    let sending = outbound.start(&inbound.offer()).unwrap();
    let layers = sending.slice().layers();
    let copy = |outbound: &Outbound<HostMemory>, inbound: &mut Inbound<HostMemory>, pages: Range<u32>| {
        outbound.copy(&sending, layers.clone(), pages, &mut inbound.landing(Writer::ONLY).unwrap())
    };
    let first = copy(&outbound, &mut inbound, 0..2).unwrap();
    let early = copy(&outbound, &mut inbound, 2..4);
    assert_eq!(early, Err(OutboundError::NotCommitted { to_tokens: 4 * P, committed_tokens: 2 * P }));
    let mut append = outbound.append();
    append.grow(4 * P).unwrap();
    let rest = prompt(append.reservation(), 1, 2 * P);
    append.write(2 * P, &rest.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
    append.commit(4 * P).unwrap();
    let second = copy(&outbound, &mut inbound, 2..4).unwrap();
    for part in [first, second] {
        let (back, error) = not_yet(inbound);
        assert!(matches!(error, InboundError::Untold { .. }));
        inbound = back;
        inbound.receive(&sending.receipt(vec![part])).unwrap();
    }
    let received = inbound.accept().unwrap();
    assert!(holds(&received, 1, 4 * P));
    drop((received, outbound));
    pair.assert_untouched();
}

// B26, C8, C10
#[test]
fn other_page_sizes_are_found_before_a_byte_moves() {
    let pair = Pair::new(4);
    let mut outbound = pair.sealed(1, 1, P);
    for page_tokens in [32, 24, 8] {
        let other = Pair::of(model_of(page_tokens, "r1", HeadOrder::Nhd), 4);
        // An honest receiver: its model is another one.
        let inbound = other.open(1, P);
        let error = outbound.start(&inbound.offer()).unwrap_err();
        assert!(matches!(error, OutboundError::Layout { .. }), "{error:?}");
        // One that names the sender's model has no pages for it.
        let kv = room(&other.decode, owner(1), P);
        let (back, error) = Inbound::open(kv, pair.plan(P)).unwrap_err().into_parts();
        assert!(matches!(error, OpenError::Unfit(UnfitPool::Geometry { .. })), "{error:?}");
        drop((back, inbound));
        other.assert_untouched();
    }
    drop(outbound);
    pair.assert_untouched();
}

/// Models whose pages have equal bytes in equal planes, and another meaning.
fn look_alikes() -> Vec<ModelLayout> {
    let f16 = ElementFormat::plain(Dtype::F16);
    let bf16 = ElementFormat::plain(Dtype::Bf16);
    let of = |revision: &str, cache| ModelLayout::new("tiny", revision, KvLayout::new(P as u32, 2, cache)).unwrap();
    vec![
        of("r1", HeadCache::new(2, 4, f16)),
        of("r2", HeadCache::new(2, 4, f16)),
        of("r1", HeadCache::new(2, 4, bf16)),
        of("r1", HeadCache::new(1, 8, f16)),
        of("r1", HeadCache::new(4, 2, f16)),
        of("r1", HeadCache::new(2, 4, f16).with_order(HeadOrder::Hnd)),
        of("r1", HeadCache::new(2, 2, f16).with_order(HeadOrder::Nhd).with_interleave(Interleave::Together)),
    ]
}

// B27, C10
#[test]
fn equal_sizes_of_another_meaning_are_refused_by_both_ends() {
    for (at, ours) in look_alikes().into_iter().enumerate() {
        for (other, theirs) in look_alikes().into_iter().enumerate().filter(|(other, _)| *other != at) {
            let (src, dst) = (Pair::of(ours.clone(), 2), Pair::of(theirs.clone(), 2));
            let (mut outbound, mut inbound) = (src.sealed(1, 1, P), dst.open(1, P));
            let offer = inbound.offer();
            let error = outbound.start(&offer).unwrap_err();
            assert!(matches!(error, OutboundError::Layout { .. }), "{at} {other}: {error:?}");
            // A sender that does not look, and says what it has.
            let lie = Receipt::new(offer.transfer(), owner(1), ours.clone(), Writer::ONLY).with_extent(1, P, 16);
            let error = inbound.receive(&lie).unwrap_err();
            assert!(matches!(error, InboundError::Layout { .. }), "{at} {other}: {error:?}");
            assert_eq!(refused(inbound), error);
            drop(outbound);
            src.assert_untouched();
            dst.assert_untouched();
        }
    }
}

// B27, C10
#[test]
fn another_rank_of_the_same_shape_is_refused() {
    let model = model();
    let (low, high) = (slice(0..2, 0..1), slice(0..2, 1..2));
    let (src, dst) = (pool_for(&model, &low, 2), pool_for(&model, &high, 2));
    let mut kv = room(&src, owner(1), P);
    compute(&mut kv, 1, P);
    let mut outbound = Outbound::seal(kv, &model, &low).unwrap();
    let open = || Inbound::open(room(&dst, owner(1), P), InboundPlan::new(&model, &high, P)).unwrap();
    let mut inbound = open();
    let offer = inbound.offer();
    let error = OutboundError::Slice { expected: low.clone(), found: high.clone() };
    assert_eq!(outbound.start(&offer), Err(error));
    // Its part is of another slice; with a false label its digest is.
    let receipt = Receipt::new(offer.transfer(), owner(1), model.clone(), Writer::ONLY).with_extent(1, P, 16);
    let part = |label: &Slice| SentPart::new(label.clone(), 0..1).with_digests(0..4, digests_of(&offer, &low, 1));
    let error = inbound.receive(&receipt.clone().with_parts(Checksum::Xxh3, vec![part(&low)])).unwrap_err();
    assert_eq!(error, InboundError::Slice { writer: Writer::ONLY, expected: high.clone(), found: low.clone() });
    assert_eq!(refused(inbound), error);

    let mut inbound = open();
    let offer = inbound.offer();
    for plane in 0..4 {
        put(&mut inbound, 1, 0, plane, 0..16).unwrap();
    }
    let receipt = Receipt::new(offer.transfer(), owner(1), model, Writer::ONLY).with_extent(1, P, 16);
    let part = SentPart::new(high, 0..1).with_digests(0..4, digests_of(&offer, &low, 1));
    inbound.receive(&receipt.with_parts(Checksum::Xxh3, vec![part])).unwrap();
    let error = refused(inbound);
    assert!(matches!(error, InboundError::Digest { page: 0, .. }), "{error:?}");
    drop(outbound);
    assert_untouched(&src);
    assert_untouched(&dst);
}

// B27, C10
#[test]
fn an_offer_or_a_receipt_that_leaves_a_field_out_is_none() {
    let pair = Pair::new(2);
    let (mut outbound, mut inbound) = (pair.sealed(1, 1, P), pair.open(1, P));
    let offer = inbound.offer();
    let nobody = offer.clone().with_writers(Vec::new());
    assert_eq!(outbound.start(&nobody), Err(OutboundError::Writer { writer: Writer::ONLY }), "none is not one");
    let nowhere = offer.clone().with_tokens(P, Vec::new());
    assert!(matches!(outbound.start(&nowhere), Err(OutboundError::Pages { found_pages: 0, .. })));
    let twice = offer.clone().with_tokens(P, vec![0]);
    assert_eq!(outbound.start(&twice), Err(OutboundError::ForeignDestination { position: 0 }));
    // Bytes of a message that ends early are no message, at whatever length they end.
    let bytes = offer.to_bytes().unwrap();
    assert!((0..bytes.len()).all(|len| Offer::from_bytes(&bytes[..len]).is_err()));
    let receipt = told(&mut outbound, &offer);
    let bytes = receipt.to_bytes().unwrap();
    assert!((0..bytes.len()).all(|len| Receipt::from_bytes(&bytes[..len]).is_err()));
    // A receipt of defaults is a receipt for nothing.
    let bare = Receipt::new(offer.transfer(), owner(1), pair.model.clone(), Writer::ONLY);
    assert_eq!(inbound.receive(&bare), Err(InboundError::Pages { expected_pages: 1, found_pages: 0 }));
    drop((outbound, inbound));
    pair.assert_untouched();
}

/// Three pages arrive whole, and the receipt is what `lie` makes of the honest one; `harm` touches the pages before.
fn error_of(harm: impl FnOnce(&mut Inbound<HostMemory>), lie: impl FnOnce(&Receipt) -> Receipt) -> InboundError {
    let pair = Pair::new(4);
    let (mut outbound, mut inbound) = (pair.sealed(1, 1, 2 * P + 5), pair.open(1, 2 * P + 5));
    harm(&mut inbound);
    let receipt = send(&mut outbound, &mut inbound);
    let handles = handles_of(&inbound.offer());
    let error = match inbound.receive(&lie(&receipt)) {
        Ok(_) => refused(inbound),
        Err(error) => {
            assert_eq!(refused(inbound), error, "and it stays refused");
            error
        }
    };
    assert!(handles.iter().all(|handle| is_stale(&pair.decode, owner(1), *handle)));
    drop(outbound);
    pair.assert_untouched();
    error
}

// B29, C3, C10
#[test]
fn a_page_with_one_changed_bit_is_refused_and_zeroed() {
    for page in 0..3u32 {
        for plane in 0..4 {
            for token in [0, 4] {
                let flip = |inbound: &mut Inbound<HostMemory>| {
                    let geometry = inbound.offer().model().geometry(inbound.offer().slice()).unwrap();
                    let first = u64::from(page) * P;
                    let filled = if page == 2 { 5 } else { 16 };
                    let mut bytes = plane_bytes(&geometry, 1, plane, first..first + filled);
                    bytes[token * 16 + 3] ^= 1;
                    // It landed before what is right, and counts once.
                    let mut landing = inbound.landing(Writer::ONLY).unwrap();
                    landing.put(page, plane, 0..filled as u32, &bytes).unwrap();
                };
                let error = error_of(flip, Receipt::clone);
                assert!(matches!(error, InboundError::Digest { page: found, .. } if found == page), "{error:?}");
            }
        }
    }
}

// B29, C10
#[test]
fn pages_that_changed_places_are_refused() {
    // With the digests in their places, and with the digests swapped as the pages were: each is bound to its ordinal.
    for are_swapped in [false, true] {
        let pair = Pair::new(4);
        let mut inbound = pair.open(1, 3 * P);
        let offer = inbound.offer();
        for (page, source) in [(0, 2), (1, 1), (2, 0)] {
            put_page_at(&mut inbound, 1, page, source);
        }
        let mut digests = digests_of(&offer, &pair.slice, 1);
        if are_swapped {
            digests.swap(0, 2);
        }
        let receipt = Receipt::new(offer.transfer(), owner(1), pair.model.clone(), Writer::ONLY);
        let part = SentPart::new(pair.slice.clone(), 0..3).with_digests(0..4, digests);
        let receipt = receipt.with_extent(3, 3 * P, 16).with_parts(Checksum::Xxh3, vec![part]);
        inbound.receive(&receipt).unwrap();
        let error = refused(inbound);
        assert!(matches!(error, InboundError::Digest { page: 0, .. }), "{error:?}");
        pair.assert_untouched();
    }
}

// B29, C10
#[test]
fn digests_that_are_dropped_cut_zero_or_of_another_time_are_refused() {
    let nothing = |_: &mut Inbound<HostMemory>| ();
    let with = |change: fn(&[Digest]) -> Vec<Digest>| {
        move |receipt: &Receipt| receipt_with(receipt, change(receipt.parts()[0].digests()))
    };
    let error = error_of(nothing, with(|_| Vec::new()));
    assert_eq!(error, InboundError::Unverified { page: 0, plane: 0 });
    let error = error_of(nothing, with(|digests| digests[..2].to_vec()));
    assert_eq!(error, InboundError::DigestCount { expected_digests: 3, found_digests: 2 });
    let error = error_of(nothing, with(|digests| [digests, digests].concat()));
    assert_eq!(error, InboundError::DigestCount { expected_digests: 3, found_digests: 6 });
    let error = error_of(nothing, with(|digests| vec![digests[0], Digest::ZERO, digests[2]]));
    assert_eq!(error, InboundError::Unverified { page: 1, plane: 0 });
    let error = error_of(nothing, with(|digests| vec![digests[2], digests[1], digests[0]]));
    assert!(matches!(error, InboundError::Digest { page: 0, .. }), "{error:?}");
    let error = error_of(nothing, |receipt| receipt.clone().with_parts(receipt.checksum(), Vec::new()));
    assert_eq!(error, InboundError::Unverified { page: 0, plane: 0 });
    let error = error_of(nothing, |receipt| {
        let part = &receipt.parts()[0];
        let fewer = SentPart::new(part.slice().clone(), part.pages()).with_digests(0..3, part.digests().to_vec());
        receipt.clone().with_parts(receipt.checksum(), vec![fewer])
    });
    assert_eq!(error, InboundError::Unverified { page: 0, plane: 3 });
    let error =
        error_of(nothing, |receipt| receipt.clone().with_parts(Checksum::BytesUnverified, receipt.parts().to_vec()));
    assert_eq!(error, InboundError::Unverified { page: 0, plane: 0 });

    // The digests of an older handoff of the same prompt, under the new one's number.
    let pair = Pair::new(4);
    let mut outbound = pair.sealed(1, 1, P);
    let mut older = pair.open(1, P);
    let receipt = send(&mut outbound, &mut older);
    drop(older);
    let mut inbound = pair.open(1, P);
    let fresh = send(&mut outbound, &mut inbound);
    inbound.receive(&receipt_with(&fresh, receipt.parts()[0].digests().to_vec())).unwrap();
    let error = refused(inbound);
    assert!(matches!(error, InboundError::Digest { page: 0, .. }), "{error:?}");
    drop(outbound);
    pair.assert_untouched();
}

// B30, C10
#[test]
fn a_number_is_given_by_a_pool_and_served_by_one_sender() {
    let pair = Pair::new(4);
    let (mut first, mut second) = (pair.sealed(1, 1, P), pair.sealed(1, 1, P));
    let mut inbound = pair.open(1, P);
    let (offer, transfer) = (inbound.offer(), inbound.transfer());
    let sending = first.start(&offer).unwrap();
    assert_eq!(first.start(&offer), Ok(sending), "the same offer again is the same handoff");
    assert_eq!(second.start(&offer), Err(OutboundError::Duplicate { transfer }));
    let before = pair.prefill.stats();
    // The end of one is not the end of the other, which serves nothing.
    let refusal = Refusal::new(transfer, Side::Receiver, &std::fmt::Error);
    let (second, error) = second.refused(refusal).unwrap_err().into_parts();
    assert_eq!(error, OutboundError::NotServed { transfer });
    assert_eq!(pair.prefill.stats(), before);
    assert_eq!(pair.prefill.transfer(transfer).unwrap().id, first.id());
    let receipt = send(&mut first, &mut inbound);
    inbound.receive(&receipt).unwrap();
    let kv = inbound.accept().unwrap();
    // Reuse after the end is another number.
    assert_ne!(pair.open(1, P).transfer(), transfer);
    drop((first, second, kv));
    pair.assert_untouched();
}

// B30, C2, C10
#[test]
fn a_tenant_neither_ends_nor_serves_the_handoff_of_another() {
    let pair = Pair::new(4);
    let (mut ours, mut theirs) = (pair.sealed(1, 1, P), pair.sealed(2, 2, P));
    let mut inbound = pair.open(1, P);
    let (offer, transfer) = (inbound.offer(), inbound.transfer());
    assert_eq!(theirs.start(&offer), Err(OutboundError::Owner { expected: owner(2), found: owner(1) }));
    // A forged receipt under the number of another tenant's handoff.
    let forged = Receipt::new(transfer, owner(2), pair.model.clone(), Writer::ONLY).with_extent(1, P, 16);
    let error = inbound.receive(&forged).unwrap_err();
    assert_eq!(error, InboundError::Owner { expected: owner(1), found: owner(2) });
    assert_eq!(refused(inbound), error);
    // Nor does a refusal that reaches the other tenant's sender end anything.
    let inbound = pair.open(1, P);
    drop(ours.start(&inbound.offer()).unwrap());
    let refusal = Refusal::new(inbound.transfer(), Side::Receiver, &std::fmt::Error);
    let (theirs, error) = theirs.refused(refusal).unwrap_err().into_parts();
    assert_eq!(error, OutboundError::NotServed { transfer: inbound.transfer() });
    assert_eq!(pair.prefill.transfer(inbound.transfer()).unwrap().owner, owner(1));
    drop((ours, theirs, inbound));
    pair.assert_untouched();
}
