//! What cleaning, checking and reuse cost on a GPU: `bash tests/gates/gpu.sh`, or `cargo bench --features cuda --bench gpu`.
//!
//! The driver is `PAGESTAMP_CUDA_DRIVER`, else the system's. On the stand-in it runs at tiny sizes, to be known to run, and
//! says that its times mean nothing. **No real GPU has run this yet**: there are no numbers of it anywhere.
//!
//! Three times of each, medians over rounds in which the rivals take turns:
//!
//! | time | from | to |
//! |---|---|---|
//! | host | the first call | the last call's return: what a scheduler's thread pays |
//! | wall | the first call, on an idle device | the host has seen the end |
//! | device | the work before, on a busy device | the work behind may begin: what a full pipeline pays |
//!
//! Prints a table, and one JSON object on the last line. `--probe` only says which driver answers: 0 when it is a real GPU's,
//! 3 when not.
#![expect(unsafe_code, reason = "calls the driver as an engine does")]
#![expect(clippy::unwrap_used, reason = "a bench fails by panicking")]

mod check;
mod cleaning;
mod engine;
mod race;
mod report;
mod reuse;

use std::process::ExitCode;

use engine::Engine;
use report::Report;

/// How much is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// As a GPU needs it.
    Full,
    /// As an interpreter can bear it.
    Tiny,
}

fn main() -> ExitCode {
    let engine = match Engine::open() {
        Ok(engine) => engine,
        Err(why) => {
            println!("no GPU: {why}");
            return ExitCode::from(3);
        }
    };
    if std::env::args().any(|argument| argument == "--probe") {
        println!("{}", engine.describe());
        return ExitCode::from(if engine.is_standin() { 3 } else { 0 });
    }
    let scale = if engine.is_standin() { Scale::Tiny } else { Scale::Full };
    let mut report = Report::new(&engine);
    cleaning::measure(&engine, scale, &mut report);
    check::measure(&engine, scale, &mut report);
    reuse::measure(&engine, scale, &mut report);
    report.print();
    ExitCode::SUCCESS
}
