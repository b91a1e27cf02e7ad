//! The bytes: how they get into pages that nobody can read yet.

use std::fmt;
use std::ops::Range;

use crate::access::WriteBorrow;
use crate::geometry::{LayoutError, Slice};
use crate::handoff::bytes::coverage::{Overlap, Part};
use crate::handoff::bytes::tile::{Target, Tile, targets};
use crate::handoff::verdict::expected::Expected;
use crate::handoff::{LandError, OutboundError, Sending};
use crate::id::TransferId;
use crate::memory::PageMemory;
use crate::ticket::HolderId;

/// Says what became of a part that landed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Landed {
    /// It was written.
    Now,
    /// Exactly this part had landed before: it counts once, and what is there stays.
    Before,
}

/// Takes the bytes of one writer within the process, page by page and plane by plane, in any order. Planes are those of the
/// writer's slice, as a pool of that slice alone has them.
///
/// It counts what arrived; what it has counted stays with the [`Inbound`](crate::handoff::Inbound) when it is dropped. While it
/// lives, a reclaim of the owner leaves the pages to it.
#[must_use = "a landing takes bytes by `put`"]
pub struct Landing<'a, M: PageMemory> {
    pub(in crate::handoff) right: WriteBorrow<'a, M>,
    pub(in crate::handoff) expected: &'a Expected,
    pub(in crate::handoff) tile: &'a mut Tile,
}

