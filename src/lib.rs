//! A page pool whose pages carry an owner and a generation, so that no request reads another tenant's memory.

mod access;
mod admission;
mod config;
mod error;
mod filling;
pub mod geometry;
mod handle;
pub mod handoff;
mod hazard;
mod header;
mod id;
mod lease;
pub mod memory;
mod pool;
mod reservation;
mod stamp;
mod sync;
mod ticket;

pub use access::{PageGuard, PageView, ReadGuard};
pub use admission::{Admitted, CapacityPlan, CapacityProof, Rejected, Request};
pub use config::{CleanMode, OwnPages, PoolConfig};
pub use error::{
    AdmitError, AuditError, CapacityError, ConfigError, Error, ExtentError, GrowError, ReadError, Refused,
    RejectReason, ReleaseError, ReserveError, ResizeError, SuspendError, TicketError, WriteError,
};
pub use geometry::{PageGeometry, Plane};
pub use handle::PageHandle;
pub use handoff::{
    Checksum, Digest, Digester, Inbound, InboundError, LandError, Landed, Landing, NotAccepted, Offer, OpenError,
    Outbound, OutboundError, PageDigester, Receipt, Refusal, SealError, Side, UnfitPool,
};
pub use id::{Generation, OwnerId, PoolId, TransferId};
pub use memory::{ForeignMemory, HeldMemory, HostMemory, NullMemory, PageMemory};
pub use pool::{
    ClaimError, ClaimToken, CloseError, EraseReceipt, Maintained, PagePool, PoolStats, Reclaimed, Released, Resized,
    Scrubber, Suspended,
};
pub use reservation::{PlaneWriter, Reservation};
pub use stamp::PageState;
pub use ticket::{Access, HolderId, TicketId, TicketInfo};
