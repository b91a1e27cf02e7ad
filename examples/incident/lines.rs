//! Lines on stdout and on stderr.
//!
//! A reader that goes away (`| head -1`) ends the printing, not the run: the exit code is 0 only if the run was right. Any
//! other failure of stdout ends the run.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};

/// Stdout could not be written.
#[derive(Debug)]
pub(crate) struct StdoutError(io::Error);

impl fmt::Display for StdoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stdout: {}", self.0)
    }
}

impl Error for StdoutError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

/// Writes a line to stderr: to the terminal, or from a child to its parent. Where stderr is gone there is nobody to tell.
pub(crate) fn note(line: fmt::Arguments<'_>) {
    // In one piece, so that lines of two threads do not mix.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Prints lines until nobody reads them any more.
#[derive(Debug)]
pub(crate) struct Lines<W> {
    pub(crate) out: W,
    pub(crate) closed: bool,
}

impl<W: Write> Lines<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, closed: false }
    }

    /// Prints a line, at once: a later failure is not noticed by anybody.
    ///
    /// # Errors
    /// [`StdoutError`], but not when the reader is gone.
    pub(crate) fn line(&mut self, line: fmt::Arguments<'_>) -> Result<(), StdoutError> {
        if self.closed {
            return Ok(());
        }
        match writeln!(self.out, "{line}").and_then(|()| self.out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.closed = true,
            written => written.map_err(StdoutError)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer that fails from the first byte on.
    struct Failing(io::ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_is_gone_is_no_error_and_a_full_disk_is_one() {
        let mut gone = Lines::new(Failing(io::ErrorKind::BrokenPipe));
        assert!(gone.line(format_args!("x")).is_ok() && gone.closed);
        let full = Lines::new(Failing(io::ErrorKind::StorageFull)).line(format_args!("x"));
        assert!(full.expect_err("the disk is full").to_string().starts_with("stdout: "));
    }
}