impl<M: PageMemory> Landing<'_, M> {
    /// Returns which handoff it is.
    #[must_use]
    pub const fn transfer(&self) -> TransferId {
        self.expected.transfer
    }

    /// Returns whose bytes it takes.
    #[must_use]
    pub const fn writer(&self) -> HolderId {
        self.tile.writer.holder()
    }

    /// Returns the pages that are expected, those that the receiver holds already included.
    #[must_use]
    pub const fn expected_pages(&self) -> u32 {
        self.expected.pages
    }

    /// Returns the tokens that are to land in the page with this ordinal; 0 when none is.
    #[must_use]
    pub fn expected_tokens(&self, page: u32) -> u32 {
        self.expected.tokens_to_land(page)
    }

    /// Writes some tokens of one plane of the page with this ordinal. bytes: `[tokens, runs, run_bytes]`, token by token.
    ///
    /// The same part again counts once, and its bytes are not looked at. A different part on tokens that landed is refused,
    /// and so is the handoff in the end: of two parts that overlap, one is wrong.
    ///
    /// # Cost
    ///
    /// One copy, no lock. Allocates for a part that is not a whole plane of a page.
    ///
    /// # Errors
    ///
    /// The part counts as missing still.
    ///
    /// - [`LandError::NoSuchPage`], [`LandError::Held`], [`LandError::NoSuchPlane`], [`LandError::EmptyPart`],
    ///   [`LandError::PastExpected`], [`LandError::Length`]: nothing was written; the right part may still come.
    /// - [`LandError::Overlap`]: nothing was written; the handoff can no longer be accepted.
    /// - [`LandError::Write`]: the memory refused, an outside writer is on the page or a device cleans it, or the owner was
    ///   reclaimed meanwhile.
    pub fn put(&mut self, page: u32, plane: usize, tokens: Range<u32>, bytes: &[u8]) -> Result<Landed, LandError> {
        self.check_page(page)?;
        let planes = self.tile.targets.len();
        let target = *self.tile.targets.get(plane).ok_or(LandError::NoSuchPlane { plane, planes })?;
        if self.begin(page, &target, &tokens)? == Landed::Before {
            return Ok(Landed::Before);
        }
        let count = tokens.end - tokens.start;
        let (given_bytes, expected_bytes) = (bytes.len() as u64, u64::from(count) * target.window.token_bytes());
        if given_bytes != expected_bytes {
            return Err(LandError::Length { page, plane, tokens: count, given_bytes, expected_bytes });
        }
        self.store(page, &target, tokens.clone(), bytes)?;
        self.end(page, &target, &tokens);
        Ok(Landed::Now)
    }

    /// Compares what a sender is to send with what is expected of it here. The offer that it was started from is a message,
    /// which may differ from the one that was made here in more than its number.
    pub(in crate::handoff) fn check(&self, sending: &Sending) -> Result<(), OutboundError> {
        let (expected, found) = (sending.transfer(), self.transfer());
        if expected != found {
            return Err(OutboundError::Transfer { expected, found });
        }
        let (expected, found) = (sending.writer(), self.writer());
        if expected != found {
            return Err(OutboundError::LandingOf { expected, found });
        }
        let (sealed, model) = (sending.offer().model(), &self.expected.model);
        if sealed != model {
            let (expected, found) = (Box::new(sealed.clone()), Box::new(model.clone()));
            return Err(OutboundError::Layout { expected, found });
        }
        let (expected, found) = (self.tile.writer.slice(), sending.slice());
        if expected != found {
            return Err(OutboundError::Slice { expected: expected.clone(), found: found.clone() });
        }
        Ok(())
    }

    /// Where each plane of a part of this writer goes.
    pub(in crate::handoff) fn targets(&self, part: &Slice) -> Result<Vec<Target>, LayoutError> {
        targets(&self.expected.model, &self.expected.slice, self.tile.writer.slice(), part)
    }

    /// Finds out whether a part is to be stored.
    pub(in crate::handoff) fn begin(
        &mut self,
        page: u32,
        target: &Target,
        tokens: &Range<u32>,
    ) -> Result<Landed, LandError> {
        self.check_page(page)?;
        let expected_tokens = self.check_tokens(page, tokens)?;
        let Tile { landed, .. } = &mut *self.tile;
        let found = landed.compare_all(page, target.units(), tokens, expected_tokens);
        match found {
            Part::Again => Ok(Landed::Before),
            Part::New => Ok(Landed::Now),
            Part::Overlap(Overlap { page, unit, landed, sent }) => {
                let (layer, plane) = self.tile.place_of(unit);
                Err(LandError::Overlap { page, layer, plane, landed, sent })
            }
        }
    }

    /// Stores some tokens of a part that has begun, which does not count yet.
    pub(in crate::handoff) fn store(
        &mut self,
        page: u32,
        target: &Target,
        tokens: Range<u32>,
        bytes: &[u8],
    ) -> Result<(), LandError> {
        Ok(self.right.store_part(page, &target.window, tokens, bytes)?)
    }

    /// As [`store`](Self::store), of one run. bytes: `[tokens, run_bytes]`.
    pub(in crate::handoff) fn store_run(
        &mut self,
        page: u32,
        target: &Target,
        run: u32,
        tokens: Range<u32>,
        bytes: &[u8],
    ) -> Result<(), LandError> {
        Ok(self.right.store_run(page, &target.window, run, tokens, bytes)?)
    }

    /// As [`store_run`](Self::store_run), of bytes from `offset` on of a plane of a full page, which the target's window shows
    /// whole.
    pub(in crate::handoff) fn store_whole(
        &mut self,
        page: u32,
        target: &Target,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), LandError> {
        Ok(self.right.store_whole(page, &target.window, offset, bytes)?)
    }

    /// Counts a part of which every token was stored.
    pub(in crate::handoff) fn end(&mut self, page: u32, target: &Target, tokens: &Range<u32>) {
        let expected_tokens = self.expected.tokens_to_land(page);
        for unit in target.units() {
            self.tile.landed.note(page, unit, tokens.clone(), expected_tokens);
        }
    }

    fn check_page(&self, page: u32) -> Result<(), LandError> {
        let (expected_pages, held_pages) = (self.expected.pages, self.expected.held_pages());
        if page >= expected_pages {
            return Err(LandError::NoSuchPage { page, expected_pages });
        }
        if page < held_pages {
            return Err(LandError::Held { page, held_pages });
        }
        Ok(())
    }

    fn check_tokens(&self, page: u32, tokens: &Range<u32>) -> Result<u32, LandError> {
        let (start_token, end_token) = (tokens.start, tokens.end);
        if start_token >= end_token {
            return Err(LandError::EmptyPart { page, start_token, end_token });
        }
        let expected_tokens = self.expected.tokens_in(page);
        if end_token > expected_tokens {
            return Err(LandError::PastExpected { page, to_tokens: end_token, expected_tokens });
        }
        Ok(expected_tokens)
    }
}

impl<M: PageMemory> fmt::Debug for Landing<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Landing")
            .field("transfer", &self.transfer())
            .field("writer", &self.writer())
            .finish_non_exhaustive()
    }
}
