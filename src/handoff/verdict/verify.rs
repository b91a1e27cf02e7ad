//! Digests what is there, and compares it with what the writers said.
//!
//! *Owns* the receiver's reading of bytes that nobody else can read yet. O(bytes): one read and one digest, in place
//! where the CPU can address the pages.

use crate::access::WriteBorrow;
use crate::error::WriteError;
use crate::geometry::PlaneWindow;
use crate::handoff::bytes::tile::Tile;
use crate::handoff::verdict::expected::Expected;
use crate::handoff::{Digest, Digester, InboundError, SentPart};
use crate::memory::PageMemory;

/// Compares the digests of all parts of all writers.
pub(in crate::handoff) fn verify<M: PageMemory>(
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
    let pages = part.pages().map(|page| (page, expected.tokens_in(page)));
    let mut told = part.pages().zip(part.digests().iter().copied());
    reader.digests(pages, |computed| {
        let Some((page, found)) = told.next() else { return Ok(()) };
        if computed != found {
            let slice = slice.clone();
            return Err(if page < expected.held_pages() {
                InboundError::HeldDigest { writer, page, slice, here: computed, told: found }
            } else {
                InboundError::Digest { writer, page, slice, here: computed, told: found }
            });
        }
        Ok(())
    })
}

/// Reads and digests pages of a right, written or not.
pub(in crate::handoff) struct Reader<'r, 'a, M: PageMemory> {
    right: &'r mut WriteBorrow<'a, M>,
    digester: Digester,
    windows: Vec<PlaneWindow>,
}

impl<'r, 'a, M: PageMemory> Reader<'r, 'a, M> {
    pub(in crate::handoff) const fn new(
        right: &'r mut WriteBorrow<'a, M>,
        digester: Digester,
        windows: Vec<PlaneWindow>,
    ) -> Self {
        Self { right, digester, windows }
    }

    /// Digests pages, each with so many tokens, and tells them one after the other: where they are, if the memory can do that.
    pub(in crate::handoff) fn digests<E: From<WriteError>>(
        &mut self,
        pages: impl Iterator<Item = (u32, u32)> + Clone,
        mut each: impl FnMut(Digest) -> Result<(), E>,
    ) -> Result<(), E> {
        if M::DIGESTS_IN_PLACE
            && let Some(mut crcs) = self.digester.in_place(pages.clone())
            && let Some(done) = self.right.crc32c(&self.windows, &mut crcs)
        {
            done?;
            return crcs.iter().map(Digester::of_crc).try_for_each(each);
        }
        for (page, tokens) in pages {
            let digest = self.digest(page, tokens)?;
            each(digest)?;
        }
        Ok(())
    }

    fn digest(&mut self, page: u32, tokens: u32) -> Result<Digest, WriteError> {
        let mut digest = self.digester.page(page, tokens);
        for window in &self.windows {
            if let Some(shown) = self.right.look_whole(page, window, tokens, &mut |_, bytes| digest.update(bytes)) {
                shown?;
                continue;
            }
            for run in 0..window.runs() {
                self.right.look(page, window, run, 0..tokens, &mut |_, bytes| digest.update(bytes))?;
            }
        }
        Ok(digest.finish())
    }
}
