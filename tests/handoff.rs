//! The handoff, from outside: nothing is readable that is not, in full and by the receiver's own count, what was reserved.
#![expect(unsafe_code, reason = "looks at the raw bytes of released pages, where no handle leads")]

use std::error::Error as _;
use std::sync::atomic::{AtomicU32, Ordering};

use pagestamp::geometry::{
    Dtype, ElementFormat, HeadCache, HeadOrder, KvLayout, LayoutError, ModelLayout, PageGeometry, Slice,
};
use pagestamp::memory::{CleanPage, Fence, FenceState, HostBytes, Lane, MemoryError, PageMemory, Span};
use pagestamp::{
    CapacityPlan, Checksum, ClaimToken, Digest, Digester, HeldMemory, HolderId, HostMemory, Inbound, InboundError,
    LandError, Landed, NullMemory, Offer, OpenError, Outbound, OutboundError, OwnerId, PageHandle, PagePool,
    PoolConfig, ReadError, Receipt, Refusal, RejectReason, Rejected, Request, Reservation, SealError, Side, TransferId,
    UnfitPool, WriteError,
};
use proptest::prelude::*;

const P: u32 = 16;
/// Pages that requests can use.
const USABLE: u64 = 32;
const POOL_PAGES: u32 = USABLE as u32 + 2;
/// Planes of the model: K and V of two layers.
const PLANES: usize = 4;

fn owner(id: u64) -> OwnerId {
    OwnerId::new(id).expect("owners start at 1")
}

fn model_of(page_tokens: u32, revision: &str, order: HeadOrder) -> ModelLayout {
    let cache = HeadCache::new(2, 4, ElementFormat::plain(Dtype::F16)).with_order(order);
    ModelLayout::new("tiny", revision, KvLayout::new(page_tokens, 2, cache)).expect("a good layout")
}

fn host(geometry: PageGeometry) -> PagePool<HostMemory> {
    let memory = HostMemory::new(geometry, POOL_PAGES).expect("a small map");
    PagePool::new(PoolConfig::new(POOL_PAGES), memory).expect("a pool")
}

fn reserve<M: PageMemory>(pool: &PagePool<M>, owner: OwnerId, max: u64, now: u64) -> Reservation<M> {
    let proof = pool.prove(CapacityPlan::new(512)).expect("the pool holds the plan");
    pool.reserve(&proof, Request::new(owner, max), now).expect("room")
}

/// The byte of a prompt at a token, plane and place: none is zero, neighbours differ.
fn byte(seed: u64, plane: usize, token: u64, at: u64) -> u8 {
    ((seed * 89 + plane as u64 * 53 + token * 31 + at * 7) % 251 + 1) as u8
}

/// Some tokens of a plane: `[tokens, runs, run_bytes]`.
fn plane_bytes(geometry: &PageGeometry, seed: u64, plane: usize, tokens: std::ops::Range<u64>) -> Vec<u8> {
    let token_bytes = geometry.planes()[plane].token_bytes();
    tokens.flat_map(|token| (0..token_bytes).map(move |at| byte(seed, plane, token, at))).collect()
}

fn write(kv: &mut Reservation<impl PageMemory>, seed: u64, tokens: u64) {
    let geometry = kv.pool().geometry().clone();
    let range = kv.written_tokens()..kv.written_tokens() + tokens;
    let planes: Vec<Vec<u8>> =
        (0..geometry.planes().len()).map(|plane| plane_bytes(&geometry, seed, plane, range.clone())).collect();
    let planes: Vec<&[u8]> = planes.iter().map(Vec::as_slice).collect();
    kv.write(tokens, &planes).expect("within the reservation");
}

fn assert_holds(kv: &Reservation<impl PageMemory>, seed: u64, tokens: u64) {
    assert_eq!((kv.written_tokens(), kv.committed_tokens()), (tokens, tokens));
    let geometry = kv.pool().geometry().clone();
    let guard = kv.read(0..tokens).expect("accepted tokens are readable");
    for plane in 0..geometry.planes().len() {
        let expected = plane_bytes(&geometry, seed, plane, 0..tokens);
        let mut found = vec![0; expected.len()];
        guard.copy(plane, &mut found).expect("the right size");
        assert!(found == expected, "plane {plane} differs");
    }
}

/// Every byte of every page of the memory, pages of nobody included.
fn raw_page(pool: &PagePool<impl HostBytes>, page: u32) -> Vec<u8> {
    let mut all = Vec::new();
    for plane in 0..pool.geometry().planes().len() {
        let mut bytes = vec![0; pool.geometry().page_bytes(plane).expect("a plane") as usize];
        let span = Span { page, plane: plane as u32, offset: 0 };
        // SAFETY: (1), (2) of `PagePool::memory`: only reads, while no other thread of the test has the pool, and what is
        // read goes nowhere but into a comparison.
        let memory = unsafe { pool.memory() };
        // SAFETY: (1) of `PageMemory::read`: nobody writes meanwhile, as above.
        unsafe { memory.read(span, &mut bytes) }.expect("a page of the memory");
        all.append(&mut bytes);
    }
    all
}

fn raw_is_zero(pool: &PagePool<impl HostBytes>) -> bool {
    (0..pool.max_pages()).all(|page| raw_page(pool, page).iter().all(|byte| *byte == 0))
}

/// Nothing is left: every page is free, and zero in every byte.
fn assert_untouched(pool: &PagePool<impl HostBytes>) {
    let stats = pool.stats();
    assert_eq!((stats.free_pages, stats.promised_pages, stats.tickets, stats.reservations), (USABLE, 0, 0, 0));
    pool.audit().expect("the books are right");
    pool.audit_bytes(0..pool.max_pages()).expect("free pages are zero");
    assert!(raw_is_zero(pool), "bytes of a refused handoff are still there");
}

/// Two pools of one model.
struct World {
    model: ModelLayout,
    slice: Slice,
    prefill: PagePool<HostMemory>,
    decode: PagePool<HostMemory>,
}

impl World {
    fn new() -> Self {
        Self::of(model_of(P, "r1", HeadOrder::Nhd))
    }

    fn of(model: ModelLayout) -> Self {
        let slice = Slice::whole(&model);
        let geometry = model.geometry(&slice).expect("a good layout");
        Self { prefill: host(geometry.clone()), decode: host(geometry), model, slice }
    }

