//! BLAKE3 of bytes alone.

use super::{Bare, SECRET};

pub(super) const BARE: Option<Bare> = Some(|bytes| {
    let mut first = [0; 16];
    first.copy_from_slice(&blake3::keyed_hash(&SECRET, bytes).as_bytes()[..16]);
    u128::from_be_bytes(first)
});
