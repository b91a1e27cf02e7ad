//! The receiver refuses each receipt that differs, and each byte.

use pagestamp::geometry::*;
use pagestamp::*;
use proptest::prelude::*;

use crate::world::*;

fn renamed(receipt: &Receipt, transfer: TransferId, owner: OwnerId, model: &ModelLayout) -> Receipt {
    Receipt::new(transfer, owner, model.clone(), receipt.writer())
        .with_extent(receipt.pages(), receipt.tokens(), receipt.last_page_tokens())
        .with_parts(receipt.checksum(), receipt.parts().to_vec())
}

// C2, C10
#[test]
fn a_receipt_for_another_owner_is_refused() {
    let world = World::new();
    let error = world.accept_with(40, |r| renamed(&r, r.transfer(), owner(2), r.model()));
    assert_eq!(error, InboundError::Owner { expected: owner(1), found: owner(2) });
}

// B29, B30, C10
#[test]
fn a_receipt_of_another_transfer_is_refused_even_if_it_is_renamed() {
    let world = World::new();
    let mut outbound = world.sealed(1, 40);
    let mut first = world.open(40, 40);
    let older = send(&mut outbound, &mut first);
    drop(first);
    // the same prompt again, and the older receipt is replayed
    let mut second = world.open(40, 40);
    let transfer = second.transfer();
    drop(send(&mut outbound, &mut second));
    let replayed = InboundError::Transfer { expected: transfer, found: older.transfer() };
    assert_eq!(world.refused(second, &older), replayed);

    let mut third = world.open(40, 40);
    let honest = send(&mut outbound, &mut third);
    let forged = renamed(&older, honest.transfer(), owner(1), &world.model);
    let is_digest = matches!(world.refused(third, &forged), InboundError::Digest { page: 0, .. });
    assert!(is_digest, "digests are bound to the transfer");
}

// B26, B27, C10
#[test]
fn a_receipt_of_another_layout_is_refused_although_the_bytes_are_as_many() {
    let world = World::new();
    for other in [model_of(P, "r1", HeadOrder::Hnd), model_of(P, "r2", HeadOrder::Nhd)] {
        let error = world.accept_with(40, |r| renamed(&r, r.transfer(), owner(1), &other));
        assert_eq!(error, InboundError::Layout { expected: world.model.clone().into(), found: other.clone().into() });

        // a sender that names the receiver's layout and sends its own
        let mut inbound = world.open(40, 40);
        land(&mut inbound, 1, 40, |page| page);
        let offer = inbound.offer();
        let digester = digester_of(offer.transfer(), &other, &world.slice);
        let digests = (0..3).map(|page| {
            let first = u64::from(page * P);
            let end = (first + u64::from(P)).min(40);
            let mut digest = digester.page(page, (end - first) as u32);
            (0..PLANES).for_each(|plane| digest.update(&plane_bytes(world.decode.geometry(), 1, plane, first..end)));
            digest.finish()
        });
        let lie = receipt(&offer, 3, 40, 8, digests.collect());
        assert!(matches!(world.refused(inbound, &lie), InboundError::Digest { page: 0, .. }));
    }
}

// C10
#[test]
fn a_receipt_with_another_extent_is_refused() {
    let world = World::new();
    let error = world.accept_with(40, |r| r.with_extent(4, 40, 8));
    assert_eq!(error, InboundError::Pages { expected_pages: 3, found_pages: 4 });
    let error = world.accept_with(40, |r| r.with_extent(3, 41, 8));
    assert_eq!(error, InboundError::Tokens { expected_tokens: 40, found_tokens: 41 });
    let error = world.accept_with(40, |r| r.with_extent(3, 40, 9));
    assert_eq!(error, InboundError::Fill { expected_tokens: 8, found_tokens: 9 });
    let error = world.accept_with(32, |r| r.with_extent(2, 32, 0));
    assert_eq!(error, InboundError::Fill { expected_tokens: 16, found_tokens: 0 });
}

