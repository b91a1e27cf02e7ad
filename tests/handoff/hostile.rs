//! Values that nobody sane would make, and values that are forgotten.

use std::mem::forget;
use std::ptr::NonNull;
use std::thread;

use pagestamp::geometry::*;
use pagestamp::memory::{ForeignMemory, ForeignPlane};
use pagestamp::*;

use crate::ranks::slice;
use crate::world::*;

// C11
#[test]
fn numbers_at_their_ends_are_refused_by_name_at_both_sides() {
    let world = World::new();
    for tokens in [41, u64::from(u32::MAX) * 16 + 1, u64::MAX] {
        let kv = reserve(&world.decode, owner(1), 40, 40);
        let error = Inbound::open(kv, world.plan(tokens)).expect_err("40 are reserved").into_parts().1;
        assert_eq!(error, OpenError::PastReserved { tokens, reserved_tokens: 40 });
        let kv = reserve(&world.prefill, owner(1), 40, 40);
        let error = Outbound::stream(kv, &world.model, &world.slice, tokens).expect_err("40 at most").into_parts().1;
        assert_eq!(error, SealError::PastMax { tokens, max_tokens: 40 });
    }
    let (mut outbound, mut inbound) = (world.sealed(1, 40), world.open(40, 40));
    let offer = inbound.offer();
    let (all, one) = (offer.destinations().to_vec(), offer.destinations()[0]);
    for (tokens, held, destinations) in [
        (u64::MAX, 0, all.clone()),
        (40, u64::MAX, all.clone()),
        (40, u64::MAX - 15, all.clone()),
        (40, 48, all.clone()),
        (u64::MAX, u64::MAX, vec![one; 3]),
        (40, 0, vec![u128::MAX; 3]),
        (40, 0, vec![0; 3]),
        (0, 0, vec![]),
        (40, 0, vec![one; 1 << 16]),
    ] {
        let lie = offer.clone().with_tokens(tokens, destinations).with_held_tokens(held);
        let error = outbound.send(&lie, &mut inbound.landing(Writer::ONLY).expect("it lands")).expect_err("a lie");
        assert!(!error.to_string().is_empty());
    }
    let receipt = outbound.send(&offer, &mut inbound.landing(Writer::ONLY).expect("it lands")).expect("the truth");
    drop(inbound);
    for (pages, tokens, fill, held) in
        [(u32::MAX, 40, 8, 0), (3, u64::MAX, 8, 0), (3, 40, u32::MAX, 0), (3, 40, 8, u64::MAX), (0, 0, 0, 0)]
    {
        let mut inbound = world.open(40, 40);
        let lie = Receipt::new(inbound.transfer(), owner(1), world.model.clone(), Writer::ONLY)
            .with_extent(pages, tokens, fill)
            .with_held_tokens(held)
            .with_parts(Checksum::Xxh3, receipt.parts().to_vec());
        inbound.receive(&lie).expect_err("a lie");
        assert_untouched_after(inbound, &world);
    }
    #[expect(clippy::reversed_empty_ranges, reason = "a range that runs backward is what is tried")]
    for (layers, pages) in [
        (0..2, 0..u32::MAX),
        (0..2, u32::MAX..u32::MAX),
        (0..2, 3..0),
        (0..2, 3..3),
        (0..u32::MAX, 0..3),
        (2..3, 0..3),
        (u32::MAX - 1..u32::MAX, 0..3),
    ] {
        let mut inbound = world.open(40, 40);
        let part = SentPart::new(slice(layers, 0..2), pages).with_digests(0..4, vec![Digest::from_bytes([1; 16]); 3]);
        let lie = receipt_of(&inbound, vec![part], &world);
        inbound.receive(&lie).expect_err("a lie");
        assert_untouched_after(inbound, &world);
    }
    #[expect(clippy::reversed_empty_ranges, reason = "a range that runs backward is what is tried")]
    for planes in [0..u32::MAX, u32::MAX..0, 5..4, 4..4, u32::MAX..u32::MAX] {
        let mut inbound = world.open(40, 40);
        let part = SentPart::new(world.slice.clone(), 0..3).with_digests(planes, vec![Digest::from_bytes([1; 16]); 3]);
        let lie = receipt_of(&inbound, vec![part], &world);
        inbound.receive(&lie).expect_err("a lie");
        assert_untouched_after(inbound, &world);
    }
}

