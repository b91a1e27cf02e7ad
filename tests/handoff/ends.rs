//! Handoffs that end early, at each stage.

use pagestamp::*;

use crate::world::*;

// C6, B101
#[test]
fn dropping_or_rejecting_at_any_stage_leaves_nothing() {
    let world = World::new();
    for stage in 0..4 {
        for reject in [false, true] {
            let (mut outbound, mut inbound) = (world.sealed(1, 40), world.open(65, 40));
            match stage {
                0 => {}
                1 => drop(inbound.landing(Writer::ONLY).expect("it lands")),
                2 => {
                    let bytes = plane_bytes(world.decode.geometry(), 1, 0, 0..5);
                    inbound.landing(Writer::ONLY).expect("it lands").put(1, 0, 3..8, &bytes).expect("it has room");
                }
                _ => drop(send(&mut outbound, &mut inbound)),
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
    let refused = accept(inbound, &receipt(&offer, 2, 17, 1, Vec::new())).expect_err("two pages for one");
    let refusal = refused.refusal();
    assert_eq!((refusal.transfer(), refusal.side()), (transfer, Side::Receiver));
    assert_eq!(refusal.reason(), "1 pages are reserved, the receipt is for 2; the prompt is not all there");
    let outbound = world.sealed(1, 16);
    assert!(outbound.reject(refusal.clone()).to_string().contains(refusal.reason()));
    assert_untouched(&world.prefill);

    let lines = Refusal::new(transfer, Side::Sender, &std::io::Error::other("one\nlevel=info \u{1b}[2J 'two'"));
    assert!(lines.to_string().ends_with("one\\nlevel=info \\u{1b}[2J 'two'"), "{lines}");
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
    let (mut outbound, mut inbound) = (world.sealed(1, 40), world.open(40, 40));
    let receipt = send(&mut outbound, &mut inbound);
    world.decode.reclaim(owner(1));
    assert_eq!(inbound.landing(Writer::ONLY).expect_err("revoked"), LandError::Write(WriteError::Revoked));
    assert!(inbound.offer().destinations().is_empty());
    assert!(matches!(outbound.check(&inbound.offer()), Err(OutboundError::Pages { found_pages: 0, .. })));
    let refused = accept(inbound, &receipt).expect_err("the pages are gone");
    assert_eq!(*refused.error(), InboundError::Write(WriteError::Revoked));
    assert_untouched(&world.decode);

    // while bytes land, the pages are kept from everybody
    let mut inbound = world.open(40, 40);
    let mut landing = inbound.landing(Writer::ONLY).expect("it lands");
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
    let sent = outbound.send(&offer, &mut inbound.landing(Writer::ONLY).expect("it lands"));
    assert_eq!(sent, Err(OutboundError::Read(ReadError::Revoked)));
}

// B83, C10
#[test]
fn a_claim_whose_handoff_was_dropped_gives_its_pages_again_with_nothing_written() {
    let world = World::new();
    let proof = world.decode.prove(CapacityPlan::new(512)).expect("the pool holds the plan");
    let token = ClaimToken { id: 9, expires_at_ns: 100 };
    let claimed = || world.decode.reserve(&proof, Request::new(owner(1), 40).with_claim(token), 40).expect("room");
    let mut outbound = world.sealed(1, 40);
    let mut first = Inbound::open(claimed(), world.plan(40)).expect("it opens");
    let (older, pages) = (send(&mut outbound, &mut first), handles_of(&first));
    drop(first);
    let again = claimed();
    assert_eq!((again.written_tokens(), again.handles().collect::<Vec<_>>()), (0, pages));
    let mut second = Inbound::open(again, world.plan(40)).expect("it opens");
    let transfer = second.transfer();
    drop(send(&mut outbound, &mut second));
    let replayed = InboundError::Transfer { expected: transfer, found: older.transfer() };
    assert_eq!(world.refused(second, &older), replayed);
}

// C6, C10
#[test]
fn a_senders_refusal_ends_its_own_transfer_and_no_other_and_the_first_error_is_kept() {
    let world = World::new();
    let (outbound, first, second) = (world.sealed(1, 1), world.open(40, 40), world.open(40, 40));
    let error = outbound.check(&first.offer()).expect_err("one token is not forty");
    let refusal = outbound.refusal(&first.offer(), &error);
    let (expected, found) = (second.transfer(), first.transfer());
    let (mut second, stray) = second.refused(refusal.clone()).expect_err("of another transfer").into_parts();
    assert_eq!(stray, InboundError::Transfer { expected, found });
    let rejected = first.refused(refusal).expect("its own");
    assert!(rejected.reason().to_string().contains("the sender refused"));
    // the error that a receipt had is the one that the other side hears
    let wrong = receipt(&second.offer(), 1, 16, 16, Vec::new());
    let told = second.receive(&wrong).expect_err("one page is not three");
    let later = InboundError::Writer { found: HolderId(4) };
    let refused = second.refuse(later);
    assert_eq!((refused.error(), refused.refusal().reason()), (&told, told.to_string().as_str()));
    drop((refused, outbound));
    assert_untouched(&world.decode);
}
