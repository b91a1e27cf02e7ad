//! A page pool for the memory of hosts and CUDA devices in which every page carries an owner and a generation, so that no
//! request ever reads another tenant's bytes.
//!
//! # The problem
//!
//! Systems that pool and reuse memory (the paged KV cache of an inference engine, the session slots of a game server) hand
//! one tenant's memory to the next. In 2026, as was publicly reported, a hosted model answered 155 requests with text from other customers' prompts: a
//! prompt larger than the pool was rejected, but the rejection was stored where admission did not look; one page of eight
//! was transferred and declared complete; attention read seven stale pages; the client got HTTP 200. Every step broke an
//! invariant that no code enforced. Here each is a type or a check:
//!
//! | step that failed | kept by |
//! |---|---|
//! | a pool smaller than what was advertised | [`PagePool::prove`]: no admission without a [`CapacityProof`] of the live pool |
//! | a rejection that did not stick | [`Rejected`] is terminal: no function takes it as a request |
//! | a sender that declared "complete" | [`handoff`]: the receiver counts, compares and digests what arrived |
//! | attention over unwritten pages | `reserved >= written >= committed`; a read past what is written is [`ReadError::Unwritten`] |
//! | a wrong table of pages in front of a kernel | `memory::cuda`: the device compares page, generation and owner before attention reads |
//! | pages with their last tenant's bytes | release bumps the generation at once, and zeroes before anyone else has the page |
//! | pages freed under a writer | [tickets](TicketId), [steps](Step) and guards quarantine; time frees nothing |
//!
//! # Example
//!
//! ```
//! use pagestamp::{CapacityPlan, HostMemory, OwnerId, PageGeometry, PagePool, Plane, PoolConfig, ReadError, Request};
//!
//! let geometry = PageGeometry::new(16, &[Plane::per_token(1, 64)])?; // 16 tokens a page, 64 bytes a token
//! let pool = PagePool::new(PoolConfig::new(66), HostMemory::new(geometry, 66)?)?;
//! let proof = pool.prove(CapacityPlan::new(512).with_headroom(2.0)?)?; // two largest requests fit
//!
//! let (alice, bob) = (OwnerId::new(1).ok_or("zero")?, OwnerId::new(2).ok_or("zero")?);
//! let mut kv = pool.reserve(&proof, Request::new(alice, 512), 16)?;
//! kv.write(1, &[&[7; 64]])?;
//! let page = kv.handle(0).ok_or("no page")?;
//! assert!(matches!(pool.read(bob, page), Err(ReadError::ForeignOwner { .. })));
//! kv.release();
//! assert!(matches!(pool.read(alice, page), Err(ReadError::Stale { .. })));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Lifecycle
//!
//! ```text
//!  CapacityPlan ──prove──▶ CapacityProof
//!                               │
//!  Request ──────admit──────────┴─▶ Admitted ──reserve──▶ Reservation ──release──▶ generation + 1
//!     │             │                  │                   │  grow, write, commit,      │
//!     │           Full: the request    │                   │  truncate, read, pin       ▼
//!     │           comes back           │                   │                  quarantined while a guard,
//!     └────reject───▶ Rejected ◀─reject┴────────reject─────┘                  a borrow or a ticket holds it
//!                    (terminal)                                                          │
//!                                                            free ◀── zeroed ◀── cleaning ◀ evict ◀ cached ◀── published
//! ```
//!
//! A reservation's full pages can be [published](Reservation::publish): then they stay when it is released, cached, until a
//! request of the same owner [finds](PagePool::lookup) them or their room is needed.
//!
//! # The contract
//!
//! Clauses C1 to C12 are in [`_design::invariants`], each with the place that keeps it; tests carry their tags. In short: *no
//! handle used through this API, in this process, ever yields bytes written under another generation; and a page that leaves
//! its owner is zeroed before it is handed out again.*
//!
//! **A stale handle** fails with [`ReadError::Stale`], for ever. A page is issued at most 2^40 - 2 times and then retires; it
//! never wraps. Handles of another process image are refused with probability 1 - 2^-56. A handle is no capability: reads
//! name the owner too.
//!
//! **Taken on trust:** [`Reservation::assume_written`] and [`Reservation::wrote`] (a lie shows zeros or the owner's own older bytes), and behind `unsafe`:
//! the end of steps and tickets (or, said when a ticket is given, which process has it: then the kernel tells its end), foreign
//! planes, raw addresses.
//!
//! **Out of scope:** timing channels of prefix sharing inside one owner, other processes on the same device memory, code that
//! lies where it is trusted.
//!
//! # What it costs
//!
//! 28 bytes per page of the memory (24 of stamp, 4 in the free list; at most 1 more under [`Placement::Contiguous`]), 4 to 8
//! more while a reservation holds it, and while it is published at most 44 and its token ids; one short lock per reserve and release, none per read. `cargo bench --bench bars` measures all of it beside plain structures.
//!
//! # Features
//!
//! Additive, and off by default:
//!
//! | feature | adds |
//! |---|---|
//! | `blake3` | [`Checksum::Blake3Keyed`]: digests that who has not the key cannot forge |
//! | `cuda` | `memory::cuda`: pages in a device's memory, and the check that the device makes itself; the driver is found at run time |
//!
//! Linux only: elsewhere the build stops.
//!
//! # Memories
//!
//! | memory | bytes live in |
//! |---|---|
//! | [`HostMemory`] | an anonymous map, guard pages around each plane, not in core dumps |
//! | [`NullMemory`] | nowhere: bookkeeping for engines that keep their own |
//! | [`ForeignMemory`] | planes that the engine allocated |
//! | `CudaMemory`, with the feature `cuda` | a CUDA device: slabs, or planes that the engine allocated |
//! | [`HeldMemory`] | a test double whose cleaning ends when told |
//!
//! # Neighbours
//!
//! `slotmap`, `sharded-slab` and `generational-arena` give generational handles to values, without owner, zeroing or guards that
//! outlive a release. `kvbm-logical` gives typestate blocks for KV caches, without owner or generation. An allocator of an
//! engine gives indices. No engine that we read combines owner, generation, zeroing on release and a receiver's own count by
//! default.
//!
//! # Where to look
//!
//! [`PagePool`] is the pool, [`Reservation`] the pages of a request, [`PrefixTokens`] what is shared, [`OwnerQuota`] what an owner
//! may have, [`error`] what each error means for retry, HTTP and
//! operators, [`geometry`] the layouts of KV caches, [`memory`] how to bring a memory of one's own, [`table`] what kernels are given, [`handoff`] prefill to decode, between pools and processes,
//! [`SlotPool`] the slots of a game server, and [`game_servers`] the page for its authors, [`_design`] why it is built so.

