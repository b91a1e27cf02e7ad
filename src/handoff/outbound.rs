//! The sender's end: committed tokens that an offer must ask for exactly.

use std::error::Error;
use std::fmt;
use std::ops::Range;

use crate::access::ReadGuard;
use crate::admission::Rejected;
use crate::error::{ReadError, Refused, TicketError};
use crate::geometry::{ModelLayout, Slice};
use crate::handle::PageHandle;
use crate::handoff::bytes::pass::{self, Dry, Within};
use crate::handoff::fit::check_pool;
use crate::handoff::offer::check::check_offer;
use crate::handoff::{
    Appending, DigestKey, Landing, Offer, OutboundError, Receipt, Refusal, SealError, Sending, SentPart, Writer,
};
use crate::id::{OwnerId, TransferId};
use crate::memory::PageMemory;
use crate::pool::{PagePool, Released};
use crate::reservation::Reservation;
use crate::ticket::{HolderId, TicketId};
use crate::transfer::{MAX_SERVED, Serving, Side};

/// Holds a prefill reservation whose committed tokens are sealed for a handoff.
///
/// The reservation lies inside, so that its pages stay and what is sealed neither changes nor shrinks. Dropping it releases
/// them; [`into_reservation`](Self::into_reservation) goes on with the request. Pages that a reader from outside has a ticket
/// for stay quarantined until that ends, whatever becomes of this value.
///
/// A request that was rejected is none that can be sent:
///
/// ```compile_fail,E0308
/// # use pagestamp::{geometry::*, *};
/// fn send_anyway(rejected: Rejected, model: &ModelLayout, slice: &Slice) {
///     let _: Result<Outbound<HostMemory>, _> = Outbound::seal(rejected, model, slice);
/// }
/// ```
#[must_use = "dropping the outbound releases its pages"]
pub struct Outbound<M: PageMemory> {
    pub(super) reservation: Reservation<M>,
    pub(super) model: ModelLayout,
    pub(super) slice: Slice,
    /// tokens that are sent in all; more than are committed while a prompt is still computed
    pub(super) tokens: u64,
    pub(super) writer: HolderId,
    pub(super) key: Option<DigestKey>,
    pub(super) may_be_unverified: bool,
    pub(super) id: TransferId,
    serves: Vec<TransferId>,
    readers: Vec<(HolderId, TicketId)>,
}

impl<M: PageMemory> Outbound<M> {
    /// Seals the committed tokens of a reservation. What is written and not committed (drafts) is no part of it.
    ///
    /// # Cost
    ///
    /// O(planes); allocates; one lock.
    ///
    /// # Errors
    ///
    /// The reservation comes back, unchanged.
    ///
    /// - [`SealError::Unfit`]: the memory has no bytes, the slice is not of the model, or the pool has other pages.
    /// - [`SealError::Read`]: an outside writer or a device is at work on a page, or the owner was reclaimed.
    pub fn seal(
        reservation: Reservation<M>,
        model: &ModelLayout,
        slice: &Slice,
    ) -> Result<Self, Refused<Reservation<M>, SealError>> {
        let tokens = reservation.committed_tokens();
        Self::stream(reservation, model, slice, tokens)
    }

    /// Begins to send `tokens` tokens of which some, or all, are still to be computed: [`append`](Self::append) goes on with
    /// the prompt, and what is committed may be sent meanwhile, in parts. What is sealed is the committed tokens; it grows
    /// and never changes.
    ///
    /// Tokens are committed when every layer of them is written: a layer can be sent alone, but not before the last layer of
    /// its tokens is computed. A reader from outside is let in page by page as they fill, by
    /// [`PagePool::pin`](crate::PagePool::pin) over [`handles`](Self::handles); the descriptors of what is there are those
    /// of a [`Stretch`](super::Stretch) of [`sealed_tokens`](Self::sealed_tokens), with as many destinations.
    ///
    /// # Errors
    ///
    /// As [`seal`](Self::seal), and
    ///
    /// - [`SealError::PastMax`], [`SealError::PastSealed`]: more than was admitted, or less than is committed.
    pub fn stream(
        reservation: Reservation<M>,
        model: &ModelLayout,
        slice: &Slice,
        tokens: u64,
    ) -> Result<Self, Refused<Reservation<M>, SealError>> {
        if let Err(error) = check_seal(&reservation, model, slice, tokens) {
            return Err(Refused::new(reservation, error));
        }
        let Some(id) = reservation.open_transfer(Side::Sender) else {
            return Err(Refused::new(reservation, ReadError::Revoked.into()));
        };
        let (model, slice) = (model.clone(), slice.clone());
        Ok(Self {
            reservation,
            model,
            slice,
            tokens,
            writer: Writer::ONLY,
            key: None,
            may_be_unverified: false,
            id,
            serves: Vec::new(),
            readers: Vec::new(),
        })
    }

