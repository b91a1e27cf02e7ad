//! Why a shape was refused.

use thiserror::Error;

/// Says why a page geometry cannot exist, or why a question about it has no answer.
///
/// Nothing is allocated or changed when one of these comes back.
#[non_exhaustive]
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum GeometryError {
    /// A page would hold no token.
    #[error("a page of 0 tokens was asked for, the least is 1: give page_tokens of at least 1")]
    ZeroPageTokens,
    /// A page would hold more tokens than its extent word can count.
    #[error(
        "a page of {page_tokens} tokens was asked for, the limit is {max_page_tokens}: use smaller pages and more of them"
    )]
    TooManyPageTokens {
        /// Tokens per page that were asked for.
        page_tokens: u32,
        /// Most tokens that a page can hold.
        max_page_tokens: u32,
    },
    /// No plane was given.
    #[error("a page without planes was asked for, the least is 1: give at least one plane")]
    ZeroPlanes,
    /// More planes than the limit were given.
    #[error(
        "a page of {planes} planes was asked for, the limit is {max_planes}: interleave K and V, or give each slice of layers its own pool"
    )]
    TooManyPlanes {
        /// Planes that were asked for.
        planes: usize,
        /// Most planes that a page can have.
        max_planes: usize,
    },
    /// A plane would hold no byte of a token.
    #[error(
        "plane {plane} has {runs} runs of {run_bytes} bytes per token, the least is 1 run of 1 byte: leave the plane out or give its true size"
    )]
    EmptyPlane {
        /// Index of the plane in the order given.
        plane: usize,
        /// Runs per token that were asked for.
        runs: u32,
        /// Bytes per run that were asked for.
        run_bytes: u32,
    },
    /// An opaque page would hold no byte.
    #[error("an opaque page of 0 bytes was asked for, the least is 1: give page_bytes of at least 1")]
    ZeroPageBytes,
    /// One page of all planes together would be larger than the limit.
    #[error(
        "a page of {page_bytes} bytes was asked for, the limit is {max_page_bytes}: use fewer tokens per page or fewer bytes per token"
    )]
    PageTooLarge {
        /// Bytes of one page of all planes together.
        page_bytes: u128,
        /// Most bytes that such a page can have.
        max_page_bytes: u64,
    },
    /// The geometry has no plane of this index.
    #[error("plane {plane} was asked for, there are {planes}: count planes from 0")]
    NoSuchPlane {
        /// Index that was asked for.
        plane: usize,
        /// Planes that there are.
        planes: usize,
    },
    /// Pages at this stride would overlap.
    #[error(
        "plane {plane} has a stride of {stride_bytes} bytes, a page of it takes {page_bytes}: give a stride of at least one page"
    )]
    StrideTooSmall {
        /// Index of the plane.
        plane: usize,
        /// Bytes from one page's start to the next one's that were asked for.
        stride_bytes: u64,
        /// Bytes of one page in this plane.
        page_bytes: u64,
    },
    /// The plane would be larger than an address range can be.
    #[error(
        "plane {plane} of {pages} pages at a stride of {stride_bytes} bytes takes {plane_bytes} bytes, the limit is {max_plane_bytes}: use fewer pages or a smaller stride"
    )]
    PlaneTooLarge {
        /// Index of the plane.
        plane: usize,
        /// Pages that were asked for.
        pages: u32,
        /// Bytes from one page's start to the next one's.
        stride_bytes: u64,
        /// Bytes that the plane would take.
        plane_bytes: u128,
        /// Most bytes that a plane can take.
        max_plane_bytes: u64,
    },
}
