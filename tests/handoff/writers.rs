//! Several writers: tensor- and pipeline-parallel ranks, each with its slice, in any order.

use pagestamp::geometry::*;
use pagestamp::*;

use crate::ranks::*;
use crate::world::*;

/// Each way in which four layers of four heads are cut; a latent is cut by layers only.
fn cuts(model: &ModelLayout) -> Vec<Vec<Slice>> {
    if model.kv_heads() == 1 {
        return vec![vec![slice(0..4, 0..1)], vec![slice(0..1, 0..1), slice(1..4, 0..1)]];
    }
    vec![
        vec![slice(0..4, 0..4)],
        vec![slice(0..4, 0..1), slice(0..4, 1..4)],
        vec![slice(0..2, 0..4), slice(2..4, 0..4)],
        vec![slice(0..3, 0..2), slice(0..3, 2..4), slice(3..4, 0..3), slice(3..4, 3..4)],
    ]
}

// C10
#[test]
fn ranks_that_each_hold_a_slice_fill_one_receiver_in_any_order() {
    for model in models() {
        let whole = Slice::whole(&model);
        for cut in cuts(&model) {
            for tokens in [1, 4, 11] {
                let decode = pool_of(&model, &whole);
                let kv = reserve(&decode, owner(1), tokens, tokens);
                let plan = InboundPlan::new(&model, &whole, tokens).with_writers(writers(&cut));
                let mut inbound = Inbound::open(kv, plan).expect("it opens");
                let offer = inbound.offer();
                for (rank, slice) in cut.iter().enumerate().rev() {
                    let mut outbound = sender(&model, slice, rank as u64, 5, tokens);
                    let mut landing = inbound.landing(HolderId(rank as u64)).expect("it is expected");
                    let receipt = outbound.send(&offer, &mut landing).expect("it is sent");
                    drop(landing);
                    assert_eq!(inbound.receive(&receipt), Ok(Received::Now));
                    if rank > 0 {
                        let Err(AcceptError::NotYet(not_yet)) = inbound.accept() else { panic!("a rank is missing") };
                        let missing = not_yet.error().clone();
                        let first = InboundError::Untold { writer: HolderId(0), page: 0, layer: 0 };
                        assert_eq!(missing, first);
                        inbound = not_yet.into_inbound();
                    }
                }
                assert_named(&inbound.accept().expect("all is there"), &model, &whole, 5, tokens);
            }
        }
    }
}

// C10
#[test]
fn one_sender_of_everything_fills_receivers_that_each_hold_a_slice() {
    for model in models() {
        let whole = Slice::whole(&model);
        for cut in cuts(&model) {
            let mut outbound = sender(&model, &whole, 0, 6, 10);
            for slice in &cut {
                let decode = pool_of(&model, slice);
                let kv = reserve(&decode, owner(1), 10, 10);
                let mut inbound = Inbound::open(kv, InboundPlan::new(&model, slice, 10)).expect("it opens");
                let offer = inbound.offer();
                let receipt = outbound.send(&offer, &mut inbound.landing(Writer::ONLY).expect("it lands"));
                inbound.receive(&receipt.expect("it is sent")).expect("honest");
                assert_named(&inbound.accept().expect("all is there"), &model, slice, 6, 10);
            }
            let [shown] = &outbound.pool().transfers()[..] else { panic!("one sender") };
            assert_eq!((shown.id, shown.serves.len()), (outbound.id(), cut.len()));
        }
    }
}

