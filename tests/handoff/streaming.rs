//! A sender that sends what is committed while it computes the rest.

use pagestamp::*;

use crate::ranks::*;
use crate::world::*;

// B25, C10
#[test]
fn what_is_committed_is_sent_while_the_prompt_grows_and_never_changes() {
    let model = models().remove(0);
    let whole = pagestamp::geometry::Slice::whole(&model);
    let (prefill, decode) = (pool_of(&model, &whole), pool_of(&model, &whole));
    let kv = reserve(&prefill, owner(1), 20, 4);
    let mut outbound = Outbound::stream(kv, &model, &whole, 11).expect("it begins");
    let kv = reserve(&decode, owner(1), 11, 11);
    let mut inbound = Inbound::open(kv, InboundPlan::new(&model, &whole, 11)).expect("it opens");
    let sending = outbound.start(&inbound.offer()).expect("11 are promised and 11 wanted");
    assert_eq!((outbound.tokens(), outbound.sealed_tokens(), outbound.pages()), (11, 0, 3));
    for (to_tokens, pages, next) in [(4, 0..1, 1..2), (9, 1..2, 2..3), (11, 2..3, 3..4)] {
        let mut prompt = outbound.append();
        prompt.grow(to_tokens).expect("promised");
        let range = prompt.reservation().written_tokens()..to_tokens;
        let planes = planes_of(&model, &whole, 5, range.clone());
        let planes: Vec<&[u8]> = planes.iter().map(Vec::as_slice).collect();
        prompt.write(range.end - range.start, &planes).expect("reserved");
        let mut landing = inbound.landing(Writer::ONLY).expect("it lands");
        let early = outbound.copy(&sending, 0..4, pages.clone(), &mut landing).expect_err("not committed yet");
        assert!(matches!(early, OutboundError::NotCommitted { .. }), "{early}");
        outbound.append().commit(to_tokens).expect("written");
        let part = outbound.copy(&sending, 0..4, pages, &mut landing).expect("committed");
        if next.end <= 3 {
            let early = outbound.copy(&sending, 0..4, next, &mut landing).expect_err("not written yet");
            assert!(matches!(early, OutboundError::NotCommitted { .. }), "{early}");
        }
        drop(landing);
        inbound.receive(&sending.receipt(vec![part])).expect("honest");
    }
    // the sender decodes on: what was sealed stays as it was
    let mut on = outbound.append();
    on.grow(13).expect("promised");
    let planes = planes_of(&model, &whole, 9, 11..13);
    let planes: Vec<&[u8]> = planes.iter().map(Vec::as_slice).collect();
    on.write(2, &planes).expect("reserved");
    on.commit(13).expect("written");
    assert_eq!((outbound.tokens(), outbound.sealed_tokens()), (11, 11));
    let error = outbound.read(0..12).expect_err("past what is sealed");
    assert_eq!(error, ReadError::Unwritten { to_tokens: 12, written_tokens: 11 });
    assert_named(&inbound.accept().expect("all is there"), &model, &whole, 5, 11);
    assert_eq!(outbound.into_reservation().committed_tokens(), 13);
}

// C8
#[test]
fn a_stream_of_less_than_is_committed_or_more_than_was_admitted_does_not_begin() {
    let world = World::new();
    let mut kv = reserve(&world.prefill, owner(1), 40, 40);
    write(&mut kv, 1, 20);
    kv.commit(20).expect("written");
    let (kv, error) = Outbound::stream(kv, &world.model, &world.slice, 19).expect_err("less").into_parts();
    assert_eq!(error, SealError::PastSealed { tokens: 19, committed_tokens: 20 });
    let (kv, error) = Outbound::stream(kv, &world.model, &world.slice, 41).expect_err("more").into_parts();
    assert_eq!(error, SealError::PastMax { tokens: 41, max_tokens: 40 });
    assert!(world.prefill.transfers().is_empty());
    assert_holds(&kv, 1, 20);
}

