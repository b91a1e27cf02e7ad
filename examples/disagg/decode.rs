//! The decode process: its pool lies in the memory that prefill writes.

use std::os::fd::RawFd;

use pagestamp::{CapacityPlan, CapacityProof, HolderProcess, TicketError, TicketId};

use crate::Failure;
use crate::arguments::{Checks, Play};
use crate::channel::{Channel, ChannelError, Frame, Signal};
use crate::contiguous::Contiguous;
use crate::fault::{Act, Outcome};
use crate::findings::Findings;
use crate::identical;
use crate::kv_cache::{Half, KvStep};
use crate::lines::note;
use crate::llama::greedy;
use crate::paged::Paged;
use crate::round::Ended;
use crate::scene::{ANSWER_TOKENS, DECODE_PAGES, PROMPT_TOKENS, REQUEST_TOKENS, SHARED_PAGES, Scene};
use crate::system::{self, Shared};
use crate::tenants::{self, Handoff, Next, Pool, Watch};
use crate::unchecked;

/// The process.
pub(crate) struct Decode {
    pub(crate) play: Play,
    pub(crate) scene: Scene,
    pub(crate) pool: Pool,
    pub(crate) proof: CapacityProof,
    pub(crate) channel: Channel,
    /// the writer of every handoff
    pub(crate) prefill: HolderProcess,
    pub(crate) watch: Watch,
    /// tenant C
    pub(crate) next: Vec<Next>,
    /// B's prompt, computed here: what should arrive
    reference: Contiguous,
    reference_logits: Vec<f32>,
    /// of the last handoff
    pub(crate) ticket: Option<TicketId>,
    findings: Findings,
}

/// Receives tenant B's requests from prefill, which the parent started before and does not wait for until this process ended.
///
/// # Errors
/// Something that should work does not.
pub(crate) fn run(play: &Play, memory: RawFd, prefill: u32) -> Result<(), Failure> {
    // First: the parent keeps the number from being given to another process.
    let prefill = HolderProcess::of_pid(prefill)?;
    let scene = Scene::new(play.model)?;
    let shared = Shared::inherited(memory, scene.geometry()?, SHARED_PAGES)?;
    let channel = Channel::of_this_process();
    if play.checks == Checks::Off {
        return unchecked::run(&scene, &shared, &channel);
    }
    let pool = shared.pool()?;
    pool.maintain(usize::MAX);
    let free_pages = pool.stats().free_pages;
    let proof = pool.prove(CapacityPlan::new(REQUEST_TOKENS))?;
    let (kv_a, _) = scene.compute(&scene.prompt_a);
    let (reference, reference_logits) = scene.compute(&scene.prompt_b);
    let mut watch = Watch::new(&scene, &kv_a, &reference);
    tenants::come_and_go(&scene, &pool, &kv_a, &mut watch)?;
    let (next, findings) = (Vec::new(), Findings::default());
    let play = *play;
    let ticket = None;
    let mut decode = Decode {
        ticket,
        play,
        scene,
        pool,
        proof,
        channel,
        prefill,
        watch,
        next,
        reference,
        reference_logits,
        findings,
    };
    for act in play.fault.acts() {
        decode.serve(*act)?;
    }
    decode.next.push(Next::take_all(decode.scene.owners.c, &decode.pool, &mut decode.watch)?);
    decode.leave()?;
    decode.watch.look(&decode.pool, Handoff::Open)?;
    let Decode { pool, watch, next, mut findings, .. } = decode;
    findings.leaked = Some(watch.leaked());
    close(&pool, next, free_pages, findings)
}

/// Starts anew on a memory that a killed decode process left, full of what was there.
///
/// # Errors
/// Something that should work does not.
pub(crate) fn inherit(play: &Play, memory: RawFd) -> Result<(), Failure> {
    let scene = Scene::new(play.model)?;
    let shared = Shared::inherited(memory, scene.geometry()?, SHARED_PAGES)?;
    let ((kv_a, _), (kv_b, _)) = (scene.compute(&scene.prompt_a), scene.compute(&scene.prompt_b));
    let mut watch = Watch::new(&scene, &kv_a, &kv_b);
    let owner = scene.owners.c;
    let mut foreign_pages = 0;
    for page in 0..shared.pages() {
        let bytes = (0..scene.geometry()?.planes().len()).map(|plane| shared.load(page, plane));
        let bytes = bytes.collect::<Result<Vec<_>, _>>()?.concat();
        foreign_pages += u32::from(watch.are_foreign(owner, &bytes));
    }
    note(format_args!("decode is started anew; {foreign_pages} pages of the memory hold another tenant's bytes"));
    if foreign_pages == 0 {
        return Err("nothing was left in the memory: the new pool is not put to the test".into());
    }
    let pool = shared.pool()?;
    pool.maintain(usize::MAX);
    let next = vec![Next::take_all(owner, &pool, &mut watch)?];
    watch.look(&pool, Handoff::Open)?;
    let findings = Findings { leaked: Some(watch.leaked()), ..Findings::default() };
    close(&pool, next, DECODE_PAGES.into(), findings)
}

