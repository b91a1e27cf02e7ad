//! A buffer on the heap for bytes of pages on their way, which are gone when it is dropped.

use super::wipe::wipe;
use crate::geometry::PageGeometry;

/// Room for some bytes of pages. Never grows, so that no copy is left behind; zeroed when dropped.
pub(crate) struct Scratch {
    bytes: Box<[u8]>,
}

impl Scratch {
    pub(crate) fn for_tokens(geometry: &PageGeometry, tokens: u32) -> Self {
        Self::of_bytes(geometry.planes().iter().map(|plane| plane.token_bytes() * u64::from(tokens)).max().unwrap_or(0))
    }

    pub(crate) fn of_bytes(bytes: u64) -> Self {
        Self { bytes: vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)].into() }
    }

    /// The first `len` bytes, with whatever was put there last.
    pub(crate) fn take(&mut self, len: usize) -> &mut [u8] {
        &mut self.bytes[..len]
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        wipe(&mut self.bytes);
    }
}
