//! The secret of the keyed kinds.

use std::fmt;

use crate::memory::wipe;

/// Holds the secret that both sides of a handoff digest with, for [`Checksum::Blake3Keyed`](super::Checksum::Blake3Keyed).
///
/// `Debug` does not show it, nothing compares it, and its bytes are zeroed when it is dropped. Not zeroed are the array it
/// was made from, what a *move* of the key leaves behind, and what a hash leaves on the stack: make one where it stays, and
/// lend it. A [`Digester`](super::Digester) has a copy that stays where it is, and is zeroed with it.
#[derive(Clone)]
pub struct DigestKey(pub(super) [u8; Self::BYTES]);

impl DigestKey {
    /// Bytes of a secret.
    pub const BYTES: usize = 32;

    /// Takes a secret, which should be random and known to the two sides only.
    #[must_use]
    pub const fn new(secret: [u8; Self::BYTES]) -> Self {
        Self(secret)
    }
}

impl Drop for DigestKey {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey(..)")
    }
}
