//! How bytes get where they belong: within the process, or by the addresses that a transport is given.

pub(in crate::handoff) mod coverage;
pub(in crate::handoff) mod landing;
pub(in crate::handoff) mod pass;
pub(in crate::handoff) mod regions;
mod segment_error;
mod segments;
pub(in crate::handoff) mod tile;

pub use landing::{Landed, Landing};
pub use regions::{Region, Regions};
pub use segment_error::SegmentError;
pub use segments::{Route, Segment, Stretch};
