//! What the bytes of a page are compared by, bound to the place that they are meant for.
//!
//! *Owns* the order in which a page is digested and what is digested with it. *Does not know* pools. The kinds stand side by side in the table of [`Checksum`].
//!
//! **Invariants.** The head that is digested with the bytes names the kind, so a value of one kind is none of another, but
//! for the chance of its bits. No digest is zero: CRC-32C fills the low 32 bits below a fixed tag, and a hash of zero becomes
//! one.
//!
//! **Cost.** O(bytes). No kind allocates per page or per piece.

#[cfg(feature = "blake3")]
mod blake3;
#[cfg(not(feature = "blake3"))]
#[path = "no_blake3.rs"]
mod blake3;
mod checksum;
mod crc32c;
mod digester;
mod error;
mod head;
mod key;
mod value;
mod xxh3;

#[cfg(test)]
mod tests;

pub use checksum::Checksum;
pub use digester::{Digester, PageDigester};
pub use error::DigestError;
pub use key::DigestKey;
pub use value::Digest;
