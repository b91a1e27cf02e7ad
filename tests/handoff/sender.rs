//! The sender refuses each offer that differs from what it sealed.

use pagestamp::geometry::*;
use pagestamp::*;

use crate::world::*;

fn altered(offer: &Offer, owner: OwnerId, model: &ModelLayout, slice: &Slice) -> Offer {
    Offer::new(offer.transfer(), owner, model.clone(), slice.clone())
        .with_writers(vec![Writer::new(Writer::ONLY, slice.clone())])
        .with_tokens(offer.tokens(), offer.destinations().to_vec())
        .with_checksum(offer.checksum())
}

// C2, C10, B30
#[test]
fn a_sender_refuses_an_offer_of_another_owner() {
    let world = World::new();
    let (outbound, inbound) = (world.sealed(1, 40), world.open(40, 40));
    let offer = altered(&inbound.offer(), owner(2), &world.model, &world.slice);
    assert_eq!(outbound.check(&offer), Err(OutboundError::Owner { expected: owner(1), found: owner(2) }));
}

// B26, B27, C10
#[test]
fn a_sender_refuses_an_offer_of_another_layout_even_with_equal_bytes() {
    let world = World::new();
    let (outbound, inbound) = (world.sealed(1, 40), world.open(40, 40));
    let others =
        [model_of(P, "r1", HeadOrder::Hnd), model_of(P, "r2", HeadOrder::Nhd), model_of(32, "r1", HeadOrder::Nhd)];
    for other in others {
        let offer = altered(&inbound.offer(), owner(1), &other, &world.slice);
        let expected = OutboundError::Layout { expected: world.model.clone().into(), found: other.into() };
        assert_eq!(outbound.check(&offer), Err(expected));
    }
}

// B27, C10
#[test]
fn a_sender_refuses_an_offer_of_another_slice_of_the_same_size() {
    let model = model_of(P, "r1", HeadOrder::Nhd);
    let (low, high) = (Slice::new(0..2, 0..1).expect("heads"), Slice::new(0..2, 1..2).expect("heads"));
    assert_eq!(model.geometry(&low), model.geometry(&high));
    let world = World { slice: low.clone(), ..World::of(model.clone()) };
    let geometry = model.geometry(&low).expect("a good layout");
    let world = World { prefill: host(geometry.clone()), decode: host(geometry), ..world };
    let (mut outbound, inbound) = (world.sealed(1, 40), world.open(40, 40));
    let offer = altered(&inbound.offer(), owner(1), &model, &high);
    assert_eq!(outbound.check(&offer), Err(OutboundError::Slice { expected: low.clone(), found: high.clone() }));

    // and the receiver refuses what such a sender sends, named rightly or wrongly
    let mut inbound = inbound;
    let sent = send(&mut outbound, &mut inbound);
    let part = SentPart::new(high.clone(), 0..3).with_digests(0..PLANES as u32, digests_of(&sent));
    let named = sent.with_parts(Checksum::Xxh3, vec![part]);
    let expected = InboundError::Slice { writer: Writer::ONLY, expected: low.clone(), found: high.clone() };
    assert_eq!(world.refused(inbound, &named), expected);
    let mut inbound = world.open(40, 40);
    let sent = send(&mut outbound, &mut inbound);
    let digester = digester_of(sent.transfer(), &model, &high);
    let digests = (0..3).map(|page| {
        let first = u64::from(page * P);
        let end = (first + u64::from(P)).min(40);
        let mut digest = digester.page(page, (end - first) as u32);
        (0..PLANES).for_each(|plane| digest.update(&plane_bytes(world.decode.geometry(), 1, plane, first..end)));
        digest.finish()
    });
    let misnamed = with_digests(&sent, Checksum::Xxh3, digests.collect());
    assert!(matches!(world.refused(inbound, &misnamed), InboundError::Digest { page: 0, .. }));
}

// C10
#[test]
fn a_sender_refuses_an_offer_without_a_checksum() {
    let world = World::new();
    let (outbound, inbound) = (world.sealed(1, 40), world.open(40, 40));
    let offer = inbound.offer().with_checksum(Checksum::BytesUnverified);
    assert_eq!(outbound.check(&offer), Err(OutboundError::Unverified));
    let outbound = outbound.with_bytes_unverified();
    assert_eq!(outbound.check(&offer), Ok(()), "only by a name that says what is given up");
}

// C10
#[test]
fn a_sender_refuses_the_landing_of_another_handoff() {
    let world = World::new();
    let (mut outbound, first, mut second) = (world.sealed(1, 40), world.open(40, 40), world.open(40, 40));
    let (expected, found) = (first.transfer(), second.transfer());
    let sent = outbound.send(&first.offer(), &mut second.landing(Writer::ONLY).expect("it lands"));
    assert_eq!(sent, Err(OutboundError::Transfer { expected, found }));
    assert_eq!(second.complete_pages(), 0);
}

// C2, C10
#[test]
fn what_one_outbound_started_no_other_one_sends() {
    let world = World::new();
    let mut alices = world.sealed(1, 40);
    let mut kv = reserve(&world.prefill, owner(2), 40, 40);
    write(&mut kv, 2, 40);
    kv.commit(40).expect("written");
    let bobs = Outbound::seal(kv, &world.model, &world.slice).expect("it is sealed");
    let mut inbound = world.open(40, 40);
    let sending = alices.start(&inbound.offer()).expect("it fits");
    let mut landing = inbound.landing(Writer::ONLY).expect("it lands");
    let not_served = OutboundError::NotServed { transfer: sending.transfer() };
    assert_eq!(bobs.copy(&sending, 0..2, 0..3, &mut landing), Err(not_served.clone()), "bytes of another tenant");
    assert_eq!(bobs.digest(&sending, 0..2, 0..3), Err(not_served));
    drop(landing);
    assert_eq!(inbound.complete_pages(), 0);
    assert!(raw_is_zero(&world.decode), "not a byte moved");
}
