//! The receiver's end: a reservation that becomes readable when everything fits.

use std::error::Error;
use std::fmt;

use crate::admission::Rejected;
use crate::error::{Refused, WriteError};
use crate::filling::Filling;
use crate::geometry::LayoutError;
use crate::handoff::bytes::tile::{Tile, Via};
use crate::handoff::fit::check_pool;
use crate::handoff::offer::tiling::check_tiling;
use crate::handoff::receipt::told::Told;
use crate::handoff::verdict::expected::Expected;
use crate::handoff::verdict::verify::verify;
use crate::handoff::{
    AcceptError, InboundError, InboundPlan, LandError, Landing, NotAccepted, NotYet, Offer, OpenError, Receipt,
    Refusal, Side, UnfitPool, WriterError,
};
use crate::id::{OwnerId, TransferId};
use crate::memory::PageMemory;
use crate::pool::PagePool;
use crate::reservation::Reservation;
use crate::ticket::{HolderId, TicketId};

/// Says whether a receipt told anything new.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Received {
    /// Some of it is new.
    Now,
    /// All of it was told before: it counts once.
    Before,
}

/// Holds a decode reservation while others fill it. Nobody can read it until it is accepted.
///
/// Bytes come by [`landing`](Self::landing) within the process, or from outside under a ticket of
/// [`open_writer`](Self::open_writer); what the writers say comes by [`receive`](Self::receive); [`accept`](Self::accept) is
/// the verdict. All in any order.
///
/// Dropping it releases the pages (those of a [claim](crate::Request::with_claim) that nobody confirmed wait for the next
/// try, unreadable): the handoff is over, and a receipt that comes later fits nothing. Pages of a writer that has not stopped
/// are quarantined until its ticket ends.
///
/// A request that was rejected is none that can be received:
///
/// ```compile_fail,E0308
/// # use pagestamp::{geometry::*, *};
/// fn receive_anyway(rejected: Rejected, plan: InboundPlan) {
///     let _: Result<Inbound<HostMemory>, _> = Inbound::open(rejected, plan);
/// }
/// ```
#[must_use = "dropping the inbound releases its pages"]
pub struct Inbound<M: PageMemory> {
    filling: Filling<M>,
    expected: Expected,
    tiles: Vec<Tile>,
    /// the first error that nothing can mend
    wrong: Option<InboundError>,
}

impl<M: PageMemory> Inbound<M> {
    /// Opens a handoff into a reservation, for the tokens of the plan. What is reserved beyond stays local and unwritten: what
    /// a writer from outside stores in the rest of the last page is read by nobody, and appended over.
    ///
    /// Tokens that the reservation holds already are a prefix that is not sent: they are whole pages, written and committed.
    /// They are verified with the rest, against the digests of the sender's own pages of them.
    ///
    /// The pool's pages must have the shape of the slice. Each call names a new transfer, which
    /// [`transfers`](crate::PagePool::transfers) shows until its end.
    ///
    /// # Cost
    ///
    /// O(pages); allocates a byte for each plane of each page of each writer. Checking the writers is O(writers squared).
    ///
    /// # Errors
    ///
    /// The reservation comes back, with the extents that it had.
    ///
    /// - [`OpenError::Unfit`]: the memory has no bytes, the slice is not of the model, or the pool has other pages.
    /// - [`OpenError::Tiling`]: the writers do not send exactly the slice.
    /// - [`OpenError::Digest`]: pages cannot be digested as the plan says.
    /// - [`OpenError::PastReserved`]: more is expected than was reserved.
    /// - [`OpenError::PastExpected`], [`OpenError::Drafts`], [`OpenError::PartOfPage`]: what is written already is no prefix
    ///   of whole pages.
    /// - [`OpenError::Read`]: an outside writer or a device is at work on a page of that prefix.
    /// - [`OpenError::Write`]: an outside writer or a device is at work on another page, or the owner was reclaimed.
    pub fn open(reservation: Reservation<M>, plan: InboundPlan) -> Result<Self, Refused<Reservation<M>, OpenError>> {
        let tiles = match check_open(&reservation, &plan) {
            Ok(tiles) => tiles,
            Err(error) => return Err(Refused::new(reservation, error)),
        };
        let held_tokens = reservation.written_tokens();
        let filling = Filling::begin(reservation, plan.tokens - held_tokens).map_err(|refused| {
            let (reservation, error) = refused.into_parts();
            Refused::new(reservation, error.into())
        })?;
        let reservation = filling.reservation();
        let owner = reservation.owner();
        let Some(transfer) = reservation.open_transfer(Side::Receiver) else {
            return Err(Refused::new(filling.abandon(), WriteError::Revoked.into()));
        };
        // at most the pages of the reservation, which an index counts
        let pages = reservation.pool().geometry().pages_for_tokens(plan.tokens) as u32;
        let InboundPlan { model, slice, tokens, checksum, key, batch_pages, .. } = plan;
        let expected =
            Expected { transfer, owner, model, slice, tokens, held_tokens, pages, checksum, key, batch_pages };
        Ok(Self { filling, expected, tiles, wrong: None })
    }

