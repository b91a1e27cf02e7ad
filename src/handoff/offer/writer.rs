//! One of those who fill the pages of a handoff, and which part of them.

use crate::geometry::Slice;
use crate::ticket::HolderId;

/// Names a sending rank and the part of the model that it sends.
///
/// A handoff has one writer, or as many as there are sending ranks. Their slices tile the slice of the receiver: together
/// they are all of it, and no layer of a head is in two of them. Each writer is named once, by the engine's own number.
///
/// # Examples
///
/// Four tensor-parallel prefill ranks fill the pages of one decode rank that holds all eight heads:
///
/// ```
/// use pagestamp::geometry::{LayoutError, Slice};
/// use pagestamp::{HolderId, Writer};
///
/// let rank = |rank: u32| Ok(Writer::new(HolderId(rank.into()), Slice::new(0..80, rank * 2..rank * 2 + 2)?));
/// let writers = (0..4).map(rank).collect::<Result<Vec<Writer>, LayoutError>>()?;
/// assert_eq!(writers[3].slice().heads(), 6..8);
/// # Ok::<(), LayoutError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Writer {
    holder: HolderId,
    slice: Slice,
}

impl Writer {
    /// The writer of a handoff that names none: number 0, with all of the receiver's slice.
    pub const ONLY: HolderId = HolderId(0);

    /// Names a writer and its slice.
    #[must_use]
    pub const fn new(holder: HolderId, slice: Slice) -> Self {
        Self { holder, slice }
    }

    /// Returns who it is.
    #[must_use]
    pub const fn holder(&self) -> HolderId {
        self.holder
    }

    /// Returns what it sends.
    #[must_use]
    pub const fn slice(&self) -> &Slice {
        &self.slice
    }
}
