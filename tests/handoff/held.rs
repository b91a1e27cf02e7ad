//! A prefix that the receiver holds already: it is not sent, and verified like all the rest.

use pagestamp::*;

use crate::ranks::*;
use crate::world::*;

/// A receiver that holds the first `held` tokens of a prompt, and a sender of all of it.
struct Held {
    model: pagestamp::geometry::ModelLayout,
    whole: pagestamp::geometry::Slice,
    decode: PagePool<HostMemory>,
    tokens: u64,
}

impl Held {
    fn all(tokens: u64) -> impl Iterator<Item = Self> {
        models().into_iter().map(move |model| {
            let whole = pagestamp::geometry::Slice::whole(&model);
            Self { decode: pool_of(&model, &whole), model, whole, tokens }
        })
    }

    fn open(&self, held_seed: u64, held: u64) -> Inbound<HostMemory> {
        let mut kv = reserve(&self.decode, owner(1), self.tokens, self.tokens);
        append(&mut kv, &self.model, &self.whole, held_seed, held);
        Inbound::open(kv, InboundPlan::new(&self.model, &self.whole, self.tokens)).expect("whole pages are held")
    }

    fn sender(&self, seed: u64) -> Outbound<HostMemory> {
        sender(&self.model, &self.whole, 0, seed, self.tokens)
    }
}

// C10
#[test]
fn a_held_prefix_is_not_sent_and_the_rest_lands_behind_it() {
    for world in Held::all(11) {
        for held in [0, 4, 8] {
            let (mut inbound, mut outbound) = (world.open(3, held), world.sender(3));
            let offer = inbound.offer();
            assert_eq!((offer.held_tokens(), offer.destinations().len(), inbound.held_tokens()), (held, 3, held));
            let sending = outbound.start(&offer).expect("it fits");
            assert_eq!(sending.pages(), (held / 4) as u32..3);
            assert_eq!(inbound.complete_pages(), (held / 4) as u32);
            let receipt = outbound.send(&offer, &mut inbound.landing(Writer::ONLY).expect("it lands"));
            inbound.receive(&receipt.expect("it is sent")).expect("honest");
            let kv = inbound.accept().expect("all is there");
            assert_named(&kv, &world.model, &world.whole, 3, 11);
        }
    }
}

// C10
#[test]
fn everything_held_moves_no_byte_and_is_verified_all_the_same() {
    for world in Held::all(8) {
        let (mut inbound, mut outbound) = (world.open(3, 8), world.sender(3));
        let offer = inbound.offer();
        let sending = outbound.start(&offer).expect("it fits");
        assert_eq!((sending.pages(), sending.batches().count()), (2..2, 0));
        let Err(AcceptError::NotYet(not_yet)) = inbound.accept() else { panic!("nothing vouches for it") };
        inbound = not_yet.into_inbound();
        let layers = sending.slice().layers();
        let part = outbound.digest(&sending, layers, sending.all_pages()).expect("sealed");
        inbound.receive(&sending.receipt(vec![part])).expect("honest");
        assert_named(&inbound.accept().expect("all is there"), &world.model, &world.whole, 3, 8);
    }
}

// C10
#[test]
fn a_held_prefix_of_other_bytes_is_refused() {
    for world in Held::all(11) {
        let (mut inbound, mut outbound) = (world.open(4, 8), world.sender(3));
        let offer = inbound.offer();
        let receipt = outbound.send(&offer, &mut inbound.landing(Writer::ONLY).expect("it lands"));
        inbound.receive(&receipt.expect("it is sent")).expect("it looks right");
        let refused = inbound.accept().expect_err("the prefix is another").give_up();
        assert!(matches!(refused.error(), InboundError::HeldDigest { page: 0, .. }));
        assert_untouched(&world.decode);
    }
}

