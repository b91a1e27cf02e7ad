//! The bytes: how they get into pages that nobody can read yet.

use std::fmt;
use std::ops::Range;

use crate::access::WriteBorrow;
use crate::handoff::LandError;
use crate::handoff::coverage::{Coverage, Overlap, Part};
use crate::handoff::verdict::Expected;
use crate::id::TransferId;
use crate::memory::PageMemory;

/// Says what became of a part that landed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Landed {
    /// It was written.
    Now,
    /// Exactly this part had landed before: it counts once, and what is there stays.
    Before,
}

/// Takes the bytes of a handoff within the process, page by page and plane by plane, in any order.
///
/// It counts what arrived; what it has counted stays with the [`Inbound`](super::Inbound) when it is dropped. While it
/// lives, a reclaim of the owner leaves the pages to it.
#[must_use = "a landing takes bytes by `put`"]
pub struct Landing<'a, M: PageMemory> {
    pub(super) right: WriteBorrow<'a, M>,
    pub(super) expected: &'a Expected,
    pub(super) coverage: &'a mut Coverage,
}

impl<M: PageMemory> Landing<'_, M> {
    /// Returns which handoff it is.
    #[must_use]
    pub const fn transfer(&self) -> TransferId {
        self.expected.transfer
    }

    /// Returns the pages that are expected.
    #[must_use]
    pub const fn expected_pages(&self) -> u32 {
        self.expected.pages
    }

    /// Returns the tokens that are expected in the page with this ordinal; 0 when none is.
    #[must_use]
    pub fn expected_tokens(&self, page: u32) -> u32 {
        self.expected.tokens_in(page)
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
    /// - [`LandError::NoSuchPage`], [`LandError::NoSuchPlane`], [`LandError::EmptyPart`], [`LandError::PastExpected`],
    ///   [`LandError::Length`]: nothing was written; the right part may still come.
    /// - [`LandError::Overlap`]: nothing was written; the handoff can no longer be accepted.
    /// - [`LandError::Write`]: the memory refused, a device still cleans the page, or the owner was reclaimed meanwhile.
    pub fn put(&mut self, page: u32, plane: usize, tokens: Range<u32>, bytes: &[u8]) -> Result<Landed, LandError> {
        let expected_tokens = self.check_place(page, plane, &tokens)?;
        match self.coverage.compare(page, plane, &tokens, expected_tokens) {
            Part::Again => return Ok(Landed::Before),
            Part::Overlap(Overlap { page, plane, landed, sent }) => {
                return Err(LandError::Overlap { page, plane, landed, sent });
            }
            Part::New => {}
        }
        let count = tokens.end - tokens.start;
        let (given_bytes, expected_bytes) = (bytes.len() as u64, u64::from(count) * self.right.token_bytes(plane));
        if given_bytes != expected_bytes {
            return Err(LandError::Length { page, plane, tokens: count, given_bytes, expected_bytes });
        }
        self.right.store_part(page, plane, tokens.clone(), bytes)?;
        self.coverage.note(page, plane, tokens, expected_tokens);
        Ok(Landed::Now)
    }

    fn check_place(&self, page: u32, plane: usize, tokens: &Range<u32>) -> Result<u32, LandError> {
        let (expected_pages, planes) = (self.expected.pages, self.right.planes());
        if page >= expected_pages {
            return Err(LandError::NoSuchPage { page, expected_pages });
        }
        if plane >= planes {
            return Err(LandError::NoSuchPlane { plane, planes });
        }
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
        f.debug_struct("Landing").field("transfer", &self.transfer()).finish_non_exhaustive()
    }
}