/// Looks at tenant C's bytes for the last time, and at the pool.
fn close(pool: &Pool, next: Vec<Next>, free_pages: u64, mut findings: Findings) -> Result<(), Failure> {
    let intact = next.iter().map(Next::is_intact).collect::<Result<Vec<bool>, _>>()?;
    findings.next_tenant_intact = Some(intact.iter().all(|intact| *intact));
    next.into_iter().for_each(Next::release);
    pool.maintain(usize::MAX);
    findings.free_pages_restored = Some(pool.stats().free_pages == free_pages);
    findings.audit = Some(match pool.audit().and_then(|()| pool.audit_bytes(0..pool.max_pages())) {
        Ok(()) => "ok".into(),
        Err(error) => error.to_string(),
    });
    findings.tell();
    Ok(())
}

impl Decode {
    /// One request of tenant B, from the admission to its end.
    fn serve(&mut self, act: Act) -> Result<(), Failure> {
        let (outcome, error) = match self.receive(act)? {
            Ended::Accepted { kv, first_token } => {
                self.answer(kv, first_token)?;
                (Outcome::Completed, None)
            }
            Ended::Rejected { error } => {
                note(format_args!("B's request is rejected: {error}"));
                (Outcome::Refused, Some(error))
            }
        };
        self.watch.look(&self.pool, Handoff::Open)?;
        if self.play.fault.is_judged_by(act) {
            // One that should have been refused, and completed, is what counts.
            let completed = self.findings.outcome == Some(Outcome::Completed);
            self.findings.outcome = Some(if completed { Outcome::Completed } else { outcome });
            self.findings.error = self.findings.error.take().or(error);
        }
        Ok(())
    }

    /// Decodes B's answer over what arrived, and compares each bit with the reference.
    fn answer(&mut self, mut kv: tenants::Pages, first_token: Option<u32>) -> Result<(), Failure> {
        self.watch.look(&self.pool, Handoff::Accepted)?;
        if kv.read(0..kv.reserved_tokens()).is_ok() {
            return Err("more is readable than arrived".into());
        }
        if !self.is_reference(&kv)? || first_token != Some(greedy(&self.reference_logits)) {
            return Err("what was accepted is not what prefill should have computed".into());
        }
        let (model, logits) = (&self.scene.model, self.reference_logits.clone());
        let cache = &mut Paged::new(&mut kv, model.shape());
        let answer = identical::check_prefilled(model, &self.reference, cache, logits)?;
        if !answer.bit_identical {
            return Err("the logits differ from those of one buffer".into());
        }
        note(format_args!("B's answer begins {:?}", self.scene.text(&answer.tokens[..ANSWER_TOKENS.min(8)])));
        note(format_args!("{} logits are bit-identical to those of one buffer", answer.logits));
        kv.release();
        Ok(())
    }

    /// Whether the tokens that were accepted are the reference's, byte for byte.
    fn is_reference(&self, kv: &tenants::Pages) -> Result<bool, Failure> {
        let guard = kv.read(0..PROMPT_TOKENS as u64)?;
        let mut same = true;
        for layer in 0..self.scene.model.shape().layers {
            for half in [Half::Key, Half::Value] {
                let mut bytes = vec![0; PROMPT_TOKENS * self.scene.model.shape().row_bytes()];
                guard.copy(half.plane(layer), &mut bytes)?;
                let Ok(()) = self.reference.scan(layer, half, PROMPT_TOKENS, &mut |_, rows| same &= rows == bytes);
            }
        }
        Ok(same)
    }

    /// Tells prefill that no request comes any more, and waits until it is gone. What it says once more is said too late.
    fn leave(&self) -> Result<(), Failure> {
        match self.channel.signal(&Signal::Bye) {
            Ok(()) | Err(ChannelError::Gone) => {}
            Err(error) => return Err(error.into()),
        }
        loop {
            match self.channel.next() {
                Err(ChannelError::Gone) => return Ok(()),
                Ok(Frame::Signal(Signal::Stopped(word))) => {
                    let ticket = self.ticket.ok_or("prefill stopped before it began")?;
                    match system::end_stopped(&self.pool, ticket, &word) {
                        Err(error @ TicketError::AlreadyDone(_)) => note(format_args!("said once more: {error}")),
                        other => return Err(format!("a ticket ended twice: {other:?}").into()),
                    }
                }
                Ok(frame) => return Err(format!("decode was told {frame:?} at the end").into()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
