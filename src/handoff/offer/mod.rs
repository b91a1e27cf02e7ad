//! What is wanted: the receiver's plan, the offer it makes of it, and the sender's check.

pub(in crate::handoff) mod check;
mod message;
pub(in crate::handoff) mod plan;
pub(in crate::handoff) mod sending;
pub(in crate::handoff) mod tiling;
mod writer;

pub use message::Offer;
pub use plan::InboundPlan;
pub use sending::Sending;
pub use tiling::TilingError;
pub use writer::Writer;