fn receipt_of(inbound: &Inbound<HostMemory>, parts: Vec<SentPart>, world: &World) -> Receipt {
    Receipt::new(inbound.transfer(), owner(1), world.model.clone(), Writer::ONLY)
        .with_extent(3, 40, 8)
        .with_parts(Checksum::Xxh3, parts)
}

fn assert_untouched_after(inbound: Inbound<HostMemory>, world: &World) {
    let refused = inbound.accept().expect_err("a lie was told").give_up();
    assert!(!refused.to_string().is_empty());
    assert_untouched(&world.decode);
}

// C7, C11
#[test]
fn what_is_forgotten_keeps_its_pages_until_it_is_reclaimed_and_no_longer() {
    let world = World::new();
    let mut inbound = world.open(40, 40);
    let ticket = inbound.open_writer(Writer::ONLY, None).expect("nobody reads");
    forget(inbound);
    let mut landed = world.open(40, 40);
    drop(send(&mut world.sealed(1, 40), &mut landed));
    forget(landed);
    forget(world.sealed(2, 40));
    assert_eq!((world.decode.transfers().len(), world.prefill.transfers().len()), (2, 1));
    world.decode.reclaim(owner(1));
    world.prefill.reclaim(owner(1));
    assert_eq!((world.decode.transfers().len(), world.prefill.transfers().len()), (0, 0));
    assert_eq!(world.decode.stats().quarantined_pages, 3, "those of the ticket");
    // SAFETY: (1) of `ticket_done`: nobody was told of the pages.
    unsafe { world.decode.ticket_done(ticket) }.expect("it is open");
    for pool in [&world.decode, &world.prefill] {
        pool.maintain(usize::MAX);
        pool.audit().expect("the books are right");
        assert_eq!(pool.stats().free_pages, USABLE);
        assert!(raw_is_zero(pool));
    }
}

// C5, C7, C10
#[test]
fn a_landing_that_was_forgotten_lets_nothing_through_and_holds_its_pages_for_ever() {
    let world = World::new();
    let (mut outbound, mut inbound) = (world.sealed(1, 40), world.open(40, 40));
    let mut landing = inbound.landing(Writer::ONLY).expect("it lands");
    landing.put(0, 0, 0..16, &plane_bytes(world.decode.geometry(), 1, 0, 0..16)).expect("it has room");
    forget(landing);
    let receipt = send(&mut outbound, &mut inbound);
    inbound.receive(&receipt).expect("honest");
    let kv = inbound.accept().expect("all is there");
    assert_holds(&kv, 1, 40);
    let handle = kv.handle(0).expect("a page");
    kv.release();
    assert!(matches!(world.decode.read(owner(1), handle), Err(ReadError::Stale { .. })));
    world.decode.maintain(usize::MAX);
    let stats = world.decode.stats();
    assert_eq!((stats.quarantined_pages, stats.free_pages), (3, USABLE - 3), "a borrow that never ends");
    world.decode.audit().expect("the books are right");
}

// C3, C5, C10
#[test]
fn pages_that_start_dirty_show_nothing_of_it_even_when_no_byte_came() {
    let model = model_of(P, "r1", HeadOrder::Nhd);
    let world = World::of(model.clone());
    let geometry = world.decode.geometry().clone();
    let page_bytes = geometry.page_bytes(0).expect("a plane") as usize;
    let planes: Vec<ForeignPlane> = (0..PLANES)
        .map(|_| {
            let bytes: &'static mut [u8] = vec![0xAA; page_bytes * POOL_PAGES as usize].leak();
            let len_bytes = bytes.len() as u64;
            let base = NonNull::from(bytes).cast::<u8>();
            ForeignPlane { base, stride_bytes: page_bytes as u64, len_bytes }
        })
        .collect();
    // SAFETY: (1), (2) of `ForeignMemory::new`: the bytes are leaked, and nobody else has them.
    let memory = unsafe { ForeignMemory::new(geometry, POOL_PAGES, &planes) }.expect("good planes");
    let pool = PagePool::new(PoolConfig::new(POOL_PAGES), memory).expect("a pool");
    let kv = reserve(&pool, owner(1), 40, 40);
    let mut inbound = Inbound::open(kv, world.plan(40).with_checksum(Checksum::BytesUnverified)).expect("it opens");
    let ticket = inbound.open_writer(Writer::ONLY, None).expect("nobody reads");
    let told = Receipt::new(inbound.transfer(), owner(1), model, Writer::ONLY)
        .with_extent(3, 40, 8)
        .with_parts(Checksum::BytesUnverified, vec![SentPart::new(world.slice.clone(), 0..3)]);
    inbound.receive(&told).expect("whatever it says");
    // SAFETY: (1) of `ticket_done`: nobody was told of the pages.
    unsafe { pool.ticket_done(ticket) }.expect("it is open");
    let kv = inbound.accept().expect("the plan gave up the proof");
    let mut seen = vec![1; landing_bytes(&world, 40)];
    kv.read(0..40).expect("accepted").copy(0, &mut seen).expect("the right size");
    assert!(seen.iter().all(|byte| *byte == 0), "a wrong answer, and nobody's text");
}

