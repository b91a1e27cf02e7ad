//! The command line.

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Text of `--help`.
pub(crate) const HELP: &str = "\
Replays a cross-tenant KV cache leak in the memory of a CUDA device.

usage: cargo run --features cuda --example gpu_incident -- [options]

  --driver PATH  the CUDA driver to open [the system's libcuda.so.1];
                 bash tests/gates/kvstandin.sh --build makes a stand-in that needs no GPU, and prints its path
  --json         print one JSON object as the last line
  --help         print this text

The exit code is 0 if both leaks show and pagestamp holds, 2 if an option cannot be used or no driver can be opened, else 1.
";

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arguments {
    Help,
    Run { driver: Option<PathBuf>, output: Output },
}

/// How the result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    Text,
    /// Text, and one JSON object on the last line.
    Json,
}

/// An argument that cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ArgumentError {
    Unknown { argument: OsString },
    NoPath,
    Twice,
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { argument } => write!(f, "unknown argument {}", argument.display()),
            Self::NoPath => write!(f, "--driver needs a path"),
            Self::Twice => write!(f, "--driver is given twice"),
        }?;
        write!(f, "; --help shows what there is")
    }
}

impl Error for ArgumentError {}

impl Arguments {
    /// Reads the arguments behind the program's name.
    ///
    /// # Errors
    /// [`ArgumentError`].
    pub(crate) fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Self, ArgumentError> {
        let (mut driver, mut output) = (None, Output::Text);
        while let Some(argument) = arguments.next() {
            let joined = argument.as_bytes().strip_prefix(b"--driver=").map(|path| OsStr::from_bytes(path).to_owned());
            let path = match argument.to_str() {
                Some("--help" | "-h") => return Ok(Self::Help),
                Some("--json") => {
                    output = Output::Json;
                    continue;
                }
                Some("--driver") => arguments.next(),
                _ if joined.is_some() => joined,
                _ => return Err(ArgumentError::Unknown { argument }),
            };
            let path = path.filter(|path| !path.is_empty()).ok_or(ArgumentError::NoPath)?;
            if driver.replace(PathBuf::from(path)).is_some() {
                return Err(ArgumentError::Twice);
            }
        }
        Ok(Self::Run { driver, output })
    }
}
