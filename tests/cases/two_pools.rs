//! Two pools of one model, prefill and decode, and what a handoff from one to the other needs.

use std::ops::Range;

use pagestamp::geometry::{Dtype, ElementFormat, HeadCache, HeadOrder, KvLayout, ModelLayout, Slice};
use pagestamp::{
    AcceptError, HolderId, HostMemory, Inbound, InboundPlan, Offer, Outbound, OwnerId, PageGeometry, PageHandle,
    PagePool, Receipt, Request, Reservation, TicketError, TicketId, Writer,
};

use crate::stage::*;

/// A model of two layers and two heads, K and V in planes of their own: four planes of 16 bytes a token.
pub(crate) fn model_of(page_tokens: u64, revision: &str, order: HeadOrder) -> ModelLayout {
    let cache = HeadCache::new(2, 4, ElementFormat::plain(Dtype::F16)).with_order(order);
    ModelLayout::new("tiny", revision, KvLayout::new(page_tokens as u32, 2, cache)).unwrap()
}

pub(crate) fn model() -> ModelLayout {
    model_of(P, "r1", HeadOrder::Nhd)
}

pub(crate) fn slice(layers: Range<u32>, heads: Range<u32>) -> Slice {
    Slice::new(layers, heads).unwrap()
}

pub(crate) fn pool_for(model: &ModelLayout, slice: &Slice, pages: u32) -> PagePool<HostMemory> {
    let memory = HostMemory::new(model.geometry(slice).unwrap(), pages).unwrap();
    PagePool::new(config(pages), memory).unwrap()
}

/// The byte of a prompt: none is zero, neighbours differ.
fn byte(seed: u64, plane: usize, token: u64, at: u64) -> u8 {
    ((seed * 89 + plane as u64 * 53 + token * 31 + at * 7) % 251 + 1) as u8
}

/// Some tokens of a plane: `[tokens, runs, run_bytes]`.
pub(crate) fn plane_bytes(geometry: &PageGeometry, seed: u64, plane: usize, tokens: Range<u64>) -> Vec<u8> {
    let token_bytes = geometry.planes()[plane].token_bytes();
    tokens.flat_map(|token| (0..token_bytes).map(move |at| byte(seed, plane, token, at))).collect()
}

/// A full page of a prompt as it lies in memory, token-major: plane after plane.
pub(crate) fn page_bytes(geometry: &PageGeometry, seed: u64, ordinal: u64) -> Vec<u8> {
    let tokens = ordinal * P..(ordinal + 1) * P;
    (0..geometry.planes().len()).flat_map(|plane| plane_bytes(geometry, seed, plane, tokens.clone())).collect()
}

/// Appends tokens of a prompt, and commits them.
pub(crate) fn compute(kv: &mut Reservation<HostMemory>, seed: u64, tokens: u64) {
    let planes = prompt(kv, seed, tokens);
    let planes: Vec<&[u8]> = planes.iter().map(Vec::as_slice).collect();
    kv.write(tokens, &planes).unwrap();
    kv.commit(kv.written_tokens()).unwrap();
}

/// The next tokens of a prompt, plane by plane.
pub(crate) fn prompt(kv: &Reservation<HostMemory>, seed: u64, tokens: u64) -> Vec<Vec<u8>> {
    let geometry = kv.pool().geometry();
    let range = kv.written_tokens()..kv.written_tokens() + tokens;
    (0..geometry.planes().len()).map(|plane| plane_bytes(geometry, seed, plane, range.clone())).collect()
}

/// Says whether a reservation holds the first tokens of a prompt, written and committed, and none more.
pub(crate) fn holds(kv: &Reservation<HostMemory>, seed: u64, tokens: u64) -> bool {
    let geometry = kv.pool().geometry();
    let expected: Vec<u8> =
        (0..geometry.planes().len()).flat_map(|plane| plane_bytes(geometry, seed, plane, 0..tokens)).collect();
    (kv.written_tokens(), kv.committed_tokens()) == (tokens, tokens) && bytes(kv) == expected
}