// C5, C10
#[test]
fn what_an_outside_writer_stores_past_the_fill_is_not_readable_and_is_gone_with_the_page() {
    let world = World::new();
    let (mut outbound, mut inbound) = (world.sealed(1, 40), world.open(48, 40));
    let receipt = {
        let sending = outbound.start(&inbound.offer()).expect("it fits");
        let part = outbound.digest(&sending, 0..2, sending.all_pages()).expect("sealed");
        sending.receipt(vec![part])
    };
    let ticket = inbound.open_writer(Writer::ONLY, None).expect("nobody reads");
    crate::outside::store_all_of(&world, &inbound.offer(), 1, 48);
    // SAFETY: (1) of `ticket_done`: the writer is this test, and stores no more.
    unsafe { world.decode.ticket_done(ticket) }.expect("it is open");
    inbound.receive(&receipt).expect("honest");
    let mut kv = inbound.accept().expect("40 tokens are there");
    assert!(matches!(kv.read(0..41), Err(ReadError::Unwritten { to_tokens: 41, written_tokens: 40 })));
    write(&mut kv, 1, 8);
    kv.commit(48).expect("written");
    assert_holds(&kv, 1, 48);
    kv.release();
    world.decode.maintain(usize::MAX);
    assert_untouched(&world.decode);
}

// C1, C7, C10
#[test]
fn a_reclaim_beside_a_handoff_leaves_all_of_it_or_nothing_of_it() {
    let world = World::new();
    let mut outbound = world.sealed(1, 40);
    for round in 0..200 {
        let mut inbound = world.open(48, 40);
        let handles = handles_of(&inbound);
        let pool = world.decode.clone();
        let (go, ready) = std::sync::mpsc::channel::<()>();
        let reclaimer = thread::spawn(move || {
            let _ = ready.recv();
            (0..round % 7).for_each(|_| thread::yield_now());
            pool.reclaim(owner(1))
        });
        let offer = inbound.offer();
        go.send(()).expect("it listens");
        let sent = match inbound.landing(Writer::ONLY) {
            Ok(mut landing) => outbound.send(&offer, &mut landing),
            Err(error) => Err(error.into()),
        };
        if let Ok(sent) = &sent {
            inbound.receive(sent).expect("honest");
        }
        match inbound.accept() {
            Ok(kv) => {
                if let Ok(guard) = kv.read(0..40) {
                    let mut found = vec![0; landing_bytes(&world, 40)];
                    guard.copy(0, &mut found).expect("the right size");
                    assert!(found == plane_bytes(world.decode.geometry(), 1, 0, 0..40));
                }
            }
            Err(error) => drop(error.give_up()),
        }
        reclaimer.join().expect("no panic");
        for handle in handles {
            assert!(matches!(world.decode.read(owner(1), handle), Err(ReadError::Stale { .. })));
        }
        world.decode.maintain(usize::MAX);
        assert_eq!(world.decode.stats().free_pages, USABLE, "round {round}");
        assert_eq!(world.decode.transfers(), []);
        world.decode.audit().expect("the books are right");
    }
    assert!(raw_is_zero(&world.decode));
}