    /// Returns the pool that receives.
    #[must_use]
    pub const fn pool(&self) -> &PagePool<M> {
        self.filling.reservation().pool()
    }

    /// Returns which handoff it is.
    #[must_use]
    pub const fn transfer(&self) -> TransferId {
        self.expected.transfer
    }

    /// Returns whose pages they are.
    #[must_use]
    pub const fn owner(&self) -> OwnerId {
        self.expected.owner
    }

    /// Returns the tokens that are expected, those that were held before included.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.expected.tokens
    }

    /// Returns the tokens that were held before and are not sent.
    #[must_use]
    pub const fn held_tokens(&self) -> u64 {
        self.expected.held_tokens
    }

    /// Returns the pages that are expected: those of the expected tokens, not all that are reserved.
    #[must_use]
    pub const fn pages(&self) -> u32 {
        self.expected.pages
    }

    /// Returns the pages that have landed whole, of all writers; those that were held before among them. What a writer from
    /// outside has landed is not known here.
    ///
    /// # Cost
    ///
    /// O(pages * planes).
    #[must_use]
    pub fn complete_pages(&self) -> u32 {
        let to_land = |page| self.expected.tokens_to_land(page);
        let is_complete = |page: &u32| self.tiles.iter().all(|tile| tile.landed.is_complete(*page, to_land(*page)));
        (0..self.expected.pages).filter(is_complete).count() as u32
    }

    /// Sets when the handoff began and when it becomes overdue, in the caller's nanoseconds. Time ends nothing:
    /// [`overdue_transfers`](crate::PagePool::overdue_transfers) shows it, and the engine decides.
    pub fn set_deadline(&self, begun_ns: u64, deadline_ns: u64) {
        self.filling.reservation().set_transfer_deadline(begun_ns, deadline_ns);
    }

    /// Says what is expected and where it may go, for the senders.
    ///
    /// # Cost
    ///
    /// O(pages + writers); allocates. Once the owner was reclaimed it names no pages, and no sender accepts it.
    pub fn offer(&self) -> Offer {
        let Expected { transfer, owner, model, slice, tokens, held_tokens, pages, checksum, batch_pages, .. } =
            &self.expected;
        let handles = self.filling.reservation().handles().take(*pages as usize);
        Offer::new(*transfer, *owner, model.clone(), slice.clone())
            .with_writers(self.tiles.iter().map(|tile| tile.writer.clone()).collect())
            .with_tokens(*tokens, handles.map(|handle| handle.to_bits()).collect())
            .with_held_tokens(*held_tokens)
            .with_checksum(*checksum)
            .with_batch_pages(*batch_pages)
    }

    /// Opens the pages for bytes of one writer that come within this process.
    ///
    /// A writer that has landed once sends within the process for good. While the ticket of any writer is open no bytes
    /// land: all pages are under it. Let the writers within the process go first, or wait for the end of the ticket, or open
    /// every writer from outside.
    ///
    /// # Errors
    ///
    /// - [`LandError::Writer`]: no such writer is expected, or it writes from outside.
    /// - [`LandError::Write`]: the owner was reclaimed.
    pub fn landing(&mut self, writer: HolderId) -> Result<Landing<'_, M>, LandError> {
        let Self { filling, expected, tiles, .. } = self;
        let tile = find(tiles, writer)?;
        match tile.via {
            Via::Ticket(_) => return Err(WriterError::Outside { writer }.into()),
            Via::Nothing | Via::Landing => tile.via = Via::Landing,
        }
        Ok(Landing { right: filling.right()?, expected, tile })
    }

    /// Lets one writer write the pages from outside (RDMA, shared memory) until its ticket ends: the expected pages but
    /// those that were held before.
    ///
    /// Until then nobody reads them, whatever becomes of this inbound. The ticket ends by
    /// [`ticket_done`](crate::PagePool::ticket_done) when the transport has reported every transfer of the grant terminal,
    /// or in another of the ways that are written there. A writer whose ticket ended may be given another one; it writes from
    /// outside for good. While a ticket is open no [`landing`](Self::landing) of another writer takes bytes.
    ///
    /// The offer names no ticket. The engine carries [`TicketId::to_bits`] to the writer and its "done" back, by a message of
    /// its own. `deadline_ns` is absolute, in the caller's own clock.
    ///
    /// # Cost
    ///
    /// O(pages) under the lock; allocates.
    ///
    /// # Errors
    ///
    /// Nothing was pinned.
    ///
    /// - [`WriterError::Unknown`]: the plan does not name it.
    /// - [`WriterError::Open`]: its last ticket has not ended.
    /// - [`WriterError::Inside`]: it sends within the process.
    /// - [`WriterError::Ticket`]: the pages cannot be pinned.
    pub fn open_writer(&mut self, writer: HolderId, deadline_ns: Option<u64>) -> Result<TicketId, WriterError> {
        let pages = self.expected.held_pages()..self.expected.pages;
        let Self { filling, tiles, .. } = self;
        let tile = find(tiles, writer)?;
        match tile.via {
            Via::Landing => return Err(WriterError::Inside { writer }),
            Via::Ticket(ticket) if filling.reservation().pool().ticket_is_open(ticket) => {
                return Err(WriterError::Open { writer, ticket });
            }
            Via::Ticket(_) | Via::Nothing => {}
        }
        let ticket = filling.pin_write(pages, writer, deadline_ns)?;
        tile.via = Via::Ticket(ticket);
        Ok(ticket)
    }

    /// Takes what a writer says that it sent. It is compared with what is expected at once; with the bytes, by
    /// [`accept`](Self::accept). The same part again counts once.
    ///
    /// # Cost
    ///
    /// O(layers * pages) of its parts; keeps a copy of them.
    ///
    /// # Errors
    ///
    /// The first mismatch. [`InboundError::Transfer`] is about another handoff, and this one is as it was. After any other
    /// the handoff cannot be accepted, each further receipt is answered with the same error, and the caller should
    /// [`refuse`](Self::refuse) it and tell the sender; the pages are cleaned then, and were never readable.
    pub fn receive(&mut self, receipt: &Receipt) -> Result<Received, InboundError> {
        let (expected, found) = (self.transfer(), receipt.transfer());
        if found != expected {
            return Err(InboundError::Transfer { expected, found });
        }
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        self.take_parts(receipt).inspect_err(|error| self.wrong = Some(error.clone()))
    }

    fn take_parts(&mut self, receipt: &Receipt) -> Result<Received, InboundError> {
        let Self { expected, tiles, .. } = self;
        expected.judge_head(receipt)?;
        let writer = receipt.writer();
        let tile = tiles.iter_mut().find(|tile| tile.writer.holder() == writer);
        let tile = tile.ok_or(InboundError::Writer { found: writer })?;
        for part in receipt.parts() {
            expected.judge_part(writer, tile.writer.slice(), part)?;
        }
        let mut received = Received::Before;
        for part in receipt.parts() {
            match tile.told.take(part) {
                Told::New => received = Received::Now,
                Told::Again => {}
                Told::Overlap { layer, page } => return Err(InboundError::TwoParts { writer, page, layer }),
            }
        }
        Ok(received)
    }

    /// Ends the handoff if everything fits: all tickets of writers have ended, every part was told exactly once, all bytes of
    /// writers within the process landed, and the digests of what is there are those of the receipts. Then the tokens become
    /// written and committed, and the reservation is readable.
    ///
    /// What is there is digested here; the sender's word counts for nothing. Bytes from outside are not counted, only
    /// digested: under [`Checksum::BytesUnverified`](super::Checksum::BytesUnverified) nothing at all shows that one came. A handoff of no tokens needs no
    /// receipt.
    ///
    /// # Cost
    ///
    /// O(writers * layers * pages) until all is there; then O(bytes), one read and digest of all that landed.
    ///
    /// # Memory ordering
    ///
    /// Release: a reader that sees the new extent sees the bytes that were verified.
    ///
    /// # Errors
    ///
    /// - [`AcceptError::NotYet`] with the first thing that is missing ([`InboundError::StillWriting`],
    ///   [`InboundError::Untold`], [`InboundError::Gap`]): the inbound comes back.
    /// - [`AcceptError::Refused`] with the first mismatch: the pages are released, cleaned as the pool is set up, and nothing
    ///   of them was ever readable. The request is [`Rejected`].
    pub fn accept(self) -> Result<Reservation<M>, AcceptError<M>> {
        if let Err(error) = self.find_wrong() {
            return Err(AcceptError::Refused(self.refuse(error)));
        }
        if let Err(error) = self.find_missing() {
            return Err(AcceptError::NotYet(NotYet::new(self, error)));
        }
        let Self { filling, expected, tiles, .. } = self;
        let verdict = filling.finish(|right| verify(right, &expected, &tiles));
        verdict.map(Reservation::end_transfer).map_err(|(reservation, error)| {
            let rejected = reservation.reject(error.clone());
            AcceptError::Refused(NotAccepted::new(expected.transfer, error, rejected))
        })
    }

    fn find_wrong(&self) -> Result<(), InboundError> {
        if self.filling.reservation().is_revoked() {
            return Err(WriteError::Revoked.into());
        }
        match &self.wrong {
            Some(wrong) => Err(wrong.clone()),
            None => self.tiles.iter().try_for_each(Tile::find_wrong),
        }
    }

    fn find_missing(&self) -> Result<(), InboundError> {
        let pool = self.filling.reservation().pool();
        for tile in &self.tiles {
            if let Via::Ticket(ticket) = tile.via
                && pool.ticket_is_open(ticket)
            {
                return Err(InboundError::StillWriting { writer: tile.writer.holder(), ticket });
            }
        }
        self.tiles.iter().try_for_each(|tile| tile.find_missing(&self.expected))
    }

    /// Ends the handoff for an error of [`receive`](Self::receive): releases the pages, and has the message for the other
    /// side and the request's end in its answer. If a receipt was wrong before, that first error is kept, and not this one.
    pub fn refuse(self, error: InboundError) -> NotAccepted {
        let error = self.wrong.clone().unwrap_or(error);
        let transfer = self.transfer();
        let rejected = self.reject(error.clone());
        NotAccepted::new(transfer, error, rejected)
    }

    /// Ends the request for good because a sender refused this transfer. The other senders may be given the same refusal.
    ///
    /// # Errors
    ///
    /// The inbound comes back.
    ///
    /// - [`InboundError::Transfer`]: the refusal is of another transfer.
    pub fn refused(self, refusal: Refusal) -> Result<Rejected, Refused<Self, InboundError>> {
        let (expected, found) = (self.transfer(), refusal.transfer());
        if expected != found {
            return Err(Refused::new(self, InboundError::Transfer { expected, found }));
        }
        Ok(self.reject(refusal))
    }

    /// Makes the message that ends the handoff on the other side, for an error of the engine. [`refuse`](Self::refuse) does
    /// so for an error of a receipt.
    pub fn refusal(&self, error: &(dyn Error + 'static)) -> Refusal {
        Refusal::new(self.transfer(), Side::Receiver, error)
    }

    /// Releases the pages and ends the request for good: `error` stays with the rejection.
    pub fn reject(self, error: impl Into<Box<dyn Error + Send + Sync>>) -> Rejected {
        self.filling.abandon().reject(error)
    }
}

