//! What was sent, as the sender says it, and as the receiver counts it.

mod message;
mod sent_part;
pub(in crate::handoff) mod told;

pub use message::Receipt;
pub use sent_part::SentPart;
