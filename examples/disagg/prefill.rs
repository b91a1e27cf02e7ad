//! The prefill process: computes prompts in a pool of its own, and serves one offer after the other.

use std::os::fd::RawFd;

use pagestamp::geometry::ModelLayout;
use pagestamp::{
    AdmitError, CapacityPlan, HostMemory, Message, Offer, Outbound, PagePool, PoolConfig, Receipt, Refusal, Request,
    Reservation, Side, TransferId,
};

use crate::Failure;
use crate::arguments::Play;
use crate::channel::{Channel, ChannelError, Frame, Signal};
use crate::fault::{Act, Fault, Outcome};
use crate::findings::Findings;
use crate::kv_cache::PAGE_TOKENS;
use crate::lines::note;
use crate::llama::greedy;
use crate::paged::Paged;
use crate::scene::{PROMPT_PAGES, PROMPT_TOKENS, SHARED_PAGES, Scene};
use crate::sender::{self, Sender, Verdict};
use crate::system::{Card, Shared};

type Pool = PagePool<HostMemory>;

/// Pages of a prefill pool that was sized from what memory was left.
const LEFT_PAGES: u32 = PROMPT_PAGES / 2;

/// The process.
pub(crate) struct Prefill {
    play: Play,
    scene: Scene,
    shared: Shared,
    pool: Pool,
    channel: Channel,
    /// receipts of the handoff before
    earlier: Vec<Receipt>,
    findings: Findings,
}

/// Serves offers until decode has none any more, or is gone.
///
/// # Errors
/// Something that should work does not.
pub(crate) fn run(play: &Play, memory: RawFd) -> Result<(), Failure> {
    let scene = Scene::new(play.model)?;
    let shared = Shared::inherited(memory, scene.geometry()?, SHARED_PAGES)?;
    let pages = if play.fault == Fault::Oversize { LEFT_PAGES } else { PROMPT_PAGES };
    let pool = pool(&scene.layout, &scene, pages)?;
    let (channel, findings) = (Channel::of_this_process(), Findings::default());
    let free_pages = pool.stats().free_pages;
    let mut prefill = Prefill { play: *play, scene, shared, pool, channel, earlier: Vec::new(), findings };
    prefill.serve_all()?;
    let Prefill { pool, mut findings, .. } = prefill;
    pool.maintain(usize::MAX);
    findings.free_pages_restored = Some(pool.stats().free_pages == free_pages);
    findings.audit = Some(match pool.audit().and_then(|()| pool.audit_bytes(0..pool.max_pages())) {
        Ok(()) => "ok".into(),
        Err(error) => error.to_string(),
    });
    findings.tell();
    Ok(())
}

/// A pool with room for so many pages of requests.
fn pool(layout: &ModelLayout, scene: &Scene, pages: u32) -> Result<Pool, Failure> {
    let config = PoolConfig::new(pages + PoolConfig::new(pages).own_page_count());
    let memory = HostMemory::new(layout.geometry(&scene.slice)?, config.pages())?;
    Ok(PagePool::new(config, memory)?)
}

