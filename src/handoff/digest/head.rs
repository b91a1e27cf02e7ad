//! What a digest covers besides the bytes.

use super::Checksum;
use crate::geometry::Fingerprint;
use crate::id::TransferId;

/// Raised whenever what a digest covers, or its order, changes.
const VERSION: u32 = 1;

const DOMAIN: &[u8] = b"pagestamp.page-digest";

/// The place that a page's bytes are meant for, in a fixed form: no two places have one head.
///
/// | bytes | hold |
/// |---|---|
/// | 0..28 | the domain, filled up with zeroes |
/// | 28..32 | the version |
/// | 32..48 | the name of the kind, filled up with zeroes |
/// | 48..64 | the transfer |
/// | 64..80 | the slice fingerprint |
/// | 80..120 | zeroes |
/// | 120..124 | the page's ordinal |
/// | 124..128 | its fill in tokens |
///
/// Numbers are little-endian, the fingerprint is as it travels. The length is a multiple of 64, so that hashes which take
/// that many bytes at once find a page as aligned as it was.
#[derive(Clone)]
pub(super) struct Head([u8; Self::BYTES]);

impl Head {
    pub(super) const BYTES: usize = 128;

    pub(super) fn new(checksum: Checksum, transfer: TransferId, meaning: Fingerprint) -> Self {
        let mut head = Self([0; Self::BYTES]);
        head.put(0, DOMAIN);
        head.put(28, &VERSION.to_le_bytes());
        head.put(32, checksum.name().as_bytes());
        head.put(48, &transfer.to_bits().to_le_bytes());
        head.put(64, &meaning.to_bytes());
        head
    }

    /// The head of one page.
    pub(super) fn of_page(&self, ordinal: u32, tokens: u32) -> [u8; Self::BYTES] {
        let mut page = self.clone();
        page.put(120, &ordinal.to_le_bytes());
        page.put(124, &tokens.to_le_bytes());
        page.0
    }

    fn put(&mut self, at: usize, field: &[u8]) {
        self.0[at..at + field.len()].copy_from_slice(field);
    }
}