// C10
#[test]
fn layers_may_be_streamed_one_by_one_in_parts_of_pages_and_out_of_order() {
    for model in models() {
        let whole = Slice::whole(&model);
        let decode = pool_of(&model, &whole);
        let mut outbound = sender(&model, &whole, 0, 7, 15);
        let kv = reserve(&decode, owner(1), 15, 15);
        let mut inbound = Inbound::open(kv, InboundPlan::new(&model, &whole, 15)).expect("it opens");
        let offer = inbound.offer();
        let sending = outbound.start(&offer).expect("it fits");
        let mut parts = Vec::new();
        for (layers, pages) in [(3..4, 2..4), (0..1, 0..4), (3..4, 0..2), (1..3, 0..1), (1..3, 1..4)] {
            let mut landing = inbound.landing(Writer::ONLY).expect("it lands");
            parts.push(outbound.copy(&sending, layers, pages, &mut landing).expect("it is sent"));
        }
        assert_eq!(inbound.complete_pages(), 4);
        for (at, part) in [4, 0, 2, 3, 1].into_iter().map(|at| (at, parts[at].clone())) {
            let Err(AcceptError::NotYet(not_yet)) = inbound.accept() else { panic!("not all was told") };
            inbound = not_yet.into_inbound();
            let receipt = sending.receipt(vec![part]);
            assert_eq!(inbound.receive(&receipt), Ok(Received::Now), "part {at}");
            assert_eq!(inbound.receive(&receipt), Ok(Received::Before), "part {at} again");
        }
        assert_eq!(inbound.receive(&sending.receipt(parts)), Ok(Received::Before), "all of them again");
        assert_named(&inbound.accept().expect("all is there"), &model, &whole, 7, 15);
    }
}

// C10, B18
#[test]
fn two_different_parts_that_overlap_end_the_handoff() {
    let model = models().remove(0);
    let whole = Slice::whole(&model);
    let decode = pool_of(&model, &whole);
    let mut outbound = sender(&model, &whole, 0, 7, 15);
    let kv = reserve(&decode, owner(1), 15, 15);
    let mut inbound = Inbound::open(kv, InboundPlan::new(&model, &whole, 15)).expect("it opens");
    let offer = inbound.offer();
    let all = outbound.send(&offer, &mut inbound.landing(Writer::ONLY).expect("it lands")).expect("it is sent");
    let sending = outbound.start(&offer).expect("saying it twice is saying it once");
    assert_eq!(inbound.receive(&all), Ok(Received::Now));
    let layer = outbound.digest(&sending, 2..3, 3..4).expect("sealed");
    let overlap = InboundError::TwoParts { writer: Writer::ONLY, page: 3, layer: 2 };
    assert_eq!(inbound.receive(&sending.receipt(vec![layer])), Err(overlap.clone()));
    assert_eq!(inbound.receive(&all), Err(overlap.clone()), "the first error stays");
    let Err(AcceptError::Refused(refused)) = inbound.accept() else { panic!("nothing mends it") };
    assert_eq!(*refused.error(), overlap);
    assert_untouched(&decode);
}

