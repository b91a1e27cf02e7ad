//! The incident: a part of a prompt, declared complete.

use pagestamp::*;

use crate::world::*;

// B18, C10
#[test]
fn a_placeholder_prompt_is_refused_by_the_sender_before_a_byte_moves() {
    let world = World::new();
    let (mut outbound, mut inbound) = (world.sealed(1, 1), world.open(128, 128));
    let offer = inbound.offer();
    let expected = OutboundError::Pages { expected_pages: 1, sealed_tokens: 1, found_pages: 8, found_tokens: 128 };
    assert_eq!(outbound.check(&offer), Err(expected.clone()));
    assert_eq!(outbound.send(&offer, &mut inbound.landing(Writer::ONLY).expect("it lands")), Err(expected.clone()));
    assert_eq!(inbound.complete_pages(), 0);
    assert!(raw_is_zero(&world.decode), "not a byte moved");
    let refusal = Refusal::new(offer.transfer(), Side::Sender, &expected);
    let rejected = inbound.reject(refusal.clone());
    assert!(rejected.to_string().contains("1 pages (1 tokens) are sealed, the offer is for 8 pages (128 tokens)"));
    let RejectReason::Caller(reason) = rejected.reason() else { panic!("not by the caller") };
    assert_eq!(reason.downcast_ref(), Some(&refusal));
    assert_untouched(&world.decode);
}

// B18, C10
#[test]
fn one_page_of_eight_with_an_honest_receipt_is_refused_by_its_pages() {
    let world = World::new();
    let mut inbound = world.open(128, 128);
    let digests = land(&mut inbound, 1, 16, |page| page);
    let honest = receipt(&inbound.offer(), 1, 16, 16, digests);
    assert_eq!(world.refused(inbound, &honest), InboundError::Pages { expected_pages: 8, found_pages: 1 });
}

// B18, B19, C10
#[test]
fn one_page_of_eight_with_a_receipt_for_eight_is_refused_by_the_receivers_own_count() {
    let world = World::new();
    for landed in [1, 16] {
        let mut inbound = world.open(128, 128);
        // the digests of all eight pages, which the sender may well know
        let digests = land(&mut world.open(128, 128), 1, 128, |page| page);
        let offer = inbound.offer();
        let geometry = world.decode.geometry().clone();
        let mut landing = inbound.landing(Writer::ONLY).expect("it lands");
        for plane in 0..PLANES {
            let bytes = plane_bytes(&geometry, 1, plane, 0..landed);
            landing.put(0, plane, 0..landed as u32, &bytes).expect("it has room");
        }
        drop(landing);
        let lie = receipt(&offer, 8, 128, 16, digests);
        let complete_pages = landed as u32 / P;
        let expected = InboundError::Gap {
            writer: Writer::ONLY,
            layer: 0,
            page: complete_pages,
            plane: 0,
            expected_tokens: 16,
            landed_tokens: landed as u32 % P,
            expected_pages: 8,
            complete_pages,
        };
        assert_eq!(world.refused(inbound, &lie), expected);
    }
}

// B21, B22, B25, C10
#[test]
fn counts_that_differ_by_one_are_refused_by_both_sides() {
    let world = World::new();
    for (sealed, expected) in [(63, 64), (64, 63), (64, 65), (65, 64), (16, 17), (17, 16), (0, 1), (1, 0), (15, 16)] {
        let pages = |tokens: u64| tokens.div_ceil(u64::from(P));
        let (outbound, mut inbound) = (world.sealed(1, sealed), world.open(expected, expected));
        let found = outbound.check(&inbound.offer()).expect_err("the counts differ");
        let same_pages = pages(sealed) == pages(expected);
        let by_sender = if same_pages {
            OutboundError::Tokens { expected_tokens: sealed, found_tokens: expected }
        } else {
            let (expected_pages, found_pages) = (pages(sealed), pages(expected));
            OutboundError::Pages { expected_pages, sealed_tokens: sealed, found_pages, found_tokens: expected }
        };
        assert_eq!(found, by_sender);
        // an engine that does not ask its sender
        let digests = land(&mut inbound, 1, sealed.min(expected), |page| page);
        let honest = receipt(&inbound.offer(), pages(sealed) as u32, sealed, fill(sealed), digests);
        let by_receiver = if same_pages {
            InboundError::Tokens { expected_tokens: expected, found_tokens: sealed }
        } else {
            InboundError::Pages { expected_pages: pages(expected) as u32, found_pages: pages(sealed) as u32 }
        };
        assert_eq!(world.refused(inbound, &honest), by_receiver);
        outbound.release();
        assert_untouched(&world.prefill);
    }
}

// B22
#[test]
fn drafts_are_not_sealed_and_do_not_travel() {
    let world = World::new();
    let mut kv = reserve(&world.prefill, owner(1), 33, 33);
    write(&mut kv, 1, 33);
    kv.commit(24).expect("written");
    let mut outbound = Outbound::seal(kv, &world.model, &world.slice).expect("it is sealed");
    assert_eq!((outbound.tokens(), outbound.pages()), (24, 2));
    assert_eq!(outbound.handles().count(), 2, "the page of the draft alone is not for the wire");
    assert_eq!(outbound.read(0..24).expect("sealed").tokens(), 0..24);
    let draft = outbound.read(24..25).expect_err("a draft");
    assert_eq!(draft, ReadError::Unwritten { to_tokens: 25, written_tokens: 24 });
    let with_draft = outbound.check(&world.open(33, 33).offer());
    assert!(matches!(with_draft, Err(OutboundError::Pages { expected_pages: 2, found_pages: 3, .. })));
    let mut inbound = world.open(33, 24);
    let receipt = send(&mut outbound, &mut inbound);
    let kv = accept(inbound, &receipt).expect("all fits");
    assert_holds(&kv, 1, 24);
    let last = raw_page(&world.decode, kv.handle(1).expect("a page").index());
    let of_drafts = last.chunks(landing_bytes(&world, P)).flat_map(|plane| &plane[landing_bytes(&world, 8)..]);
    assert!(of_drafts.into_iter().all(|byte| *byte == 0), "no byte of a draft came over");
    assert_eq!(outbound.into_reservation().written_tokens(), 33, "the sender keeps its drafts");
}

// B25
#[test]
fn what_grew_after_a_seal_ended_is_sealed_anew() {
    let world = World::new();
    let mut kv = reserve(&world.prefill, owner(1), 64, 32);
    write(&mut kv, 1, 32);
    kv.commit(32).expect("written");
    let outbound = Outbound::seal(kv, &world.model, &world.slice).expect("it is sealed");
    let mut kv = outbound.into_reservation();
    kv.grow(64).expect("promised");
    write(&mut kv, 1, 32);
    kv.commit(64).expect("written");
    let mut outbound = Outbound::seal(kv, &world.model, &world.slice).expect("it is sealed");
    let old_offer = world.open(32, 32);
    assert!(matches!(outbound.check(&old_offer.offer()), Err(OutboundError::Pages { .. })));
    let mut inbound = world.open(64, 64);
    let receipt = send(&mut outbound, &mut inbound);
    assert_holds(&accept(inbound, &receipt).expect("all fits"), 1, 64);
}
