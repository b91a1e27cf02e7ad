//! The command line.

use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::ops::RangeInclusive;

/// Text of `--help`.
pub(crate) const HELP: &str = "\
Plays matches on a game server whose messages come late, twice, or after their match.

usage: cargo run --release --example lobbies -- [options]

  --threads N    worker threads, 1 to 64 [4]
  --matches N    matches to play, 1 to 10000000 [20000]
  --unsafe-mode  keep the seats in a plain queue of indices, to see the leak
  --json         print one JSON object as the last line
  --help         print this text

Options with a value are also read as --threads=N and --matches=N.
The exit code is 0 if nothing leaks (with --unsafe-mode: if the leak shows), also when nobody reads the output to its end;
2 if an option cannot be used; else 1.
";

const THREADS: RangeInclusive<u64> = 1..=64;
const MATCHES: RangeInclusive<u64> = 1..=10_000_000;

/// How the seats are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Pooled,
    Unsafe,
}

/// What is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) threads: usize,
    pub(crate) matches: u64,
    pub(crate) mode: Mode,
}

/// How the result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    Text,
    /// Text, and one JSON object on the last line.
    Json,
}

/// What the command line asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arguments {
    Help,
    Run { plan: Plan, output: Output },
}

/// An argument that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ArgumentError {
    Unknown { argument: OsString },
    NoValue { option: &'static str },
    Value { option: &'static str, value: OsString, allowed: RangeInclusive<u64> },
    Twice { option: &'static str },
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { argument } => write!(f, "unknown argument {}", argument.display()),
            Self::NoValue { option } => write!(f, "{option} needs a value"),
            Self::Value { option, value, allowed } => {
                write!(
                    f,
                    "{option} takes a number from {} to {}, not {}",
                    allowed.start(),
                    allowed.end(),
                    value.display()
                )
            }
            Self::Twice { option } => write!(f, "{option} is given twice"),
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
        let (mut threads, mut matches) = (None, None);
        let (mut mode, mut output) = (Mode::Pooled, Output::Text);
        while let Some(argument) = arguments.next() {
            let text = argument.to_str().unwrap_or_default();
            let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
            let value = value.map(OsString::from);
            match (name, value) {
                ("--help" | "-h", None) => return Ok(Self::Help),
                ("--json", None) => output = Output::Json,
                ("--unsafe-mode", None) => mode = Mode::Unsafe,
                ("--threads", value) => {
                    set(&mut threads, "--threads", value.or_else(|| arguments.next()), THREADS)?;
                }
                ("--matches", value) => {
                    set(&mut matches, "--matches", value.or_else(|| arguments.next()), MATCHES)?;
                }
                _ => return Err(ArgumentError::Unknown { argument }),
            }
        }
        let plan = Plan { threads: threads.unwrap_or(4) as usize, matches: matches.unwrap_or(20_000), mode };
        Ok(Self::Run { plan, output })
    }
}

fn set(
    place: &mut Option<u64>,
    option: &'static str,
    value: Option<OsString>,
    allowed: RangeInclusive<u64>,
) -> Result<(), ArgumentError> {
    let value = value.ok_or(ArgumentError::NoValue { option })?;
    let number = value.to_str().and_then(|text| text.parse().ok()).filter(|number| allowed.contains(number));
    let number = number.ok_or(ArgumentError::Value { option, value, allowed })?;
    if place.replace(number).is_some() { Err(ArgumentError::Twice { option }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Arguments, ArgumentError> {
        Arguments::parse(arguments.iter().map(OsString::from))
    }

    #[test]
    fn arguments_are_read_or_refused() {
        let run = |threads, matches, mode, output| Ok(Arguments::Run { plan: Plan { threads, matches, mode }, output });
        assert_eq!(parse(&[]), run(4, 20_000, Mode::Pooled, Output::Text));
        assert_eq!(parse(&["--threads", "8", "--matches=9", "--json"]), run(8, 9, Mode::Pooled, Output::Json));
        assert_eq!(parse(&["--unsafe-mode"]), run(4, 20_000, Mode::Unsafe, Output::Text));
        assert_eq!(parse(&["--json", "--help"]), Ok(Arguments::Help));
        assert_eq!(parse(&["--threads"]), Err(ArgumentError::NoValue { option: "--threads" }));
        assert_eq!(parse(&["--matches=1", "--matches=2"]), Err(ArgumentError::Twice { option: "--matches" }));
        for wrong in ["0", "65", "-1", "many", ""] {
            let refused = parse(&["--threads", wrong]);
            assert_eq!(
                refused,
                Err(ArgumentError::Value { option: "--threads", value: wrong.into(), allowed: THREADS }),
                "{wrong}"
            );
        }
        for unknown in ["more", "--json=yes", "--thread=1", "="] {
            assert_eq!(parse(&[unknown]), Err(ArgumentError::Unknown { argument: unknown.into() }));
        }
    }

    #[test]
    fn help_names_the_limits_and_what_is_played_without_options() {
        for limit in [THREADS, MATCHES].map(|limit| format!("{} to {}", limit.start(), limit.end())) {
            assert!(HELP.contains(&limit), "{limit}");
        }
        assert!(HELP.contains("[4]") && HELP.contains("[20000]"));
    }
}