// C10
#[test]
fn batches_hold_no_more_pages_than_the_offer_allows_and_all_of_them() {
    let world = World::new();
    for (tokens, batch) in [(128, 1), (128, 3), (128, 8), (40, 2), (128, u32::MAX), (0, 1)] {
        let kv = reserve(&world.decode, owner(1), tokens.max(1), tokens);
        let batch = std::num::NonZeroU32::new(batch).expect("not zero");
        let inbound = Inbound::open(kv, world.plan(tokens).with_batch_pages(batch)).expect("it opens");
        let mut outbound = world.sealed(1, tokens);
        let sending = outbound.start(&inbound.offer()).expect("it fits");
        let batches: Vec<_> = sending.batches().collect();
        assert!(batches.iter().all(|pages| !pages.is_empty() && pages.len() <= batch.get() as usize));
        assert_eq!(batches.into_iter().flatten().collect::<Vec<_>>(), sending.pages().collect::<Vec<_>>());
        let destinations = sending.all_pages().map(|page| sending.destination(page).expect("offered"));
        assert_eq!(destinations.collect::<Vec<_>>(), inbound.offer().destinations());
        assert_eq!(sending.destination(sending.all_pages().end), None);
    }
}

// C10
#[test]
fn what_is_not_to_be_sent_is_refused_by_name() {
    let world = World::new();
    let (mut outbound, mut inbound) = (world.sealed(1, 40), world.open(40, 40));
    let sending = outbound.start(&inbound.offer()).expect("it fits");
    #[expect(clippy::reversed_empty_ranges, reason = "ranges that run backward are tried too")]
    let wrong = [(0..3, 0..3), (0..2, 0..4), (1..1, 0..3), (0..2, 2..2), (2..1, 0..3), (0..2, 3..1), (0..2, 7..9)];
    for (layers, pages) in wrong {
        let expected = OutboundError::NoSuchPart {
            layers: layers.clone(),
            pages: pages.clone(),
            expected_layers: 0..2,
            sealed_pages: 3,
        };
        assert_eq!(outbound.digest(&sending, layers.clone(), pages.clone()), Err(expected.clone()));
        let mut landing = inbound.landing(Writer::ONLY).expect("it lands");
        assert_eq!(outbound.copy(&sending, layers, pages, &mut landing), Err(expected));
    }
    let halves = [(0..1, 4), (1..2, 5)].map(|(layers, rank)| {
        Writer::new(HolderId(rank), pagestamp::geometry::Slice::new(layers, 0..2).expect("a layer"))
    });
    let kv = reserve(&world.decode, owner(1), 40, 40);
    let mut two = Inbound::open(kv, world.plan(40).with_writers(halves.to_vec())).expect("it opens");
    let mut rank4 = world.sealed(1, 40).with_writer(HolderId(4));
    let as_rank4 = rank4.start(&two.offer()).expect("it fits");
    let mut landing = two.landing(HolderId(5)).expect("it lands");
    let other = OutboundError::LandingOf { expected: HolderId(4), found: HolderId(5) };
    assert_eq!(rank4.copy(&as_rank4, 0..1, 0..3, &mut landing), Err(other));
    drop(landing);
    let mut rank5 = rank4.with_writer(HolderId(5));
    let as_rank5 = rank5.start(&two.offer()).expect("it fits");
    let mut landing = two.landing(HolderId(5)).expect("it lands");
    for layers in [0..1, 0..2] {
        let (expected_layers, sealed_pages) = (1..2, 3);
        let below = OutboundError::NoSuchPart { layers: layers.clone(), pages: 0..3, expected_layers, sealed_pages };
        assert_eq!(rank5.copy(&as_rank5, layers, 0..3, &mut landing), Err(below), "it has it, and is not to send it");
    }
    drop(landing);
    assert_eq!(two.complete_pages(), 0);
    assert_eq!(inbound.complete_pages(), 0);
    assert!(raw_is_zero(&world.decode));
}

// C5, C10
#[test]
fn only_pages_of_sealed_tokens_are_named_while_a_prompt_grows() {
    let world = World::new();
    let mut kv = reserve(&world.prefill, owner(1), 48, 48);
    write(&mut kv, 1, 20);
    kv.commit(17).expect("written");
    let all: Vec<_> = kv.handles().collect();
    let mut outbound = Outbound::stream(kv, &world.model, &world.slice, 48).expect("it begins");
    assert_eq!(outbound.handles().collect::<Vec<_>>(), all[..2]);
    outbound.append().commit(20).expect("written");
    assert_eq!((outbound.sealed_tokens(), outbound.handles().count()), (20, 2));
}