mod access;
mod admission;
mod claims;
mod config;
pub mod error;
mod export;
mod filling;
mod free_list;
mod free_runs;
pub mod geometry;
mod handle;
pub mod handoff;
mod hazard;
mod header;
mod id;
mod lease;
pub mod memory;
mod plane_writer;
mod pool;
mod prefix;
mod quota;
mod reservation;
mod reshape;
mod slots;
mod stamp;
mod step;
mod sync;
pub mod table;
mod ticket;
mod transfer;
mod walk;

pub mod _design;

#[doc = include_str!("game_servers.md")]
pub mod game_servers {}

pub use access::{PageGuard, PageView, ReadGuard};
pub use admission::{Admitted, CapacityPlan, CapacityProof, Rejected, Request};
pub use config::{CleanMode, OwnPages, Placement, PoolConfig};
pub use error::{
    AdmitError, AuditError, CapacityError, ConfigError, Error, ExportError, ExtentError, ForkError, GrowError,
    PublishError, ReadError, Refused, RejectReason, ReleaseError, ReserveError, ResizeError, RowError, SlotClaimError,
    SlotError, StepError, SuspendError, TableError, TicketError, TransferError, WriteError,
};
pub use geometry::{PageGeometry, Plane};
pub use handle::PageHandle;
pub use handoff::{
    AcceptError, Appending, Checksum, Digest, DigestError, DigestKey, Digester, Inbound, InboundError, InboundPlan,
    LandError, Landed, Landing, Message, MessageKind, MoveError, NotAccepted, NotYet, Offer, OpenError, Outbound,
    OutboundError, PageDigester, Receipt, Received, Refusal, SealError, Sending, SentPart, TilingError, UnfitPool,
    WireError, Writer, WriterError,
};
pub use id::{Generation, OwnerId, PoolId, TransferId};
pub use memory::{ForeignMemory, HeldMemory, HolderProcess, HostMemory, NullMemory, PageMemory, ProcessError};
pub use plane_writer::PlaneWriter;
pub use pool::{
    ClaimError, ClaimToken, CloseError, EraseReceipt, Maintained, PagePool, PoolStats, Reclaimed, Released, Resized,
    RoomId, Scrubber, Suspended,
};
pub use prefix::{Prefix, PrefixEvent, PrefixExtra, PrefixKey, PrefixTokens, Retention};
pub use quota::{Limit, OwnerQuota, QuotaInfo};
pub use reservation::Reservation;
pub use slots::{
    ReclaimedSlots, ReleasedSlots, Reset, SecondaryMap, SlotConfig, SlotGroup, SlotHandle, SlotMut, SlotPool, SlotRef,
    SlotStats, ValueRefused, Visited, Whose, ZeroBytes,
};
pub use stamp::PageState;
pub use step::{Step, StepEnd, StepId, StepInfo, StepLoss};
pub use ticket::{Access, HolderId, TicketId, TicketInfo};
pub use transfer::{Side, TransferInfo};

/// The README's code runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