// B27, C10
#[test]
fn a_rank_that_sends_another_ranks_slice_is_refused() {
    for model in models().into_iter().filter(|model| model.kv_heads() > 1) {
        let whole = Slice::whole(&model);
        let (low, high) = (slice(0..4, 0..2), slice(0..4, 2..4));
        let decode = pool_of(&model, &whole);
        let open = || {
            let kv = reserve(&decode, owner(1), 8, 8);
            let plan = InboundPlan::new(&model, &whole, 8).with_writers(writers(&[low.clone(), high.clone()]));
            Inbound::open(kv, plan).expect("it opens")
        };
        // rank 1 holds rank 0's heads: its own check finds it
        let inbound = open();
        let mut misrouted = sender(&model, &low, 1, 8, 8);
        let asked = OutboundError::Slice { expected: low.clone(), found: high.clone() };
        assert_eq!(misrouted.start(&inbound.offer()), Err(asked));
        drop(inbound);

        // a sender that does not ask: it lands rank 0's bytes as rank 1's, and says so
        let mut inbound = open();
        let offer = inbound.offer();
        let mut rank0 = sender(&model, &low, 0, 8, 8);
        let receipt = rank0.send(&offer, &mut inbound.landing(HolderId(0)).expect("it lands")).expect("it is sent");
        let mut landing = inbound.landing(HolderId(1)).expect("it lands");
        let geometry = model.geometry(&low).expect("of the model");
        for page in 0..2 {
            for (plane, bytes) in planes_of(&model, &low, 8, page * 4..page * 4 + 4).iter().enumerate() {
                landing.put(page as u32, plane, 0..4, bytes).expect("as many bytes");
            }
        }
        drop(landing);
        inbound.receive(&receipt).expect("rank 0 is honest");
        let as_rank1 = |parts: Vec<SentPart>| {
            Receipt::new(offer.transfer(), owner(1), model.clone(), HolderId(1))
                .with_extent(2, 8, 4)
                .with_parts(Checksum::Xxh3, parts)
        };
        let named = InboundError::Slice { writer: HolderId(1), expected: high.clone(), found: low.clone() };
        assert_eq!(inbound.receive(&as_rank1(receipt.parts().to_vec())), Err(named));
        drop(inbound);

        // renamed to rank 1's slice, the digests do not fit
        let mut inbound = open();
        let offer = inbound.offer();
        let mut ranks = [sender(&model, &low, 0, 8, 8), sender(&model, &high, 1, 8, 8)];
        let receipts: Vec<Receipt> = (0..2)
            .map(|rank| {
                let mut landing = inbound.landing(HolderId(rank)).expect("it lands");
                ranks[rank as usize].send(&offer, &mut landing).expect("it is sent")
            })
            .collect();
        let planes = geometry.planes().len() as u32;
        let lie = SentPart::new(high.clone(), 0..2).with_digests(0..planes, digests_of(&receipts[0]));
        let lie = Receipt::new(offer.transfer(), owner(1), model.clone(), HolderId(1))
            .with_extent(2, 8, 4)
            .with_parts(Checksum::Xxh3, vec![lie]);
        inbound.receive(&receipts[0]).expect("honest");
        inbound.receive(&lie).expect("it looks right");
        let refused = inbound.accept().expect_err("the bytes are not these").give_up();
        assert!(matches!(refused.error(), InboundError::Digest { writer: HolderId(1), page: 0, .. }));
        assert_untouched(&decode);
    }
}

// C10
#[test]
fn writers_that_do_not_tile_the_slice_are_refused_before_a_page_is_touched() {
    let model = models().remove(0);
    let whole = Slice::whole(&model);
    let decode = pool_of(&model, &whole);
    let refuse = |slices: &[Slice]| {
        let kv = reserve(&decode, owner(1), 8, 8);
        let plan = InboundPlan::new(&model, &whole, 8).with_writers(writers(slices));
        let (kv, error) = Inbound::open(kv, plan).expect_err("it must not open").into_parts();
        assert_eq!((kv.reserved_tokens(), kv.written_tokens()), (8, 0));
        error
    };
    assert_eq!(refuse(&[]), OpenError::Tiling(TilingError::NoWriter));
    let gap = refuse(&[slice(0..4, 0..2), slice(0..3, 2..4)]);
    assert_eq!(gap, OpenError::Tiling(TilingError::Gap { sent: 14, expected: 16 }));
    let overlap = TilingError::Overlap { first: HolderId(0), second: HolderId(1), layer: 3, head: 1 };
    assert_eq!(refuse(&[slice(0..4, 0..2), slice(3..4, 1..4)]), OpenError::Tiling(overlap));
    assert!(decode.transfers().is_empty());
    assert_untouched(&decode);
}

