//! A bar on the terminal, where there is one.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

const WIDTH: usize = 40;

/// Requests that have ended, of all.
#[derive(Debug)]
pub(crate) struct Progress {
    all: usize,
    ended: AtomicUsize,
    is_shown: bool,
}

impl Progress {
    pub(crate) fn new(all: usize) -> Self {
        Self { all, ended: AtomicUsize::new(0), is_shown: io::stderr().is_terminal() }
    }

    /// Counts a request, and redraws at each per cent.
    pub(crate) fn step(&self) {
        let ended = self.ended.fetch_add(1, Ordering::Relaxed) + 1;
        let is_next = self.all > 0 && ended * 100 / self.all != (ended - 1) * 100 / self.all;
        if self.is_shown && is_next {
            let full = ended * WIDTH / self.all;
            self.draw(&format!("\r[{}{}] {ended}/{}", "#".repeat(full), ".".repeat(WIDTH - full), self.all));
        }
    }

    pub(crate) fn done(&self) {
        if self.is_shown {
            self.draw("\n");
        }
    }

    fn draw(&self, text: &str) {
        // A terminal that is gone does not end the run.
        let _ = io::stderr().write_all(text.as_bytes());
    }
}