// C10
#[test]
fn a_sender_that_leaves_out_more_or_less_than_is_held_is_refused() {
    let world = Held::all(11).next().expect("a model");
    for said in [0, 4, 12] {
        let (mut inbound, mut outbound) = (world.open(3, 8), world.sender(3));
        let offer = inbound.offer();
        let receipt = outbound.send(&offer, &mut inbound.landing(Writer::ONLY).expect("it lands"));
        let lie = receipt.expect("it is sent").with_held_tokens(said);
        let held = InboundError::Held { expected_tokens: 8, found_tokens: said };
        assert_eq!(inbound.receive(&lie), Err(held));
        drop(inbound);
        assert_untouched(&world.decode);
    }
    let (inbound, outbound) = (world.open(3, 8), world.sender(3));
    for held_tokens in [1, 7, 12, u64::MAX] {
        let error = outbound.check(&inbound.offer().with_held_tokens(held_tokens));
        assert_eq!(error, Err(OutboundError::Held { held_tokens, sealed_tokens: 11, page_tokens: 4 }));
    }
}

// C10, C12
#[test]
fn nothing_lands_on_a_page_that_is_held() {
    let world = Held::all(11).next().expect("a model");
    let mut inbound = world.open(3, 8);
    let mut landing = inbound.landing(Writer::ONLY).expect("it lands");
    assert_eq!(landing.expected_tokens(1), 0);
    assert_eq!(landing.put(1, 0, 0..4, &[0; 128]), Err(LandError::Held { page: 1, held_pages: 2 }));
}

// C8
#[test]
fn a_prefix_that_is_no_whole_committed_pages_is_not_opened_and_comes_back() {
    let world = Held::all(11).next().expect("a model");
    let open = |kv| Inbound::open(kv, InboundPlan::new(&world.model, &world.whole, 11));
    let mut kv = reserve(&world.decode, owner(1), 11, 11);
    append(&mut kv, &world.model, &world.whole, 3, 5);
    let (mut kv, error) = open(kv).expect_err("part of a page").into_parts();
    assert_eq!(error, OpenError::PartOfPage { written_tokens: 5, page_tokens: 4 });
    kv.truncate(4).expect("back to a page's end");
    // one draft that nobody accepted, and whole pages
    let mut draft = reserve(&world.decode, owner(1), 11, 11);
    append(&mut draft, &world.model, &world.whole, 3, 3);
    let last = planes_of(&world.model, &world.whole, 3, 3..4);
    draft.write(1, &last.iter().map(Vec::as_slice).collect::<Vec<_>>()).expect("within the reservation");
    let (draft, error) = open(draft).expect_err("a draft is no prefix").into_parts();
    assert_eq!(error, OpenError::Drafts { written_tokens: 4, committed_tokens: 3 });
    assert_eq!((draft.written_tokens(), draft.committed_tokens()), (4, 3));
    let mut inbound = open(kv).expect("whole pages");
    let mut outbound = world.sender(3);
    let offer = inbound.offer();
    let receipt = outbound.send(&offer, &mut inbound.landing(Writer::ONLY).expect("it lands"));
    inbound.receive(&receipt.expect("it is sent")).expect("honest");
    assert_named(&inbound.accept().expect("all is there"), &world.model, &world.whole, 3, 11);
}

// C10
#[test]
fn a_prefix_that_somebody_outside_writes_is_not_taken_for_one_that_is_held() {
    let world = World::new();
    let mut kv = reserve(&world.decode, owner(1), 48, 48);
    write(&mut kv, 1, 16);
    kv.commit(16).expect("written");
    let ticket = kv.pin_write(0..1, HolderId(9), None).expect("nobody reads");
    let page = kv.handle(0).expect("a page").index();
    let (kv, error) = Inbound::open(kv, world.plan(48)).expect_err("a writer is on the prefix").into_parts();
    assert_eq!(error, OpenError::Read(ReadError::Busy { page }));
    assert_eq!((kv.written_tokens(), kv.committed_tokens()), (16, 16));
    // SAFETY: (1) nobody was told of the page.
    unsafe { world.decode.ticket_done(ticket) }.expect("it is open");
    drop(Inbound::open(kv, world.plan(48)).expect("it stopped"));
    assert_untouched(&world.decode);
}