/// A prefill pool and a decode pool, with the whole model in each.
pub(crate) struct Pair {
    pub(crate) model: ModelLayout,
    pub(crate) slice: Slice,
    pub(crate) prefill: PagePool<HostMemory>,
    pub(crate) decode: PagePool<HostMemory>,
}

impl Pair {
    pub(crate) fn new(pages: u32) -> Self {
        Self::of(model(), pages)
    }

    pub(crate) fn of(model: ModelLayout, pages: u32) -> Self {
        let slice = Slice::whole(&model);
        let (prefill, decode) = (pool_for(&model, &slice, pages), pool_for(&model, &slice, pages));
        Self { model, slice, prefill, decode }
    }

    /// A prompt that prefill computed.
    pub(crate) fn sealed(&self, who: u64, seed: u64, tokens: u64) -> Outbound<HostMemory> {
        Outbound::seal(self.computed(who, seed, tokens), &self.model, &self.slice).unwrap()
    }

    pub(crate) fn computed(&self, who: u64, seed: u64, tokens: u64) -> Reservation<HostMemory> {
        let mut kv = room(&self.prefill, owner(who), tokens);
        compute(&mut kv, seed, tokens);
        kv
    }

    pub(crate) fn plan(&self, tokens: u64) -> InboundPlan {
        InboundPlan::new(&self.model, &self.slice, tokens)
    }

    /// Room at decode for a prompt, and no more.
    pub(crate) fn open(&self, who: u64, tokens: u64) -> Inbound<HostMemory> {
        Inbound::open(room(&self.decode, owner(who), tokens), self.plan(tokens)).unwrap()
    }

    /// All of both pools is free and zero.
    pub(crate) fn assert_untouched(&self) {
        assert_untouched(&self.prefill);
        assert_untouched(&self.decode);
    }
}

/// Reserves room for some tokens, or for none.
pub(crate) fn room(pool: &PagePool<HostMemory>, who: OwnerId, tokens: u64) -> Reservation<HostMemory> {
    let max_tokens = tokens.max(1);
    pool.reserve(&proof(pool, max_tokens), Request::new(who, max_tokens), tokens).unwrap()
}

/// Nothing is left: every page is free and zero in every byte, nothing is open.
pub(crate) fn assert_untouched(pool: &PagePool<HostMemory>) {
    let stats = settle(pool);
    assert_eq!(stats.free_pages, u64::from(pool.max_pages()), "{stats:?}");
    assert_eq!((stats.promised_pages, stats.tickets, stats.pinned_pages), (0, 0, 0));
    assert_eq!((stats.inbound_transfers, stats.outbound_transfers), (0, 0));
    assert!((0..pool.max_pages()).all(|page| is_zero(pool, page)));
    assert_sound(pool);
}

/// Sends all of a prompt within the process.
pub(crate) fn send(outbound: &mut Outbound<HostMemory>, inbound: &mut Inbound<HostMemory>) -> Receipt {
    let offer = inbound.offer();
    outbound.send(&offer, &mut inbound.landing(outbound.writer()).unwrap()).unwrap()
}

/// What a sender says whose bytes travel by another way.
pub(crate) fn told(outbound: &mut Outbound<HostMemory>, offer: &Offer) -> Receipt {
    let sending = outbound.start(offer).unwrap();
    let part = outbound.digest(&sending, sending.slice().layers(), sending.all_pages()).unwrap();
    sending.receipt(vec![part])
}

/// Opens the pages for the only writer, from outside.
pub(crate) fn open_outside(inbound: &mut Inbound<HostMemory>, deadline_ns: Option<u64>) -> TicketId {
    inbound.open_writer(Writer::ONLY, deadline_ns).unwrap()
}

