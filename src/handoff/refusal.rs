//! The third message, either way: this handoff is over, and why.

use std::error::Error;
use std::fmt::{self, Write};

use crate::id::TransferId;
use crate::transfer::Side;

/// Ends a handoff for good, and keeps the first error for the other side.
///
/// A plain value. It is an error too, so that the other side gives it to its own
/// [`Inbound::reject`](super::Inbound::reject) or [`Outbound::reject`](super::Outbound::reject): the request then ends
/// there with the reason that it had here.
///
/// # Examples
///
/// ```
/// use pagestamp::{Refusal, Side, TransferId};
/// let transfer = TransferId::from_bits(1 << 64 | 1).ok_or("no transfer")?;
/// let refusal = Refusal::new(transfer, Side::Sender, &std::fmt::Error);
/// assert!(refusal.to_string().starts_with("the sender refused transfer 1"));
/// # Ok::<(), &'static str>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "a refusal is a message to the other side"]
pub struct Refusal {
    transfer: TransferId,
    side: Side,
    reason: Box<str>,
}

impl Refusal {
    /// Most bytes of a reason; what is longer is cut.
    pub const MAX_REASON_BYTES: usize = 1024;

    /// Refuses a transfer with the words of an error and of its sources.
    pub fn new(transfer: TransferId, side: Side, error: &(dyn Error + 'static)) -> Self {
        let mut reason = error.to_string();
        let mut source = error.source();
        while let Some(error) = source.filter(|_| reason.len() < Self::MAX_REASON_BYTES) {
            let cause = error.to_string();
            // Some errors say their source in their own words already.
            if !reason.ends_with(&cause) {
                reason.push_str(": ");
                reason.push_str(&cause);
            }
            source = error.source();
        }
        let end = reason.floor_char_boundary(Self::MAX_REASON_BYTES);
        reason.truncate(end);
        Self { transfer, side, reason: reason.into() }
    }

    /// The refusal that arrived as a message; `reason` is at most [`Refusal::MAX_REASON_BYTES`] long.
    pub(super) fn arrived(transfer: TransferId, side: Side, reason: &str) -> Self {
        Self { transfer, side, reason: reason.into() }
    }

    /// Returns which handoff is over.
    #[must_use]
    pub const fn transfer(&self) -> TransferId {
        self.transfer
    }

    /// Returns the side that refused.
    #[must_use]
    pub const fn side(&self) -> Side {
        self.side
    }

    /// Returns the first error, in words.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} refused {}: ", self.side, self.transfer)?;
        // It may come from a peer: what would break a line of a log is escaped.
        self.reason.chars().try_for_each(|char| match char.is_control() {
            true => write!(f, "{}", char.escape_default()),
            false => f.write_char(char),
        })
    }
}

impl Error for Refusal {}
