//! One handoff on the side of prefill: bytes into the other's pages, receipts through the pipe, and what goes wrong there.

use std::ops::Range;

use pagestamp::geometry::ModelLayout;
use pagestamp::{HostMemory, Message, Offer, Outbound, OwnerId, Receipt, Refusal, Sending, SentPart, Writer};

use crate::Failure;
use crate::channel::{Channel, Frame, Signal};
use crate::fault::Fault;
use crate::kv_cache::PAGE_TOKENS;
use crate::lines::note;
use crate::system::{self, Card, Shared};

/// The page that the faults are about, and the plane.
const PAGE: u32 = 4;
const PLANE: usize = 1;

/// How the other side ended the handoff.
#[derive(Debug)]
pub(crate) enum Verdict {
    Accepted,
    /// After this side had stopped.
    Refused(Refusal),
    /// Before this side has stopped.
    RefusedFirst(Refusal),
    /// Refused, and the card will go on with what it was told.
    WritesOn(Refusal),
}

/// A handoff that has begun.
pub(crate) struct Sender<'s, 'c> {
    pub(crate) fault: Fault,
    pub(crate) shared: &'s Shared,
    pub(crate) card: &'c Card<'s>,
    pub(crate) channel: &'s Channel,
    pub(crate) other_owner: OwnerId,
    pub(crate) other_layout: ModelLayout,
    pub(crate) outbound: &'s mut Outbound<HostMemory>,
    pub(crate) sending: Sending,
}

impl Sender<'_, '_> {
    /// Writes batch after batch, says what was sent, and waits for the verdict.
    ///
    /// # Errors
    /// [`ChannelError::Gone`](crate::channel::ChannelError) when decode is, and others.
    pub(crate) fn send(
        &mut self,
        offer: &Offer,
        earlier: &mut Vec<Receipt>,
        first_token: u32,
    ) -> Result<Verdict, Failure> {
        let before = std::mem::take(earlier);
        for (number, batch) in self.batches().enumerate() {
            if let Some(refusal) = self.look(offer)? {
                return Ok(Verdict::RefusedFirst(refusal));
            }
            self.write(number, batch.clone())?;
            let receipt = match before.get(number) {
                Some(replayed) => replayed.clone(),
                None => self.receipt(batch)?,
            };
            self.tell(&Message::Receipt(receipt.clone()))?;
            earlier.push(receipt);
            if self.fault == Fault::LateWrite {
                return wait_for_refusal(self.channel).map(Verdict::WritesOn);
            }
        }
        note(format_args!("says that it has sent {} pages", earlier.iter().map(told_pages).sum::<u32>()));
        self.channel.signal(&Signal::FirstToken(first_token))?;
        self.channel.stopped()?;
        if self.fault == Fault::Duplicate {
            self.channel.stopped()?;
        }
        self.wait_for_verdict(offer)
    }

    /// The batches that the receiver allows; the incident's sender had one page.
    fn batches(&self) -> impl Iterator<Item = Range<u32>> + use<> {
        let short = self.fault == Fault::Short;
        let batches = self.sending.batches().map(move |batch| if short { 0..1 } else { batch });
        batches.take(if short { 1 } else { usize::MAX })
    }

    /// Copies a batch into the other's pages.
    fn write(&self, number: usize, batch: Range<u32>) -> Result<(), Failure> {
        let destinations = self.destinations();
        // A page that is forgotten cuts its batch in two.
        let left_out =
            if self.fault == Fault::Gap && batch.contains(&PAGE) { PAGE..PAGE + 1 } else { batch.end..batch.end };
        for pages in [batch.start..left_out.start, left_out.end..batch.end] {
            let segments = self.card.segments(&destinations, pages)?;
            if self.fault == Fault::KillPrefill && number == 1 {
                self.card.copy(&segments, 0..segments.len() / 2)?;
                note(format_args!("is killed with half of a batch written"));
                system::die();
            }
            self.card.copy(&segments, 0..segments.len())?;
            if self.fault == Fault::Duplicate {
                self.card.copy(&segments, 0..segments.len())?;
            }
        }
        self.spoil(batch.map(|ordinal| (ordinal, destinations[ordinal as usize])))
    }

    /// Where each page goes.
    fn destinations(&self) -> Vec<u32> {
        let mut pages = self.sending.destination_pages();
        if self.fault == Fault::Swap {
            pages.swap(PAGE as usize, PAGE as usize + 1);
        }
        pages
    }