// B29, C10
#[test]
fn what_no_digest_covers_is_never_accepted() {
    let world = World::new();
    let error = world.accept_with(40, |r| with_digests(&r, Checksum::BytesUnverified, Vec::new()));
    assert_eq!(error, InboundError::Unverified { page: 0, plane: 0 });
    let error = world.accept_with(40, |r| {
        let digests = digests_of(&r);
        with_digests(&r, Checksum::BytesUnverified, digests)
    });
    assert_eq!(error, InboundError::Unverified { page: 0, plane: 0 });
    let error = world.accept_with(40, |r| with_digests(&r, Checksum::Xxh3, Vec::new()));
    assert_eq!(error, InboundError::Unverified { page: 0, plane: 0 });
    let error = world.accept_with(40, |r| {
        let mut digests = digests_of(&r);
        digests[2] = Digest::ZERO;
        with_digests(&r, Checksum::Xxh3, digests)
    });
    assert_eq!(error, InboundError::Unverified { page: 2, plane: 0 });
    for found_digests in [1, 2, 4] {
        let error = world.accept_with(40, |r| {
            let mut digests = digests_of(&r);
            digests.resize(found_digests, Digest::from_bytes([1; 16]));
            with_digests(&r, Checksum::Xxh3, digests)
        });
        let found_digests = found_digests as u64;
        assert_eq!(error, InboundError::DigestCount { expected_digests: 3, found_digests });
    }
    let error = World::new().accept_with(0, |r| {
        let part = SentPart::new(world.slice.clone(), 0..1).with_digests(0..4, vec![Digest::from_bytes([1; 16])]);
        r.with_parts(Checksum::Xxh3, vec![part])
    });
    assert_eq!(error, InboundError::NoSuchPages { expected_pages: 0, found: 0..1 });
    // planes that no digest speaks for, or that there are none of
    for (planes, plane) in [(0..3, 3), (1..4, 0), (0..0, 0)] {
        let error = world.accept_with(40, |r| covering(&r, planes.clone()));
        assert_eq!(error, InboundError::Unverified { page: 0, plane });
    }
    let error = world.accept_with(40, |r| covering(&r, 0..5));
    assert_eq!(error, InboundError::NoSuchPlanes { expected_planes: 4, found: 0..5 });
}

// C10
#[test]
fn a_receipt_of_another_kind_of_digest_is_refused_by_its_name() {
    let world = World::new();
    let error = world.accept_with(40, |r| {
        let digests = digests_of(&r);
        with_digests(&r, Checksum::Crc32c, digests)
    });
    assert_eq!(error, InboundError::Checksum { expected: Checksum::Xxh3, found: Checksum::Crc32c });
    let kv = reserve(&world.decode, owner(1), 40, 40);
    let plan = world.plan(40).with_checksum(Checksum::BytesUnverified);
    let mut inbound = Inbound::open(kv, plan).expect("it opens");
    let sent = receipt(&inbound.offer(), 3, 40, 8, vec![Digest::from_bytes([1; 16]); 3]);
    let other = InboundError::Checksum { expected: Checksum::BytesUnverified, found: Checksum::Xxh3 };
    assert_eq!(inbound.receive(&sent), Err(other));
}

/// The receipt, with digests that are said to cover these planes.
fn covering(receipt: &Receipt, planes: std::ops::Range<u32>) -> Receipt {
    let part = SentPart::new(receipt.parts()[0].slice().clone(), receipt.parts()[0].pages());
    receipt.clone().with_parts(Checksum::Xxh3, vec![part.with_digests(planes, digests_of(receipt))])
}

// B29, C10
#[test]
fn one_flipped_bit_anywhere_is_refused() {
    let world = World::new();
    let geometry = world.decode.geometry().clone();
    for (page, plane, at) in [(0, 0, 0), (0, PLANES - 1, 255), (1, 2, 100), (2, 0, 127), (2, PLANES - 1, 0)] {
        let digests = |inbound: &mut Inbound<HostMemory>| {
            let offer = inbound.offer();
            let digester = digester_of(offer.transfer(), offer.model(), offer.slice());
            let mut landing = inbound.landing(Writer::ONLY).expect("it lands");
            let mut digests = Vec::new();
            for ordinal in 0..3 {
                let first = u64::from(ordinal * P);
                let filled = landing.expected_tokens(ordinal);
                let mut digest = digester.page(ordinal, filled);
                for each in 0..PLANES {
                    let mut bytes = plane_bytes(&geometry, 1, each, first..first + u64::from(filled));
                    digest.update(&bytes);
                    if (ordinal, each) == (page, plane) {
                        let last = bytes.len() - 1;
                        bytes[at.min(last)] ^= 0x10;
                    }
                    landing.put(ordinal, each, 0..filled, &bytes).expect("it has room");
                }
                digests.push(digest.finish());
            }
            digests
        };
        let mut inbound = world.open(40, 40);
        let digests = digests(&mut inbound);
        let sent = receipt(&inbound.offer(), 3, 40, 8, digests);
        let InboundError::Digest { page: found_page, here, told, .. } = world.refused(inbound, &sent) else {
            panic!("the bytes differ")
        };
        assert_eq!(found_page, page);
        assert_ne!(here, told);
    }
}

