//! What a receiver waits for, and the comparison of a receipt with it.
//!
//! *Owns* the order in which a receipt is judged. *Does not know* how bytes are reached, nor what landed before.

use std::num::NonZeroU32;

use crate::geometry::{Fingerprint, ModelLayout, Slice};
use crate::handoff::{Checksum, DigestError, DigestKey, Digester, InboundError, Receipt, SentPart};
use crate::id::{OwnerId, TransferId};
use crate::ticket::HolderId;

/// What a receiver reserved and waits for.
#[derive(Debug)]
pub(in crate::handoff) struct Expected {
    pub(in crate::handoff) transfer: TransferId,
    pub(in crate::handoff) owner: OwnerId,
    pub(in crate::handoff) model: ModelLayout,
    pub(in crate::handoff) slice: Slice,
    pub(in crate::handoff) tokens: u64,
    pub(in crate::handoff) held_tokens: u64,
    pub(in crate::handoff) pages: u32,
    pub(in crate::handoff) checksum: Checksum,
    pub(in crate::handoff) key: Option<DigestKey>,
    pub(in crate::handoff) batch_pages: NonZeroU32,
}

/// Tokens in the page with an ordinal, of a sequence of `tokens` tokens; 0 past its end.
pub(in crate::handoff) fn tokens_in_page(tokens: u64, page_tokens: u32, ordinal: u32) -> u32 {
    let first = u64::from(ordinal) * u64::from(page_tokens);
    // at most page_tokens, which is a u32
    tokens.saturating_sub(first).min(u64::from(page_tokens)) as u32
}

impl Expected {
    /// Tokens expected in a page.
    pub(in crate::handoff) fn tokens_in(&self, ordinal: u32) -> u32 {
        tokens_in_page(self.tokens, self.model.page_tokens(), ordinal)
    }

    /// Pages that the receiver holds already.
    pub(in crate::handoff) fn held_pages(&self) -> u32 {
        // whole pages, fewer than the reservation has
        (self.held_tokens / u64::from(self.model.page_tokens())) as u32
    }

    /// Tokens of a page that have to be sent.
    pub(in crate::handoff) fn tokens_to_land(&self, ordinal: u32) -> u32 {
        if ordinal < self.held_pages() { 0 } else { self.tokens_in(ordinal) }
    }

    /// Begins the digests of a slice.
    pub(in crate::handoff) fn digester(&self, meaning: Fingerprint) -> Result<Digester, DigestError> {
        Digester::over(self.checksum, self.key.as_ref(), self.transfer, meaning)
    }

    /// Compares what is the same in all receipts of the handoff.
    pub(in crate::handoff) fn judge_head(&self, receipt: &Receipt) -> Result<(), InboundError> {
        if receipt.owner() != self.owner {
            return Err(InboundError::Owner { expected: self.owner, found: receipt.owner() });
        }
        if *receipt.model() != self.model {
            let (expected, found) = (Box::new(self.model.clone()), Box::new(receipt.model().clone()));
            return Err(InboundError::Layout { expected, found });
        }
        self.judge_extent(receipt)?;
        if self.pages == 0 {
            return Ok(());
        }
        let has_no_digest = receipt.parts().is_empty() || receipt.checksum() == Checksum::BytesUnverified;
        if has_no_digest && self.is_verified() {
            return Err(InboundError::Unverified { page: 0, plane: 0 });
        }
        if receipt.checksum() != self.checksum {
            return Err(InboundError::Checksum { expected: self.checksum, found: receipt.checksum() });
        }
        Ok(())
    }

    fn judge_extent(&self, receipt: &Receipt) -> Result<(), InboundError> {
        let (expected_pages, found_pages) = (self.pages, receipt.pages());
        if found_pages != expected_pages {
            return Err(InboundError::Pages { expected_pages, found_pages });
        }
        let (expected_tokens, found_tokens) = (self.tokens, receipt.tokens());
        if found_tokens != expected_tokens {
            return Err(InboundError::Tokens { expected_tokens, found_tokens });
        }
        let (expected_tokens, found_tokens) =
            (self.tokens_in(self.pages.saturating_sub(1)), receipt.last_page_tokens());
        if found_tokens != expected_tokens {
            return Err(InboundError::Fill { expected_tokens, found_tokens });
        }
        let (expected_tokens, found_tokens) = (self.held_tokens, receipt.held_tokens());
        if found_tokens != expected_tokens {
            return Err(InboundError::Held { expected_tokens, found_tokens });
        }
        Ok(())
    }

    /// Whether digests are compared at all.
    pub(in crate::handoff) fn is_verified(&self) -> bool {
        self.checksum != Checksum::BytesUnverified
    }

    /// Compares a part with the slice of its writer.
    pub(in crate::handoff) fn judge_part(
        &self,
        writer: HolderId,
        tile: &Slice,
        part: &SentPart,
    ) -> Result<(), InboundError> {
        if part.group() != 0 {
            return Err(InboundError::Group { expected: 0, found: part.group() });
        }
        let (layers, all_layers) = (part.slice().layers(), tile.layers());
        let of_writer = layers.start >= all_layers.start && layers.end <= all_layers.end;
        if !of_writer || part.slice().heads() != tile.heads() {
            let (expected, found) = (tile.clone(), part.slice().clone());
            return Err(InboundError::Slice { writer, expected, found });
        }
        let pages = part.pages();
        if pages.is_empty() || pages.end > self.pages {
            return Err(InboundError::NoSuchPages { expected_pages: self.pages, found: pages });
        }
        if self.is_verified() { self.judge_digests(part) } else { judge_spare_digests(part) }
    }

    fn judge_digests(&self, part: &SentPart) -> Result<(), InboundError> {
        let (pages, covered) = (part.pages(), part.planes());
        // A slice of the model has planes: that was checked when the part's was found within the writer's.
        let planes = self.model.geometry(part.slice()).map_or(0, |geometry| geometry.planes().len() as u32);
        if covered.start > 0 || covered.end < planes {
            let plane = if covered.start > 0 { 0 } else { covered.end };
            return Err(InboundError::Unverified { page: pages.start, plane });
        }
        if covered.end > planes {
            return Err(InboundError::NoSuchPlanes { expected_planes: planes, found: covered });
        }
        if part.digests().is_empty() {
            return Err(InboundError::Unverified { page: pages.start, plane: 0 });
        }
        judge_count(part)?;
        match part.digests().iter().position(|digest| digest.is_zero()) {
            Some(at) => Err(InboundError::Unverified { page: pages.start + at as u32, plane: 0 }),
            None => Ok(()),
        }
    }
}

/// Compares what nobody will compare with bytes: a sender may give digests that were given up, and no more than one a page,
/// since they are kept.
fn judge_spare_digests(part: &SentPart) -> Result<(), InboundError> {
    if part.digests().is_empty() { Ok(()) } else { judge_count(part) }
}

fn judge_count(part: &SentPart) -> Result<(), InboundError> {
    // one that runs backward was refused before
    let (expected_digests, found_digests) = (part.pages().end - part.pages().start, part.digests().len() as u64);
    if found_digests == u64::from(expected_digests) {
        return Ok(());
    }
    Err(InboundError::DigestCount { expected_digests, found_digests })
}
