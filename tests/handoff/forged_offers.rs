//! Offers that name a real transfer and lie about the rest: the landing is the one that knows what was offered.

use std::num::NonZeroU32;

use pagestamp::geometry::*;
use pagestamp::*;

use crate::ranks::*;
use crate::world::*;

/// The real offer with other writers.
fn with_writers(offer: &Offer, writers: Vec<Writer>) -> Offer {
    offer.clone().with_writers(writers)
}

fn layers_model() -> ModelLayout {
    models().remove(0)
}

// C10, C11
#[test]
fn an_offer_that_gives_a_writer_more_than_its_slice_lands_nowhere() {
    for model in models() {
        let whole = Slice::whole(&model);
        let heads = 0..model.kv_heads();
        let mut cuts = vec![[slice(0..1, heads.clone()), slice(1..4, heads.clone())]];
        if heads.end > 1 {
            cuts.push([slice(0..4, 0..1), slice(0..4, 1..4)]);
        }
        for cut in cuts {
            for rank in [0, 1] {
                let mut outbound = sender(&model, &whole, rank, 5, 11);
                for asked in [whole.clone(), cut[1 - rank as usize].clone()] {
                    let decode = pool_of(&model, &whole);
                    let plan = InboundPlan::new(&model, &whole, 11).with_writers(writers(&cut));
                    let mut inbound = Inbound::open(reserve(&decode, owner(1), 11, 11), plan).expect("it opens");
                    let forged = with_writers(&inbound.offer(), vec![Writer::new(HolderId(rank), asked.clone())]);
                    let sent = outbound.send(&forged, &mut inbound.landing(HolderId(rank)).expect("it is expected"));
                    let expected = cut[rank as usize].clone();
                    assert_eq!(sent, Err(OutboundError::Slice { expected, found: asked }));
                    assert_eq!(inbound.complete_pages(), 0);
                    drop(inbound);
                    assert_untouched(&decode);
                }
            }
        }
    }
}

// C10
#[test]
fn an_offer_that_gives_a_writer_fewer_heads_does_not_count_for_all_of_them() {
    let model = layers_model();
    let whole = Slice::whole(&model);
    let decode = pool_of(&model, &whole);
    let plan = InboundPlan::new(&model, &whole, 11).with_checksum(Checksum::BytesUnverified);
    let mut inbound = Inbound::open(reserve(&decode, owner(1), 11, 11), plan).expect("it opens");
    let mut outbound = sender(&model, &whole, 0, 5, 11).with_bytes_unverified();
    let forged = with_writers(&inbound.offer(), vec![Writer::new(Writer::ONLY, slice(0..4, 0..1))]);
    let sent = outbound.send(&forged, &mut inbound.landing(Writer::ONLY).expect("it is expected"));
    assert!(matches!(sent, Err(OutboundError::Slice { .. })), "{sent:?}");
    // and a receipt that says that all was sent
    let told = Receipt::new(inbound.transfer(), owner(1), model.clone(), Writer::ONLY)
        .with_extent(3, 11, 3)
        .with_parts(Checksum::BytesUnverified, vec![SentPart::new(whole.clone(), 0..3)]);
    let refused = accept(inbound, &told).expect_err("three heads of four are not there");
    assert!(matches!(refused.error(), InboundError::Gap { .. }));
    assert_untouched(&decode);
}

// C10, C11
#[test]
fn an_offer_of_another_model_lands_nowhere() {
    let models = models();
    for (at, model) in models.iter().enumerate() {
        for other in [&models[(at + 1) % models.len()], &models[(at + 5) % models.len()], &models[models.len() - 1]] {
            if other == model {
                continue;
            }
            let (whole, other_whole) = (Slice::whole(model), Slice::whole(other));
            let decode = pool_of(model, &whole);
            let kv = reserve(&decode, owner(1), 11, 11);
            let mut inbound = Inbound::open(kv, InboundPlan::new(model, &whole, 11)).expect("it opens");
            let real = inbound.offer();
            let forged = Offer::new(real.transfer(), owner(1), other.clone(), other_whole.clone())
                .with_writers(vec![Writer::new(Writer::ONLY, other_whole.clone())])
                .with_tokens(11, real.destinations().to_vec())
                .with_checksum(Checksum::Xxh3);
            let mut outbound = sender(other, &other_whole, 0, 5, 11);
            let sent = outbound.send(&forged, &mut inbound.landing(Writer::ONLY).expect("it is expected"));
            let (expected, found) = (Box::new(other.clone()), Box::new(model.clone()));
            assert_eq!(sent, Err(OutboundError::Layout { expected, found }));
            drop(inbound);
            assert_untouched(&decode);
        }
    }
}

// C10, C11
#[test]
fn an_offer_of_other_tokens_or_held_tokens_is_never_accepted() {
    let model = layers_model();
    let whole = Slice::whole(&model);
    // the receiver wants 11 tokens in 3 pages of 4
    for (sealed, held) in [(12, 0), (9, 0), (11, 4), (11, 8), (12, 8)] {
        let decode = pool_of(&model, &whole);
        let kv = reserve(&decode, owner(1), 11, 11);
        let plan = InboundPlan::new(&model, &whole, 11).with_batch_pages(NonZeroU32::MIN);
        let mut inbound = Inbound::open(kv, plan).expect("it opens");
        let real = inbound.offer();
        let forged = real.clone().with_tokens(sealed, real.destinations().to_vec()).with_held_tokens(held);
        let mut outbound = sender(&model, &whole, 0, 5, sealed);
        let sent = outbound.send(&forged, &mut inbound.landing(Writer::ONLY).expect("it is expected"));
        match sent {
            Ok(receipt) => {
                // the peer tells the receiver what that wants to hear
                let lie = receipt.with_extent(3, 11, 3).with_held_tokens(0);
                let refused = accept(inbound, &lie).expect_err("not what was reserved");
                assert!(matches!(refused.error(), InboundError::Gap { .. } | InboundError::Digest { .. }), "{refused}");
            }
            Err(error) => {
                assert!(matches!(error, OutboundError::Land(LandError::PastExpected { .. })), "{error}");
                drop(inbound);
            }
        }
        assert_untouched(&decode);
    }
}

// C10
#[test]
fn an_offer_whose_writer_sends_more_than_the_receiver_holds_is_refused_by_the_sender() {
    let model = layers_model();
    let whole = Slice::whole(&model);
    let mut outbound = sender(&model, &whole, 0, 5, 11);
    for held in [slice(0..4, 1..4), slice(1..4, 0..4)] {
        let decode = pool_of(&model, &held);
        let kv = reserve(&decode, owner(1), 11, 11);
        let inbound = Inbound::open(kv, InboundPlan::new(&model, &held, 11)).expect("it opens");
        let forged = with_writers(&inbound.offer(), vec![Writer::new(Writer::ONLY, whole.clone())]);
        let refused = OutboundError::Slice { expected: held, found: whole.clone() };
        assert_eq!(outbound.start(&forged), Err(refused));
    }
}
