//! What is right is accepted, whatever the order in which it came.

use pagestamp::geometry::*;
use pagestamp::*;

use crate::world::*;

// C10
#[test]
fn an_honest_handoff_gives_identical_bytes() {
    for order in [HeadOrder::Nhd, HeadOrder::Hnd] {
        for tokens in [1, 15, 16, 17, 33, 64, 128] {
            let world = World::of(model_of(P, "r1", order));
            let (mut outbound, mut inbound) = (world.sealed(tokens, tokens), world.open(tokens, tokens));
            let receipt = send(&mut outbound, &mut inbound);
            assert_eq!((receipt.tokens(), receipt.last_page_tokens()), (tokens, fill(tokens)));
            assert_eq!(inbound.complete_pages(), inbound.pages());
            let kv = accept(inbound, &receipt).expect("nothing is wrong with it");
            assert_holds(&kv, tokens, tokens);
            let by_handle = world.decode.read(owner(1), kv.handle(0).expect("a page")).expect("its owner reads");
            assert_eq!(u64::from(by_handle.written_tokens()), tokens.min(u64::from(P)));
            drop(by_handle);
            assert_holds(&outbound.into_reservation(), tokens, tokens);
            kv.release();
            assert_untouched(&world.decode);
            assert_untouched(&world.prefill);
        }
    }
}

// C10
#[test]
fn the_two_ends_may_be_in_one_pool() {
    let world = World::new();
    let mut outbound = world.sealed(3, 40);
    let room = reserve(&world.prefill, owner(1), 40, 40);
    let mut inbound = Inbound::open(room, world.plan(40)).expect("it opens");
    let receipt = send(&mut outbound, &mut inbound);
    assert_holds(&accept(inbound, &receipt).expect("all fits"), 3, 40);
}

// C5, C10, B18
#[test]
fn nothing_of_an_inbound_is_readable_before_it_is_accepted() {
    let world = World::new();
    let (mut outbound, mut inbound) = (world.sealed(1, 40), world.open(48, 40));
    let handles = handles_of(&inbound);
    assert_eq!(handles.len(), 3);
    let readable = || -> u32 {
        let guards = handles.iter().map(|handle| world.decode.read(owner(1), *handle).expect("its owner asks"));
        guards.map(|guard| guard.written_tokens()).sum()
    };
    assert_eq!(readable(), 0);
    let receipt = send(&mut outbound, &mut inbound);
    assert_eq!(readable(), 0, "all has landed, nothing is verified");
    let kv = accept(inbound, &receipt).expect("all fits");
    assert_eq!(readable(), 40);
    drop(kv);
}

// B21, C10
#[test]
fn what_is_reserved_beyond_the_expected_tokens_stays_empty_and_zero() {
    let world = World::new();
    for (reserved, tokens) in [(65, 64), (64, 64), (64, 63), (17, 16), (1, 0), (80, 33)] {
        let (mut outbound, mut inbound) = (world.sealed(2, tokens), world.open(reserved, tokens));
        assert_eq!(u64::from(inbound.pages()), tokens.div_ceil(u64::from(P)));
        let receipt = send(&mut outbound, &mut inbound);
        let mut kv = accept(inbound, &receipt).expect("all fits");
        assert_holds(&kv, 2, tokens);
        assert_eq!(kv.reserved_tokens(), reserved);
        for (ordinal, handle) in kv.handles().enumerate() {
            let filled = tokens.saturating_sub(ordinal as u64 * u64::from(P)).min(u64::from(P)) as u32;
            let guard = world.decode.read(owner(1), handle).expect("its owner asks");
            assert_eq!(guard.written_tokens(), filled);
            assert!(filled > 0 || raw_page(&world.decode, handle.index()).iter().all(|byte| *byte == 0));
        }
        assert!(matches!(kv.read(0..tokens + 1), Err(ReadError::Unwritten { .. })));
        write(&mut kv, 2, reserved - tokens);
        kv.commit(reserved).expect("written");
        assert_holds(&kv, 2, reserved);
    }
}

// B12
#[test]
fn an_empty_transfer_completes_at_once() {
    let world = World::new();
    let (outbound, inbound) = (world.sealed(1, 0), world.open(16, 0));
    outbound.check(&inbound.offer()).expect("nothing for nothing");
    let offer = inbound.offer();
    let nothing = Receipt::new(offer.transfer(), offer.owner(), offer.model().clone(), Writer::ONLY);
    assert_holds(&accept(inbound, &nothing).expect("nothing is missing"), 1, 0);
    let unsaid = world.open(16, 0).accept().expect("no receipt is needed for nothing");
    assert_holds(&unsaid, 1, 0);
}

