//! Replays the page flow of the incident in the memory of a CUDA device, with a real attention kernel as the reader.
//!
//! `cargo run --features cuda --example gpu_incident`; `--help` shows the options. Without a GPU it runs on the
//! stand-in driver of the tests, which executes the same PTX on the CPU, and says so.
//!
//! [`prompt`] makes K and V of a text, [`engine`] is what an engine has besides a pool (a stream, copies, memory), [`reader`]
//! its attention (`reader.cu`). The runs: [`plain`] is what engines do, [`pooled`] the same through pagestamp.

mod arguments;
mod engine;
#[path = "../incident/lines.rs"]
mod lines;
mod plain;
mod pooled;
mod prompt;
mod reader;
mod report;

use std::env;
use std::error::Error;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use arguments::{ArgumentError, Arguments, Output};
use engine::Engine;
use lines::Lines;
use pagestamp::memory::cuda::{Driver, DriverError};
use prompt::Prompt;
use reader::Reader;
use report::Findings;

/// What ends the example early.
type Failure = Box<dyn Error>;

/// Where to go on from a driver that is not there.
const WITHOUT_A_GPU: &str = "without a GPU, name the stand-in: --driver \"$(bash tests/gates/kvstandin.sh --build)\"";

fn main() -> ExitCode {
    match act() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            lines::note(format_args!("gpu_incident: {error}"));
            ExitCode::from(if error.is::<ArgumentError>() || error.is::<NoDriver>() { 2 } else { 1 })
        }
    }
}

/// Says whether every verdict is as it should be.
fn act() -> Result<bool, Failure> {
    let mut lines = Lines::new(io::stdout().lock());
    let (path, output) = match Arguments::parse(env::args_os().skip(1))? {
        Arguments::Help => {
            lines.line(format_args!("{}", arguments::HELP.trim_end()))?;
            return Ok(true);
        }
        Arguments::Run { driver, output } => (driver, output),
    };
    let driver = open(path.as_deref())?;
    let engine = Engine::new(&driver)?;
    let reader = Reader::new(&engine)?;
    let name = engine.describe(&driver)?;
    let (alice, bob) = (Prompt::alice(), Prompt::bob());
    report::opening(&mut lines, &name)?;
    let plain = plain::run(&engine, &reader, &alice, &bob)?;
    report::plain(&mut lines, &plain)?;
    let pooled = pooled::run(&driver, &engine, &reader, &alice, &bob)?;
    report::pooled(&mut lines, &pooled)?;
    let findings = Findings::new(name, &plain, &pooled);
    findings.verdict(&mut lines)?;
    if output == Output::Json {
        lines.line(format_args!("{}", findings.json()))?;
    }
    Ok(findings.right())
}

/// No driver could be opened.
#[derive(Debug)]
struct NoDriver(DriverError);

impl std::fmt::Display for NoDriver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; {WITHOUT_A_GPU}", self.0)
    }
}

impl Error for NoDriver {}

#[expect(unsafe_code, reason = "opens the driver that the command line names")]
fn open(path: Option<&Path>) -> Result<Driver, NoDriver> {
    match path {
        None => Driver::system(),
        // SAFETY: (1) whoever runs the example says that it is a CUDA driver.
        Some(path) => unsafe { Driver::open(path) },
    }
    .map_err(NoDriver)
}
