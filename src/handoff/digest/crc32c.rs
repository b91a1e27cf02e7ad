//! CRC-32C of the head, then the bytes.

use super::Digest;
use super::head::Head;
use crate::memory::Crc32c;

/// The high 96 bits of every digest of this kind: 32 bits of CRC may be zero, a digest may not.
const TAG: [u8; 12] = *b"pages.crc32c";

pub(super) struct Crc32cPage(Crc32c);

impl Crc32cPage {
    pub(super) fn begin(head: &[u8; Head::BYTES]) -> Self {
        let mut crc = Crc32c::new();
        crc.update(head);
        Self(crc)
    }

    #[inline]
    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(super) fn crc(&self) -> u32 {
        self.0.finish()
    }

    pub(super) fn finish(&self) -> Digest {
        Self::digest(self.crc())
    }

    pub(super) fn digest(crc: u32) -> Digest {
        let mut digest = [0; 16];
        digest[..12].copy_from_slice(&TAG);
        digest[12..].copy_from_slice(&crc.to_be_bytes());
        Digest::from_bytes(digest)
    }
}