// B22, B27, B29, C10
#[test]
fn swapped_or_shifted_pages_are_refused_even_with_their_digests_swapped_too() {
    let world = World::new();
    let swap = |page: u32| [1, 0, 2][page as usize];
    let mut inbound = world.open(48, 48);
    let mut digests = land(&mut inbound, 1, 48, swap);
    let sent = receipt(&inbound.offer(), 3, 48, 16, digests.clone());
    assert!(matches!(world.refused(inbound, &sent), InboundError::Digest { page: 0, .. }));

    let mut inbound = world.open(48, 48);
    digests = land(&mut inbound, 1, 48, swap);
    digests.swap(0, 1);
    let sent = receipt(&inbound.offer(), 3, 48, 16, digests);
    assert!(matches!(world.refused(inbound, &sent), InboundError::Digest { page: 0, .. }));

    let mut inbound = world.open(48, 48);
    let mut digests = land(&mut inbound, 1, 48, |page| (page + 1) % 3);
    digests.rotate_right(1);
    let sent = receipt(&inbound.offer(), 3, 48, 16, digests);
    assert!(matches!(world.refused(inbound, &sent), InboundError::Digest { page: 0, .. }));
}

// B18, C10
#[test]
fn a_quarter_of_each_page_is_a_gap() {
    let world = World::new();
    let geometry = world.decode.geometry().clone();
    let digests = land(&mut world.open(48, 48), 1, 48, |page| page);
    let mut inbound = world.open(48, 48);
    let mut landing = inbound.landing(Writer::ONLY).expect("it lands");
    for page in 0..3 {
        for plane in 0..PLANES {
            let first = u64::from(page * P);
            let bytes = plane_bytes(&geometry, 1, plane, first..first + 4);
            landing.put(page, plane, 0..4, &bytes).expect("it has room");
        }
    }
    drop(landing);
    let sent = receipt(&inbound.offer(), 3, 48, 16, digests);
    let expected = InboundError::Gap {
        writer: Writer::ONLY,
        layer: 0,
        page: 0,
        plane: 0,
        expected_tokens: 16,
        landed_tokens: 4,
        expected_pages: 3,
        complete_pages: 0,
    };
    assert_eq!(world.refused(inbound, &sent), expected);
}

// B18, C10
#[test]
fn one_missing_plane_of_the_last_page_is_a_gap() {
    let world = World::new();
    let geometry = world.decode.geometry().clone();
    let digests = land(&mut world.open(48, 48), 1, 48, |page| page);
    let mut inbound = world.open(48, 48);
    let mut landing = inbound.landing(Writer::ONLY).expect("it lands");
    let all = (0..3).flat_map(|page| (0..PLANES).map(move |plane| (page, plane)));
    for (page, plane) in all.filter(|place| *place != (2, PLANES - 1)) {
        let first = u64::from(page * P);
        let bytes = plane_bytes(&geometry, 1, plane, first..first + 16);
        landing.put(page, plane, 0..P, &bytes).expect("it has room");
    }
    drop(landing);
    assert_eq!(inbound.complete_pages(), 2);
    let sent = receipt(&inbound.offer(), 3, 48, 16, digests);
    let error = world.refused(inbound, &sent);
    assert!(matches!(
        error,
        InboundError::Gap { page: 2, layer: 1, plane: 1, landed_tokens: 0, complete_pages: 2, .. }
    ));
}

