//! Why a memory refuses.

use thiserror::Error;

/// What a [`PageMemory`](super::PageMemory) refuses, and the numbers it refused.
///
/// Every variant leaves the memory as it was. No variant carries an address or a byte of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The page index is not below `max_pages`.
    #[error("page {page} does not exist: this memory has {max_pages} pages")]
    NoSuchPage {
        /// The page that was named.
        page: u32,
        /// Pages of this memory.
        max_pages: u32,
    },
    /// The plane index is not below the number of planes.
    #[error("plane {plane} does not exist: this memory has {planes} planes")]
    NoSuchPlane {
        /// The plane that was named.
        plane: u32,
        /// Planes of this memory.
        planes: u32,
    },
    /// The span leaves the page's slice of its plane.
    #[error(
        "{len_bytes} bytes at offset {offset_bytes} leave page {page}: its slice of plane {plane} has {page_bytes} bytes"
    )]
    OutOfRange {
        /// The page that was named.
        page: u32,
        /// The plane that was named.
        plane: u32,
        /// First byte, counted within the page's slice of the plane.
        offset_bytes: u64,
        /// Bytes that were asked for.
        len_bytes: u64,
        /// Bytes of one page in this plane.
        page_bytes: u64,
    },
    /// A dirty prefix is longer than a page.
    #[error("{tokens} tokens of page {page} cannot be dirty: a page has {page_tokens} tokens")]
    TooManyTokens {
        /// The page that was named.
        page: u32,
        /// The dirty prefix that was named.
        tokens: u32,
        /// Tokens of one page.
        page_tokens: u32,
    },
    /// A range of pages ends before it starts.
    #[error("the range of pages {start_page}..{end_page} runs backward")]
    BackwardRange {
        /// First page of the range.
        start_page: u32,
        /// The page after the last.
        end_page: u32,
    },
    /// This memory keeps no bytes ([`HAS_BYTES`](super::PageMemory::HAS_BYTES) is false).
    #[error("this memory keeps no bytes")]
    NoBytes,
    /// A memory of no pages was asked for.
    #[error("a memory needs at least one page")]
    NoPages,
    /// A plane's bytes do not fit into the address space.
    #[error("{pages} pages of {page_bytes} bytes in plane {plane} overflow the address space")]
    Overflow {
        /// The plane whose size overflows.
        plane: u32,
        /// Pages that were asked for.
        pages: u32,
        /// Bytes of one page in this plane.
        page_bytes: u64,
    },
    /// The stride alignment cannot be used.
    #[error("a stride alignment of {align_bytes} bytes is not a multiple of {multiple_of_bytes}")]
    StrideAlign {
        /// The alignment that was asked for.
        align_bytes: usize,
        /// What it must be a multiple of, and not zero.
        multiple_of_bytes: usize,
    },
    /// The stride alignments do not name each plane once.
    #[error("{given} stride alignments were given for {planes} planes")]
    StrideAligns {
        /// Alignments that were given.
        given: usize,
        /// Planes of the geometry.
        planes: usize,
    },
    /// The system gave no memory.
    #[error("the system mapped none of {bytes} bytes (error {os})")]
    Map {
        /// Bytes that were asked for, guard pages included.
        bytes: usize,
        /// The system's error number (`errno`).
        os: i32,
    },
    /// The system refused a protection that this memory promises: to stay out of core dumps and of forked
    /// children.
    #[error("the system refused to protect {bytes} bytes against {against} (error {os})")]
    Protect {
        /// Bytes of the plane.
        bytes: usize,
        /// What the protection is against.
        against: Exposure,
        /// The system's error number (`errno`).
        os: i32,
    },
    /// The system locked no memory into RAM; often the limit `RLIMIT_MEMLOCK`.
    #[error("the system locked none of {bytes} bytes into memory (error {os})")]
    Lock {
        /// Bytes that were to be locked.
        bytes: usize,
        /// The system's error number (`errno`).
        os: i32,
    },
    /// The system gave back, or took back, no physical memory.
    #[error("the system changed the backing of none of {bytes} bytes (error {os})")]
    Backing {
        /// Bytes whose backing was to change.
        bytes: usize,
        /// The system's error number (`errno`).
        os: i32,
    },
    /// The number of foreign planes is not the number of planes of the geometry.
    #[error("{given} foreign planes were given for a geometry of {planes} planes")]
    ForeignPlanes {
        /// Planes that were given.
        given: usize,
        /// Planes of the geometry.
        planes: usize,
    },
    /// A foreign plane's stride is shorter than a page: pages would overlap.
    #[error("foreign plane {plane} has a stride of {stride_bytes} bytes, shorter than its pages of {page_bytes}")]
    ForeignStride {
        /// The plane at fault.
        plane: u32,
        /// Its distance from page to page.
        stride_bytes: u64,
        /// Bytes of one page in this plane.
        page_bytes: u64,
    },
    /// A foreign plane is too short for its pages.
    #[error("foreign plane {plane} has {len_bytes} bytes, its pages need {needed_bytes}")]
    ForeignTooShort {
        /// The plane at fault.
        plane: u32,
        /// Its length.
        len_bytes: u64,
        /// Bytes that the pages need, the last one without its padding.
        needed_bytes: u64,
    },
    /// A foreign plane runs past the end of the address space.
    #[error("foreign plane {plane} of {len_bytes} bytes runs past the end of the address space")]
    ForeignWraps {
        /// The plane at fault.
        plane: u32,
        /// Its length.
        len_bytes: u64,
    },
    /// Two foreign planes have bytes in common.
    #[error("foreign planes {first} and {second} overlap")]
    ForeignOverlap {
        /// One of the planes.
        first: u32,
        /// The other.
        second: u32,
    },
    /// This memory never gave out the fence.
    #[error("fence {fence} is not one of this memory")]
    UnknownFence {
        /// The fence as a number.
        fence: u64,
    },
    /// The lane was not named to the memory, which can make nothing wait there.
    #[error("lane {lane} is not one that the memory was told of; name the engine's streams when it is made")]
    UnknownLane {
        /// The lane as a number.
        lane: u64,
    },
    /// The lane is being captured into a graph, which can wait for nothing outside.
    #[error("lane {lane} is being captured into a graph; end the capture first, or take pages for it before")]
    Capturing {
        /// The lane as a number.
        lane: u64,
    },
    /// A device's driver refused.
    #[error("the device's driver answered {code} to {call}")]
    Device {
        /// The function of the driver.
        call: &'static str,
        /// Its answer.
        code: u32,
    },
    /// A test asked for this refusal ([`HeldMemory`](super::HeldMemory)).
    #[error("a test asked for this refusal")]
    Injected,
}

/// Where a page's bytes could appear outside the process's own memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Exposure {
    /// A core dump.
    CoreDump,
    /// A forked child, which would start with a copy of every page.
    Fork,
}

impl std::fmt::Display for Exposure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::CoreDump => "core dumps",
            Self::Fork => "forked children",
        })
    }
}
