//! Two pools of one model, and what their engines do.

use pagestamp::geometry::*;
use pagestamp::memory::{HostBytes, PageMemory, Span};
use pagestamp::*;

pub(crate) const P: u32 = 16;
/// Pages that requests can use.
pub(crate) const USABLE: u64 = 32;
pub(crate) const POOL_PAGES: u32 = USABLE as u32 + 2;
/// Planes of the model: K and V of two layers.
pub(crate) const PLANES: usize = 4;

pub(crate) fn owner(id: u64) -> OwnerId {
    OwnerId::new(id).expect("owners start at 1")
}

pub(crate) fn model_of(page_tokens: u32, revision: &str, order: HeadOrder) -> ModelLayout {
    let cache = HeadCache::new(2, 4, ElementFormat::plain(Dtype::F16)).with_order(order);
    ModelLayout::new("tiny", revision, KvLayout::new(page_tokens, 2, cache)).expect("a good layout")
}

pub(crate) fn host(geometry: PageGeometry) -> PagePool<HostMemory> {
    let memory = HostMemory::new(geometry, POOL_PAGES).expect("a small map");
    PagePool::new(PoolConfig::new(POOL_PAGES), memory).expect("a pool")
}

pub(crate) fn reserve<M: PageMemory>(pool: &PagePool<M>, owner: OwnerId, max: u64, now: u64) -> Reservation<M> {
    let plan = CapacityPlan::new(USABLE * u64::from(pool.geometry().page_tokens()));
    let proof = pool.prove(plan).expect("the pool holds the plan");
    pool.reserve(&proof, Request::new(owner, max), now).expect("room")
}

/// The byte of a prompt at a token, plane and place: none is zero, neighbours differ.
pub(crate) fn byte(seed: u64, plane: usize, token: u64, at: u64) -> u8 {
    ((seed * 89 + plane as u64 * 53 + token * 31 + at * 7) % 251 + 1) as u8
}

/// Some tokens of a plane: `[tokens, runs, run_bytes]`.
pub(crate) fn plane_bytes(geometry: &PageGeometry, seed: u64, plane: usize, tokens: std::ops::Range<u64>) -> Vec<u8> {
    let token_bytes = geometry.planes()[plane].token_bytes();
    tokens.flat_map(|token| (0..token_bytes).map(move |at| byte(seed, plane, token, at))).collect()
}

pub(crate) fn write(kv: &mut Reservation<impl PageMemory>, seed: u64, tokens: u64) {
    let geometry = kv.pool().geometry().clone();
    let range = kv.written_tokens()..kv.written_tokens() + tokens;
    let planes: Vec<Vec<u8>> =
        (0..geometry.planes().len()).map(|plane| plane_bytes(&geometry, seed, plane, range.clone())).collect();
    let planes: Vec<&[u8]> = planes.iter().map(Vec::as_slice).collect();
    kv.write(tokens, &planes).expect("within the reservation");
}

