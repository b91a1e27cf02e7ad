//! Says when pages that another pool filled may be read: when the receiver's own count fits, and not when the sender says so.
//!
//! **Owns** the three messages ([`Offer`], [`Receipt`], [`Refusal`]), the two ends ([`Inbound`], [`Outbound`]), what has
//! landed, the digests and the verdict. **Does not know** networks: the engine moves bytes and messages.
//!
//! ```text
//!   decode                                              prefill (one or several ranks)
//!   Inbound::open(reservation, plan)                    Outbound::seal(reservation)
//!        │ offer ───────────────────────────────────────────▶ start: is this what I sealed?
//!        │                                                     │ no: Refusal ──▶ both ends reject
//!        │ landing, open_writer ◀─────── bytes ─────────────── copy, or the engine's transport
//!        │ receive ◀──────────────────── receipts ────────────┘ receipt
//!        │ accept: not yet ──▶ wait for more
//!        ▼
//!   all fits: the reservation, written and committed
//!   else:     Rejected; the pages are cleaned and were never readable
//! ```
//!
//! | where | what |
//! |---|---|
//! | `offer/` | what is wanted: [`InboundPlan`], [`Offer`] and its [`Writer`]s; the sender's check of it, and what it [sends](Sending) |
//! | `bytes/` | where they go: [`Landing`] within the process, [`Segment`]s for a transport |
//! | `receipt/` | what was sent: [`Receipt`] and its [`SentPart`]s; each counted once |
//! | `verdict/` | the comparison, and its three answers: a reservation, [`NotYet`], [`NotAccepted`] |
//! | `inbound`, `outbound` | the two ends; `appending` is what a sender may still add |
//! | `refusal` | the end, said to the other side |
//! | `digest/` | what bytes are compared by |
//! | [`wire`] | the messages as bytes |
//! | `moves` | both ends in one process |
//!
//! **Invariants**
//! - The reservation lies inside the inbound until it is accepted, so that nothing can be read of it before.
//! - Each mismatch is an error of its own, with what was expected and what was found. The first one ends the handoff.
//! - What no digest covers is never accepted, unless the plan gave up digests by name.
//! - Pages that somebody outside may still write or read are quarantined until its ticket ends, however the handoff ends.
//! - An outbound holds committed tokens only, and its reservation with them: they neither change nor go while it exists.
//!
//! **Cost** Messages O(pages), times the parts that their layers are sent in; bytes one copy and one digest on the way out, one
//! digest on the way in.
//!
//! # Which call ends what
//!
//! | end | call | when | gives |
//! |---|---|---|---|
//! | receiver | [`Inbound::accept`] | it looks complete | the readable reservation, or [`NotYet`], or [`NotAccepted`] |
//! | | [`NotYet::give_up`] | nothing more will come | [`NotAccepted`]: the [`Refusal`] for the sender, and the request's end |
//! | | [`Inbound::refuse`] | a receipt was wrong | the same |
//! | | [`Inbound::refused`] | a sender refused | the request's end |
//! | | [`Inbound::reject`] | anything else, such as a client that is gone | the request's end |
//! | sender | [`Outbound::release`], [`Outbound::into_reservation`] | it was received | the pages go back, or go on |
//! | | [`Outbound::refused`] | a receiver refused | the request's end |
//! | | [`Outbound::reject`] | anything else; [`Outbound::refusal`] makes the message | the request's end |
//!
//! # Examples
//!
//! ```
//! use pagestamp::geometry::{Dtype, ElementFormat, HeadCache, KvLayout, ModelLayout, Slice};
//! use pagestamp::{CapacityPlan, HostMemory, Inbound, InboundPlan, Outbound, OwnerId, PagePool, PoolConfig, Request, Writer};
//!
//! let cache = HeadCache::new(2, 8, ElementFormat::plain(Dtype::F16));
//! let model = ModelLayout::new("tiny", "r1", KvLayout::new(16, 1, cache))?;
//! let slice = Slice::whole(&model);
//! let geometry = model.geometry(&slice)?;
//! let prefill = PagePool::new(PoolConfig::new(10), HostMemory::new(geometry.clone(), 10)?)?;
//! let decode = PagePool::new(PoolConfig::new(10), HostMemory::new(geometry, 10)?)?;
//! let plan = CapacityPlan::new(64);
//! let alice = OwnerId::new(1).ok_or("zero")?;
//!
//! // prefill computes a prompt of 20 tokens, decode reserves room for it and for one token more
//! let mut prompt = prefill.reserve(&prefill.prove(plan)?, Request::new(alice, 20), 20)?;
//! prompt.write(20, &[&[7; 20 * 32], &[9; 20 * 32]])?;
//! prompt.commit(20)?;
//! let mut outbound = Outbound::seal(prompt, &model, &slice)?;
//! let room = decode.reserve(&decode.prove(plan)?, Request::new(alice, 64), 21)?;
//! let mut inbound = Inbound::open(room, InboundPlan::new(&model, &slice, 20))?;
//!
//! let receipt = outbound.send(&inbound.offer(), &mut inbound.landing(Writer::ONLY)?)?;
//! inbound.receive(&receipt)?;
//! let kv = inbound.accept()?;
//! assert_eq!((kv.reserved_tokens(), kv.written_tokens(), kv.committed_tokens()), (21, 20, 20));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An engine that moves the bytes itself does what `send` does in its own way: it checks the offer, reads page by page,
//! digests what it read, and says in a receipt what it sent. The receiver puts what arrives.
//!
//! ```
//! # use pagestamp::geometry::{Dtype, ElementFormat, HeadCache, KvLayout, ModelLayout, Slice};
//! # use pagestamp::{CapacityPlan, HostMemory, Inbound, InboundPlan, Outbound, OwnerId, PagePool, PoolConfig, Request, Writer};
//! use pagestamp::{AcceptError, Checksum, Digester, PageHandle, Receipt, SentPart};
//!
//! # let cache = HeadCache::new(2, 8, ElementFormat::plain(Dtype::F16));
//! # let model = ModelLayout::new("tiny", "r1", KvLayout::new(16, 1, cache))?;
//! # let slice = Slice::whole(&model);
//! # let geometry = model.geometry(&slice)?;
//! # let prefill = PagePool::new(PoolConfig::new(10), HostMemory::new(geometry.clone(), 10)?)?;
//! # let decode = PagePool::new(PoolConfig::new(10), HostMemory::new(geometry, 10)?)?;
//! # let plan = CapacityPlan::new(64);
//! # let alice = OwnerId::new(1).ok_or("zero")?;
//! # let mut prompt = prefill.reserve(&prefill.prove(plan)?, Request::new(alice, 20), 20)?;
//! # prompt.write(20, &[&[7; 20 * 32], &[9; 20 * 32]])?;
//! # prompt.commit(20)?;
//! # let mut outbound = Outbound::seal(prompt, &model, &slice)?;
//! # let room = decode.reserve(&decode.prove(plan)?, Request::new(alice, 64), 21)?;
//! # let mut inbound = Inbound::open(room, InboundPlan::new(&model, &slice, 20))?;
//! // the pools, the sealed `outbound` and the open `inbound` are those of the example above
//! let offer = inbound.offer();
//!
//! // prefill: the parts it sends, each named by the handle of its destination, and the receipt
//! let sending = outbound.start(&offer)?;
//! let digester = Digester::new(offer.checksum(), None, offer.transfer(), &model, &slice)?;
//! let (mut parts, mut digests) = (Vec::new(), Vec::new());
//! let sealed = outbound.read(0..outbound.tokens())?;
//! for (ordinal, (page, destination)) in (0..).zip(sealed.pages().zip(offer.destinations())) {
//!     let mut digest = digester.page(ordinal, page.tokens().end);
//!     for (plane, shape) in prefill.geometry().planes().iter().enumerate() {
//!         let mut bytes = vec![0; page.tokens().len() * shape.token_bytes() as usize];
//!         page.copy(plane, &mut bytes)?;
//!         digest.update(&bytes);
//!         parts.push((*destination, plane, page.tokens(), bytes));
//!     }
//!     digests.push(digest.finish());
//! }
//! let part = SentPart::new(slice.clone(), sending.all_pages()).with_digests(0..2, digests); // K and V of the layer
//! let receipt = sending.receipt(vec![part]);
//!
//! // decode: what arrives, in whatever order; a destination counts only if it is one that was offered
//! inbound.receive(&receipt)?;
//! let Err(AcceptError::NotYet(not_yet)) = inbound.accept() else { return Err("no byte is there".into()) };
//! let mut inbound = not_yet.into_inbound();
//! let mut landing = inbound.landing(Writer::ONLY)?;
//! for (destination, plane, tokens, bytes) in parts.into_iter().rev() {
//!     let handle = PageHandle::<HostMemory>::from_bits(destination).ok_or("no handle")?;
//!     let ordinal = offer.destinations().iter().position(|offered| *offered == handle.to_bits());
//!     landing.put(ordinal.ok_or("not offered")? as u32, plane, tokens, &bytes)?;
//! }
//! drop(landing);
//! let kv = inbound.accept()?;
//! let mut values = [0; 20 * 32];
//! kv.read(0..20)?.copy(1, &mut values)?;
//! assert_eq!(values, [9; 20 * 32]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Most engines write from outside: a transport moves the bytes by addresses, under a ticket, and the receiver learns from
//! digests what is there. Here the "transport" is a copy between the pools; over RDMA the regions and the ticket travel to
//! prefill, and its "done" back, in messages of the engine's own.
//!
//! ```
//! # use pagestamp::geometry::{Dtype, ElementFormat, HeadCache, KvLayout, ModelLayout, Slice};
//! # use pagestamp::{CapacityPlan, HostMemory, Inbound, InboundPlan, Outbound, OwnerId, PagePool, PoolConfig, Request};
//! use pagestamp::handoff::{Regions, Route, Stretch};
//! use pagestamp::{AcceptError, HolderId, Message, Writer};
//!
//! # let cache = HeadCache::new(2, 8, ElementFormat::plain(Dtype::F16));
//! # let model = ModelLayout::new("tiny", "r1", KvLayout::new(16, 2, cache))?;
//! # let slice = Slice::whole(&model);
//! # let geometry = model.geometry(&slice)?;
//! # let prefill = PagePool::new(PoolConfig::new(10), HostMemory::new(geometry.clone(), 10)?)?;
//! # let decode = PagePool::new(PoolConfig::new(10), HostMemory::new(geometry, 10)?)?;
//! # let plan = CapacityPlan::new(64);
//! # let alice = OwnerId::new(1).ok_or("zero")?;
//! # let mut prompt = prefill.reserve(&prefill.prove(plan)?, Request::new(alice, 20), 20)?;
//! # prompt.write(20, &[&[7; 20 * 32], &[9; 20 * 32], &[5; 20 * 32], &[3; 20 * 32]])?;
//! # prompt.commit(20)?;
//! # let mut outbound = Outbound::seal(prompt, &model, &slice)?;
//! # let room = decode.reserve(&decode.prove(plan)?, Request::new(alice, 64), 21)?;
//! # let mut inbound = Inbound::open(room, InboundPlan::new(&model, &slice, 20))?;
//! // decode: the offer and the ticket go out
//! let ticket = inbound.open_writer(Writer::ONLY, Some(2_000_000_000))?;
//! let offer = inbound.offer().to_bytes()?;
//!
//! // prefill: pins its pages for the network card, and moves them batch by batch, only what is asked for
//! let Some(Message::Offer(offer)) = Message::read_from(&mut offer.as_slice())? else { return Err("no offer".into()) };
//! let sending = outbound.start(&offer)?;
//! let card = outbound.open_reader(HolderId(9), None)?;
//! let here = Regions::of_pool(&model, slice.clone(), &prefill)?;
//! let there = Regions::of_pool(&model, slice.clone(), &decode)?; // sent over when the two were paired
//! let route = Route::new(&model, sending.slice(), here, there)?;
//! let pages: Vec<u32> = outbound.handles().map(|handle| handle.index()).collect();
//! let destinations = sending.destination_pages();
//! let mut segments = Vec::new();
//! for batch in sending.batches() {
//!     let stretch = Stretch::new(offer.tokens(), &pages, &destinations).with_pages(batch);
//!     route.segments(&stretch, &mut segments)?;
//!     for segment in &segments {
//!         let from = std::ptr::with_exposed_provenance::<u8>(segment.source as usize);
//!         let to = std::ptr::with_exposed_provenance_mut::<u8>(segment.destination as usize);
//!         // SAFETY: pages of `prefill` under a read ticket, and of `decode` under a write ticket.
//!         unsafe { std::ptr::copy_nonoverlapping(from, to, segment.bytes as usize) };
//!     }
//! }
//! // SAFETY: (1) the card has read all that it will ever read for this ticket.
//! unsafe { prefill.ticket_done(card) }?;
//! let part = outbound.digest(&sending, sending.slice().layers(), sending.all_pages())?;
//! let receipt = sending.receipt(vec![part]);
//!
//! // decode: the receipt may come before the end of the ticket; nothing is readable before both
//! inbound.receive(&receipt)?;
//! let Err(AcceptError::NotYet(not_yet)) = inbound.accept() else { return Err("it may still write".into()) };
//! // SAFETY: (1) prefill said that every transfer under this ticket has ended.
//! unsafe { decode.ticket_done(ticket) }?;
//! let kv = not_yet.into_inbound().accept()?;
//! let mut values = [0; 20 * 32];
//! kv.read(0..20)?.copy(3, &mut values)?;
//! assert_eq!(values, [3; 20 * 32]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A sender that cannot serve the prompt says so, and a receipt for less than was reserved is not accepted. Either way the
//! request ends on both sides with its first error, and no page of it was readable.
//!
//! ```
//! # use pagestamp::geometry::{Dtype, ElementFormat, HeadCache, KvLayout, ModelLayout, Slice};
//! # use pagestamp::{CapacityPlan, HostMemory, Inbound, InboundPlan, Outbound, OwnerId, PagePool, PoolConfig, Request, Writer};
//! use pagestamp::{InboundError, Receipt};
//!
//! # let cache = HeadCache::new(2, 8, ElementFormat::plain(Dtype::F16));
//! # let model = ModelLayout::new("tiny", "r1", KvLayout::new(16, 1, cache))?;
//! # let slice = Slice::whole(&model);
//! # let geometry = model.geometry(&slice)?;
//! # let prefill = PagePool::new(PoolConfig::new(10), HostMemory::new(geometry.clone(), 10)?)?;
//! # let decode = PagePool::new(PoolConfig::new(10), HostMemory::new(geometry, 10)?)?;
//! # let plan = CapacityPlan::new(64);
//! # let alice = OwnerId::new(1).ok_or("zero")?;
//! // prefill ran one placeholder token of a prompt of 40, for which decode reserved 3 pages
//! let mut placeholder = prefill.reserve(&prefill.prove(plan)?, Request::new(alice, 40), 1)?;
//! placeholder.write(1, &[&[0; 32], &[0; 32]])?;
//! placeholder.commit(1)?;
//! let mut outbound = Outbound::seal(placeholder, &model, &slice)?;
//! let room = decode.reserve(&decode.prove(plan)?, Request::new(alice, 64), 41)?;
//! let mut inbound = Inbound::open(room, InboundPlan::new(&model, &slice, 40))?;
//! let offer = inbound.offer();
//!
//! // the sender finds it first: nothing is sent, and a refusal is the answer
//! let Err(error) = outbound.start(&offer) else { return Err("1 token is not 40".into()) };
//! let refusal = outbound.refusal(&offer, &error);
//! let at_prefill = outbound.reject(error);
//!
//! // had it declared "complete" instead, the receiver's own count would have ended the handoff
//! let receipt = Receipt::new(offer.transfer(), alice, model.clone(), Writer::ONLY).with_extent(1, 1, 1);
//! let Err(error) = inbound.receive(&receipt) else { return Err("1 page is not 3".into()) };
//! assert!(matches!(error, InboundError::Pages { expected_pages: 3, found_pages: 1 }));
//! let not_accepted = inbound.refuse(error); // its `refusal()` is the message for the sender
//! let at_decode = not_accepted.into_rejected(); // tell the client: it is an error, not an empty answer
//! assert_eq!((at_prefill.owner(), at_decode.owner()), (alice, alice));
//! assert!(refusal.reason().contains("1 pages (1 tokens) are sealed"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod appending;
mod bytes;
mod digest;
mod error;
mod fit;
mod inbound;
mod moves;
mod offer;
mod outbound;
mod receipt;
mod refusal;
#[cfg(test)]
mod tests;
mod verdict;
pub mod wire;

pub use appending::Appending;
pub use bytes::{Landed, Landing, Region, Regions, Route, Segment, SegmentError, Stretch};
pub use digest::{Checksum, Digest, DigestError, DigestKey, Digester, PageDigester};
pub use error::{LandError, OpenError, OutboundError, SealError, UnfitPool, WriterError};
pub use inbound::{Inbound, Received};
pub use moves::MoveError;
pub use offer::{InboundPlan, Offer, Sending, TilingError, Writer};
pub use outbound::Outbound;
pub use receipt::{Receipt, SentPart};
pub use refusal::Refusal;
pub use verdict::{AcceptError, InboundError, NotAccepted, NotYet};
pub use wire::{Message, MessageKind, WireError};

pub use crate::transfer::Side;
