//! Says when pages that another pool filled may be read: when the receiver's own count fits, and not when the sender says so.
//!
//! **Owns** the three messages ([`Offer`], [`Receipt`], [`Refusal`]), the two ends ([`Inbound`], [`Outbound`]), what has
//! landed, the digests and the verdict. **Does not know** networks: the engine moves bytes and messages.
//!
//! ```text
//!   decode                                              prefill
//!   Inbound::open(reservation)                          Outbound::seal(reservation)
//!        │ offer ───────────────────────────────────────────▶ check: is this what I sealed?
//!        │                                                     │ no: Refusal ──▶ both ends reject
//!        │ landing ◀──────────────── bytes ─────────────────── send
//!        │ accept  ◀─────────────── receipt ──────────────────┘
//!        ▼
//!   all fits: the reservation, written and committed
//!   else:     Rejected; the pages are cleaned and were never readable
//! ```
//!
//! **Invariants**
//! - The reservation lies inside the inbound until it is accepted, so that nothing can be read of it before.
//! - Each mismatch is an error of its own, with what was expected and what was found. The first one ends the handoff.
//! - What no digest covers is never accepted.
//! - An outbound holds committed tokens only, and its reservation with them: they neither grow nor go while it exists.
//!
//! **Cost** Messages O(pages), bytes one copy and one digest on the way out, one digest on the way in.
//!
//! # Examples
//!
//! ```
//! use pagestamp::geometry::{Dtype, ElementFormat, HeadCache, KvLayout, ModelLayout, Slice};
//! use pagestamp::{CapacityPlan, HostMemory, Inbound, Outbound, OwnerId, PagePool, PoolConfig, Request};
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
//! let outbound = Outbound::seal(prompt, &model, &slice)?;
//! let room = decode.reserve(&decode.prove(plan)?, Request::new(alice, 64), 21)?;
//! let mut inbound = Inbound::open(room, &model, &slice, 20)?;
//!
//! let receipt = outbound.send(&inbound.offer(), &mut inbound.landing()?)?;
//! let kv = inbound.accept(&receipt)?;
//! assert_eq!((kv.reserved_tokens(), kv.written_tokens(), kv.committed_tokens()), (21, 20, 20));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod coverage;
mod digest;
mod error;
mod inbound;
mod landing;
mod offer;
mod outbound;
mod receipt;
mod refusal;
mod verdict;

pub use digest::{Checksum, Digest, Digester, PageDigester};
pub use error::{LandError, OpenError, OutboundError, SealError, UnfitPool};
pub use inbound::Inbound;
pub use landing::{Landed, Landing};
pub use offer::Offer;
pub use outbound::Outbound;
pub use receipt::Receipt;
pub use refusal::{Refusal, Side};
pub use verdict::{InboundError, NotAccepted};
