//! Why no segments were written.

use thiserror::Error;

use crate::geometry::{LayoutError, PageGeometry};
use crate::handoff::error::Shape;
use crate::transfer::Side;

/// Says why the places of pages do not make up regions, a route or segments.
///
/// Nothing was written: the caller's buffer is empty. No address is in any of these.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SegmentError {
    /// A slice is not of the model, or the tile is not part of a side's slice.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The memory or the regions are of pages of another shape than the model's slice.
    #[error(
        "the slice needs {}, these are {}; name the model and the slice that the pool was made for",
        Shape(expected),
        Shape(found)
    )]
    OtherShape {
        /// Shape that follows from the model and the slice.
        expected: PageGeometry,
        /// Shape that is there.
        found: PageGeometry,
    },
    /// A region is missing, or there is one too many.
    #[error("{regions} regions were given, pages of the slice have {planes} planes: give one for each plane, in order")]
    RegionCount {
        /// Regions that were given.
        regions: usize,
        /// Planes of a page.
        planes: usize,
    },
    /// A region's pages have another size than the plane's.
    #[error(
        "pages of region {plane} have {region_page_bytes} bytes, those of the plane {page_bytes}: give the regions in the order of the planes"
    )]
    PageBytes {
        /// Index of the plane.
        plane: usize,
        /// Bytes of a page in the region.
        region_page_bytes: u64,
        /// Bytes of a page in the plane.
        page_bytes: u64,
    },
    /// Pages of a region would overlap.
    #[error(
        "region {plane} has a stride of {stride_bytes} bytes, a page of it takes {page_bytes}: give a stride of at least one page"
    )]
    StrideTooSmall {
        /// Index of the plane.
        plane: usize,
        /// Bytes from one page's start to the next one's.
        stride_bytes: u64,
        /// Bytes of a page.
        page_bytes: u64,
    },
    /// A region would end past the last address.
    #[error(
        "region {plane} of {max_pages} pages at a stride of {stride_bytes} bytes ends past the last address: give the address of its first page"
    )]
    PastAddresses {
        /// Index of the plane.
        plane: usize,
        /// Pages of the region.
        max_pages: u32,
        /// Bytes from one page's start to the next one's.
        stride_bytes: u64,
    },
    /// A side's list of pages is not as long as the sequence.
    #[error("the {side} names {given_pages} pages, the sequence has {expected_pages}: give all of them, in its order")]
    PageCount {
        /// Whose list.
        side: Side,
        /// Pages in the list.
        given_pages: u64,
        /// Pages of the sequence.
        expected_pages: u64,
    },
    /// A side's list names a page that its regions do not have.
    #[error("the {side}'s page {ordinal} of the sequence is {page}, its regions have 0..{max_pages}: pair again")]
    NoSuchPage {
        /// Whose list.
        side: Side,
        /// Ordinal in the sequence.
        ordinal: u32,
        /// The page's index.
        page: u32,
        /// Pages of the regions.
        max_pages: u32,
    },
    /// What the receiver holds already is no number of whole pages of the sequence.
    #[error("{held_tokens} of {tokens} tokens are held, pages have {page_tokens}: whole pages only are held")]
    HeldTokens {
        /// Tokens that the receiver holds.
        held_tokens: u64,
        /// Tokens of the sequence.
        tokens: u64,
        /// Tokens of a page.
        page_tokens: u32,
    },
    /// Pages were asked for that the sequence does not have.
    #[error("pages {start}..{end} were asked for, the sequence has 0..{pages}: count them in the sequence")]
    PagesOutside {
        /// First ordinal asked for.
        start: u32,
        /// One past the last.
        end: u32,
        /// Pages of the sequence.
        pages: u64,
    },
}
