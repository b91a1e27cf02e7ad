//! A progress bar on stderr: one line that is drawn anew on a terminal, a few plain lines elsewhere.

use std::io::{self, IsTerminal, Write};

use crate::lines::note;

/// Cells of the bar; the whole line stays under 80 columns, as a wrapped line cannot be drawn anew.
const WIDTH: usize = 24;
/// Without a terminal, a line each time that another quarter is done.
const PLAIN_LINES: u64 = 4;

/// Progress towards a known number of bytes.
#[derive(Debug)]
pub(crate) struct Progress {
    what: String,
    total_bytes: u64,
    terminal: bool,
    /// Largest value shown: files move while they are counted, and a bar does not run backwards.
    done_bytes: u64,
    lines: u64,
}

impl Progress {
    pub(crate) fn new(what: &str, total_bytes: u64) -> Self {
        let terminal = io::stderr().is_terminal();
        if !terminal {
            note(format_args!("{what}: {:.1} MB", total_bytes as f64 / 1e6));
        }
        Self { what: what.to_owned(), total_bytes: total_bytes.max(1), terminal, done_bytes: 0, lines: 0 }
    }

    /// Shows how far it is.
    pub(crate) fn show(&mut self, done_bytes: u64) {
        self.done_bytes = self.done_bytes.max(done_bytes.min(self.total_bytes));
        if self.terminal {
            // A bar that cannot be drawn is no reason to fail.
            let _ = write!(io::stderr(), "\r{}", self.bar());
            return;
        }
        let quarters = self.done_bytes * PLAIN_LINES / self.total_bytes;
        if quarters > self.lines {
            self.lines = quarters;
            note(format_args!("  {:3} %", quarters * 100 / PLAIN_LINES));
        }
    }

    /// Leaves the last bar standing.
    pub(crate) fn end(self) {
        if self.terminal {
            note(format_args!(""));
        }
    }

    fn bar(&self) -> String {
        let (done, total) = (self.done_bytes, self.total_bytes);
        let full = (done as u128 * WIDTH as u128 / u128::from(total)) as usize;
        let percent = u128::from(done) * 100 / u128::from(total);
        let (bar, done, total) = ("#".repeat(full), done as f64 / 1e6, total as f64 / 1e6);
        format!("{} [{bar:-<WIDTH$}] {percent:3} %  {done:.1} of {total:.1} MB", self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(done_bytes: u64) -> Progress {
        Progress { what: "x".into(), total_bytes: 1_000_000, terminal: false, done_bytes, lines: 0 }
    }

    #[test]
    fn bar_fills_from_empty_to_full() {
        assert_eq!(at(0).bar(), format!("x [{}]   0 %  0.0 of 1.0 MB", "-".repeat(WIDTH)));
        assert_eq!(at(1_000_000).bar(), format!("x [{}] 100 %  1.0 of 1.0 MB", "#".repeat(WIDTH)));
        assert!(at(500_000).bar().contains(" 50 %"));
    }

    #[test]
    fn progress_neither_runs_back_nor_over_the_end() {
        let mut progress = at(0);
        for (seen, shown) in [(600_000, 600_000), (10, 600_000), (2_000_000, 1_000_000)] {
            progress.show(seen);
            assert_eq!(progress.done_bytes, shown);
        }
        assert_eq!(progress.lines, PLAIN_LINES);
    }
}
