//! The command line.

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::prompts::DEFAULT_SECRET;

/// Text of `--help`.
pub(crate) const HELP: &str = "\
Replays a cross-tenant KV cache leak on a real language model.

usage: cargo run --release --example incident -- [options]

  --model FILE   use this model file; else it is looked for in the cache folder,
                 and fetched into it with pip if it is not there (93 MB, once)
  --secret TEXT  the secret in tenant A's prompt [ORCHID-7421-ZEPHYR]
  --json         print one JSON object as the last line
  --help         print this text

Options with a value are also read as --model=FILE and --secret=TEXT.
The exit code is 0 if the leak shows and all layers hold, also when nobody reads the output to its end;
2 if an option cannot be used; else 1.
The cache folder is $PAGESTAMP_CACHE, else $XDG_CACHE_HOME/pagestamp, else ~/.cache/pagestamp.
";

/// What the command line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Arguments {
    Help,
    Run { model: Option<PathBuf>, secret: String, output: Output },
}

/// How the result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    Text,
    /// Text, and one JSON object on the last line.
    Json,
}

/// An argument that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ArgumentError {
    Unknown { argument: OsString },
    NoValue { option: &'static str },
    NotText { option: &'static str },
    Twice { option: &'static str },
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { argument } => write!(f, "unknown argument {}", argument.display()),
            Self::NoValue { option } => write!(f, "{option} needs a value"),
            Self::NotText { option } => write!(f, "the value of {option} is not UTF-8"),
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
        let (mut model, mut secret, mut output) = (None, None, Output::Text);
        while let Some(argument) = arguments.next() {
            let (option, value) = split(&argument);
            let value = || value.or_else(|| arguments.next());
            match option.to_str() {
                Some("--help" | "-h") => return Ok(Self::Help),
                Some("--json") => output = Output::Json,
                Some("--model") => set(&mut model, "--model", value())?,
                Some("--secret") => set(&mut secret, "--secret", value())?,
                _ => return Err(ArgumentError::Unknown { argument }),
            }
        }
        if model.as_ref().is_some_and(|model| model.is_empty()) {
            return Err(ArgumentError::NoValue { option: "--model" });
        }
        let secret = secret.unwrap_or_else(|| DEFAULT_SECRET.into());
        let secret = secret.into_string().map_err(|_| ArgumentError::NotText { option: "--secret" })?;
        Ok(Self::Run { model: model.map(PathBuf::from), secret, output })
    }
}

/// Splits `--option=value` of the two options that have a value; all others stay whole.
fn split(argument: &OsStr) -> (&OsStr, Option<OsString>) {
    for option in ["--model", "--secret"] {
        let value = argument.as_bytes().strip_prefix(option.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
        if let Some(value) = value {
            return (OsStr::new(option), Some(OsStr::from_bytes(value).into()));
        }
    }
    (argument, None)
}

fn set(place: &mut Option<OsString>, option: &'static str, value: Option<OsString>) -> Result<(), ArgumentError> {
    let value = value.ok_or(ArgumentError::NoValue { option })?;
    if place.replace(value).is_some() { Err(ArgumentError::Twice { option }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Arguments, ArgumentError> {
        Arguments::parse(arguments.iter().map(OsString::from))
    }

    #[test]
    fn arguments_are_read_or_refused() {
        let run = |model: Option<&str>, secret: &str, output| Arguments::Run {
            model: model.map(PathBuf::from),
            secret: secret.into(),
            output,
        };
        assert_eq!(parse(&[]), Ok(run(None, DEFAULT_SECRET, Output::Text)));
        assert_eq!(parse(&["--json", "--model", "m", "--secret", "s t"]), Ok(run(Some("m"), "s t", Output::Json)));
        assert_eq!(parse(&["--secret", "--json"]), Ok(run(None, "--json", Output::Text)));
        assert_eq!(parse(&["--json", "--help"]), Ok(Arguments::Help));
        assert_eq!(parse(&["--model"]), Err(ArgumentError::NoValue { option: "--model" }));
        assert_eq!(parse(&["--secret", "a", "--secret", "b"]), Err(ArgumentError::Twice { option: "--secret" }));
        assert_eq!(parse(&["more"]), Err(ArgumentError::Unknown { argument: "more".into() }));
    }

    #[test]
    fn values_may_follow_an_equals_sign() {
        let both = |model: &str, secret: &str| Arguments::Run {
            model: Some(model.into()),
            secret: secret.into(),
            output: Output::Text,
        };
        assert_eq!(parse(&["--secret=s t", "--model=m"]), Ok(both("m", "s t")));
        assert_eq!(parse(&["--model=a=b", "--secret="]), Ok(both("a=b", "")));
        assert_eq!(parse(&["--secret", "--model=m", "--model", "--json"]), Ok(both("--json", "--model=m")));
        assert_eq!(parse(&["--model="]), Err(ArgumentError::NoValue { option: "--model" }));
        assert_eq!(parse(&["--secret=a", "--secret", "b"]), Err(ArgumentError::Twice { option: "--secret" }));
        for unknown in ["--json=yes", "--models=m", "--secrets", "=", "--help="] {
            assert_eq!(parse(&[unknown]), Err(ArgumentError::Unknown { argument: unknown.into() }));
        }
        let (file, text) = ([b"--model=".as_slice(), &[0xff]].concat(), [b"--secret=".as_slice(), &[0xff]].concat());
        let one = |bytes: &[u8]| Arguments::parse(std::iter::once(OsStr::from_bytes(bytes).into()));
        assert!(matches!(one(&file), Ok(Arguments::Run { model: Some(model), .. }) if model.as_os_str().len() == 1));
        assert_eq!(one(&text), Err(ArgumentError::NotText { option: "--secret" }));
    }

    #[test]
    fn help_names_the_default_secret() {
        assert!(HELP.contains(DEFAULT_SECRET));
    }
}