impl Prefill {
    fn serve_all(&mut self) -> Result<(), Failure> {
        let mut acts = self.play.fault.acts().iter();
        let mut served = None;
        loop {
            match self.channel.next() {
                // The same offer twice is one.
                Ok(Frame::Message(Message::Offer(offer))) if served == Some(offer.transfer()) => {}
                Ok(Frame::Message(Message::Offer(offer))) => {
                    served = Some(offer.transfer());
                    self.serve(*acts.next().ok_or("an offer too many")?, &offer)?;
                }
                Ok(Frame::Signal(Signal::Bye)) | Err(ChannelError::Gone) => return Ok(()),
                Ok(frame) => return Err(format!("prefill was told {frame:?} between two offers").into()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn serve(&mut self, act: Act, offer: &Offer) -> Result<(), Failure> {
        if act == Act::TooLarge {
            return self.reject_too_large(offer);
        }
        let other_layout = self.scene.other_layout(self.play.model)?;
        let layout = if act == Act::OtherLayout { &other_layout } else { &self.scene.layout };
        let (kv, first_token) = match act {
            Act::Placeholder => self.compute(&[self.scene.placeholder])?,
            Act::OtherLayout => self.compute_in(layout)?,
            _ => self.compute(&self.scene.prompt_b)?,
        };
        let mut outbound = Outbound::seal(kv, layout, &self.scene.slice).map_err(pagestamp::Error::from)?;
        let sending = match outbound.start(offer) {
            Ok(sending) => sending,
            Err(error) => {
                note(format_args!("refuses the offer: {error}"));
                self.refuse(offer.transfer(), &error)?;
                drop(outbound.reject(error));
                return Ok(());
            }
        };
        let fault = if act == Act::Faulty { self.play.fault } else { Fault::None };
        if fault == Fault::Refuse {
            // Nothing was begun: the pages are pinned by nobody.
            self.refused(outbound, sender::wait_for_refusal(&self.channel)?)?;
            return Ok(self.channel.stopped()?);
        }
        let (transfer, destinations) = (sending.transfer(), sending.destination_pages());
        let mut earlier = std::mem::take(&mut self.earlier);
        let card = Card::new(&self.shared, &mut outbound)?;
        let verdict = Sender {
            fault,
            shared: &self.shared,
            card: &card,
            channel: &self.channel,
            other_owner: self.scene.owners.c,
            other_layout,
            outbound: &mut outbound,
            sending,
        }
        .send(offer, &mut earlier, first_token);
        let gone = match verdict {
            Ok(Verdict::WritesOn(refusal)) => {
                let told = Message::Refusal(Refusal::new(transfer, Side::Sender, &refusal));
                self.refused(outbound, refusal)?;
                self.channel.send(&told)?;
                self.write_on(card, &destinations)?;
                None
            }
            verdict => {
                card.finish()?;
                self.end(outbound, verdict)?
            }
        };
        self.earlier = earlier;
        if let Some(error) = gone {
            (self.findings.outcome, self.findings.error) = (Some(Outcome::Refused), Some(error));
        }
        Ok(())
    }

    /// What decode says ends the request here. Its own end does so too, and is answered with the error.
    fn end(
        &self,
        outbound: Outbound<HostMemory>,
        verdict: Result<Verdict, Failure>,
    ) -> Result<Option<String>, Failure> {
        match verdict {
            Ok(Verdict::Accepted) => {
                note(format_args!("decode has it all: {} pages go back", outbound.release().pages));
            }
            Ok(Verdict::Refused(refusal) | Verdict::WritesOn(refusal)) => self.refused(outbound, refusal)?,
            Ok(Verdict::RefusedFirst(refusal)) => {
                self.refused(outbound, refusal)?;
                self.channel.stopped()?;
            }
            Err(error) if matches!(error.downcast_ref(), Some(ChannelError::Gone)) => {
                let rejected = outbound.reject(error);
                note(format_args!("{rejected}"));
                return Ok(Some(rejected.to_string()));
            }
            Err(error) => return Err(error),
        }
        Ok(None)
    }

    /// The request has ended on both sides, and the card goes on with what it was told before.
    fn write_on(&self, card: Card<'_>, destinations: &[u32]) -> Result<(), Failure> {
        self.wait_until_ready()?;
        let segments = card.segments(destinations, 0..PROMPT_PAGES)?;
        card.copy(&segments, 0..segments.len())?;
        note(format_args!("its card has written {} segments of what was given up", segments.len()));
        self.channel.signal(&Signal::Ready)?;
        self.wait_until_ready()?;
        card.finish()?;
        Ok(self.channel.stopped()?)
    }

    fn refused(&self, outbound: Outbound<HostMemory>, refusal: Refusal) -> Result<(), Failure> {
        let rejected = outbound.refused(refusal).map_err(pagestamp::Error::from)?;
        let stats = self.pool.stats();
        let (free, quarantined) = (stats.free_pages, stats.quarantined_pages);
        note(format_args!("{rejected}; {free} pages are free here, {quarantined} wait for the card"));
        Ok(())
    }

    fn wait_until_ready(&self) -> Result<(), Failure> {
        match self.channel.next()? {
            Frame::Signal(Signal::Ready) => Ok(()),
            frame => Err(format!("prefill was told {frame:?} and not to go on").into()),
        }
    }

    /// Ends the handoff on the other side. Nothing was written, and nothing will be.
    fn refuse(&self, transfer: TransferId, error: &(dyn std::error::Error + 'static)) -> Result<(), ChannelError> {
        self.channel.send(&Message::Refusal(Refusal::new(transfer, Side::Sender, error)))?;
        self.channel.stopped()
    }

    /// The pool was proved for what it has room for, which is less than what is asked.
    fn reject_too_large(&self, offer: &Offer) -> Result<(), Failure> {
        let proof = self.pool.prove(CapacityPlan::new(u64::from(LEFT_PAGES) * PAGE_TOKENS as u64))?;
        match self.pool.admit(&proof, Request::new(offer.owner(), offer.tokens())) {
            Err(AdmitError::Rejected(rejected)) => {
                note(format_args!("rejects the prompt: {rejected}"));
                Ok(self.refuse(offer.transfer(), &rejected)?)
            }
            other => Err(format!("a prompt of twice the pool was not rejected: {other:?}").into()),
        }
    }

    /// Computes a prompt in pages, and answers with the first token behind it.
    fn compute(&self, prompt: &[u32]) -> Result<(Reservation<HostMemory>, u32), Failure> {
        let mut kv = self.reserve(&self.pool, prompt.len())?;
        let shape = self.scene.model.shape();
        let logits = self.scene.model.forward(&mut Paged::new(&mut kv, shape), 0, prompt)?;
        kv.commit(prompt.len() as u64)?;
        Ok((kv, greedy(&logits)))
    }

    /// Puts B's prompt into pages of another layout, in a pool of their own.
    fn compute_in(&self, layout: &ModelLayout) -> Result<(Reservation<HostMemory>, u32), Failure> {
        let mut kv = self.reserve(&pool(layout, &self.scene, PROMPT_PAGES)?, PROMPT_TOKENS)?;
        let (whole, logits) = self.scene.compute(&self.scene.prompt_b);
        whole.copy_to(&mut Paged::new(&mut kv, self.scene.model.shape()))?;
        kv.commit(PROMPT_TOKENS as u64)?;
        Ok((kv, greedy(&logits)))
    }

    fn reserve(&self, pool: &Pool, tokens: usize) -> Result<Reservation<HostMemory>, Failure> {
        let tokens = tokens as u64;
        let proof = pool.prove(CapacityPlan::new(tokens))?;
        Ok(pool.reserve(&proof, Request::new(self.scene.owners.b, tokens), 0)?)
    }
}