// B18, C10
#[test]
fn parts_that_overlap_end_the_handoff_even_when_all_has_landed() {
    let world = World::new();
    let geometry = world.decode.geometry().clone();
    // whole first, whole last, one inside, one across two
    let cases = [(0..P, 0..8), (0..8, 0..P), (2..6, 3..5), (4..9, 8..12), (4..9, 0..5)];
    for (landed, sent) in cases {
        let mut inbound = world.open(16, 16);
        let mut landing = inbound.landing(Writer::ONLY).expect("it lands");
        let bytes = |tokens: &std::ops::Range<u32>| {
            plane_bytes(&geometry, 1, 1, u64::from(tokens.start)..u64::from(tokens.end))
        };
        assert_eq!(landing.put(0, 1, landed.clone(), &bytes(&landed)), Ok(Landed::Now));
        let overlap = LandError::Overlap { page: 0, layer: 0, plane: 1, landed: landed.clone(), sent: sent.clone() };
        assert_eq!(landing.put(0, 1, sent.clone(), &bytes(&sent)), Err(overlap));
        // what is missing lands as it should, so that in the end every token is there, and right
        let missing = (0..landed.start, landed.end..P);
        for rest in [missing.0, missing.1].into_iter().filter(|rest| !rest.is_empty()) {
            assert_eq!(landing.put(0, 1, rest.clone(), &bytes(&rest)), Ok(Landed::Now));
        }
        for plane in [0, 2, 3] {
            landing.put(0, plane, 0..P, &plane_bytes(&geometry, 1, plane, 0..16)).expect("it has room");
        }
        drop(landing);
        assert_eq!(inbound.complete_pages(), 1);
        let offer = inbound.offer();
        let digester = digester_of(offer.transfer(), offer.model(), offer.slice());
        let mut digest = digester.page(0, P);
        (0..PLANES).for_each(|plane| digest.update(&plane_bytes(&geometry, 1, plane, 0..16)));
        let receipt = receipt(&offer, 1, 16, 16, vec![digest.finish()]);
        assert_eq!(
            world.refused(inbound, &receipt),
            InboundError::Overlap { writer: Writer::ONLY, page: 0, layer: 0, plane: 1, landed, sent }
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    // Parts in any order, torn, doubled, overlapping and with wrong bytes, against a plain reference: who sent which token
    // first. Accepted exactly when every token arrived, right, in parts that do not overlap.
    // C10
    #[test]
    fn only_what_arrived_whole_right_and_once_is_accepted(
        seed in any::<u64>(), cuts in 1u32..4, drops in 0u32..8, doubles in 0u32..8, overlaps in 0u32..8, lies in 0u32..8,
    ) {
        // few of each, mostly none
        let few = |n: u32| n.saturating_sub(6);
        let (drops, overlaps, lies) = (few(drops), few(overlaps), few(lies));
        let mut state = seed | 1;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let tokens = 17 + random(24) as u64;
        let world = World::new();
        let mut inbound = world.open(tokens, tokens);
        // all parts of an honest sender
        let mut parts: Vec<(u32, usize, u32, u32)> = Vec::new();
        for page in 0..inbound.pages() {
            let filled = (tokens - u64::from(page * P)).min(u64::from(P)) as u32;
            for plane in 0..PLANES {
                let step = filled.div_ceil(cuts);
                parts.extend((0..filled).step_by(step as usize).map(|from| (page, plane, from, filled.min(from + step))));
            }
        }
        for _ in 0..drops {
            parts.swap_remove(random(parts.len()));
        }
        for _ in 0..doubles {
            parts.push(parts[random(parts.len())]);
        }
        for _ in 0..overlaps {
            let (page, plane, from, to) = parts[random(parts.len())];
            if to - from > 1 {
                parts.push((page, plane, from, to - 1));
            }
        }
        for at in (1..parts.len()).rev() {
            parts.swap(at, random(at + 1));
        }
        let wrong: Vec<usize> = (0..lies).map(|_| random(parts.len())).collect();

        let geometry = world.decode.geometry().clone();
        let offer = inbound.offer();
        let mut reference = vec![None; (inbound.pages() * P) as usize * PLANES];
        let (mut has_overlap, mut has_lie) = (false, false);
        let mut landing = inbound.landing(Writer::ONLY).expect("it lands");
        for (at, (page, plane, from, to)) in parts.iter().copied().enumerate() {
            let first = u64::from(page * P);
            let mut bytes = plane_bytes(&geometry, 1, plane, first + u64::from(from)..first + u64::from(to));
            if wrong.contains(&at) {
                bytes[0] ^= 1;
            }
            let place = |token: u32| ((page * P + token) as usize) * PLANES + plane;
            let before: Vec<_> = (from..to).map(|token| reference[place(token)]).collect();
            let found = landing.put(page, plane, from..to, &bytes);
            if before.iter().all(Option::is_none) {
                prop_assert_eq!(found, Ok(Landed::Now));
                (from..to).for_each(|token| reference[place(token)] = Some((from, to)));
                has_lie |= wrong.contains(&at);
            } else if before.iter().all(|part| *part == Some((from, to))) {
                prop_assert_eq!(found, Ok(Landed::Before));
            } else {
                let is_overlap = matches!(found, Err(LandError::Overlap { .. }));
                prop_assert!(is_overlap);
                has_overlap = true;
            }
        }
        drop(landing);
        let missing = (0..tokens as usize * PLANES).any(|place| reference[place].is_none());

        let digester = digester_of(offer.transfer(), offer.model(), offer.slice());
        let pages = tokens.div_ceil(u64::from(P)) as u32;
        let digests = (0..pages).map(|page| {
            let first = u64::from(page * P);
            let end = (first + u64::from(P)).min(tokens);
            let mut digest = digester.page(page, (end - first) as u32);
            (0..PLANES).for_each(|plane| digest.update(&plane_bytes(&geometry, 1, plane, first..end)));
            digest.finish()
        });
        let receipt = receipt(&offer, pages, tokens, fill(tokens), digests.collect());
        if !(missing || has_overlap || has_lie) {
            assert_holds(&accept(inbound, &receipt).expect("all of it is right"), 1, tokens);
            return Ok(());
        }
        match world.refused(inbound, &receipt) {
            InboundError::Overlap { .. } => prop_assert!(has_overlap),
            InboundError::Gap { .. } => prop_assert!(missing && !has_overlap),
            InboundError::Digest { .. } => prop_assert!(has_lie && !missing && !has_overlap),
            other => prop_assert!(false, "{other}"),
        }
    }
}

// C10
#[test]
fn a_digest_is_bound_to_everything_that_says_where_the_bytes_belong() {
    let model = model_of(P, "r1", HeadOrder::Nhd);
    let slice = Slice::whole(&model);
    let transfer = |bits: u128| TransferId::from_bits(1 << 64 | bits).expect("a transfer");
    let digest = |transfer, model: &ModelLayout, slice: &Slice, page, tokens, bytes: &[u8]| {
        let mut digest = digester_of(transfer, model, slice).page(page, tokens);
        bytes.chunks(3).for_each(|piece| digest.update(piece));
        digest.finish()
    };
    let base = digest(transfer(1), &model, &slice, 0, 16, b"bytes");
    assert_eq!(base, digest(transfer(1), &model, &slice, 0, 16, b"bytes"));
    let other_model = model_of(P, "r1", HeadOrder::Hnd);
    let other_slice = Slice::new(0..2, 0..1).expect("heads");
    let others = [
        digest(transfer(2), &model, &slice, 0, 16, b"bytes"),
        digest(transfer(1), &other_model, &slice, 0, 16, b"bytes"),
        digest(transfer(1), &model, &other_slice, 0, 16, b"bytes"),
        digest(transfer(1), &model, &slice, 1, 16, b"bytes"),
        digest(transfer(1), &model, &slice, 0, 15, b"bytes"),
        digest(transfer(1), &model, &slice, 0, 16, b"bytez"),
        digest(transfer(1), &model, &slice, 0, 16, b"bytes "),
    ];
    for (at, other) in others.iter().enumerate() {
        assert_ne!(base, *other, "{at}");
        assert!(others[at + 1..].iter().all(|third| third != other), "{at}");
    }
    assert_eq!(Digest::from_bytes(base.to_bytes()), base);
    let outside = Slice::new(0..2, 0..3).expect("a range");
    let refused = Digester::new(Checksum::Xxh3, None, transfer(1), &model, &outside).expect_err("outside");
    assert!(matches!(refused, DigestError::Layout(LayoutError::OutsideModel { .. })));
}