    /// Changes bytes that have just been written.
    fn spoil(&self, pages: impl Iterator<Item = (u32, u32)>) -> Result<(), Failure> {
        let (planes, heads) = (self.shared.planes(), self.other_layout.kv_heads() as usize);
        for (ordinal, page) in pages {
            if self.fault == Fault::Bitflip && ordinal == PAGE {
                let mut bytes = self.shared.load(page, PLANE)?;
                bytes[PAGE_TOKENS] ^= 4;
                self.shared.store(page, PLANE, 0, &bytes)?;
            }
            for plane in (0..planes).filter(|_| self.fault == Fault::Layout) {
                let bytes = self.shared.load(page, plane)?;
                self.shared.store(page, plane, 0, &head_by_head(&bytes, bytes.len() / PAGE_TOKENS, heads))?;
            }
        }
        Ok(())
    }

    /// What this side says about a batch.
    fn receipt(&self, batch: Range<u32>) -> Result<Receipt, Failure> {
        let overlaps = self.fault == Fault::Overlap && batch.start > 0;
        let told = if overlaps { batch.start - 1..batch.end } else { batch };
        let layers = self.sending.slice().layers();
        let parts: Vec<SentPart> = vec![self.outbound.digest(&self.sending, layers, told)?];
        let (outbound, sending) = (&self.outbound, &self.sending);
        let of = |owner, layout: &ModelLayout| Receipt::new(sending.transfer(), owner, layout.clone(), Writer::ONLY);
        let (pages, tokens, page_tokens) = (outbound.pages(), outbound.tokens(), PAGE_TOKENS as u32);
        let (owner, layout, checksum) = (outbound.owner(), outbound.model(), sending.checksum());
        let receipt = match self.fault {
            Fault::Short => of(owner, layout).with_extent(1, page_tokens.into(), page_tokens),
            Fault::WrongOwner => of(self.other_owner, layout).with_extent(pages, tokens, page_tokens / 2),
            Fault::Layout => of(owner, &self.other_layout).with_extent(pages, tokens, page_tokens / 2),
            _ => return Ok(sending.receipt(parts)),
        };
        Ok(receipt.with_parts(checksum, parts))
    }

    fn tell(&self, message: &Message) -> Result<(), Failure> {
        self.channel.send(message)?;
        if self.fault == Fault::Duplicate {
            self.channel.send(message)?;
        }
        Ok(())
    }

    /// Whether decode has refused meanwhile.
    fn look(&mut self, offer: &Offer) -> Result<Option<Refusal>, Failure> {
        while let Some(frame) = self.channel.look()? {
            match frame {
                Frame::Message(Message::Refusal(refusal)) => return Ok(Some(refusal)),
                Frame::Message(Message::Offer(again)) if again == *offer => self.start_again(offer)?,
                frame => return Err(format!("prefill was told {frame:?} in a handoff").into()),
            }
        }
        Ok(None)
    }

    /// Takes the same offer once more.
    fn start_again(&mut self, offer: &Offer) -> Result<(), Failure> {
        let again = self.outbound.start(offer)?;
        if again == self.sending { Ok(()) } else { Err("the same offer gave another sending".into()) }
    }

    fn wait_for_verdict(&mut self, offer: &Offer) -> Result<Verdict, Failure> {
        loop {
            match self.channel.next()? {
                Frame::Signal(Signal::Accepted) => return Ok(Verdict::Accepted),
                Frame::Message(Message::Refusal(refusal)) => return Ok(Verdict::Refused(refusal)),
                Frame::Message(Message::Offer(again)) if again == *offer => self.start_again(offer)?,
                frame => return Err(format!("prefill was told {frame:?} in place of a verdict").into()),
            }
        }
    }
}

/// Waits for decode to refuse.
///
/// # Errors
/// It says something else.
pub(crate) fn wait_for_refusal(channel: &Channel) -> Result<Refusal, Failure> {
    match channel.next()? {
        Frame::Message(Message::Refusal(refusal)) => Ok(refusal),
        frame => Err(format!("prefill was told {frame:?} and no refusal").into()),
    }
}

/// Pages that a receipt speaks of.
fn told_pages(receipt: &Receipt) -> u32 {
    receipt.parts().iter().map(|part| part.pages().len() as u32).sum()
}

/// Puts the rows of `[tokens, heads]` in the order of a head-major page, where each head has room for all of a page's tokens.
fn head_by_head(rows: &[u8], row_bytes: usize, heads: usize) -> Vec<u8> {
    let head_bytes = row_bytes / heads;
    let mut page = vec![0; PAGE_TOKENS * row_bytes];
    for (token, row) in rows.chunks_exact(row_bytes).enumerate() {
        for (head, bytes) in row.chunks_exact(head_bytes).enumerate() {
            page[(head * PAGE_TOKENS + token) * head_bytes..][..head_bytes].copy_from_slice(bytes);
        }
    }
    page
}

#[test]
fn rows_are_put_head_by_head() {
    let page = head_by_head(&[1, 2, 3, 4, 5, 6, 7, 8], 4, 2);
    assert_eq!((page.len(), &page[..6], &page[32..38]), (64, &[1, 2, 5, 6, 0, 0][..], &[3, 4, 7, 8, 0, 0][..]));
}
