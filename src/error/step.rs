//! Refusals about steps, and about tokens that are written under them.

use thiserror::Error;

use super::WriteError;
use crate::step::StepId;

/// Why a step did not end, or serves nothing. Counted; nothing changed.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepError {
    /// It ended before: somebody revoked it.
    #[error("{0} ended before; what it had exported counts as aborted")]
    Over(StepId),
    /// This pool never opened such a step.
    #[error("{0} was never opened by this pool")]
    Unknown(StepId),
}

/// Why tokens were not made pending under a step, or were not reported. The reservation is unchanged.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExportError {
    /// The step is not open here.
    #[error(transparent)]
    Step(#[from] StepError),
    /// No token was named.
    #[error("an export of 0 tokens; a step that only reads needs none")]
    NoTokens,
    /// The pages are not ready to be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Too many steps write the reservation already.
    #[error("{most} steps write the reservation already; let the first one report before the next is launched")]
    TooMany {
        /// Steps at once at the most.
        most: usize,
    },
    /// No token of the reservation is pending under the step.
    #[error("{0} writes no token of this reservation")]
    NotExported(StepId),
    /// An earlier step writes tokens in front of these, and has not reported.
    #[error("{step} is not the first to report: {first} writes the tokens in front of its own")]
    NotFirst {
        /// The step that reports.
        step: StepId,
        /// The one that has to report before.
        first: StepId,
    },
}