    /// Sets which writer of an offer this is; [`Writer::ONLY`] at first.
    pub const fn with_writer(mut self, writer: HolderId) -> Self {
        self.writer = writer;
        self
    }

    /// Sets the secret that both sides have. From then on only offers of [`Checksum::Blake3Keyed`](super::Checksum::Blake3Keyed) are served: a receiver
    /// that asked for less would take what anybody can forge.
    pub fn with_key(mut self, key: DigestKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Serves offers of [`Checksum::BytesUnverified`](super::Checksum::BytesUnverified) too, which gives up the receiver's proof that it has these bytes.
    pub const fn with_bytes_unverified(mut self) -> Self {
        self.may_be_unverified = true;
        self
    }

    /// Returns the pool that sends.
    #[must_use]
    pub const fn pool(&self) -> &PagePool<M> {
        self.reservation.pool()
    }

    /// Returns the number of this handoff in its own pool, by which [`transfers`](crate::PagePool::transfers) shows it.
    #[must_use]
    pub const fn id(&self) -> TransferId {
        self.id
    }

    /// Returns whose tokens are sealed.
    #[must_use]
    pub const fn owner(&self) -> OwnerId {
        self.reservation.owner()
    }

    /// Returns the tokens that are sent in all.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Returns the tokens that are sealed so far: all of them unless a prompt is still computed.
    #[must_use]
    pub const fn sealed_tokens(&self) -> u64 {
        let committed = self.reservation.committed_tokens();
        if committed < self.tokens { committed } else { self.tokens }
    }

    /// Returns the pages that the tokens take.
    #[must_use]
    pub fn pages(&self) -> u32 {
        // at most the pages that were admitted, which an index counts
        self.reservation.pool().geometry().pages_for_tokens(self.tokens) as u32
    }

    /// Returns the model whose cache is sealed.
    #[must_use]
    pub const fn model(&self) -> &ModelLayout {
        &self.model
    }

    /// Returns the part of the model that is sealed.
    #[must_use]
    pub const fn slice(&self) -> &Slice {
        &self.slice
    }

    /// Returns which writer of an offer this is.
    #[must_use]
    pub const fn writer(&self) -> HolderId {
        self.writer
    }

    /// Lists the handles of the pages that hold the sealed tokens, in sequence order; none when the owner was reclaimed.
    /// For an engine that moves the bytes itself: the n-th goes to the n-th destination of the offer.
    pub fn handles(&self) -> impl Iterator<Item = PageHandle<M>> {
        let pages = self.reservation.pool().geometry().pages_for_tokens(self.sealed_tokens());
        self.reservation.handles().take(pages as usize)
    }

    /// Reads sealed tokens, as [`Reservation::read`]: for an engine that moves the bytes itself. Digest what was read here
    /// and not what was sent, or a receipt proves nothing.
    ///
    /// # Errors
    ///
    /// - [`ReadError::Unwritten`]: past what is sealed; drafts are no part of it.
    /// - [`ReadError::Backward`], [`ReadError::Busy`], [`ReadError::Pending`], [`ReadError::Revoked`]: as there.
    pub fn read(&self, tokens: Range<u64>) -> Result<ReadGuard<'_, M>, ReadError> {
        let written_tokens = self.sealed_tokens();
        if tokens.end > written_tokens {
            return Err(ReadError::Unwritten { to_tokens: tokens.end, written_tokens });
        }
        self.reservation.read(tokens)
    }