// C10, C11
#[test]
fn pages_of_one_token_and_as_many_writers_as_there_may_be_are_handed_over() {
    let cache = HeadCache::new(8, 2, ElementFormat::plain(Dtype::Int8));
    for planes in [LayerPlanes::PerLayer, LayerPlanes::Shared] {
        let layout = KvLayout::new(1, 128, cache.clone()).with_layer_planes(planes);
        let model = ModelLayout::new("ranks", "r1", layout).expect("a good layout");
        let whole = Slice::whole(&model);
        let all = (0..128).flat_map(|layer| (0..8).map(move |head| slice(layer..layer + 1, head..head + 1)));
        let writers: Vec<Writer> =
            (0..).zip(all).map(|(rank, slice)| Writer::new(HolderId(u64::MAX - rank), slice)).collect();
        assert_eq!(writers.len(), 1024);
        let pool = crate::ranks::pool_of(&model, &whole);
        let kv = reserve(&pool, owner(1), 3, 3);
        let plan = InboundPlan::new(&model, &whole, 3).with_writers(writers.clone());
        let mut inbound = Inbound::open(kv, plan).expect("it opens");
        let offer = inbound.offer();
        let mut outbound = crate::ranks::sender(&model, &whole, 0, 5, 3);
        for writer in writers.iter().rev() {
            outbound = outbound.with_writer(writer.holder());
            let sent = outbound.send(&offer, &mut inbound.landing(writer.holder()).expect("expected"));
            inbound.receive(&sent.expect("it is sent")).expect("honest");
        }
        crate::ranks::assert_named(&inbound.accept().expect("all is there"), &model, &whole, 5, 3);
    }
}

// C8, C10, C11
#[test]
fn a_key_or_a_name_that_changes_in_between_is_an_error_and_no_bytes() {
    let world = World::new();
    let (mut outbound, mut inbound) = (world.sealed(1, 40), world.open(40, 40));
    let sending = outbound.start(&inbound.offer()).expect("it fits");
    let outbound = outbound.with_key(DigestKey::new([7; 32]));
    let mut landing = inbound.landing(Writer::ONLY).expect("it lands");
    let found = outbound.copy(&sending, 0..2, 0..3, &mut landing);
    assert!(matches!(found, Err(OutboundError::Digest(DigestError::UnusedKey { .. }))), "{found:?}");
    drop(landing);
    assert_eq!(inbound.complete_pages(), 0);
    assert!(raw_is_zero(&world.decode));
}

// C4, C7
#[test]
fn a_move_within_one_pool_with_tickets_open_loses_no_page() {
    let world = World::new();
    let mut kv = reserve(&world.prefill, owner(1), 40, 40);
    write(&mut kv, 1, 40);
    kv.commit(33).expect("written");
    let handles: Vec<_> = kv.handles().collect();
    let reader = kv.pin_read(0..2, HolderId(1), None).expect("nobody writes");
    let again = world.prefill.pin(owner(1), &handles[1..], HolderId(2), None).expect("nobody writes");
    let room = reserve(&world.prefill, owner(1), 64, 48);
    let moved = kv.move_into(room).expect("it moves");
    assert_eq!((moved.written_tokens(), moved.committed_tokens(), moved.reserved_tokens()), (40, 33, 48));
    assert_eq!(world.prefill.stats().quarantined_pages, 3);
    assert_eq!(world.prefill.transfers(), []);
    world.prefill.audit().expect("the books are right");
    for ticket in [again, reader] {
        // SAFETY: (1) of `ticket_done`: nobody reads.
        unsafe { world.prefill.ticket_done(ticket) }.expect("it is open");
    }
    drop(moved);
    world.prefill.maintain(usize::MAX);
    assert_untouched(&world.prefill);
}

// C7, C10
#[test]
fn a_suspended_pool_and_one_that_closes_leave_nothing_of_a_handoff() {
    let world = World::new();
    let mut inbound = world.open(40, 40);
    drop(send(&mut world.sealed(1, 40), &mut inbound));
    let landing = inbound.landing(Writer::ONLY).expect("it lands");
    assert!(matches!(world.decode.suspend(), Ok(Suspended::Pending { in_flight_pages: 3 })));
    drop(landing);
    assert!(matches!(world.decode.suspend(), Ok(Suspended::Done { .. })));
    let refused = inbound.accept().expect_err("the owner was revoked").give_up();
    assert_eq!(*refused.error(), InboundError::Write(WriteError::Revoked));
    world.decode.resume().expect("memory is left");
    assert_untouched(&world.decode);
    let inbound = world.open(40, 40);
    let World { decode, .. } = world;
    let decode = decode.close().expect_err("an inbound has pages").pool;
    drop(inbound);
    decode.close().expect("nobody has it");
}
