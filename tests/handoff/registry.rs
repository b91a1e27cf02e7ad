//! Which handoffs are open, since when, and whom a late message is for.

use pagestamp::*;

use crate::world::*;

// C7
#[test]
fn open_handoffs_are_shown_with_their_age_and_time_ends_none() {
    let world = World::new();
    let (mut outbound, inbound) = (world.sealed(1, 40), world.open(65, 40));
    outbound.start(&inbound.offer()).map(drop).expect("it fits");
    outbound.set_deadline(100, 200);
    inbound.set_deadline(150, 250);
    let [sends] = &world.prefill.transfers()[..] else { panic!("one sender") };
    assert_eq!((sends.id, sends.side, sends.owner, sends.pages), (outbound.id(), Side::Sender, owner(1), 3));
    assert_eq!(
        (&sends.serves[..], sends.age_ns(130), sends.age_ns(50)),
        (&[inbound.transfer()][..], Some(30), Some(0))
    );
    let [receives] = &world.decode.transfers()[..] else { panic!("one receiver") };
    assert_eq!((receives.id, receives.side, receives.pages), (inbound.transfer(), Side::Receiver, 5));
    let overdue = |pool: &PagePool<HostMemory>, now| pool.overdue_transfers(now).len();
    assert_eq!((overdue(&world.prefill, 199), overdue(&world.prefill, 200), overdue(&world.decode, 249)), (0, 1, 0));
    let stats = (world.prefill.stats(), world.decode.stats());
    assert_eq!((stats.0.outbound_transfers, stats.0.inbound_transfers), (1, 0));
    assert_eq!((stats.1.outbound_transfers, stats.1.inbound_transfers), (0, 1));
    assert_eq!(world.decode.overdue_transfers(u64::MAX).len(), 1);
    assert_eq!((stats.1.live_pages, stats.1.free_pages), (5, USABLE - 5), "overdue, and nothing was freed");
}

// C1, C7
#[test]
fn a_handoff_is_open_until_its_end_whichever_that_is() {
    let world = World::new();
    let open = |pool: &PagePool<HostMemory>| pool.transfers().len();
    for end in 0..5 {
        let (mut outbound, mut inbound) = (world.sealed(1, 40), world.open(40, 40));
        let receipt = send(&mut outbound, &mut inbound);
        assert_eq!((open(&world.prefill), open(&world.decode)), (1, 1));
        match end {
            0 => {
                let kv = accept(inbound, &receipt).expect("honest");
                assert_eq!(open(&world.decode), 0, "accepted, though its pages are held");
                drop((kv, outbound.into_reservation()));
            }
            1 => drop((inbound, outbound)),
            2 => drop((inbound.reject("gone"), outbound.reject("gone"))),
            3 => {
                std::mem::forget((inbound, outbound));
                assert_eq!((open(&world.prefill), open(&world.decode)), (1, 1), "forgotten, and shown");
                world.decode.reclaim(owner(1));
                world.prefill.reclaim(owner(1));
            }
            _ => {
                outbound.release();
                drop(inbound);
            }
        }
        assert_eq!((open(&world.prefill), open(&world.decode)), (0, 0), "end {end}");
    }
    let claim = ClaimToken { id: 3, expires_at_ns: 10 };
    let proof = world.decode.prove(CapacityPlan::new(40)).expect("it fits");
    let kv = world.decode.reserve(&proof, Request::new(owner(1), 40).with_claim(claim), 40).expect("room");
    drop(Inbound::open(kv, world.plan(40)).expect("it opens"));
    assert_eq!((open(&world.decode), world.decode.stats().live_pages), (0, 3), "its pages wait, the handoff is over");
}

// C11, B14
#[test]
fn a_late_message_is_an_answer_and_counted_and_finds_nobody_else() {
    let world = World::new();
    let (mut outbound, inbound) = (world.sealed(1, 40), world.open(40, 40));
    let transfer = inbound.transfer();
    assert_eq!(world.decode.transfer(transfer).expect("open").side, Side::Receiver);
    assert_eq!(world.prefill.transfer(transfer), Err(TransferError::Unknown(transfer)), "not begun yet");
    outbound.start(&inbound.offer()).map(drop).expect("it fits");
    assert_eq!(world.prefill.transfer(transfer).expect("served").id, outbound.id());
    assert_eq!(world.prefill.transfer(outbound.id()).expect("its own").side, Side::Sender);
    drop((inbound, outbound));
    let next = world.open(40, 40);
    assert_eq!(world.decode.transfer(transfer), Err(TransferError::Over(transfer)));
    assert_eq!(world.prefill.transfer(transfer), Err(TransferError::Unknown(transfer)));
    let other = World::new().open(16, 16).transfer();
    assert_eq!(world.decode.transfer(other), Err(TransferError::Unknown(other)));
    let never = TransferId::from_bits(transfer.to_bits() + 100).expect("a number");
    assert_eq!(world.decode.transfer(never), Err(TransferError::Unknown(never)));
    assert_eq!((world.decode.stats().late_transfers, world.prefill.stats().late_transfers), (3, 2));
    assert_eq!(world.decode.transfer(next.transfer()).expect("untouched").id, next.transfer());
}

