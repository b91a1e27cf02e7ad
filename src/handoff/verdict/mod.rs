//! Whether what arrived is what was reserved: it is, not yet, never.

mod accept;
mod error;
pub(in crate::handoff) mod expected;
pub(in crate::handoff) mod verify;

pub use accept::{AcceptError, NotAccepted, NotYet};
pub use error::InboundError;