pub(crate) fn assert_holds(kv: &Reservation<impl PageMemory>, seed: u64, tokens: u64) {
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
pub(crate) fn raw_page(pool: &PagePool<impl HostBytes>, page: u32) -> Vec<u8> {
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

pub(crate) fn raw_is_zero(pool: &PagePool<impl HostBytes>) -> bool {
    (0..pool.max_pages()).all(|page| raw_page(pool, page).iter().all(|byte| *byte == 0))
}

/// Nothing is left: every page is free, and zero in every byte.
pub(crate) fn assert_untouched(pool: &PagePool<impl HostBytes>) {
    let stats = pool.stats();
    assert_eq!((stats.free_pages, stats.promised_pages, stats.tickets, stats.reservations), (USABLE, 0, 0, 0));
    pool.audit().expect("the books are right");
    pool.audit_bytes(0..pool.max_pages()).expect("free pages are zero");
    assert!(raw_is_zero(pool), "bytes of a refused handoff are still there");
}

/// Two pools of one model.
pub(crate) struct World {
    pub(crate) model: ModelLayout,
    pub(crate) slice: Slice,
    pub(crate) prefill: PagePool<HostMemory>,
    pub(crate) decode: PagePool<HostMemory>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::of(model_of(P, "r1", HeadOrder::Nhd))
    }

    pub(crate) fn of(model: ModelLayout) -> Self {
        let slice = Slice::whole(&model);
        let geometry = model.geometry(&slice).expect("a good layout");
        Self { prefill: host(geometry.clone()), decode: host(geometry), model, slice }
    }

    /// A prompt that prefill computed.
    pub(crate) fn sealed(&self, seed: u64, tokens: u64) -> Outbound<HostMemory> {
        let mut kv = reserve(&self.prefill, owner(1), tokens.max(1), tokens);
        write(&mut kv, seed, tokens);
        kv.commit(tokens).expect("written");
        Outbound::seal(kv, &self.model, &self.slice).expect("it is sealed")
    }

    pub(crate) fn open(&self, reserved: u64, tokens: u64) -> Inbound<HostMemory> {
        let kv = reserve(&self.decode, owner(1), reserved.max(1), reserved);
        Inbound::open(kv, self.plan(tokens)).expect("it opens")
    }

    pub(crate) fn plan(&self, tokens: u64) -> InboundPlan {
        InboundPlan::new(&self.model, &self.slice, tokens)
    }

    /// Prefill sends all of a prompt, honestly; then `lie` changes the receipt on its way.
    pub(crate) fn accept_with(&self, tokens: u64, lie: impl FnOnce(Receipt) -> Receipt) -> InboundError {
        let (mut outbound, mut inbound) = (self.sealed(1, tokens), self.open(tokens, tokens));
        let receipt = send(&mut outbound, &mut inbound);
        let lie = lie(receipt.clone());
        assert_ne!(lie, receipt, "the test must change something");
        let error = self.refused(inbound, &lie);
        outbound.release();
        assert_untouched(&self.prefill);
        error
    }

    /// The receiver refuses, and then nothing is left. An engine that gives up what is not complete, too.
    pub(crate) fn refused(&self, mut inbound: Inbound<HostMemory>, receipt: &Receipt) -> InboundError {
        let handles = handles_of(&inbound);
        let told = inbound.receive(receipt);
        let (error, rejected) = match told.clone() {
            // about another handoff: this one is as it was, and the engine gives it up
            Err(error @ InboundError::Transfer { .. }) => {
                let Err(AcceptError::NotYet(not_yet)) = inbound.accept() else {
                    panic!("it is as it was: not complete")
                };
                (error.clone(), not_yet.into_inbound().reject(error))
            }
            told => {
                let again = inbound.receive(receipt);
                assert_eq!(again, told.map(|_| Received::Before), "the same receipt has the same answer");
                let refused = inbound.accept().expect_err("this must not be accepted").give_up();
                let error = refused.error().clone();
                assert!(again.err().is_none_or(|told| told == error), "the first error ends it");
                assert_eq!(refused.to_string(), error.to_string());
                (error, refused.into_rejected())
            }
        };
        for handle in handles {
            let read = self.decode.read(owner(1), handle);
            assert!(matches!(read, Err(ReadError::Stale { .. })), "the handles of the offer are stale: {read:?}");
        }
        assert_untouched(&self.decode);
        let RejectReason::Caller(reason) = rejected.reason() else { panic!("not by the caller: {rejected}") };
        assert_eq!(reason.downcast_ref(), Some(&error), "the rejection keeps the first error");
        error
    }
}

/// A receiver with one receipt, and the verdict.
pub(crate) fn accept<M: PageMemory>(mut inbound: Inbound<M>, receipt: &Receipt) -> Result<Reservation<M>, NotAccepted> {
    let told = inbound.receive(receipt);
    let verdict = inbound.accept().map_err(AcceptError::give_up);
    assert!(told.is_ok() || verdict.is_err(), "what was refused is not accepted");
    verdict
}

pub(crate) fn send(outbound: &mut Outbound<HostMemory>, inbound: &mut Inbound<impl PageMemory>) -> Receipt {
    let offer = inbound.offer();
    outbound.send(&offer, &mut inbound.landing(Writer::ONLY).expect("it lands")).expect("it is sent")
}

pub(crate) fn handles_of<M: PageMemory>(inbound: &Inbound<M>) -> Vec<PageHandle<M>> {
    inbound.offer().destinations().iter().filter_map(|bits| PageHandle::from_bits(*bits)).collect()
}

/// What an engine does that moves bytes itself: the tokens of a prompt, page by page, to where `place` says. The digests are
/// those of the page's own place.
pub(crate) fn land(
    inbound: &mut Inbound<HostMemory>,
    seed: u64,
    tokens: u64,
    place: impl Fn(u32) -> u32,
) -> Vec<Digest> {
    let offer = inbound.offer();
    let digester = digester_of(offer.transfer(), offer.model(), offer.slice());
    let geometry = offer.model().geometry(offer.slice()).expect("a good layout");
    let mut landing = inbound.landing(Writer::ONLY).expect("it lands");
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

pub(crate) fn digester_of(transfer: TransferId, model: &ModelLayout, slice: &Slice) -> Digester {
    Digester::new(Checksum::Xxh3, None, transfer, model, slice).expect("the slice is of the model")
}

/// A receipt that an engine writes itself, for everything in one part.
pub(crate) fn receipt(offer: &Offer, pages: u32, tokens: u64, fill: u32, digests: Vec<Digest>) -> Receipt {
    let part = SentPart::new(offer.slice().clone(), 0..pages).with_digests(0..PLANES as u32, digests);
    Receipt::new(offer.transfer(), offer.owner(), offer.model().clone(), Writer::ONLY)
        .with_extent(pages, tokens, fill)
        .with_parts(Checksum::Xxh3, vec![part])
}

/// The same receipt with other digests.
pub(crate) fn with_digests(receipt: &Receipt, checksum: Checksum, digests: Vec<Digest>) -> Receipt {
    let parts = receipt
        .parts()
        .iter()
        .map(|part| SentPart::new(part.slice().clone(), part.pages()).with_digests(part.planes(), digests.clone()));
    receipt.clone().with_parts(checksum, parts.collect())
}

pub(crate) fn digests_of(receipt: &Receipt) -> Vec<Digest> {
    receipt.parts().iter().flat_map(|part| part.digests()).copied().collect()
}

/// Tokens in the last page.
pub(crate) fn fill(tokens: u64) -> u32 {
    (tokens - tokens.saturating_sub(1) / u64::from(P) * u64::from(P)) as u32
}

/// Bytes of some tokens in one plane.
pub(crate) fn landing_bytes(world: &World, tokens: u32) -> usize {
    world.decode.geometry().planes()[0].token_bytes() as usize * tokens as usize
}

/// Bytes of a plane that come token by token, in the order in which a page is digested: run by run.
pub(crate) fn run_by_run(geometry: &PageGeometry, plane: usize, bytes: &[u8]) -> Vec<u8> {
    let shape = geometry.planes()[plane];
    let (runs, run_bytes) = (shape.runs() as usize, shape.run_bytes() as usize);
    let of_run =
        |run: usize| bytes.chunks(runs * run_bytes).flat_map(move |token| &token[run * run_bytes..][..run_bytes]);
    (0..runs).flat_map(of_run).copied().collect()
}
