//! A box of layers and pages that one list of digests speaks for.

use std::ops::Range;

use crate::geometry::Slice;
use crate::handoff::Digest;

/// Says what was sent of some pages: which layers and heads, which of their planes are digested, and the digest of each page.
///
/// A sender that streams layer by layer makes a part for each layer, or each few; one that sends all at once makes one part
/// for everything. A repeat is cut exactly as the first time, or it is another part that overlaps. Pages are named by their
/// ordinal in the sequence, those that the receiver held before included.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "a part belongs into a receipt"]
pub struct SentPart {
    group: u32,
    slice: Slice,
    pages: Range<u32>,
    planes: Range<u32>,
    digests: Vec<Digest>,
}

impl SentPart {
    /// Names a part of which nothing is digested: some layers of a writer's slice, and some pages.
    pub const fn new(slice: Slice, pages: Range<u32>) -> Self {
        Self { group: 0, slice, pages, planes: 0..0, digests: Vec::new() }
    }

    /// Sets the digest of each page in sequence order, and which planes of the slice they cover: all of them is
    /// `0..planes` of its [geometry](crate::geometry::ModelLayout::geometry), which no less is accepted for.
    pub fn with_digests(mut self, planes: Range<u32>, digests: Vec<Digest>) -> Self {
        (self.planes, self.digests) = (planes, digests);
        self
    }

    /// Sets which group of pages it is of a model with several (recurrent state beside attention). 0 is the only one that
    /// this version hands over.
    pub const fn with_group(mut self, group: u32) -> Self {
        self.group = group;
        self
    }

    /// Returns the group of pages.
    #[must_use]
    pub const fn group(&self) -> u32 {
        self.group
    }

    /// Returns the layers and heads.
    #[must_use]
    pub const fn slice(&self) -> &Slice {
        &self.slice
    }

    /// Returns the ordinals of the pages.
    #[must_use]
    pub const fn pages(&self) -> Range<u32> {
        self.pages.start..self.pages.end
    }

    /// Returns the planes of the slice that the digests cover.
    #[must_use]
    pub const fn planes(&self) -> Range<u32> {
        self.planes.start..self.planes.end
    }

    /// Returns the digest of each page, in sequence order.
    #[must_use]
    pub fn digests(&self) -> &[Digest] {
        &self.digests
    }
}
