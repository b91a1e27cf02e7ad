//! Many aborts, each at another stage of a handoff: nothing is left of any.

use std::collections::BTreeMap;
use std::ops::Range;

use pagestamp::geometry::{HeadOrder, LayerPlanes, ModelLayout, Slice};
use pagestamp::{
    AcceptError, CleanMode, Digest, HolderId, HostMemory, Inbound, InboundPlan, Outbound, OwnerId, Receipt, Refusal,
    SentPart, Side, TicketId, Writer,
};

use crate::place::{PAGES, Place};
use crate::shape::{Cache, Prompt, Shape};

const ROUNDS: u64 = 10_000;
/// Owner of the request that is aborted.
const OWNER: u64 = 1;

/// How far a handoff comes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Stage {
    BeforeOffer,
    Offered,
    HalfCopied,
    ReceiptBeforeBytes,
    WriterAtWork,
    NotYet,
    AllThere,
    Refused,
    Accepted,
}

const STAGES: [Stage; 9] = [
    Stage::BeforeOffer,
    Stage::Offered,
    Stage::HalfCopied,
    Stage::ReceiptBeforeBytes,
    Stage::WriterAtWork,
    Stage::NotYet,
    Stage::AllThere,
    Stage::Refused,
    Stage::Accepted,
];

struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

struct Pair {
    shape: Shape,
    model: ModelLayout,
    prefill: Place<HostMemory>,
    decode: Place<HostMemory>,
}

/// The writer whose bytes come within the process, and the one that stores from outside: a layer each.
const WITHIN: HolderId = HolderId(0);
const OUTSIDE: HolderId = HolderId(1);

impl Pair {
    fn new(mode: CleanMode) -> Self {
        let cache = Cache::Apart(HeadOrder::Hnd);
        let shape = Shape { page_tokens: 4, layers: 2, heads: 2, cache, layer_planes: LayerPlanes::PerLayer };
        let model = shape.model();
        let whole = Slice::whole(&model);
        let (prefill, decode) = (Place::new(&model, &whole, mode), Place::new(&model, &whole, mode));
        Self { shape, model, prefill, decode }
    }

    fn tile(&self, writer: HolderId) -> Slice {
        let layer = writer.0 as u32;
        Slice::new(layer..layer + 1, 0..self.shape.heads).unwrap()
    }

    fn sealed(&self, prompt: Prompt, tokens: u64) -> Outbound<HostMemory> {
        let mut kv = self.prefill.reserve(OWNER, tokens, tokens).unwrap();
        self.prefill.compute(&self.shape, &mut kv, prompt, tokens);
        Outbound::seal(kv, &self.model, &self.prefill.slice).unwrap().with_writer(WITHIN)
    }

    fn opened(&self, prompt: Prompt, tokens: u64, held_tokens: u64) -> Inbound<HostMemory> {
        let mut kv = self.decode.reserve(OWNER, tokens + 1, tokens + 1).unwrap();
        self.decode.compute(&self.shape, &mut kv, prompt, held_tokens);
        let writers = [WITHIN, OUTSIDE].map(|writer| Writer::new(writer, self.tile(writer)));
        let plan = InboundPlan::new(&self.model, &self.decode.slice, tokens).with_writers(writers.to_vec());
        Inbound::open(kv, plan).unwrap()
    }

    /// Stores a layer of some tokens from outside, whoever has the pages now.
    fn store(&self, pages: &[u32], prompt: Prompt, tokens: Range<u64>) {
        self.shape.for_each(&self.tile(OUTSIDE), tokens, |name, bytes| {
            let (plane, offset) = self.shape.place(&self.decode.slice, name);
            let page = pages[(name.token / u64::from(self.shape.page_tokens)) as usize];
            let bytes: Vec<u8> = (0..bytes).map(|at| prompt.byte(crate::shape::Name { at, ..name })).collect();
            self.decode.store(plane, page, offset, &bytes);
        });
    }

    fn done(&self, ticket: TicketId) {
        // SAFETY: (1): the outside writer is this test, which stores nothing under the ticket any more.
        unsafe { self.decode.pool.ticket_done(ticket) }.unwrap();
    }
}

/// The first digest is another one.
fn forged(receipt: &Receipt) -> Receipt {
    let part = &receipt.parts()[0];
    let mut digests = part.digests().to_vec();
    digests[0] = Digest::from_bytes([7; 16]);
    let part = SentPart::new(part.slice().clone(), part.pages()).with_digests(part.planes(), digests);
    receipt.clone().with_parts(receipt.checksum(), vec![part])
}