// B30, C10
#[test]
fn one_transfer_is_served_by_one_outbound_and_another_gets_its_turn_when_that_ends() {
    let world = World::new();
    let (mut first, mut second) = (world.sealed(1, 40), world.sealed(2, 40));
    let mut inbound = world.open(40, 40);
    let offer = inbound.offer();
    first.start(&offer).map(drop).expect("it fits");
    first.start(&offer).map(drop).expect("twice is once");
    let duplicate = OutboundError::Duplicate { transfer: offer.transfer() };
    assert_eq!(second.start(&offer), Err(duplicate.clone()));
    let sent = second.send(&offer, &mut inbound.landing(Writer::ONLY).expect("it lands"));
    assert_eq!(sent, Err(duplicate), "before any byte moved");
    assert_eq!(inbound.complete_pages(), 0);
    drop(first);
    let receipt = second.send(&offer, &mut inbound.landing(Writer::ONLY).expect("it lands")).expect("its turn");
    assert_holds(&accept(inbound, &receipt).expect("honest"), 2, 40);
}

// C6, B07
#[test]
fn a_refusal_frees_the_source_at_once_and_one_of_another_transfer_does_not() {
    let world = World::new();
    let (mut outbound, inbound) = (world.sealed(1, 40), world.open(40, 40));
    let other = world.open(16, 16).transfer();
    outbound.start(&inbound.offer()).map(drop).expect("it fits");
    let stray = Refusal::new(other, Side::Receiver, &std::fmt::Error);
    let (outbound, error) = outbound.refused(stray).expect_err("of another transfer").into_parts();
    assert_eq!(error, OutboundError::NotServed { transfer: other });
    assert_eq!(world.prefill.stats().live_pages, 3);
    let refusal = inbound.refusal(&BadTemplate);
    drop(inbound.reject(BadTemplate));
    let rejected = outbound.refused(refusal).expect("it serves it");
    assert!(rejected.reason().to_string().contains("the receiver refused"));
    assert_untouched(&world.prefill);
    assert_untouched(&world.decode);
}

/// An error of the engine.
#[derive(Debug)]
struct BadTemplate;

impl std::fmt::Display for BadTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the template does not fit")
    }
}

impl std::error::Error for BadTemplate {}

// C10
#[test]
fn destinations_of_another_pool_or_offered_twice_are_refused_by_the_sender() {
    let world = World::new();
    let (outbound, inbound) = (world.sealed(1, 40), world.open(40, 40));
    let offer = inbound.offer();
    let honest = offer.destinations().to_vec();
    let with = |destinations: Vec<u128>| offer.clone().with_tokens(40, destinations);
    let other = World::new().open(40, 40).offer().destinations()[1];
    for foreign in [other, 0, honest[1] ^ 1 << 104, honest[1] ^ 1 << 40] {
        let error = outbound.check(&with(vec![honest[0], foreign, honest[2]]));
        assert_eq!(error, Err(OutboundError::ForeignDestination { position: 1 }));
    }
    let error = outbound.check(&with(vec![honest[2], honest[1], honest[2]]));
    assert_eq!(error, Err(OutboundError::SameDestination { first: 0, second: 2 }));
    let another_life = honest[2] ^ 1 << 64;
    let error = outbound.check(&with(vec![another_life, honest[1], honest[2]]));
    assert_eq!(error, Err(OutboundError::SameDestination { first: 0, second: 2 }));
    assert_eq!(outbound.check(&with(honest)), Ok(()));
}

// C10, C11
#[test]
fn a_peer_that_makes_up_numbers_of_transfers_fills_no_registry() {
    let world = World::new();
    let mut outbound = world.sealed(1, 40);
    let inbound = world.open(40, 40);
    let real = inbound.offer();
    let forged = |number: u64| {
        // the sequence is the low 64 bits
        let transfer = TransferId::from_bits(real.transfer().to_bits() & !u128::from(u64::MAX) | u128::from(number));
        Offer::new(transfer.expect("not zero"), owner(1), world.model.clone(), world.slice.clone())
            .with_writers(real.writers().to_vec())
            .with_tokens(40, real.destinations().to_vec())
            .with_checksum(Checksum::Xxh3)
    };
    for number in 1000..1000 + 1024 {
        outbound.start(&forged(number)).map(drop).expect("who knows what is real");
    }
    assert_eq!(outbound.start(&real), Err(OutboundError::TooMany { max_transfers: 1024 }));
    outbound.start(&forged(1000)).map(drop).expect("it serves that one");
    assert_eq!(world.prefill.transfers()[0].serves.len(), 1024);
}
