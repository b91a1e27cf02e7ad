//! What a person sees of a run, and what a script does.

use std::error::Error;
use std::fmt;
use std::io::Write;
use std::time::Duration;

use crate::arguments::{Mode, Output, Plan};
use crate::findings::{Findings, How};
use crate::json::Object;
use crate::lines::{Lines, StdoutError};
use crate::seat::SEATS;

/// How a run went.
pub(crate) struct Run {
    pub(crate) found: Findings,
    pub(crate) took: Duration,
    pub(crate) audit: Result<(), String>,
}

impl Run {
    fn claims_per_s(&self) -> f64 {
        self.found.claims as f64 / self.took.as_secs_f64().max(1e-9)
    }

    fn audit(&self) -> &str {
        self.audit.as_ref().map_or_else(String::as_str, |()| "ok")
    }
}

/// The run was not what it should have been.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wrong {
    Leaks(u64),
    Lost(u64),
    Audit,
    NoLateMessage,
    /// Without the library's checks the leak has to show.
    NoLeak,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leaks(leaks) => write!(f, "{leaks} leaks behind a pool that has none"),
            Self::Lost(lost) => write!(f, "{lost} times a match missed a seat that it had"),
            Self::Audit => write!(f, "the pool does not add up"),
            Self::NoLateMessage => write!(f, "no message came late, so that nothing was shown; try more matches"),
            Self::NoLeak => write!(f, "no leak showed; try more matches"),
        }
    }
}

impl Error for Wrong {}

/// Prints the table, and the object for scripts below it.
///
/// # Errors
/// [`StdoutError`].
pub(crate) fn print(out: &mut Lines<impl Write>, plan: &Plan, run: &Run, output: Output) -> Result<(), StdoutError> {
    let found = &run.found;
    let kept = match plan.mode {
        Mode::Pooled => "seats in a SlotPool",
        Mode::Unsafe => "seats in a queue of indices",
    };
    out.line(format_args!("{} matches of {SEATS} players on {} threads, {kept}", plan.matches, plan.threads))?;
    let rows = [
        ("claims", found.claims),
        ("claims a second", run.claims_per_s() as u64),
        ("looks at seats", found.looks),
        ("messages", found.letters),
        ("refused: too late", found.stale_refused),
        ("busy: tried again", found.busy),
        ("matches that crashed", found.crashes),
        ("leaks", found.leaks()),
    ];
    for (name, value) in rows {
        out.line(format_args!("  {name:<34} {value:>12}"))?;
    }
    for how in How::ALL.into_iter().filter(|how| found.leaks_by(*how) > 0) {
        out.line(format_args!("    {:<32} {:>12}", how.name(), found.leaks_by(how)))?;
        for leak in found.examples(how) {
            out.line(format_args!("      {leak}"))?;
        }
    }
    out.line(format_args!("  audit: {}", run.audit()))?;
    if output == Output::Json {
        let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        let object = Object::default()
            .number("matches", number(plan.matches))
            .number("stale_refused", number(found.stale_refused))
            .number("leaks", number(found.leaks()))
            .number("claims_per_s", run.claims_per_s() as usize)
            .text("audit", run.audit());
        out.line(format_args!("{}", object.line()))?;
    }
    Ok(())
}

/// Says whether the run showed what it is for.
///
/// # Errors
/// [`Wrong`].
pub(crate) fn verdict(plan: &Plan, run: &Run) -> Result<(), Wrong> {
    let found = &run.found;
    match plan.mode {
        Mode::Unsafe if found.leaks() == 0 => Err(Wrong::NoLeak),
        Mode::Unsafe => Ok(()),
        Mode::Pooled if found.leaks() > 0 => Err(Wrong::Leaks(found.leaks())),
        Mode::Pooled if found.lost > 0 => Err(Wrong::Lost(found.lost)),
        Mode::Pooled if run.audit.is_err() => Err(Wrong::Audit),
        Mode::Pooled if found.stale_refused == 0 => Err(Wrong::NoLateMessage),
        Mode::Pooled => Ok(()),
    }
}
