//! The second layer: what arrived is counted by the receiver, and the sender's word counts for nothing.

use std::error::Error;

use pagestamp::geometry::Slice;
use pagestamp::handoff::{Digester, Inbound, InboundPlan, Offer, Outbound, Receipt, SentPart, Writer};
use pagestamp::{AdmitError, CapacityPlan, HostMemory, Request};

use crate::checked::{Layer, LayerName, Scene};
use crate::kv_cache::PAGE_TOKENS;
use crate::pooled::{self, Pages, Pooled};
use crate::prompts::{ANSWER_TOKENS, CLAIM_PAGES, CLAIM_TOKENS};

type Failure = Box<dyn Error>;

/// What the operator declared to be the largest request of the prefill pool: so little that the gate has nothing to say.
const DECLARED_TOKENS: u64 = PAGE_TOKENS as u64;

/// The operator declared too small a maximum, so prefill is open. B's prompt is rejected all the same; the engine runs its
/// placeholder instead, ignores that the sender refuses the offer, moves the one page that it has, and declares the
/// transfer complete: once honestly, once with a lie.
pub(crate) fn layer(scene: &Scene<'_>) -> Result<Layer, Failure> {
    let proof = scene.prefill.prove(CapacityPlan::new(DECLARED_TOKENS))?;
    match scene.prefill.admit(&proof, Request::new(scene.b, CLAIM_TOKENS as u64)) {
        Err(AdmitError::Rejected(_)) => {}
        other => return Err(format!("B's prompt is larger than what was declared: {other:?}").into()),
    }
    let sender_refused = outbound(scene, prefill_placeholder(scene)?)?.check(&inbound(scene)?.offer()).is_err();
    let honest = declare(scene, Claim::OfOnePage)?;
    let lying = declare(scene, Claim::OfAllPages)?;
    let refused = sender_refused && honest.is_some() && lying.is_some();
    Ok(Layer::new(LayerName::Receipt, refused, honest.unwrap_or_default()))
}

/// What the engine writes into the receipt.
#[derive(Clone, Copy, PartialEq)]
enum Claim {
    OfOnePage,
    OfAllPages,
}

/// Lands the placeholder's page and hands in a receipt. Answers with the refusal; `None` when it was accepted.
fn declare(scene: &Scene<'_>, claim: Claim) -> Result<Option<String>, Failure> {
    let mut inbound = inbound(scene)?;
    let offer = inbound.offer();
    let source = prefill_placeholder(scene)?;
    let receipt = land_one_page(&mut inbound, &offer, &source, claim)?;
    if let Err(error) = inbound.receive(&receipt) {
        return Ok(Some(error.to_string()));
    }
    // Nothing more will come: what is missing is the verdict.
    Ok(inbound.accept().err().map(|refused| refused.give_up().error().to_string()))
}

fn prefill_placeholder(scene: &Scene<'_>) -> Result<Pages, Failure> {
    let proof = scene.prefill.prove(CapacityPlan::new(DECLARED_TOKENS))?;
    let mut pages = scene.prefill.reserve(&proof, Request::new(scene.b, DECLARED_TOKENS), 0)?;
    scene.model.forward(&mut Pooled::new(&mut pages, scene.model.shape()), 0, &[scene.placeholder])?;
    pages.commit(1)?;
    Ok(pages)
}

fn inbound(scene: &Scene<'_>) -> Result<Inbound<HostMemory>, Failure> {
    let layout = pooled::layout(scene.model.shape())?;
    Ok(Inbound::open(scene.reserve_claim()?, InboundPlan::new(&layout, &Slice::whole(&layout), CLAIM_TOKENS as u64))?)
}

fn outbound(scene: &Scene<'_>, pages: Pages) -> Result<Outbound<HostMemory>, Failure> {
    let layout = pooled::layout(scene.model.shape())?;
    Ok(Outbound::seal(pages, &layout, &Slice::whole(&layout))?)
}

/// What an engine does that moves bytes itself: copies what there is, page 0 with one token, and writes a receipt.
fn land_one_page(
    inbound: &mut Inbound<HostMemory>,
    offer: &Offer,
    source: &Pages,
    claim: Claim,
) -> Result<Receipt, Failure> {
    let mut digest = Digester::new(offer.checksum(), None, offer.transfer(), offer.model(), offer.slice())?.page(0, 1);
    let guard = source.read(0..1)?;
    let view = guard.pages().next().ok_or("the placeholder has a page")?;
    let mut landing = inbound.landing(Writer::ONLY)?;
    for plane in 0..source.pool().geometry().planes().len() {
        let row = view.run(plane, 0)?;
        landing.put(0, plane, 0..1, row)?;
        digest.update(row);
    }
    let digest = digest.finish();
    let (pages, tokens, last_page_tokens) = match claim {
        Claim::OfOnePage => (1, 1, 1),
        Claim::OfAllPages => (CLAIM_PAGES as u32, CLAIM_TOKENS as u64, PAGE_TOKENS as u32),
    };
    let planes = source.pool().geometry().planes().len() as u32;
    let part = SentPart::new(offer.slice().clone(), 0..pages).with_digests(0..planes, vec![digest; pages as usize]);
    Ok(Receipt::new(offer.transfer(), offer.owner(), offer.model().clone(), Writer::ONLY)
        .with_extent(pages, tokens, last_page_tokens)
        .with_parts(offer.checksum(), vec![part]))
}

/// Tenant A's prompt from the prefill pool to the decode pool, as it should be.
pub(crate) fn honest_handoff(scene: &Scene<'_>) -> Result<Pages, Failure> {
    let tokens = scene.tenant_a.tokens.len() as u64;
    let proof = scene.prefill.prove(CapacityPlan::new(CLAIM_TOKENS as u64))?;
    let mut source = scene.prefill.reserve(&proof, Request::new(scene.a, tokens), 0)?;
    scene.tenant_a.kv.copy_to(&mut Pooled::new(&mut source, scene.model.shape()))?;
    source.commit(tokens)?;

    let request = Request::new(scene.a, tokens + ANSWER_TOKENS as u64);
    let target = scene.decode.reserve(&scene.decode_proof, request, tokens)?;
    let layout = pooled::layout(scene.model.shape())?;
    let mut inbound = Inbound::open(target, InboundPlan::new(&layout, &Slice::whole(&layout), tokens))?;
    let offer = inbound.offer();
    let mut outbound = outbound(scene, source)?;
    let receipt = outbound.send(&offer, &mut inbound.landing(Writer::ONLY)?)?;
    inbound.receive(&receipt)?;
    let pages = inbound.accept()?;
    outbound.release();
    Ok(pages)
}
