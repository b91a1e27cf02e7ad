//! Points in a stream's queue.

use std::time::Instant;

use crate::stream::Point;

#[derive(Debug)]
pub(crate) struct Event {
    /// Where it was recorded last, if not in a capture; an event that never was recorded is done.
    pub(crate) recorded: Option<Point>,
    pub(crate) has_time: bool,
    /// When the last record was executed.
    pub(crate) time: Option<Instant>,
    /// Recorded last in a capture, which may have ended: no work that is ever done, until it is recorded elsewhere.
    pub(crate) captured: Option<CapturedPoint>,
}

/// A point of a capture: behind what was captured of a stream before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CapturedPoint {
    pub(crate) capture: u64,
    pub(crate) stream: u64,
    pub(crate) position: u64,
}
