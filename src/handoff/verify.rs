//! Digests what is there, and compares it with what the writers said.
//!
//! *Owns* the receiver's reading of bytes that nobody else can read yet. O(bytes): one read and one digest, in chunks that
//! stay in the first-level cache.

use crate::access::WriteBorrow;
use crate::error::WriteError;
use crate::geometry::PlaneWindow;
use crate::handoff::tile::Tile;
use crate::handoff::verdict::Expected;
use crate::handoff::{Digest, Digester, InboundError, PageDigester, SentPart};
use crate::memory::{PageMemory, Scratch};

/// Bytes that are read and digested at once: they stay in the first-level cache, and BLAKE3 needs as many for its speed.
pub(super) const CHUNK_BYTES: u64 = 16 << 10;

/// Tokens that go into one chunk.
pub(super) fn chunk_tokens(token_bytes: u64) -> u32 {
    // at most CHUNK_BYTES, which is a u32
    (CHUNK_BYTES / token_bytes.max(1)).max(1) as u32
}

/// Room for a chunk of any of these windows.
pub(super) fn chunk_for(windows: &[PlaneWindow]) -> Scratch {
    let chunk = |window: &PlaneWindow| u64::from(chunk_tokens(window.token_bytes())) * window.token_bytes();
    Scratch::of_bytes(windows.iter().map(chunk).max().unwrap_or(0))
}

/// Compares the digests of all parts of all writers.
pub(super) fn verify<M: PageMemory>(
    right: &mut WriteBorrow<'_, M>,
    expected: &Expected,
    tiles: &[Tile],
) -> Result<(), InboundError> {
    if !expected.is_verified() {
        return Ok(());
    }
    for tile in tiles {
        for part in tile.told.parts() {
            verify_part(right, expected, tile, part)?;
        }
    }
    Ok(())
}

fn verify_part<M: PageMemory>(
    right: &mut WriteBorrow<'_, M>,
    expected: &Expected,
    tile: &Tile,
    part: &SentPart,
) -> Result<(), InboundError> {
    let (model, slice) = (&expected.model, part.slice());
    let writer = tile.writer.holder();
    // Slices and kind were checked when the inbound was opened and when the part was taken; what could still fail is
    // treated as what it would be, bytes that nothing covers.
    let unverified = InboundError::Unverified { page: part.pages().start, plane: 0 };
    let Ok(windows) = model.windows(&expected.slice, slice) else { return Err(unverified) };
    let Ok(meaning) = model.slice_fingerprint(slice) else { return Err(unverified) };
    let Ok(digester) = expected.digester(meaning) else { return Err(unverified) };
    let mut reader = Reader::new(right, digester, windows);
    for (page, found) in part.pages().zip(part.digests().iter().copied()) {
        let computed = reader.digest(page, expected.tokens_in(page))?;
        if computed != found {
            let slice = slice.clone();
            return Err(InboundError::Digest { writer, page, slice, expected: computed, found });
        }
    }
    Ok(())
}

/// Reads and digests pages of a right, written or not.
pub(super) struct Reader<'r, 'a, M: PageMemory> {
    right: &'r mut WriteBorrow<'a, M>,
    digester: Digester,
    windows: Vec<PlaneWindow>,
    scratch: Scratch,
}

impl<'r, 'a, M: PageMemory> Reader<'r, 'a, M> {
    pub(super) fn new(right: &'r mut WriteBorrow<'a, M>, digester: Digester, windows: Vec<PlaneWindow>) -> Self {
        Self { right, digester, scratch: chunk_for(&windows), windows }
    }

    pub(super) fn digest(&mut self, page: u32, tokens: u32) -> Result<Digest, WriteError> {
        let mut digest = self.digester.page(page, tokens);
        for at in 0..self.windows.len() {
            self.digest_plane(&mut digest, page, at, tokens)?;
        }
        Ok(digest.finish())
    }

    fn digest_plane(&mut self, digest: &mut PageDigester, page: u32, at: usize, tokens: u32) -> Result<(), WriteError> {
        let window = self.windows[at];
        let step = chunk_tokens(window.token_bytes());
        let mut first = 0;
        while first < tokens {
            let end = tokens.min(first.saturating_add(step));
            let bytes = self.scratch.take((u64::from(end - first) * window.token_bytes()) as usize);
            self.right.load_part(page, &window, first..end, bytes)?;
            digest.update(bytes);
            first = end;
        }
        Ok(())
    }
}