/// One handoff that comes as far as `stage` and is then ended on both sides.
fn abort(pair: &Pair, dice: &mut Dice, round: u64, stage: Stage) {
    let tokens = dice.below(9) + 1;
    let pages = pair.shape.pages(tokens);
    let prompt = Prompt { owner: OWNER, request: round };
    let held_tokens = dice.below(2) * (tokens - 1) / 4 * 4;
    let mut outbound = pair.sealed(prompt, tokens);
    let mut inbound = pair.opened(prompt, tokens, held_tokens);
    let transfer = inbound.transfer();
    let offer = inbound.offer();
    let numbers: Vec<u32> = offer.destinations().iter().map(|bits| *bits as u32).collect();
    let mut late = None;
    let mut kept = None;
    let mut inbound = 'stage: {
        if stage == Stage::BeforeOffer {
            break 'stage Some(inbound);
        }
        let sending = outbound.start(&offer).unwrap();
        if stage == Stage::Offered {
            break 'stage Some(inbound);
        }
        let layers = pair.tile(WITHIN).layers();
        if stage == Stage::ReceiptBeforeBytes {
            let part = outbound.digest(&sending, layers, 0..pages).unwrap();
            inbound.receive(&sending.receipt(vec![part])).unwrap();
            break 'stage Some(inbound);
        }
        let some = if stage == Stage::HalfCopied { 1 } else { pages };
        let part = outbound.copy(&sending, layers, 0..some, &mut inbound.landing(WITHIN).unwrap()).unwrap();
        if stage == Stage::HalfCopied {
            break 'stage Some(inbound);
        }
        let receipt = sending.receipt(vec![part]);
        inbound.receive(&if stage == Stage::Refused { forged(&receipt) } else { receipt }).unwrap();
        let ticket = inbound.open_writer(OUTSIDE, None).unwrap();
        if dice.below(2) == 0 {
            pair.store(&numbers, prompt, held_tokens..tokens);
        }
        if stage == Stage::WriterAtWork {
            late = Some(ticket);
            break 'stage Some(inbound);
        }
        if stage == Stage::NotYet {
            let Err(AcceptError::NotYet(not_yet)) = inbound.accept() else { panic!("its writer is at work") };
            late = Some(ticket);
            break 'stage Some(not_yet.into_inbound());
        }
        pair.store(&numbers, prompt, held_tokens..tokens);
        pair.done(ticket);
        // the same sender has the other layer too
        outbound = outbound.with_writer(OUTSIDE);
        let sending = outbound.start(&offer).unwrap();
        let part = outbound.digest(&sending, pair.tile(OUTSIDE).layers(), 0..pages).unwrap();
        inbound.receive(&sending.receipt(vec![part])).unwrap();
        match stage {
            Stage::AllThere => Some(inbound),
            Stage::Refused => {
                let Err(AcceptError::Refused(refused)) = inbound.accept() else { panic!("its receipt is forged") };
                drop(refused);
                None
            }
            _ => {
                let kv = inbound.accept().unwrap();
                assert!(pair.decode.holds(&pair.shape, &numbers, prompt, tokens));
                kept = Some(kv);
                None
            }
        }
    };
    let receiver_first = dice.below(2) == 0;
    if receiver_first {
        end_receive(pair, dice, inbound.take());
    }
    match dice.below(5) {
        0 => drop(outbound),
        1 => drop(outbound.reject("the client went away")),
        2 => drop(outbound.release()),
        3 => {
            std::mem::forget(outbound);
            pair.prefill.pool.reclaim(OwnerId::new(OWNER).unwrap());
        }
        _ => match outbound.refused(Refusal::new(transfer, Side::Receiver, &std::fmt::Error)) {
            Ok(rejected) => drop(rejected),
            // it never began
            Err(refused) => drop(refused.into_parts()),
        },
    }
    end_receive(pair, dice, inbound);
    drop(kept);
    if let Some(ticket) = late {
        // late, and allowed to be; whole pages, as cards write blocks
        pair.store(&numbers, prompt, held_tokens..u64::from(pages * pair.shape.page_tokens));
        assert!(pair.decode.pool.maintain(usize::MAX).quarantined_pages > 0);
        pair.done(ticket);
    }
}

fn end_receive(pair: &Pair, dice: &mut Dice, inbound: Option<Inbound<HostMemory>>) {
    let Some(inbound) = inbound else { return };
    match dice.below(4) {
        0 => drop(inbound),
        1 => drop(inbound.reject("the client went away")),
        2 => {
            std::mem::forget(inbound);
            pair.decode.pool.reclaim(OwnerId::new(OWNER).unwrap());
        }
        _ => drop(inbound.accept()),
    }
}

// C1, C3, C6, C7, C10
#[test]
fn ten_thousand_aborts_at_random_stages_return_to_the_starting_counts() {
    let mut dice = Dice(0x5EED_0000_ABBA_0001);
    let pairs = [CleanMode::OnRelease, CleanMode::Later].map(Pair::new);
    let mut seen = BTreeMap::new();
    for round in 1..=ROUNDS {
        let stage = STAGES[dice.below(STAGES.len() as u64) as usize];
        *seen.entry(stage).or_insert(0) += 1;
        let pair = &pairs[(round % 2) as usize];
        abort(pair, &mut dice, round, stage);
        for place in [&pair.prefill, &pair.decode] {
            place.clean(usize::from(u16::MAX));
            let stats = place.pool.stats();
            assert_eq!((stats.free_pages, stats.live_pages), (u64::from(PAGES), 0), "{round} {stage:?}: {stats:?}");
            assert_eq!((stats.tickets, stats.pinned_pages, stats.promised_pages), (0, 0, 0), "{round} {stage:?}");
            assert_eq!((stats.inbound_transfers, stats.outbound_transfers), (0, 0), "{round} {stage:?}");
            assert!((0..PAGES).all(|page| place.is_zero(page)), "{round} {stage:?}");
            if round % 100 == 0 {
                place.pool.audit().unwrap();
            }
        }
    }
    assert!(STAGES.iter().all(|stage| seen[stage] > 1_000), "{seen:?}");
}
