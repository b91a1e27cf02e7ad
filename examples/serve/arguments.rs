//! The command line.

use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use crate::trace::{Format, Malformed};

/// Text of `--help`.
pub(crate) const HELP: &str = "\
Replays a trace of requests on the books of an engine: admission, prefix hits, growth, preemption, release.

usage: cargo run --release --example serve -- [options]

  --trace FILE        requests as they were recorded [a seeded load of the same shape]
  --format NAME       mooncake, azure or claude [guessed from the file]
  --malformed WHAT    refuse or skip lines that cannot be read [refuse]; skipped lines are reported by number
  --rate N            requests come N times as fast as they were recorded [1]
  --pages N           pages of the pool [131072]
  --page-tokens N     tokens of a page [16]
  --owners N          tenants that the sessions are dealt to; nothing is shared between two [1]
  --threads N         engines over one pool, each with sessions of its own [1]
  --admit WHAT        by the most tokens of a request, max: growth never fails; or by its prompt: a request that cannot grow
                      preempts another [max]
  --requests N        requests of the seeded load [2000]
  --seed N            seed of the load [1]
  --json              print one JSON object as the last line
  --help              print this text

The exit code is 0 if the books add up and no page is lost, 2 if an option or the trace cannot be used, else 1.
";

/// What the command line asks for.
#[derive(Debug, PartialEq)]
pub(crate) enum Arguments {
    Help,
    Run(Plan),
}

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) trace: Option<PathBuf>,
    pub(crate) format: Option<Format>,
    pub(crate) malformed: Malformed,
    pub(crate) rate: f64,
    pub(crate) pages: u32,
    pub(crate) page_tokens: u32,
    pub(crate) owners: u64,
    pub(crate) threads: usize,
    pub(crate) admit: Admit,
    pub(crate) requests: usize,
    pub(crate) seed: u64,
    pub(crate) json: bool,
}

/// For how much of a request pages are promised before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admit {
    Max,
    Prompt,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            trace: None,
            format: None,
            malformed: Malformed::Refuse,
            rate: 1.0,
            pages: 131_072,
            page_tokens: 16,
            owners: 1,
            threads: 1,
            admit: Admit::Max,
            requests: 2000,
            seed: 1,
            json: false,
        }
    }
}

/// An argument that cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ArgumentError {
    Unknown { argument: OsString },
    NoValue { option: &'static str },
    Value { option: &'static str, value: String, expected: &'static str },
    Twice { option: &'static str },
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { argument } => write!(f, "unknown argument {}", argument.display()),
            Self::NoValue { option } => write!(f, "{option} needs a value"),
            Self::Value { option, value, expected } => write!(f, "{option} {value}: {expected} is expected"),
            Self::Twice { option } => write!(f, "{option} is given twice"),
        }?;
        write!(f, "; --help shows what there is")
    }
}

impl Error for ArgumentError {}

/// Options that take a value.
const VALUED: [&str; 11] = [
    "--trace",
    "--format",
    "--malformed",
    "--rate",
    "--pages",
    "--page-tokens",
    "--owners",
    "--threads",
    "--admit",
    "--requests",
    "--seed",
];

impl Arguments {
    /// Reads the arguments behind the program's name; `--option value` or `--option=value`.
    ///
    /// # Errors
    /// [`ArgumentError`].
    pub(crate) fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Self, ArgumentError> {
        let (mut plan, mut seen) = (Plan::default(), Vec::new());
        while let Some(argument) = arguments.next() {
            let text = argument.to_str().unwrap_or_default();
            match text {
                "--help" | "-h" => return Ok(Self::Help),
                "--json" => {
                    plan.json = true;
                    continue;
                }
                _ => {}
            }
            let (name, joined) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
            let Some(option) = VALUED.into_iter().find(|option| *option == name) else {
                return Err(ArgumentError::Unknown { argument });
            };
            if seen.contains(&option) {
                return Err(ArgumentError::Twice { option });
            }
            seen.push(option);
            let value = joined.map(OsString::from).or_else(|| arguments.next());
            let value = value.filter(|value| !value.is_empty()).ok_or(ArgumentError::NoValue { option })?;
            plan.set(option, value)?;
        }
        Ok(Self::Run(plan))
    }
}

impl Plan {
    fn set(&mut self, option: &'static str, value: OsString) -> Result<(), ArgumentError> {
        if option == "--trace" {
            self.trace = Some(PathBuf::from(value));
            return Ok(());
        }
        let value = value.to_string_lossy().into_owned();
        let whole = |least: u64, most: u64, expected| {
            let number = value.parse().ok().filter(|number| (least..=most).contains(number));
            number.ok_or(ArgumentError::Value { option, value: value.clone(), expected })
        };
        match option {
            "--rate" => {
                let rate = value.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
                let expected = "a number above 0";
                self.rate = rate.ok_or(ArgumentError::Value { option, value, expected })?;
            }
            "--pages" => self.pages = whole(3, 1 << 28, "a whole number from 3 to 2^28")? as u32,
            "--page-tokens" => self.page_tokens = whole(1, 32_767, "a whole number from 1 to 32767")? as u32,
            "--owners" => self.owners = whole(1, 1 << 32, "a whole number from 1 to 2^32")?,
            "--threads" => self.threads = whole(1, 256, "a whole number from 1 to 256")? as usize,
            "--requests" => self.requests = whole(1, 10_000_000, "a whole number from 1 to 10000000")? as usize,
            "--seed" => self.seed = whole(0, u64::MAX, "a whole number")?,
            "--format" => {
                let format = Format::named(&value);
                let expected = "mooncake, azure or claude";
                self.format = Some(format.ok_or(ArgumentError::Value { option, value, expected })?);
            }
            "--malformed" => {
                self.malformed = match value.as_str() {
                    "refuse" => Malformed::Refuse,
                    "skip" => Malformed::Skip,
                    _ => return Err(ArgumentError::Value { option, value, expected: "refuse or skip" }),
                }
            }
            _ => {
                self.admit = match value.as_str() {
                    "max" => Admit::Max,
                    "prompt" => Admit::Prompt,
                    _ => return Err(ArgumentError::Value { option, value, expected: "max or prompt" }),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Arguments, ArgumentError> {
        Arguments::parse(arguments.iter().map(OsString::from))
    }

    #[test]
    fn options_are_read_in_both_forms() {
        let Ok(Arguments::Run(plan)) = parse(&["--rate=4", "--owners", "7", "--admit", "prompt", "--json"]) else {
            panic!("all are known")
        };
        assert_eq!((plan.rate, plan.owners, plan.admit, plan.json), (4.0, 7, Admit::Prompt, true));
        assert_eq!(
            parse(&["--rate", "0", "--help"]).map_err(|error| error.to_string()).err().as_deref(),
            Some("--rate 0: a number above 0 is expected; --help shows what there is")
        );
        assert_eq!(parse(&["--help"]), Ok(Arguments::Help));
    }

    #[test]
    fn what_cannot_be_used_is_refused_by_name() {
        for wrong in
            [&["--pages"][..], &["--pages", "2"], &["--threads=0"], &["--format", "x"], &["--seed", "-1"], &["x"]]
        {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(parse(&["--seed=1", "--seed=2"]), Err(ArgumentError::Twice { option: "--seed" }));
        assert_eq!(parse(&["--pages="]), Err(ArgumentError::NoValue { option: "--pages" }));
    }
}