    /// A prompt that prefill computed.
    fn sealed(&self, seed: u64, tokens: u64) -> Outbound<HostMemory> {
        let mut kv = reserve(&self.prefill, owner(1), tokens.max(1), tokens);
        write(&mut kv, seed, tokens);
        kv.commit(tokens).expect("written");
        Outbound::seal(kv, &self.model, &self.slice).expect("it is sealed")
    }

    fn open(&self, reserved: u64, tokens: u64) -> Inbound<HostMemory> {
        let kv = reserve(&self.decode, owner(1), reserved.max(1), reserved);
        Inbound::open(kv, &self.model, &self.slice, tokens).expect("it opens")
    }

    /// Prefill sends all of a prompt, honestly; then `lie` changes the receipt on its way.
    fn accept_with(&self, tokens: u64, lie: impl FnOnce(Receipt) -> Receipt) -> InboundError {
        let (outbound, mut inbound) = (self.sealed(1, tokens), self.open(tokens, tokens));
        let receipt = send(&outbound, &mut inbound);
        let lie = lie(receipt.clone());
        assert_ne!(lie, receipt, "the test must change something");
        let error = self.refused(inbound, &lie);
        outbound.release();
        assert_untouched(&self.prefill);
        error
    }

    /// The receiver refuses, and then nothing is left.
    fn refused(&self, inbound: Inbound<HostMemory>, receipt: &Receipt) -> InboundError {
        let handles = handles_of(&inbound);
        let refused = inbound.accept(receipt).expect_err("this must not be accepted");
        for handle in handles {
            let read = self.decode.read(owner(1), handle);
            assert!(matches!(read, Err(ReadError::Stale { .. })), "the handles of the offer are stale: {read:?}");
        }
        assert_untouched(&self.decode);
        let error = refused.error().clone();
        assert_eq!(refused.to_string(), error.to_string());
        let rejected = refused.into_rejected();
        let RejectReason::Caller(reason) = rejected.reason() else { panic!("not by the caller: {rejected}") };
        assert_eq!(reason.downcast_ref(), Some(&error), "the rejection keeps the first error");
        error
    }
}

fn send(outbound: &Outbound<HostMemory>, inbound: &mut Inbound<impl PageMemory>) -> Receipt {
    let offer = inbound.offer();
    outbound.send(&offer, &mut inbound.landing().expect("it lands")).expect("it is sent")
}

fn handles_of<M: PageMemory>(inbound: &Inbound<M>) -> Vec<PageHandle<M>> {
    inbound.offer().destinations().iter().filter_map(|bits| PageHandle::from_bits(*bits)).collect()
}

/// What an engine does that moves bytes itself: the tokens of a prompt, page by page, to where `place` says. The digests are
/// those of the page's own place.
fn land(inbound: &mut Inbound<HostMemory>, seed: u64, tokens: u64, place: impl Fn(u32) -> u32) -> Vec<Digest> {
    let offer = inbound.offer();
    let digester = Digester::new(offer.transfer(), offer.model(), offer.slice()).expect("the slice is of the model");
    let geometry = offer.model().geometry(offer.slice()).expect("a good layout");
    let mut landing = inbound.landing().expect("it lands");
    let pages = geometry.pages_for_tokens(tokens) as u32;
    let one_page = |ordinal: u32| {
        let first = u64::from(ordinal) * u64::from(geometry.page_tokens());
        let end = tokens.min(first + u64::from(geometry.page_tokens()));
        let filled = (end - first) as u32;
        let mut digest = digester.page(ordinal, filled);
        for plane in 0..geometry.planes().len() {
            let bytes = plane_bytes(&geometry, seed, plane, first..end);
            landing.put(place(ordinal), plane, 0..filled, &bytes).expect("it has room there");
            digest.update(&bytes);
        }
        digest.finish()
    };
    (0..pages).map(one_page).collect()
}

/// A receipt that an engine writes itself.
fn receipt(offer: &Offer, pages: u32, tokens: u64, fill: u32, digests: Vec<Digest>) -> Receipt {
    Receipt::new(offer.transfer(), offer.owner(), offer.model().clone(), offer.slice().clone())
        .with_extent(pages, tokens, fill)
        .with_digests(Checksum::Xxh3, digests)
}

/// Tokens in the last page.
fn fill(tokens: u64) -> u32 {
    (tokens - tokens.saturating_sub(1) / u64::from(P) * u64::from(P)) as u32
}

// ---- what is right is accepted