fn find(tiles: &mut [Tile], writer: HolderId) -> Result<&mut Tile, WriterError> {
    tiles.iter_mut().find(|tile| tile.writer.holder() == writer).ok_or(WriterError::Unknown { writer })
}

/// Checks what needs no page touched.
fn check_open<M: PageMemory>(reservation: &Reservation<M>, plan: &InboundPlan) -> Result<Vec<Tile>, OpenError> {
    let pool = reservation.pool().geometry();
    check_pool::<M>(pool, &plan.model, &plan.slice)?;
    check_tiling(&plan.writers, &plan.slice)?;
    plan.checksum.check_key(plan.key.as_ref())?;
    let (tokens, reserved_tokens) = (plan.tokens, reservation.reserved_tokens());
    if tokens > reserved_tokens {
        return Err(OpenError::PastReserved { tokens, reserved_tokens });
    }
    let (written_tokens, committed_tokens) = (reservation.written_tokens(), reservation.committed_tokens());
    if written_tokens > tokens {
        return Err(OpenError::PastExpected { written_tokens, tokens });
    }
    if written_tokens > committed_tokens {
        return Err(OpenError::Drafts { written_tokens, committed_tokens });
    }
    let page_tokens = pool.page_tokens();
    if !written_tokens.is_multiple_of(u64::from(page_tokens)) {
        return Err(OpenError::PartOfPage { written_tokens, page_tokens });
    }
    if written_tokens > 0 {
        drop(reservation.read(0..written_tokens)?);
    }
    // at most the pages of the reservation, which an index counts
    let pages = pool.pages_for_tokens(tokens) as u32;
    let tile = |writer| Tile::new(&plan.model, &plan.slice, writer, pages);
    let tiles: Result<Vec<Tile>, LayoutError> = plan.writers.iter().map(tile).collect();
    Ok(tiles.map_err(UnfitPool::from)?)
}

impl<M: PageMemory> fmt::Debug for Inbound<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbound")
            .field("transfer", &self.transfer())
            .field("tokens", &self.tokens())
            .field("reservation", self.filling.reservation())
            .finish_non_exhaustive()
    }
}
