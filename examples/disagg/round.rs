//! One handoff on the side of decode: the offer, what comes back, and the verdict.

use std::error::Error;
use std::fmt;
use std::num::NonZeroU32;
use std::thread;
use std::time::Duration;

use pagestamp::{
    ForeignMemory, Inbound, InboundError, InboundPlan, Message, Receipt, Refusal, Request, TicketError, TicketId,
    Writer,
};

use crate::Failure;
use crate::channel::{ChannelError, Frame, Signal};
use crate::decode::Decode;
use crate::fault::{Act, Fault};
use crate::lines::note;
use crate::scene::{BATCH_PAGES, PROMPT_PAGES, PROMPT_TOKENS, REQUEST_TOKENS};
use crate::system;
use crate::tenants::{Handoff, Next, Pages};

/// How a handoff ended.
pub(crate) enum Ended {
    Accepted {
        kv: Pages,
        first_token: Option<u32>,
    },
    /// With its first error.
    Rejected {
        error: String,
    },
}

/// Why decode gives a request up by itself.
#[derive(Debug)]
struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the client cancelled the request")
    }
}

impl Error for Cancelled {}

/// A handoff that has not ended.
struct Round {
    fault: Fault,
    ticket: TicketId,
    /// until it is rejected
    inbound: Option<Inbound<ForeignMemory>>,
    error: Option<String>,
    first_token: Option<u32>,
}

impl Decode {
    /// Reserves B's pages, offers them, and takes what comes until prefill has stopped.
    pub(crate) fn receive(&mut self, act: Act) -> Result<Ended, Failure> {
        let mut round = self.open(if act == Act::Faulty { self.play.fault } else { Fault::None })?;
        if round.fault == Fault::Refuse {
            self.cancel(&mut round)?;
        }
        loop {
            self.watch.look(&self.pool, Handoff::Open)?;
            match self.channel.next() {
                Ok(Frame::Message(Message::Receipt(receipt))) => self.take(&mut round, &receipt)?,
                Ok(Frame::Message(Message::Refusal(refusal))) => self.hear(&mut round, refusal)?,
                Ok(Frame::Signal(Signal::FirstToken(token))) => round.first_token = Some(token),
                Ok(Frame::Signal(Signal::Ready)) => self.look_at_late_bytes()?,
                Ok(Frame::Signal(Signal::Stopped(word))) => {
                    system::end_stopped(&self.pool, round.ticket, &word)?;
                    break;
                }
                Err(ChannelError::Gone) => {
                    self.wait_for_death(round.ticket)?;
                    break;
                }
                Ok(frame) => return Err(format!("decode was told {frame:?} in a handoff").into()),
                Err(error) => return Err(error.into()),
            }
        }
        let ended = self.judge(round)?;
        self.pool.maintain(usize::MAX);
        match self.pool.stats().quarantined_pages {
            0 => Ok(ended),
            pages => Err(format!("{pages} pages are quarantined after the end of the writer").into()),
        }
    }

    fn open(&mut self, fault: Fault) -> Result<Round, Failure> {
        let request = Request::new(self.scene.owners.b, REQUEST_TOKENS);
        let room = self.pool.reserve(&self.proof, request, PROMPT_TOKENS as u64 + 1)?;
        self.watch.keep(room.handles());
        let batch = NonZeroU32::new(BATCH_PAGES).ok_or("a batch has a page")?;
        let plan =
            InboundPlan::new(&self.scene.layout, &self.scene.slice, PROMPT_TOKENS as u64).with_batch_pages(batch);
        let mut inbound = Inbound::open(room, plan).map_err(pagestamp::Error::from)?;
        let ticket = inbound.open_writer(Writer::ONLY, None)?;
        self.ticket = Some(ticket);
        system::name_holder(&self.pool, ticket, self.prefill.clone())?;
        if fault == Fault::KillPrefill {
            match self.pool.end_dead_holder(ticket) {
                Err(error @ TicketError::HolderAlive { .. }) => note(format_args!("the kernel says: {error}")),
                other => return Err(format!("a writer that is alive was taken for dead: {other:?}").into()),
            }
        }
        let offer = Message::Offer(inbound.offer());
        self.channel.send(&offer)?;
        if fault == Fault::Duplicate {
            self.channel.send(&offer)?;
        }
        note(format_args!("offers {} pages for {PROMPT_TOKENS} tokens", inbound.pages()));
        Ok(Round { fault, ticket, inbound: Some(inbound), error: None, first_token: None })
    }