// C10
#[test]
fn an_honest_handoff_gives_identical_bytes() {
    for order in [HeadOrder::Nhd, HeadOrder::Hnd] {
        for tokens in [1, 15, 16, 17, 33, 64, 128] {
            let world = World::of(model_of(P, "r1", order));
            let (outbound, mut inbound) = (world.sealed(tokens, tokens), world.open(tokens, tokens));
            let receipt = send(&outbound, &mut inbound);
            assert_eq!((receipt.tokens(), receipt.last_page_tokens()), (tokens, fill(tokens)));
            assert_eq!(inbound.complete_pages(), inbound.pages());
            let kv = inbound.accept(&receipt).expect("nothing is wrong with it");
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
    let outbound = world.sealed(3, 40);
    let room = reserve(&world.prefill, owner(1), 40, 40);
    let mut inbound = Inbound::open(room, &world.model, &world.slice, 40).expect("it opens");
    let receipt = send(&outbound, &mut inbound);
    assert_holds(&inbound.accept(&receipt).expect("all fits"), 3, 40);
}

// C5, C10, B18
#[test]
fn nothing_of_an_inbound_is_readable_before_it_is_accepted() {
    let world = World::new();
    let (outbound, mut inbound) = (world.sealed(1, 40), world.open(48, 40));
    let handles = handles_of(&inbound);
    assert_eq!(handles.len(), 3);
    let readable = || -> u32 {
        let guards = handles.iter().map(|handle| world.decode.read(owner(1), *handle).expect("its owner asks"));
        guards.map(|guard| guard.written_tokens()).sum()
    };
    assert_eq!(readable(), 0);
    let receipt = send(&outbound, &mut inbound);
    assert_eq!(readable(), 0, "all has landed, nothing is verified");
    let kv = inbound.accept(&receipt).expect("all fits");
    assert_eq!(readable(), 40);
    drop(kv);
}

// B21, C10
#[test]
fn what_is_reserved_beyond_the_expected_tokens_stays_empty_and_zero() {
    let world = World::new();
    for (reserved, tokens) in [(65, 64), (64, 64), (64, 63), (17, 16), (1, 0), (80, 33)] {
        let (outbound, mut inbound) = (world.sealed(2, tokens), world.open(reserved, tokens));
        assert_eq!(u64::from(inbound.pages()), tokens.div_ceil(u64::from(P)));
        let receipt = send(&outbound, &mut inbound);
        let mut kv = inbound.accept(&receipt).expect("all fits");
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
    let nothing = Receipt::new(offer.transfer(), offer.owner(), offer.model().clone(), offer.slice().clone());
    assert_holds(&inbound.accept(&nothing).expect("nothing is missing"), 1, 0);
}

// C10
#[test]
fn parts_may_land_in_any_order_and_size() {
    let world = World::of(model_of(P, "r1", HeadOrder::Hnd));
    let geometry = world.decode.geometry().clone();
    for step in 1..=P {
        let outbound = world.sealed(4, 40);
        let mut inbound = world.open(40, 40);
        let digests = send(&outbound, &mut world.open(40, 40)).digests().to_vec();
        let mut parts: Vec<(u32, usize, u32)> = (0..3)
            .flat_map(|page| {
                (0..PLANES).flat_map(move |plane| (0..P).step_by(step as usize).map(move |t| (page, plane, t)))
            })
            .filter(|(page, _, from)| page * P + from < 40)
            .collect();
        // a fixed shuffle: the parts in the order of a product with a number coprime to their count
        parts.sort_by_key(|(page, plane, from)| (page * 7919 + *plane as u32 * 104_729 + from * 1_299_709) % 997);
        let offer = inbound.offer();
        let mut landing = inbound.landing().expect("it lands");
        for (page, plane, from) in parts {
            let to = (from + step).min(landing.expected_tokens(page));
            let first = u64::from(page * P);
            let bytes = plane_bytes(&geometry, 4, plane, first + u64::from(from)..first + u64::from(to));
            assert_eq!(landing.put(page, plane, from..to, &bytes), Ok(Landed::Now));
        }
        drop(landing);
        // digests of the first transfer are not those of this one, so they are made again
        assert_ne!(digests, Vec::new());
        let digester = Digester::new(offer.transfer(), offer.model(), offer.slice()).expect("of the model");
        let digests = (0..3).map(|page| {
            let first = u64::from(page * P);
            let end = (first + u64::from(P)).min(40);
            let mut digest = digester.page(page, (end - first) as u32);
            (0..PLANES).for_each(|plane| digest.update(&plane_bytes(&geometry, 4, plane, first..end)));
            digest.finish()
        });
        let receipt = receipt(&offer, 3, 40, 8, digests.collect());
        assert_holds(&inbound.accept(&receipt).expect("all fits"), 4, 40);
    }
}

// C10
#[test]
fn the_same_part_twice_counts_once_and_what_is_there_stays() {
    let world = World::new();
    let mut inbound = world.open(32, 32);
    let digests = land(&mut inbound, 1, 32, |page| page);
    let offer = inbound.offer();
    let mut landing = inbound.landing().expect("it lands");
    let other = vec![0xEE; landing_bytes(&world, P)];
    assert_eq!(landing.put(1, 2, 0..P, &other), Ok(Landed::Before));
    drop(landing);
    let kv = inbound.accept(&receipt(&offer, 2, 32, 16, digests)).expect("once is once");
    assert_holds(&kv, 1, 32);

    // also when the plane came in pieces
    let mut inbound = world.open(16, 16);
    let mut landing = inbound.landing().expect("it lands");
    assert_eq!(landing.put(0, 0, 4..8, &other[..landing_bytes(&world, 4)]), Ok(Landed::Now));
    assert_eq!(landing.put(0, 0, 4..8, &vec![1; landing_bytes(&world, 4)]), Ok(Landed::Before));
    drop(landing);
    let raw = raw_page(&world.decode, handles_of(&inbound)[0].index());
    let (there, rest) = (&raw[landing_bytes(&world, 4)..landing_bytes(&world, 8)], &raw[landing_bytes(&world, 8)..]);
    assert!(there.iter().all(|byte| *byte == 0xEE) && rest.iter().all(|byte| *byte == 0));
}

/// Bytes of some tokens in one plane.
fn landing_bytes(world: &World, tokens: u32) -> usize {
    world.decode.geometry().planes()[0].token_bytes() as usize * tokens as usize
}

// C10, C8
#[test]
fn a_part_that_was_refused_for_its_arguments_leaves_the_handoff_good() {
    let world = World::new();
    let mut inbound = world.open(40, 40);
    let mut landing = inbound.landing().expect("it lands");
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
    ];
    for (found, expected) in bad {
        assert_eq!(found, Err(expected));
    }
    drop(landing);
    assert_eq!(inbound.complete_pages(), 0);
    assert!(raw_is_zero(&world.decode), "not a byte was written");
    let digests = land(&mut inbound, 1, 40, |page| page);
    let offer = inbound.offer();
    assert_holds(&inbound.accept(&receipt(&offer, 3, 40, 8, digests)).expect("all fits"), 1, 40);
}

// ---- the incident

// B18, C10
#[test]
fn a_placeholder_prompt_is_refused_by_the_sender_before_a_byte_moves() {
    let world = World::new();
    let (outbound, mut inbound) = (world.sealed(1, 1), world.open(128, 128));
    let offer = inbound.offer();
    let expected = OutboundError::Pages { expected_pages: 1, sealed_tokens: 1, found_pages: 8, found_tokens: 128 };
    assert_eq!(outbound.check(&offer), Err(expected.clone()));
    assert_eq!(outbound.send(&offer, &mut inbound.landing().expect("it lands")), Err(expected.clone()));
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
        let mut landing = inbound.landing().expect("it lands");
        for plane in 0..PLANES {
            let bytes = plane_bytes(&geometry, 1, plane, 0..landed);
            landing.put(0, plane, 0..landed as u32, &bytes).expect("it has room");
        }
        drop(landing);
        let lie = receipt(&offer, 8, 128, 16, digests);
        let complete_pages = landed as u32 / P;
        let expected = InboundError::Gap {
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
    let outbound = Outbound::seal(kv, &world.model, &world.slice).expect("it is sealed");
    assert_eq!((outbound.tokens(), outbound.pages()), (24, 2));
    assert_eq!(outbound.handles().count(), 2, "the page of the draft alone is not for the wire");
    assert_eq!(outbound.read(0..24).expect("sealed").tokens(), 0..24);
    let draft = outbound.read(24..25).expect_err("a draft");
    assert_eq!(draft, ReadError::Unwritten { to_tokens: 25, written_tokens: 24 });
    let with_draft = outbound.check(&world.open(33, 33).offer());
    assert!(matches!(with_draft, Err(OutboundError::Pages { expected_pages: 2, found_pages: 3, .. })));
    let mut inbound = world.open(33, 24);
    let receipt = send(&outbound, &mut inbound);
    let kv = inbound.accept(&receipt).expect("all fits");
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
    let outbound = Outbound::seal(kv, &world.model, &world.slice).expect("it is sealed");
    let old_offer = world.open(32, 32);
    assert!(matches!(outbound.check(&old_offer.offer()), Err(OutboundError::Pages { .. })));
    let mut inbound = world.open(64, 64);
    let receipt = send(&outbound, &mut inbound);
    assert_holds(&inbound.accept(&receipt).expect("all fits"), 1, 64);
}

// ---- the sender refuses each offer that differs

fn altered(offer: &Offer, owner: OwnerId, model: &ModelLayout, slice: &Slice) -> Offer {
    Offer::new(offer.transfer(), owner, model.clone(), slice.clone())
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
    let (outbound, inbound) = (world.sealed(1, 40), world.open(40, 40));
    let offer = altered(&inbound.offer(), owner(1), &model, &high);
    assert_eq!(outbound.check(&offer), Err(OutboundError::Slice { expected: low.clone(), found: high.clone() }));

    // and the receiver refuses what such a sender sends, named rightly or wrongly
    let mut inbound = inbound;
    let sent = send(&outbound, &mut inbound);
    let named = Receipt::new(sent.transfer(), sent.owner(), model.clone(), high.clone())
        .with_extent(sent.pages(), sent.tokens(), sent.last_page_tokens())
        .with_digests(Checksum::Xxh3, sent.digests().to_vec());
    let expected = InboundError::Slice { expected: low.clone(), found: high.clone() };
    assert_eq!(world.refused(inbound, &named), expected);
    let mut inbound = world.open(40, 40);
    let sent = send(&outbound, &mut inbound);
    let digester = Digester::new(sent.transfer(), &model, &high).expect("of the model");
    let digests = (0..3).map(|page| {
        let first = u64::from(page * P);
        let end = (first + u64::from(P)).min(40);
        let mut digest = digester.page(page, (end - first) as u32);
        (0..PLANES).for_each(|plane| digest.update(&plane_bytes(world.decode.geometry(), 1, plane, first..end)));
        digest.finish()
    });
    let misnamed = sent.clone().with_digests(Checksum::Xxh3, digests.collect());
    assert!(matches!(world.refused(inbound, &misnamed), InboundError::Digest { page: 0, .. }));
}

// C10
#[test]
fn a_sender_refuses_an_offer_without_a_checksum() {
    let world = World::new();
    let (outbound, inbound) = (world.sealed(1, 40), world.open(40, 40));
    let offer = inbound.offer().with_checksum(Checksum::Nothing);
    let expected = OutboundError::Checksum { expected: Checksum::Xxh3, found: Checksum::Nothing };
    assert_eq!(outbound.check(&offer), Err(expected));
}

// C10
#[test]
fn a_sender_refuses_the_landing_of_another_handoff() {
    let world = World::new();
    let (outbound, first, mut second) = (world.sealed(1, 40), world.open(40, 40), world.open(40, 40));
    let (expected, found) = (first.transfer(), second.transfer());
    let sent = outbound.send(&first.offer(), &mut second.landing().expect("it lands"));
    assert_eq!(sent, Err(OutboundError::Transfer { expected, found }));
    assert_eq!(second.complete_pages(), 0);
}

// ---- the receiver refuses each receipt that differs

fn renamed(receipt: &Receipt, transfer: TransferId, owner: OwnerId, model: &ModelLayout) -> Receipt {
    Receipt::new(transfer, owner, model.clone(), receipt.slice().clone())
        .with_extent(receipt.pages(), receipt.tokens(), receipt.last_page_tokens())
        .with_digests(receipt.checksum(), receipt.digests().to_vec())
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
    let outbound = world.sealed(1, 40);
    let mut first = world.open(40, 40);
    let older = send(&outbound, &mut first);
    drop(first);
    // the same prompt again, and the older receipt is replayed
    let mut second = world.open(40, 40);
    let transfer = second.transfer();
    drop(send(&outbound, &mut second));
    let replayed = InboundError::Transfer { expected: transfer, found: older.transfer() };
    assert_eq!(world.refused(second, &older), replayed);

    let mut third = world.open(40, 40);
    let honest = send(&outbound, &mut third);
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
        let digester = Digester::new(offer.transfer(), &other, &world.slice).expect("of the model");
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
    let error = world.accept_with(40, |r| r.with_digests(Checksum::Nothing, Vec::new()));
    assert_eq!(error, InboundError::Unverified { page: 0 });
    let error = world.accept_with(40, |r| {
        let digests = r.digests().to_vec();
        r.with_digests(Checksum::Nothing, digests)
    });
    assert_eq!(error, InboundError::Unverified { page: 0 });
    let error = world.accept_with(40, |r| r.with_digests(Checksum::Xxh3, Vec::new()));
    assert_eq!(error, InboundError::Unverified { page: 0 });
    let error = world.accept_with(40, |r| {
        let mut digests = r.digests().to_vec();
        digests[2] = Digest::ZERO;
        r.with_digests(Checksum::Xxh3, digests)
    });
    assert_eq!(error, InboundError::Unverified { page: 2 });
    for found_digests in [1, 2, 4] {
        let error = world.accept_with(40, |r| {
            let mut digests = r.digests().to_vec();
            digests.resize(found_digests, Digest::from_bytes([1; 16]));
            r.with_digests(Checksum::Xxh3, digests)
        });
        let found_digests = found_digests as u64;
        assert_eq!(error, InboundError::DigestCount { expected_digests: 3, found_digests });
    }
    let error = World::new().accept_with(0, |r| r.with_digests(Checksum::Xxh3, vec![Digest::from_bytes([1; 16])]));
    assert_eq!(error, InboundError::DigestCount { expected_digests: 0, found_digests: 1 });
}

// B29, C10
#[test]
fn one_flipped_bit_anywhere_is_refused() {
    let world = World::new();
    let geometry = world.decode.geometry().clone();
    for (page, plane, at) in [(0, 0, 0), (0, PLANES - 1, 255), (1, 2, 100), (2, 0, 127), (2, PLANES - 1, 0)] {
        let digests = |inbound: &mut Inbound<HostMemory>| {
            let offer = inbound.offer();
            let digester = Digester::new(offer.transfer(), offer.model(), offer.slice()).expect("of the model");
            let mut landing = inbound.landing().expect("it lands");
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
        let InboundError::Digest { page: found_page, expected, found } = world.refused(inbound, &sent) else {
            panic!("the bytes differ")
        };
        assert_eq!(found_page, page);
        assert_ne!(expected, found);
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
    let mut landing = inbound.landing().expect("it lands");
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
    let mut landing = inbound.landing().expect("it lands");
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
    assert!(matches!(error, InboundError::Gap { page: 2, plane: 3, landed_tokens: 0, complete_pages: 2, .. }));
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
        let mut landing = inbound.landing().expect("it lands");
        let bytes = |tokens: &std::ops::Range<u32>| {
            plane_bytes(&geometry, 1, 1, u64::from(tokens.start)..u64::from(tokens.end))
        };
        assert_eq!(landing.put(0, 1, landed.clone(), &bytes(&landed)), Ok(Landed::Now));
        let overlap = LandError::Overlap { page: 0, plane: 1, landed: landed.clone(), sent: sent.clone() };
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
        let digester = Digester::new(offer.transfer(), offer.model(), offer.slice()).expect("of the model");
        let mut digest = digester.page(0, P);
        (0..PLANES).for_each(|plane| digest.update(&plane_bytes(&geometry, 1, plane, 0..16)));
        let receipt = receipt(&offer, 1, 16, 16, vec![digest.finish()]);
        assert_eq!(world.refused(inbound, &receipt), InboundError::Overlap { page: 0, plane: 1, landed, sent });
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
        let mut landing = inbound.landing().expect("it lands");
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

        let digester = Digester::new(offer.transfer(), offer.model(), offer.slice()).expect("of the model");
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
            assert_holds(&inbound.accept(&receipt).expect("all of it is right"), 1, tokens);
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
        let mut digest = Digester::new(transfer, model, slice).expect("of the model").page(page, tokens);
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
    assert!(matches!(Digester::new(transfer(1), &model, &outside), Err(LayoutError::OutsideModel { .. })));
}

// ---- ends, at each stage

// C6, B101
#[test]
fn dropping_or_rejecting_at_any_stage_leaves_nothing() {
    let world = World::new();
    for stage in 0..4 {
        for reject in [false, true] {
            let (outbound, mut inbound) = (world.sealed(1, 40), world.open(65, 40));
            match stage {
                0 => {}
                1 => drop(inbound.landing().expect("it lands")),
                2 => {
                    let bytes = plane_bytes(world.decode.geometry(), 1, 0, 0..5);
                    inbound.landing().expect("it lands").put(1, 0, 3..8, &bytes).expect("it has room");
                }
                _ => drop(send(&outbound, &mut inbound)),
            }
            if reject {
                let first = |rejected: Rejected| rejected.reason().to_string();
                assert_eq!(first(inbound.reject("client went away")), "client went away");
                assert_eq!(first(outbound.reject("client went away")), "client went away");
            } else {
                drop((inbound, outbound));
            }
            assert_untouched(&world.decode);
            assert_untouched(&world.prefill);
        }
    }
}

// C6
#[test]
fn a_refusal_keeps_the_first_error_in_words_and_is_bounded() {
    let world = World::new();
    let inbound = world.open(16, 16);
    let transfer = inbound.transfer();
    let offer = inbound.offer();
    let refused = inbound.accept(&receipt(&offer, 2, 17, 1, Vec::new())).expect_err("two pages for one");
    let refusal = refused.refusal();
    assert_eq!((refusal.transfer(), refusal.side()), (transfer, Side::Receiver));
    assert_eq!(refusal.reason(), "1 pages are reserved, the receipt is for 2; the prompt is not all there");
    let outbound = world.sealed(1, 16);
    assert!(outbound.reject(refusal.clone()).to_string().contains(refusal.reason()));
    assert_untouched(&world.prefill);

    let long = std::io::Error::other("ä".repeat(3 * Refusal::MAX_REASON_BYTES));
    let cut = Refusal::new(transfer, Side::Sender, &long);
    assert_eq!(cut.reason().len(), Refusal::MAX_REASON_BYTES);
    static INNER: Link = Link("inner", None);
    static MIDDLE: Link = Link("middle", Some(&INNER));
    let with_sources = Refusal::new(transfer, Side::Sender, &Link("outer", Some(&MIDDLE)));
    assert_eq!(with_sources.reason(), "outer: middle: inner");
}

/// An error with a source.
#[derive(Debug)]
struct Link(&'static str, Option<&'static Link>);

impl std::fmt::Display for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Link {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.1.map(|link| link as &dyn std::error::Error)
    }
}

// B30, C10
#[test]
fn transfer_ids_are_issued_once_and_by_the_pool_alone() {
    let world = World::new();
    let ids: Vec<TransferId> = (0..5).map(|_| world.open(16, 16).transfer()).collect();
    assert_eq!(ids.iter().map(|id| id.sequence()).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert!(ids.iter().all(|id| id.pool() == world.decode.id()));
    let other = World::new().open(16, 16).transfer();
    assert!(!ids.contains(&other));
    assert_eq!(TransferId::from_bits(ids[4].to_bits()), Some(ids[4]));
}

// C7
#[test]
fn a_reclaim_ends_a_handoff_at_any_stage() {
    let world = World::new();
    let (outbound, mut inbound) = (world.sealed(1, 40), world.open(40, 40));
    let receipt = send(&outbound, &mut inbound);
    world.decode.reclaim(owner(1));
    assert_eq!(inbound.landing().expect_err("revoked"), LandError::Write(WriteError::Revoked));
    assert!(inbound.offer().destinations().is_empty());
    assert!(matches!(outbound.check(&inbound.offer()), Err(OutboundError::Pages { found_pages: 0, .. })));
    let refused = inbound.accept(&receipt).expect_err("the pages are gone");
    assert_eq!(*refused.error(), InboundError::Write(WriteError::Revoked));
    assert_untouched(&world.decode);

    // while bytes land, the pages are kept from everybody
    let mut inbound = world.open(40, 40);
    let mut landing = inbound.landing().expect("it lands");
    let reclaimed = world.decode.reclaim(owner(1));
    assert_eq!((reclaimed.pages, reclaimed.quarantined_pages), (3, 3));
    let bytes = plane_bytes(world.decode.geometry(), 1, 0, 0..16);
    let late = landing.put(0, 0, 0..P, &bytes);
    assert_eq!(late, Err(LandError::Write(WriteError::Revoked)), "what else touches the page is not known any more");
    assert_eq!(world.decode.stats().quarantined_pages, 3);
    drop(landing);
    world.decode.maintain(usize::MAX);
    drop(inbound);
    assert_untouched(&world.decode);

    world.prefill.reclaim(owner(1));
    let mut inbound = world.open(40, 40);
    let offer = inbound.offer();
    let sent = outbound.send(&offer, &mut inbound.landing().expect("it lands"));
    assert_eq!(sent, Err(OutboundError::Read(ReadError::Revoked)));
}

// B83, C10
#[test]
fn a_claim_whose_handoff_was_dropped_gives_its_pages_again_with_nothing_written() {
    let world = World::new();
    let proof = world.decode.prove(CapacityPlan::new(512)).expect("the pool holds the plan");
    let token = ClaimToken { id: 9, expires_at_ns: 100 };
    let claimed = || world.decode.reserve(&proof, Request::new(owner(1), 40).with_claim(token), 40).expect("room");
    let outbound = world.sealed(1, 40);
    let mut first = Inbound::open(claimed(), &world.model, &world.slice, 40).expect("it opens");
    let (older, pages) = (send(&outbound, &mut first), handles_of(&first));
    drop(first);
    let again = claimed();
    assert_eq!((again.written_tokens(), again.handles().collect::<Vec<_>>()), (0, pages));
    let mut second = Inbound::open(again, &world.model, &world.slice, 40).expect("it opens");
    let transfer = second.transfer();
    drop(send(&outbound, &mut second));
    let replayed = InboundError::Transfer { expected: transfer, found: older.transfer() };
    assert_eq!(world.refused(second, &older), replayed);
}

// ---- what cannot begin

// C8
#[test]
fn an_inbound_that_does_not_open_gives_the_reservation_back() {
    let world = World::new();
    let mut kv = reserve(&world.decode, owner(1), 64, 40);
    let refused = |kv: Reservation<HostMemory>, model: &ModelLayout, slice: &Slice, tokens| {
        let extents = (kv.reserved_tokens(), kv.written_tokens(), kv.pages());
        let (kv, error) = Inbound::open(kv, model, slice, tokens).expect_err("it must not open").into_parts();
        assert_eq!((kv.reserved_tokens(), kv.written_tokens(), kv.pages()), extents);
        (kv, error)
    };
    let (model, slice) = (&world.model, &world.slice);
    let error;
    (kv, error) = refused(kv, model, slice, 41);
    assert_eq!(error, OpenError::PastReserved { tokens: 41, reserved_tokens: 40 });
    let error;
    (kv, error) = refused(kv, model, slice, u64::MAX);
    assert_eq!(error, OpenError::PastReserved { tokens: u64::MAX, reserved_tokens: 40 });
    let error;
    (kv, error) = refused(kv, model, &Slice::new(0..2, 0..3).expect("a range"), 40);
    assert!(matches!(error, OpenError::Unfit(UnfitPool::Layout(LayoutError::OutsideModel { .. }))));
    for (page_tokens, other) in [(32, slice.clone()), (24, slice.clone()), (P, Slice::new(0..2, 0..1).expect("heads"))]
    {
        let error;
        (kv, error) = refused(kv, &model_of(page_tokens, "r1", HeadOrder::Nhd), &other, 40);
        assert!(matches!(error, OpenError::Unfit(UnfitPool::Geometry { .. })), "{error}");
    }
    let pin = kv.pin_write(1..2, HolderId(1), None).expect("it is alone");
    let page = kv.handle(1).expect("a page").index();
    let error;
    (kv, error) = refused(kv, model, slice, 40);
    assert_eq!(error, OpenError::Write(WriteError::Busy { page }));
    // SAFETY: (1) of `ticket_done`: there is no outside party.
    unsafe { world.decode.ticket_done(pin) }.expect("it was open");
    write(&mut kv, 1, 3);
    let error;
    (kv, error) = refused(kv, model, slice, 3);
    assert_eq!(error, OpenError::AlreadyWritten { written_tokens: 3 });
    world.decode.reclaim(owner(1));
    let (kv, error) = Inbound::open(reserve_empty(kv, &world), model, slice, 1).expect_err("revoked").into_parts();
    assert_eq!(error, OpenError::Write(WriteError::Revoked));
    drop(kv);
    assert_untouched(&world.decode);
}

/// An empty reservation of an owner who was reclaimed while it existed.
fn reserve_empty(before: Reservation<HostMemory>, world: &World) -> Reservation<HostMemory> {
    drop(before);
    let kv = reserve(&world.decode, owner(1), 16, 16);
    world.decode.reclaim(owner(1));
    kv
}

// C8
#[test]
fn an_outbound_that_is_not_sealed_gives_the_reservation_back() {
    let world = World::new();
    let mut kv = reserve(&world.prefill, owner(1), 64, 40);
    write(&mut kv, 1, 40);
    kv.commit(40).expect("written");
    let other = model_of(32, "r1", HeadOrder::Nhd);
    let (kv, error) = Outbound::seal(kv, &other, &world.slice).expect_err("other pages").into_parts();
    assert!(matches!(error, SealError::Unfit(UnfitPool::Geometry { .. })));
    assert_holds(&kv, 1, 40);
    world.prefill.reclaim(owner(1));
    let (_, error) = Outbound::seal(kv, &world.model, &world.slice).expect_err("revoked").into_parts();
    assert_eq!(error, SealError::Read(ReadError::Revoked));
    assert_untouched(&world.prefill);
}

// C8
#[test]
fn memory_without_bytes_is_refused_by_both_ends() {
    let model = model_of(P, "r1", HeadOrder::Nhd);
    let slice = Slice::whole(&model);
    let memory = NullMemory::new(model.geometry(&slice).expect("a good layout"), POOL_PAGES).expect("pages");
    let pool = PagePool::new(PoolConfig::new(POOL_PAGES), memory).expect("a pool");
    let kv = reserve(&pool, owner(1), 16, 16);
    let (mut kv, error) = Inbound::open(kv, &model, &slice, 16).expect_err("no bytes").into_parts();
    assert_eq!(error, OpenError::Unfit(UnfitPool::NoBytes { memory: "null" }));
    kv.assume_written(16).expect("reserved");
    kv.commit(16).expect("written");
    let (kv, error) = Outbound::seal(kv, &model, &slice).expect_err("no bytes").into_parts();
    assert_eq!(error, SealError::Unfit(UnfitPool::NoBytes { memory: "null" }));
    assert_eq!(kv.committed_tokens(), 16);
}

// ---- device-like memory, readers

// C3, C7, C10
#[test]
fn a_refused_handoff_into_a_device_waits_for_its_cleaning() {
    let model = model_of(P, "r1", HeadOrder::Nhd);
    let world = World::of(model.clone());
    let memory = HeldMemory::new(world.decode.geometry().clone(), POOL_PAGES).expect("a small map");
    let control = memory.control();
    let device = PagePool::new(PoolConfig::new(POOL_PAGES), memory).expect("a pool");
    let open = |lane: Option<Lane>| {
        let proof = device.prove(CapacityPlan::new(512)).expect("the pool holds the plan");
        let request = Request::new(owner(1), 512);
        let request = if let Some(lane) = lane { request.on_lane(lane) } else { request };
        Inbound::open(device.reserve(&proof, request, 512).expect("room"), &model, &world.slice, 512)
    };
    let outbound = world.sealed(1, 512);
    let mut inbound = open(None).expect("it opens");
    let sent = send(&outbound, &mut inbound);
    let mut digests = sent.digests().to_vec();
    digests.swap(3, 4);
    let refused = inbound.accept(&sent.clone().with_digests(Checksum::Xxh3, digests)).expect_err("swapped");
    assert!(matches!(refused.error(), InboundError::Digest { page: 3, .. }));
    let stats = device.stats();
    assert_eq!((stats.free_pages, stats.cleaning_pages), (0, USABLE), "the device has not zeroed them yet");

    // for a lane the pages may be had before that, but no host byte may land there
    let (kv, error) = open(Some(Lane::from_raw(1))).expect_err("it is being cleaned").into_parts();
    assert!(matches!(error, OpenError::Write(WriteError::Pending { .. })));
    control.finish_all();
    let mut inbound = Inbound::open(kv, &model, &world.slice, 512).expect("it is clean");
    let sent = send(&outbound, &mut inbound);
    let kv = inbound.accept(&sent).expect("all fits");
    assert_holds(&kv, 1, 512);
    kv.release();
    control.finish_all();
    device.maintain(usize::MAX);
    assert_untouched(&device);
}

/// Host memory that calls back while it is read, that is while a receiver verifies, and that can refuse to write.
#[derive(Debug)]
struct Watched {
    host: HostMemory,
    writes_until_refusal: std::sync::Arc<AtomicU32>,
    reads: std::sync::Arc<WatchedReads>,
}

#[derive(Default)]
struct WatchedReads(std::sync::OnceLock<Box<dyn Fn() + Send + Sync>>);

impl std::fmt::Debug for WatchedReads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WatchedReads")
    }
}

// SAFETY: (1) to (7) those of `HostMemory`, which does everything.
unsafe impl PageMemory for Watched {
    const NAME: &'static str = "watched";
    const HAS_BYTES: bool = true;
    const STARTS_DIRTY: bool = false;

    fn geometry(&self) -> &PageGeometry {
        self.host.geometry()
    }

    fn max_pages(&self) -> u32 {
        self.host.max_pages()
    }

    unsafe fn clean(&self, batch: &[CleanPage]) -> Result<Fence, MemoryError> {
        // SAFETY: (1) of the caller.
        unsafe { self.host.clean(batch) }
    }

    fn poll(&self, fence: Fence) -> FenceState {
        self.host.poll(fence)
    }

    fn order_after(&self, fence: Fence, lane: Lane) -> Result<(), MemoryError> {
        self.host.order_after(fence, lane)
    }

    fn decommit(&self, pages: std::ops::Range<u32>) -> Result<(), MemoryError> {
        self.host.decommit(pages)
    }

    fn commit(&self, pages: std::ops::Range<u32>) -> Result<(), MemoryError> {
        self.host.commit(pages)
    }

    unsafe fn write(&self, at: Span, src: &[u8]) -> Result<(), MemoryError> {
        if self.writes_until_refusal.fetch_sub(1, Ordering::Relaxed) == 0 {
            return Err(MemoryError::Injected);
        }
        // SAFETY: (1) of the caller.
        unsafe { self.host.write(at, src) }
    }

    unsafe fn read(&self, at: Span, dst: &mut [u8]) -> Result<(), MemoryError> {
        if let Some(watch) = self.reads.0.get() {
            watch();
        }
        // SAFETY: (1) of the caller.
        unsafe { self.host.read(at, dst) }
    }
}

// C5, C10
#[test]
fn nothing_is_readable_while_it_is_being_verified() {
    let world = World::new();
    let reads = std::sync::Arc::new(WatchedReads::default());
    let host = HostMemory::new(world.decode.geometry().clone(), POOL_PAGES).expect("a small map");
    let memory = Watched { host, reads: reads.clone(), writes_until_refusal: std::sync::Arc::new(u32::MAX.into()) };
    let pool = PagePool::new(PoolConfig::new(POOL_PAGES), memory).expect("a pool");
    let kv = reserve(&pool, owner(1), 40, 40);
    let mut inbound = Inbound::open(kv, &world.model, &world.slice, 40).expect("it opens");
    let sent = send(&world.sealed(1, 40), &mut inbound);
    let (handles, looked) = (handles_of(&inbound), std::sync::Arc::new(AtomicU32::new(0)));
    let (watching, count) = (pool.clone(), looked.clone());
    let watch = move || {
        let guards = handles.iter().map(|handle| watching.read(owner(1), *handle).expect("its owner asks"));
        assert!(guards.into_iter().all(|guard| guard.written_tokens() == 0), "readable before it was verified");
        count.fetch_add(1, Ordering::Relaxed);
    };
    assert!(reads.0.set(Box::new(watch)).is_ok());
    let kv = inbound.accept(&sent).expect("all fits");
    assert_eq!(looked.load(Ordering::Relaxed), 3 * PLANES as u32, "every plane of every page was read back");
    assert_eq!(kv.written_tokens(), 40);
}

// C8, C10
#[test]
fn a_part_that_the_memory_refused_is_missing_and_may_be_sent_again() {
    let world = World::new();
    let host = HostMemory::new(world.decode.geometry().clone(), POOL_PAGES).expect("a small map");
    let writes_until_refusal = std::sync::Arc::new(AtomicU32::new(5));
    let memory = Watched { host, reads: Default::default(), writes_until_refusal: writes_until_refusal.clone() };
    let pool = PagePool::new(PoolConfig::new(POOL_PAGES), memory).expect("a pool");
    let outbound = world.sealed(1, 40);
    let mut inbound =
        Inbound::open(reserve(&pool, owner(1), 40, 40), &world.model, &world.slice, 40).expect("it opens");
    let offer = inbound.offer();
    let sent = outbound.send(&offer, &mut inbound.landing().expect("it lands"));
    let refused = LandError::Write(WriteError::Memory(MemoryError::Injected));
    assert_eq!(sent, Err(OutboundError::Land(refused)));
    assert_eq!(inbound.complete_pages(), 1, "one page and one plane");
    let sent = outbound.send(&offer, &mut inbound.landing().expect("it lands")).expect("what landed counts once");
    assert_holds(&inbound.accept(&sent).expect("all fits"), 1, 40);
}

// C12
#[test]
fn bytes_never_land_under_a_reader_that_was_there_before() {
    let world = World::new();
    let mut kv = reserve(&world.decode, owner(1), 40, 40);
    write(&mut kv, 7, 20);
    let before = kv.handle(0).expect("a page");
    let guard = world.decode.read(owner(1), before).expect("its owner reads");
    kv.truncate(0).expect("back to nothing");
    let mut inbound = Inbound::open(kv, &world.model, &world.slice, 40).expect("it opens");
    assert_ne!(handles_of(&inbound)[0], before, "the page that is read was exchanged");
    let outbound = world.sealed(1, 40);
    let sent = send(&outbound, &mut inbound);
    let seen = guard.run(0, 0).expect("a run");
    assert!(seen == plane_bytes(world.decode.geometry(), 7, 0, 0..16), "what a reader sees does not change");
    drop(guard);
    assert_holds(&inbound.accept(&sent).expect("all fits"), 1, 40);
}

// C12
#[test]
fn a_reader_that_comes_while_bytes_land_does_not_move_the_pages() {
    let world = World::new();
    let (outbound, mut inbound) = (world.sealed(1, 40), world.open(40, 40));
    let offer = inbound.offer();
    let handles = handles_of(&inbound);
    let guards: Vec<_> = handles.iter().map(|handle| world.decode.read(owner(1), *handle).expect("live")).collect();
    let sent = outbound.send(&offer, &mut inbound.landing().expect("it lands")).expect("it is sent");
    assert_eq!(inbound.offer(), offer, "the pages that were offered");
    let kv = inbound.accept(&sent).expect("all fits");
    assert_eq!(kv.handles().collect::<Vec<_>>(), handles);
    assert!(guards.iter().all(|guard| guard.written_tokens() == 0), "an old guard covers what it covered");
    drop(guards);
    assert_holds(&kv, 1, 40);
}

// C11
#[test]
fn no_debug_and_no_error_shows_page_contents_or_digests() {
    let world = World::new();
    let secret = b"SWORDFISH-SWORDF";
    let mut kv = reserve(&world.prefill, owner(1), 16, 16);
    let plane: Vec<u8> = secret.repeat(16);
    kv.write(16, &[&plane, &plane, &plane, &plane]).expect("reserved");
    kv.commit(16).expect("written");
    let outbound = Outbound::seal(kv, &world.model, &world.slice).expect("it is sealed");
    let mut inbound = world.open(16, 16);
    let sent = send(&outbound, &mut inbound);
    let digest = sent.digests()[0];
    let landing = inbound.landing().expect("it lands");
    let mut shown = format!("{landing:?} {digest:?}");
    drop(landing);
    shown += &format!("{outbound:?} {inbound:?} {:?} {sent:?}", inbound.offer());
    let lie = sent.clone().with_digests(Checksum::Xxh3, vec![Digest::from_bytes([7; 16])]);
    let refused = inbound.accept(&lie).expect_err("another digest");
    shown += &format!("{refused} {refused:?} {:?} {:?}", refused.source(), refused.refusal());
    let digester = Digester::new(sent.transfer(), &world.model, &world.slice).expect("of the model");
    let mut page = digester.page(0, 16);
    page.update(secret);
    shown += &format!("{page:?}");
    let as_list = |bytes: &[u8]| format!("{bytes:?}").trim_matches(['[', ']']).to_owned();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let number = u128::from_be_bytes(digest.to_bytes());
    for hidden in [
        "SWORDFISH".to_owned(),
        as_list(&secret[..8]),
        hex(&secret[..8]),
        hex(&digest.to_bytes()),
        as_list(&digest.to_bytes()),
        number.to_string(),
    ] {
        assert!(!shown.contains(&hidden), "{hidden} is shown");
    }
}

#[test]
fn both_ends_and_the_messages_may_go_to_other_threads() {
    fn is_send_sync<T: Send + Sync + 'static>() {}
    is_send_sync::<Inbound<HostMemory>>();
    is_send_sync::<Outbound<HostMemory>>();
    is_send_sync::<Offer>();
    is_send_sync::<Receipt>();
    is_send_sync::<Refusal>();
    is_send_sync::<pagestamp::NotAccepted>();
}