// C10
#[test]
fn parts_may_land_in_any_order_and_size() {
    let world = World::of(model_of(P, "r1", HeadOrder::Hnd));
    let geometry = world.decode.geometry().clone();
    for step in 1..=P {
        let mut outbound = world.sealed(4, 40);
        let mut inbound = world.open(40, 40);
        let digests = digests_of(&send(&mut outbound, &mut world.open(40, 40)));
        let mut parts: Vec<(u32, usize, u32)> = (0..3)
            .flat_map(|page| {
                (0..PLANES).flat_map(move |plane| (0..P).step_by(step as usize).map(move |t| (page, plane, t)))
            })
            .filter(|(page, _, from)| page * P + from < 40)
            .collect();
        // a fixed shuffle: the parts in the order of a product with a number coprime to their count
        parts.sort_by_key(|(page, plane, from)| (page * 7919 + *plane as u32 * 104_729 + from * 1_299_709) % 997);
        let offer = inbound.offer();
        let mut landing = inbound.landing(Writer::ONLY).expect("it lands");
        for (page, plane, from) in parts {
            let to = (from + step).min(landing.expected_tokens(page));
            let first = u64::from(page * P);
            let bytes = plane_bytes(&geometry, 4, plane, first + u64::from(from)..first + u64::from(to));
            assert_eq!(landing.put(page, plane, from..to, &bytes), Ok(Landed::Now));
        }
        drop(landing);
        // digests of the first transfer are not those of this one, so they are made again
        assert_ne!(digests, Vec::new());
        let digester = digester_of(offer.transfer(), offer.model(), offer.slice());
        let digests = (0..3).map(|page| {
            let first = u64::from(page * P);
            let end = (first + u64::from(P)).min(40);
            let mut digest = digester.page(page, (end - first) as u32);
            (0..PLANES).for_each(|plane| {
                let bytes = plane_bytes(&geometry, 4, plane, first..end);
                digest.update(&run_by_run(&geometry, plane, &bytes));
            });
            digest.finish()
        });
        let receipt = receipt(&offer, 3, 40, 8, digests.collect());
        assert_holds(&accept(inbound, &receipt).expect("all fits"), 4, 40);
    }
}

// C10
#[test]
fn the_same_part_twice_counts_once_and_what_is_there_stays() {
    let world = World::new();
    let mut inbound = world.open(32, 32);
    let digests = land(&mut inbound, 1, 32, |page| page);
    let offer = inbound.offer();
    let mut landing = inbound.landing(Writer::ONLY).expect("it lands");
    let other = vec![0xEE; landing_bytes(&world, P)];
    assert_eq!(landing.put(1, 2, 0..P, &other), Ok(Landed::Before));
    drop(landing);
    let kv = accept(inbound, &receipt(&offer, 2, 32, 16, digests)).expect("once is once");
    assert_holds(&kv, 1, 32);

    // also when the plane came in pieces
    let mut inbound = world.open(16, 16);
    let mut landing = inbound.landing(Writer::ONLY).expect("it lands");
    assert_eq!(landing.put(0, 0, 4..8, &other[..landing_bytes(&world, 4)]), Ok(Landed::Now));
    assert_eq!(landing.put(0, 0, 4..8, &vec![1; landing_bytes(&world, 4)]), Ok(Landed::Before));
    drop(landing);
    let raw = raw_page(&world.decode, handles_of(&inbound)[0].index());
    let (there, rest) = (&raw[landing_bytes(&world, 4)..landing_bytes(&world, 8)], &raw[landing_bytes(&world, 8)..]);
    assert!(there.iter().all(|byte| *byte == 0xEE) && rest.iter().all(|byte| *byte == 0));
}

// C10, C8
#[test]
fn a_part_that_was_refused_for_its_arguments_leaves_the_handoff_good() {
    let world = World::new();
    let mut inbound = world.open(40, 40);
    let mut landing = inbound.landing(Writer::ONLY).expect("it lands");
    let bytes = vec![1; landing_bytes(&world, P)];
    let bad = [
        (landing.put(3, 0, 0..P, &bytes), LandError::NoSuchPage { page: 3, expected_pages: 3 }),
        (landing.put(u32::MAX, 0, 0..P, &bytes), LandError::NoSuchPage { page: u32::MAX, expected_pages: 3 }),
        (landing.put(0, PLANES, 0..P, &bytes), LandError::NoSuchPlane { plane: PLANES, planes: PLANES }),
        (landing.put(0, 0, 4..4, &[]), LandError::EmptyPart { page: 0, start_token: 4, end_token: 4 }),
        #[expect(clippy::reversed_empty_ranges, reason = "a range that runs backward is what is tried")]
        (landing.put(0, 0, 9..4, &[]), LandError::EmptyPart { page: 0, start_token: 9, end_token: 4 }),
        (landing.put(2, 0, 0..P, &bytes), LandError::PastExpected { page: 2, to_tokens: P, expected_tokens: 8 }),
        (landing.put(0, 0, 0..P + 1, &bytes), LandError::PastExpected { page: 0, to_tokens: 17, expected_tokens: 16 }),
        (
            landing.put(0, 1, 0..P, &bytes[1..]),
            LandError::Length {
                page: 0,
                plane: 1,
                tokens: P,
                given_bytes: bytes.len() as u64 - 1,
                expected_bytes: bytes.len() as u64,
            },
        ),
        (
            landing.put(0, 1, 1..P, &bytes),
            LandError::Length {
                page: 0,
                plane: 1,
                tokens: P - 1,
                given_bytes: bytes.len() as u64,
                expected_bytes: bytes.len() as u64 / u64::from(P) * u64::from(P - 1),
            },
        ),
    ];
    for (found, expected) in bad {
        assert_eq!(found, Err(expected));
    }
    drop(landing);
    assert_eq!(inbound.complete_pages(), 0);
    assert!(raw_is_zero(&world.decode), "not a byte was written");
    let digests = land(&mut inbound, 1, 40, |page| page);
    let offer = inbound.offer();
    assert_holds(&accept(inbound, &receipt(&offer, 3, 40, 8, digests)).expect("all fits"), 1, 40);
}
