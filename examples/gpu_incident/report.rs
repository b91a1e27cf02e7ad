//! What people are told, and the verdict.

use std::io::Write;

use serde_json::json;

use crate::lines::{Lines, StdoutError};
use crate::pooled::Pooled;
use crate::prompt::{Answer, PAGE_TOKENS, PAGES, SECRET};

/// Says what it runs on, and what the secret is.
pub(crate) fn opening(lines: &mut Lines<impl Write>, driver: &str) -> Result<(), StdoutError> {
    lines.line(format_args!("driver: {driver}"))?;
    lines.line(format_args!("Alice's prompt fills {PAGES} pages of {PAGE_TOKENS} tokens and holds {SECRET}."))
}

fn heard(lines: &mut Lines<impl Write>, who: &str, answer: &Answer) -> Result<(), StdoutError> {
    let verdict = if answer.leaks() { "LEAK" } else { "no leak" };
    lines.line(format_args!("  {verdict}: {who} reads \"{}\"", answer.text()))
}

/// Tells the first run.
pub(crate) fn plain(lines: &mut Lines<impl Write>, answer: &Answer) -> Result<(), StdoutError> {
    lines.line(format_args!(
        "1. As engines do: a plain list of free pages. Alice's pages go back, Bob gets them, one of his \
         {PAGES} is transferred; no check:"
    ))?;
    heard(lines, "Bob", answer)
}

/// Tells the runs on the pool.
pub(crate) fn pooled(lines: &mut Lines<impl Write>, pooled: &Pooled) -> Result<(), StdoutError> {
    lines.line(format_args!(
        "2. The same over pagestamp's pool, which cleans on release; still no check before attention:"
    ))?;
    heard(lines, "Bob", &pooled.cleaned)?;
    lines.line(format_args!("  (asked first, the host refuses the table: {})", pooled.refused))?;
    lines.line(format_args!(
        "3. A table that cleaning cannot help: {} pages left Bob and are Alice's again, live, and his row still names them; \
         no check:",
        PAGES - 1
    ))?;
    heard(lines, "Bob", &pooled.unchecked[Pooled::BOB])?;
    lines.line(format_args!("4. The same table, checked by the device right before attention:"))?;
    heard(lines, "Bob", &pooled.guarded[Pooled::BOB])?;
    let same = if pooled.is_confined() { "is" } else { "is NOT" };
    lines.line(format_args!("  that {same}, bit by bit, his own page and zeros"))?;
    let same = if pooled.is_honest_row_intact() { "is" } else { "is NOT" };
    lines.line(format_args!("  Alice's own row {same} bit by bit what it was without the check"))?;
    if let Some(fault) = pooled.fault {
        lines.line(format_args!(
            "  rows to throw away: {:?}; {} entries refused, the first is entry {} of row {}: {:?}, page {} has \
             generation {}, not {}",
            pooled.flagged,
            fault.faults,
            fault.index,
            fault.row,
            fault.reason,
            fault.page,
            fault.found_generation.get(),
            fault.expected_generation.get()
        ))?;
    }
    lines.line(format_args!("audit: {}", pooled.audit.as_deref().unwrap_or("ok")))
}

/// What is judged.
#[derive(Debug)]
pub(crate) struct Findings {
    driver: String,
    /// Both wrong tables show the secret without a check.
    unchecked_leaked: bool,
    /// Anything but Bob's own page and zeros came out where pagestamp cleaned or checked.
    guarded_leaked: bool,
    flagged: Vec<u32>,
    /// What was found wrong is what is wrong, and the right row is as it was.
    told_apart: bool,
    audit: String,
}

impl Findings {
    pub(crate) fn new(driver: String, plain: &Answer, pooled: &Pooled) -> Self {
        Self {
            driver,
            unchecked_leaked: plain.leaks() && pooled.unchecked[Pooled::BOB].leaks(),
            guarded_leaked: pooled.cleaned != pooled.own || !pooled.is_confined() || pooled.own.leaks(),
            flagged: pooled.flagged.clone(),
            told_apart: pooled.is_fault_right() && pooled.is_honest_row_intact(),
            audit: pooled.audit.clone().unwrap_or_else(|| "ok".into()),
        }
    }

    pub(crate) fn right(&self) -> bool {
        self.unchecked_leaked
            && !self.guarded_leaked
            && self.flagged == [Pooled::BOB as u32]
            && self.told_apart
            && self.audit == "ok"
    }

    pub(crate) fn verdict(&self, lines: &mut Lines<impl Write>) -> Result<(), StdoutError> {
        if self.right() {
            return lines.line(format_args!(
                "verdict: unchecked, both wrong tables leak; cleaned or checked, nothing does, and the wrong row is flagged"
            ));
        }
        lines.line(format_args!("verdict: NOT as it should be: {self:?}"))
    }

    pub(crate) fn json(&self) -> String {
        json!({
            "driver": self.driver,
            "unchecked_leaked": self.unchecked_leaked,
            "guarded_leaked": self.guarded_leaked,
            "flagged": self.flagged,
            "audit": self.audit,
        })
        .to_string()
    }
}