    fn take(&mut self, round: &mut Round, receipt: &Receipt) -> Result<(), Failure> {
        let Some(mut inbound) = round.inbound.take() else { return Ok(()) };
        match inbound.receive(receipt) {
            Ok(received) => {
                note(format_args!(
                    "a receipt for {} of its {} pages: {received:?}",
                    told_pages(receipt),
                    receipt.pages()
                ));
            }
            // It is about another handoff, and this one is as it was.
            Err(error @ InboundError::Transfer { .. }) => round.note(&error),
            Err(error) => {
                round.note(&error);
                self.channel.send(&inbound.refuse(error).refusal().into())?;
                return Ok(());
            }
        }
        round.inbound = Some(inbound);
        match round.fault {
            Fault::KillDecode => {
                note(format_args!("is killed after the first receipt"));
                system::die()
            }
            Fault::LateWrite => self.cancel(round),
            _ => Ok(()),
        }
    }

    /// Gives the request up; the pages wait for the writer.
    fn cancel(&self, round: &mut Round) -> Result<(), Failure> {
        let Some(inbound) = round.inbound.take() else { return Ok(()) };
        round.note(&Cancelled);
        self.channel.send(&Message::Refusal(inbound.refusal(&Cancelled)))?;
        drop(inbound.reject(Cancelled));
        self.check_quarantine()
    }

    /// What prefill refused, or gave up.
    fn hear(&mut self, round: &mut Round, refusal: Refusal) -> Result<(), Failure> {
        round.note(&refusal);
        match round.inbound.take() {
            Some(inbound) => {
                drop(inbound.reject(refusal));
                self.check_quarantine()
            }
            None if round.fault == Fault::LateWrite => {
                note(format_args!("prefill gave up as well; it has not said that it stopped"));
                self.next.push(Next::take_all(self.scene.owners.c, &self.pool, &mut self.watch)?);
                Ok(self.channel.signal(&Signal::Ready)?)
            }
            None => Ok(()),
        }
    }

    /// Prefill has written once more. Tenant C is there already, in other pages.
    fn look_at_late_bytes(&mut self) -> Result<(), Failure> {
        for next in &self.next {
            if !next.is_intact()? {
                return Err("a late write reached the next tenant".into());
            }
        }
        self.check_quarantine()?;
        Ok(self.channel.signal(&Signal::Ready)?)
    }

    fn check_quarantine(&self) -> Result<(), Failure> {
        match self.pool.stats().quarantined_pages {
            pages if pages == u64::from(PROMPT_PAGES) => {
                note(format_args!("{pages} pages are quarantined until prefill has stopped"));
                Ok(())
            }
            pages => Err(format!("{pages} pages are quarantined, not {PROMPT_PAGES}").into()),
        }
    }

    /// A closed pipe says that something happened; only the kernel says what. Should it never, the parent ends this process.
    fn wait_for_death(&self, ticket: TicketId) -> Result<(), Failure> {
        note(format_args!("prefill's pipe is closed; its ticket is open: {}", self.pool.ticket_is_open(ticket)));
        loop {
            match self.pool.end_dead_holder(ticket) {
                Ok(()) => {
                    note(format_args!("the kernel says that prefill has ended; so has its ticket"));
                    return Ok(());
                }
                Err(TicketError::HolderAlive { .. }) => thread::sleep(Duration::from_millis(1)),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The writer has stopped: what is there now is all that there will be.
    fn judge(&mut self, mut round: Round) -> Result<Ended, Failure> {
        if let Some(inbound) = round.inbound.take() {
            match inbound.accept() {
                Ok(kv) => {
                    note(format_args!("accepts {} tokens", kv.written_tokens()));
                    self.channel.signal(&Signal::Accepted)?;
                    return Ok(Ended::Accepted { kv, first_token: round.first_token });
                }
                Err(error) => {
                    let refused = error.give_up();
                    round.note(&refused);
                    match self.channel.send(&Message::Refusal(refused.refusal())) {
                        Ok(()) | Err(ChannelError::Gone) => {}
                        Err(error) => return Err(error.into()),
                    }
                    drop(refused.into_rejected());
                }
            }
        }
        Ok(Ended::Rejected { error: round.error.ok_or("a handoff was rejected without an error")? })
    }
}

impl Round {
    /// Keeps the first error.
    fn note(&mut self, error: &dyn Error) {
        note(format_args!("finds: {error}"));
        self.error.get_or_insert_with(|| error.to_string());
    }
}

/// Pages that a receipt speaks of.
fn told_pages(receipt: &Receipt) -> usize {
    receipt.parts().iter().map(|part| part.pages().len()).sum()
}
