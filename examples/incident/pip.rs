//! Runs pip and Python's zipfile to fetch and unpack the wheel.
//!
//! Does not check what arrives: the caller compares hashes.

use std::error::Error;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use crate::fetch::{PACKAGE, VERSION, WHEEL};
use crate::progress::Progress;

const PIPS: [&[&str]; 3] = [&["python3", "-m", "pip"], &["pip3"], &["pip"]];
const PYTHONS: [&str; 2] = ["python3", "python"];

/// Why the wheel could not be fetched or unpacked.
#[derive(Debug)]
pub(crate) enum PipError {
    /// None of the commands that run pip works here.
    NoPip,
    /// There is no Python to unpack the wheel with.
    NoPython,
    /// A command could not be started or watched.
    Io { command: &'static str, source: io::Error },
    /// A command ended with an error; `said` is what it printed about it.
    Failed { command: &'static str, status: ExitStatus, said: String },
}

impl fmt::Display for PipError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPip => write!(f, "pip is not there (tried `python3 -m pip`, `pip3` and `pip`)"),
            Self::NoPython => write!(f, "Python is not there (tried `python3` and `python`)"),
            Self::Io { command, source } => write!(f, "{command}: {source}"),
            Self::Failed { command, status, said } => write!(f, "{command} failed ({status}){said}"),
        }
    }
}

impl Error for PipError {}

/// Downloads the wheel into the folder, with progress on stderr.
///
/// # Errors
/// [`PipError`]: no pip, or pip failed, for example without network.
pub(crate) fn download(folder: &Path) -> Result<(), PipError> {
    let command = "pip download";
    let io = |source| PipError::Io { command, source };
    let pip = PIPS.into_iter().find(|pip| works(pip)).ok_or(PipError::NoPip)?;
    let log = folder.join("pip.log");
    let mut child = self::command(pip)
        .args(["download", "--no-deps", "--only-binary=:all:", "--no-input", "--no-cache-dir"])
        .args(["--disable-pip-version-check", "--progress-bar=off", "--quiet", "--retries=2"])
        .arg("--dest")
        .arg(folder)
        .arg(format!("{PACKAGE}=={VERSION}"))
        // pip loads into a temporary folder first; there its progress can be watched.
        .env("TMPDIR", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&log).map_err(io)?)
        .spawn()
        .map_err(io)?;
    let status = watch(&mut child, folder).map_err(io)?;
    if status.success() { Ok(()) } else { Err(PipError::Failed { command, status, said: complaint(&log) }) }
}

/// Waits for the child and shows how the files in its folder grow.
fn watch(child: &mut Child, folder: &Path) -> io::Result<ExitStatus> {
    let mut progress = Progress::new(&format!("fetching {PACKAGE}"), WHEEL.bytes);
    loop {
        let status = child.try_wait()?;
        progress.show(bytes_in(folder));
        if let Some(status) = status {
            progress.end();
            return Ok(status);
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Bytes of all files in a folder; one that vanishes meanwhile counts nothing.
fn bytes_in(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(file) if file.is_dir() => bytes_in(&entry.path()),
        Ok(file) => file.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// Unpacks a wheel, which is a zip archive, into the folder.
///
/// # Errors
/// [`PipError`]: no Python, or the archive could not be unpacked.
pub(crate) fn unpack(wheel: &Path, folder: &Path) -> Result<(), PipError> {
    let command = "python3 -m zipfile";
    let python = PYTHONS.into_iter().find(|python| works(&[python])).ok_or(PipError::NoPython)?;
    let output = Command::new(python).args(["-m", "zipfile", "-e"]).args([wheel, folder]).stdin(Stdio::null()).output();
    let output = output.map_err(|source| PipError::Io { command, source })?;
    let said = String::from_utf8_lossy(&output.stderr).lines().next_back().map(|line| format!(": {line}"));
    match output.status {
        status if status.success() => Ok(()),
        status => Err(PipError::Failed { command, status, said: said.unwrap_or_default() }),
    }
}

/// Whether a command is there and can tell its version.
fn works(words: &[&str]) -> bool {
    let status =
        command(words).arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command
}

/// The lines in which pip says what went wrong; the others are notices and stack traces.
fn complaint(log: &Path) -> String {
    let log = fs::read_to_string(log).unwrap_or_default();
    log.lines().filter(|line| line.starts_with("ERROR:")).map(|line| format!("\n  {line}")).collect()
}