// C10
#[test]
fn a_receipt_of_nobody_who_is_expected_is_refused() {
    let world = World::new();
    let mut inbound = world.open(40, 40);
    let receipt = send(&mut world.sealed(1, 40), &mut inbound);
    let stranger = Receipt::new(receipt.transfer(), owner(1), world.model.clone(), HolderId(9))
        .with_extent(3, 40, 8)
        .with_parts(Checksum::Xxh3, receipt.parts().to_vec());
    assert_eq!(world.refused(inbound, &stranger), InboundError::Writer { found: HolderId(9) });
    let mut inbound = world.open(40, 40);
    let unknown = WriterError::Unknown { writer: HolderId(9) };
    assert_eq!(inbound.landing(HolderId(9)).expect_err("a stranger"), LandError::Writer(unknown.clone()));
    assert_eq!(inbound.open_writer(HolderId(9), None), Err(unknown));
    let outbound = world.sealed(1, 40).with_writer(HolderId(9));
    assert_eq!(outbound.check(&inbound.offer()), Err(OutboundError::Writer { writer: HolderId(9) }));
}

// C10
#[test]
fn a_group_of_pages_that_this_version_does_not_know_is_refused() {
    let world = World::new();
    let error = world.accept_with(40, |r| {
        let parts = r.parts().iter().map(|part| part.clone().with_group(1)).collect();
        r.with_parts(Checksum::Xxh3, parts)
    });
    assert_eq!(error, InboundError::Group { expected: 0, found: 1 });
}

// C10, C11
#[test]
fn many_small_parts_told_again_count_once_each() {
    // 64 layers of 512 pages, a part for each layer of each page: telling them again must not compare each with each
    let cache = HeadCache::new(1, 1, ElementFormat::plain(Dtype::Int8));
    let model = ModelLayout::new("deep", "r1", KvLayout::new(1, 64, cache)).expect("a good layout");
    let whole = Slice::whole(&model);
    let memory = HostMemory::new(model.geometry(&whole).expect("of the model"), 514).expect("a small map");
    let decode = PagePool::new(PoolConfig::new(514), memory).expect("a pool");
    let proof = decode.prove(CapacityPlan::new(512)).expect("the pool holds the plan");
    let kv = decode.reserve(&proof, Request::new(owner(1), 512), 512).expect("room");
    let mut inbound = Inbound::open(kv, InboundPlan::new(&model, &whole, 512)).expect("it opens");
    let part = |layer: u32, page: u32| {
        SentPart::new(slice(layer..layer + 1, 0..1), page..page + 1)
            .with_digests(0..2, vec![Digest::from_bytes([layer as u8 + 1; 16])])
    };
    let parts = (0..64).flat_map(|layer| (0..512).map(move |page| part(layer, page))).collect();
    let told = Receipt::new(inbound.transfer(), owner(1), model.clone(), Writer::ONLY)
        .with_extent(512, 512, 1)
        .with_parts(Checksum::Xxh3, parts);
    assert_eq!(inbound.receive(&told), Ok(Received::Now));
    assert_eq!(inbound.receive(&told), Ok(Received::Before));
    assert_eq!(inbound.receive(&told), Ok(Received::Before));
    assert!(matches!(inbound.accept().expect_err("no byte came").error(), InboundError::Gap { complete_pages: 0, .. }));
}

// C10, C11
#[test]
fn digests_that_nobody_compares_are_not_kept_without_limit() {
    let world = World::new();
    let kv = reserve(&world.decode, owner(1), 40, 40);
    let plan = world.plan(40).with_checksum(Checksum::BytesUnverified);
    let mut inbound = Inbound::open(kv, plan).expect("it opens");
    let told = |digests: usize| {
        let part =
            SentPart::new(world.slice.clone(), 0..3).with_digests(0..4, vec![Digest::from_bytes([1; 16]); digests]);
        Receipt::new(inbound.transfer(), owner(1), world.model.clone(), Writer::ONLY)
            .with_extent(3, 40, 8)
            .with_parts(Checksum::BytesUnverified, vec![part])
    };
    let (three, many) = (told(3), told(1 << 16));
    let refused = InboundError::DigestCount { expected_digests: 3, found_digests: 1 << 16 };
    assert_eq!(inbound.receive(&many), Err(refused));
    let kv = reserve(&world.decode, owner(1), 40, 40);
    drop(inbound.reject("too many"));
    let mut inbound = Inbound::open(kv, world.plan(40).with_checksum(Checksum::BytesUnverified)).expect("it opens");
    let three = Receipt::new(inbound.transfer(), owner(1), world.model.clone(), Writer::ONLY)
        .with_extent(3, 40, 8)
        .with_parts(Checksum::BytesUnverified, three.parts().to_vec());
    assert_eq!(inbound.receive(&three), Ok(Received::Now), "one a page is no harm");
}