    /// Goes on with the prompt: grows, writes and commits past what is sealed.
    pub const fn append(&mut self) -> Appending<'_, M> {
        Appending::new(&mut self.reservation)
    }

    /// Sets when the handoff began and when it becomes overdue, in the caller's nanoseconds. Time ends nothing:
    /// [`overdue_transfers`](crate::PagePool::overdue_transfers) shows it, and the engine decides.
    pub fn set_deadline(&self, begun_ns: u64, deadline_ns: u64) {
        self.reservation.set_transfer_deadline(begun_ns, deadline_ns);
    }

    /// Checks that an offer asks for what is sealed, no more and no less. [`start`](Self::start) does so too.
    ///
    /// # Cost
    ///
    /// O(pages * log pages), to find a page that is offered twice; allocates.
    ///
    /// # Errors
    ///
    /// [`OutboundError::Owner`], [`OutboundError::Layout`], [`OutboundError::Writer`], [`OutboundError::Slice`],
    /// [`OutboundError::Pages`], [`OutboundError::Tokens`], [`OutboundError::Held`], [`OutboundError::ForeignDestination`],
    /// [`OutboundError::SameDestination`], [`OutboundError::Unverified`], [`OutboundError::Digest`]: the first in which the
    /// offer differs. Nothing is sent; answer with a [`Refusal`].
    pub fn check(&self, offer: &Offer) -> Result<(), OutboundError> {
        check_offer(self, offer).map(|_| ())
    }

    /// Begins to serve an offer that asks for what is sealed. One outbound may serve several, of receivers that hold
    /// different parts of the model; saying it twice is saying it once.
    ///
    /// # Errors
    ///
    /// Nothing is sent; answer with a [`Refusal`].
    ///
    /// - As [`check`](Self::check).
    /// - [`OutboundError::Duplicate`]: another outbound of this pool serves the transfer.
    /// - [`OutboundError::TooMany`]: it serves 1024 others.
    /// - [`OutboundError::Read`]: the owner was reclaimed.
    pub fn start(&mut self, offer: &Offer) -> Result<Sending, OutboundError> {
        let slice = check_offer(self, offer)?;
        if self.reservation.is_revoked() {
            return Err(ReadError::Revoked.into());
        }
        let transfer = offer.transfer();
        match self.reservation.serve_transfer(transfer) {
            Serving::Now => {}
            Serving::Elsewhere => return Err(OutboundError::Duplicate { transfer }),
            Serving::TooMany => return Err(OutboundError::TooMany { max_transfers: MAX_SERVED }),
        }
        if !self.serves.contains(&transfer) {
            self.serves.push(transfer);
        }
        Ok(Sending::new(offer.clone(), self.id, self.writer, slice))
    }

    /// Copies some layers of some pages into an inbound of this process, digests them in the same pass, and says what was
    /// sent. Pages that the receiver holds are digested only.
    ///
    /// # Cost
    ///
    /// O(bytes): one copy and one digest, in one pass, where the CPU can address the sealed pages.
    ///
    /// # Errors
    ///
    /// - [`OutboundError::NotServed`]: another outbound began it, whose bytes these are not.
    /// - [`OutboundError::Transfer`], [`OutboundError::LandingOf`]: the landing is of another offer or writer.
    /// - [`OutboundError::Layout`], [`OutboundError::Slice`]: the offer was not that of the receiver, which expects another
    ///   model, or another part of it from this writer.
    /// - [`OutboundError::NoSuchPart`], [`OutboundError::NotCommitted`]: not to be sent, or not yet.
    /// - [`OutboundError::Read`]: the owner was reclaimed.
    /// - [`OutboundError::Land`]: the receiver did not take a part. What landed before stays there, unreadable, and the same
    ///   call may be made again.
    pub fn copy<N: PageMemory>(
        &self,
        sending: &Sending,
        layers: Range<u32>,
        pages: Range<u32>,
        landing: &mut Landing<'_, N>,
    ) -> Result<SentPart, OutboundError> {
        landing.check(sending)?;
        pass::run(self, sending, layers, pages, &mut Within::new(landing))
    }

    /// Digests some layers of some pages, for an engine that moves the bytes itself.
    ///
    /// # Cost
    ///
    /// O(bytes): one read and one digest.
    ///
    /// # Errors
    ///
    /// [`OutboundError::NotServed`], [`OutboundError::NoSuchPart`], [`OutboundError::NotCommitted`],
    /// [`OutboundError::Read`]: as [`copy`](Self::copy).
    pub fn digest(&self, sending: &Sending, layers: Range<u32>, pages: Range<u32>) -> Result<SentPart, OutboundError> {
        pass::run(self, sending, layers, pages, &mut Dry)
    }

    /// Copies all that is sealed into an inbound of this process, and says what was sent: [`start`](Self::start),
    /// [`copy`](Self::copy) and [`Sending::receipt`] in one.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start) and [`copy`](Self::copy).
    pub fn send<N: PageMemory>(
        &mut self,
        offer: &Offer,
        landing: &mut Landing<'_, N>,
    ) -> Result<Receipt, OutboundError> {
        let sending = self.start(offer)?;
        let (layers, pages) = (sending.slice().layers(), sending.all_pages());
        let parts = if pages.is_empty() { Vec::new() } else { vec![self.copy(&sending, layers, pages, landing)?] };
        Ok(sending.receipt(parts))
    }

    /// Lets an outside party read all pages that are sent (a network card that sends them, a receiver that fetches them)
    /// until its ticket ends. It has one ticket, however often it asks. `deadline_ns` is absolute, in the caller's own clock.
    ///
    /// The ticket ends as others do, by [`ticket_done`](crate::PagePool::ticket_done) when this reader says that it has all:
    /// a second word of the same reader is [`TicketError::AlreadyDone`] and ends nobody else's.
    ///
    /// # Errors
    ///
    /// Nothing was pinned.
    ///
    /// - [`TicketError::AlreadyDone`]: this reader had its ticket, and it ended.
    /// - [`TicketError::OutOfRange`]: not all pages are there yet.
    /// - Others as [`Reservation::pin_read`].
    pub fn open_reader(&mut self, reader: HolderId, deadline_ns: Option<u64>) -> Result<TicketId, TicketError> {
        if let Some((_, ticket)) = self.readers.iter().find(|(holder, _)| *holder == reader) {
            let open = self.reservation.pool().ticket_is_open(*ticket);
            return if open { Ok(*ticket) } else { Err(TicketError::AlreadyDone(*ticket)) };
        }
        let ticket = self.reservation.pin_read(0..self.pages(), reader, deadline_ns)?;
        self.readers.push((reader, ticket));
        Ok(ticket)
    }

    /// Lists the readers that have not said that they have all.
    pub fn readers(&self) -> impl Iterator<Item = (HolderId, TicketId)> {
        let pool = self.reservation.pool();
        self.readers.iter().copied().filter(|(_, ticket)| pool.ticket_is_open(*ticket))
    }

    /// Goes on with the request after the handoff: the seal ends, the pages stay.
    pub fn into_reservation(self) -> Reservation<M> {
        self.reservation.end_transfer()
    }

    /// Releases the pages, as [`Reservation::release`]: when every receiver has what it wanted. Those that a reader has a
    /// ticket for wait for its end.
    #[expect(clippy::must_use_candidate, reason = "done for its effect; the answer is for reports")]
    pub fn release(self) -> Released {
        self.reservation.release()
    }

    /// Makes the message that ends a handoff on the other side, for an error found here.
    pub fn refusal(&self, offer: &Offer, error: &(dyn Error + 'static)) -> Refusal {
        Refusal::new(offer.transfer(), Side::Sender, error)
    }

    /// Ends the request for good because the other side refused a transfer that this outbound serves. The pages go back at
    /// once, unless a reader has a ticket for them.
    ///
    /// # Errors
    ///
    /// The outbound comes back.
    ///
    /// - [`OutboundError::NotServed`]: the refusal is of another transfer.
    pub fn refused(self, refusal: Refusal) -> Result<Rejected, Refused<Self, OutboundError>> {
        let transfer = refusal.transfer();
        if !self.serves.contains(&transfer) {
            return Err(Refused::new(self, OutboundError::NotServed { transfer }));
        }
        Ok(self.reject(refusal))
    }

    /// Releases the pages and ends the request for good: `error` stays with the rejection.
    pub fn reject(self, error: impl Into<Box<dyn Error + Send + Sync>>) -> Rejected {
        self.reservation.reject(error)
    }
}

fn check_seal<M: PageMemory>(
    reservation: &Reservation<M>,
    model: &ModelLayout,
    slice: &Slice,
    tokens: u64,
) -> Result<(), SealError> {
    check_pool::<M>(reservation.pool().geometry(), model, slice)?;
    let (committed_tokens, max_tokens) = (reservation.committed_tokens(), reservation.max_tokens());
    if tokens < committed_tokens {
        return Err(SealError::PastSealed { tokens, committed_tokens });
    }
    if tokens > max_tokens.max(committed_tokens) {
        return Err(SealError::PastMax { tokens, max_tokens });
    }
    drop(reservation.read(0..committed_tokens)?);
    Ok(())
}

impl<M: PageMemory> fmt::Debug for Outbound<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbound").field("id", &self.id).field("reservation", &self.reservation).finish_non_exhaustive()
    }
}
