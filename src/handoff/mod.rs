//! Handoff (work in progress: messages and digests only).

mod digest;
mod offer;
mod receipt;
mod refusal;
mod sent_part;
pub mod wire;
mod writer;

pub use digest::{Checksum, Digest, DigestError, DigestKey, Digester, PageDigester};
pub use offer::Offer;
pub use receipt::Receipt;
pub use refusal::{Refusal, Side};
pub use sent_part::SentPart;
pub use wire::{Message, MessageKind, WireError};
pub use writer::Writer;