// C10, B18
#[test]
fn a_part_that_is_new_in_some_layers_only_is_an_overlap_in_planes_that_layers_share_too() {
    for model in models() {
        let whole = Slice::whole(&model);
        let decode = pool_of(&model, &whole);
        let mut outbound = sender(&model, &whole, 0, 7, 11);
        let kv = reserve(&decode, owner(1), 11, 11);
        let mut inbound = Inbound::open(kv, InboundPlan::new(&model, &whole, 11)).expect("it opens");
        let sending = outbound.start(&inbound.offer()).expect("it fits");
        let mut landing = inbound.landing(Writer::ONLY).expect("it lands");
        outbound.copy(&sending, 1..2, 0..1, &mut landing).map(drop).expect("it is sent");
        let both = outbound.copy(&sending, 0..2, 0..1, &mut landing);
        drop(landing);
        if model.whole().layer_planes() == LayerPlanes::PerLayer {
            both.map(drop).expect("each plane is of one layer: one is new, one is there");
            continue;
        }
        let OutboundError::Land(LandError::Overlap { page: 0, layer: 1, .. }) = both.expect_err("one of two is new")
        else {
            panic!("another error")
        };
        let refused = inbound.accept().expect_err("two parts overlapped").give_up();
        assert!(matches!(refused.error(), InboundError::Overlap { page: 0, layer: 1, .. }), "{refused}");
    }
}

// C10, C11
#[test]
fn a_receipt_that_begins_below_the_layers_of_its_writer_or_says_nothing_is_refused() {
    let model = models().remove(0);
    let whole = Slice::whole(&model);
    let cut = [slice(0..2, 0..4), slice(2..4, 0..4)];
    let decode = pool_of(&model, &whole);
    for layers in [0..1, 0..2, 1..3, 0..4] {
        let kv = reserve(&decode, owner(1), 11, 11);
        let plan = InboundPlan::new(&model, &whole, 11).with_writers(writers(&cut));
        let mut inbound = Inbound::open(kv, plan).expect("it opens");
        let found = slice(layers, 0..4);
        let planes = model.geometry(&found).expect("of the model").planes().len() as u32;
        let part = SentPart::new(found.clone(), 0..3).with_digests(0..planes, vec![Digest::from_bytes([1; 16]); 3]);
        let told = |parts| {
            Receipt::new(inbound.transfer(), owner(1), model.clone(), HolderId(1))
                .with_extent(3, 11, 3)
                .with_parts(Checksum::Xxh3, parts)
        };
        let (below, nothing) = (told(vec![part]), told(Vec::new()));
        let expected = InboundError::Slice { writer: HolderId(1), expected: cut[1].clone(), found };
        assert_eq!(inbound.receive(&below), Err(expected));
        drop(inbound.reject("another rank's layers"));
        let kv = reserve(&decode, owner(1), 11, 11);
        let plan = InboundPlan::new(&model, &whole, 11).with_writers(writers(&cut));
        let mut inbound = Inbound::open(kv, plan).expect("it opens");
        let nothing = Receipt::new(inbound.transfer(), owner(1), model.clone(), HolderId(1))
            .with_extent(3, 11, 3)
            .with_parts(Checksum::Xxh3, nothing.parts().to_vec());
        assert_eq!(inbound.receive(&nothing), Err(InboundError::Unverified { page: 0, plane: 0 }));
    }
}