/// Page numbers that an offer names.
pub(crate) fn destinations(offer: &Offer) -> Vec<u32> {
    let page = |bits: &u128| PageHandle::<HostMemory>::from_bits(*bits).unwrap().index();
    offer.destinations().iter().map(page).collect()
}

/// What a network card does: writes the tokens of a prompt to pages by their addresses, whoever has them now.
pub(crate) fn store_outside(pool: &PagePool<HostMemory>, pages: &[u32], seed: u64, tokens: u64) {
    // SAFETY: (1): the test plays an outside writer whose ticket on these pages is open, and ends it after this. (2): it
    // only writes.
    let memory = unsafe { pool.expose() };
    let geometry = pool.geometry();
    for (ordinal, tokens) in geometry.split_tokens(0..tokens) {
        for (plane, shape) in geometry.planes().iter().enumerate() {
            let first = geometry.tokens_in_pages(ordinal as u32);
            let bytes = plane_bytes(geometry, seed, plane, first..first + u64::from(tokens.end));
            let place = pagestamp::memory::HostBytes::plane(memory, plane).unwrap().page(pages[ordinal as usize]);
            for (at, run) in bytes.chunks_exact(shape.run_bytes() as usize).enumerate() {
                let (token, number) = (at as u32 / shape.runs(), at as u32 % shape.runs());
                let offset = geometry.run_offset(plane, number, token).unwrap() as usize;
                let place = place.wrapping_add(offset);
                // SAFETY: the run lies inside the page, which is of this memory, and nobody else touches it: its ticket is
                // open.
                unsafe { std::ptr::copy_nonoverlapping(run.as_ptr(), place, run.len()) };
            }
        }
    }
}

/// Ends a ticket whose outside party, which is the test, has stopped.
pub(crate) fn done(pool: &PagePool<HostMemory>, id: TicketId) -> Result<(), TicketError> {
    // SAFETY: (1): the outside party is this test, which touches no page under the ticket any more.
    unsafe { pool.ticket_done(id) }
}

/// Ends a ticket whose outside party is gone.
pub(crate) fn revoke(pool: &PagePool<HostMemory>, id: TicketId) -> Result<(), TicketError> {
    // SAFETY: (1): as for `done`.
    unsafe { pool.ticket_revoke(id) }
}

/// The inbound that is not complete yet.
pub(crate) fn not_yet(inbound: Inbound<HostMemory>) -> (Inbound<HostMemory>, pagestamp::InboundError) {
    match inbound.accept() {
        Err(AcceptError::NotYet(not_yet)) => {
            let error = not_yet.error().clone();
            (not_yet.into_inbound(), error)
        }
        other => panic!("something should be missing: {other:?}"),
    }
}

/// Why an inbound is refused for good.
pub(crate) fn refused(inbound: Inbound<HostMemory>) -> pagestamp::InboundError {
    match inbound.accept() {
        Err(AcceptError::Refused(refused)) => refused.error().clone(),
        other => panic!("it should be refused: {other:?}"),
    }
}

/// Tokens of pages that their owner can read by handle.
pub(crate) fn readable(pool: &PagePool<HostMemory>, who: u64, handles: &[PageHandle<HostMemory>]) -> u32 {
    let read = |handle: &PageHandle<HostMemory>| pool.read(owner(who), *handle).map_or(0, |page| page.written_tokens());
    handles.iter().map(read).sum()
}

/// The handles that an offer names.
pub(crate) fn handles_of(offer: &Offer) -> Vec<PageHandle<HostMemory>> {
    offer.destinations().iter().filter_map(|bits| PageHandle::from_bits(*bits)).collect()
}

/// Writers that each send a slice, numbered from 0.
pub(crate) fn writers(slices: &[Slice]) -> Vec<Writer> {
    (0..).zip(slices).map(|(holder, slice)| Writer::new(HolderId(holder), slice.clone())).collect()
}
