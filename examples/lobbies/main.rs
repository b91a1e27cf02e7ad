//! A game server with thousands of lobbies on worker threads: players join, leave and crash, and messages come late, twice, or
//! after their match.
//!
//! `cargo run --release --example lobbies`; `--help` shows the options.
//!
//! [`seat`] is what a player has, and names its match in everything that it holds, so that [`findings`] can tell a leak by
//! looking. [`pooled`] keeps the seats in a [`pagestamp::SlotPool`], [`naive`] in a plain queue of indices. [`server`]
//! opens the matches, [`worker`] plays them, [`mail`] is the network.

mod arguments;
mod chance;
mod findings;
#[expect(dead_code, reason = "incident prints more than one flat object")]
#[path = "../incident/json.rs"]
mod json;
#[path = "../incident/lines.rs"]
mod lines;
mod lobby;
mod mail;
mod naive;
mod pooled;
mod report;
mod seat;
mod server;
mod worker;

use std::env;
use std::error::Error;
use std::io;
use std::process::ExitCode;

use arguments::{ArgumentError, Arguments, Mode, Plan};
use lines::Lines;
use naive::Naive;
use pooled::Pooled;
use report::Run;

fn main() -> ExitCode {
    match act() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            lines::note(format_args!("lobbies: {error}"));
            ExitCode::from(if error.is::<ArgumentError>() { 2 } else { 1 })
        }
    }
}

fn act() -> Result<(), Box<dyn Error>> {
    let mut out = Lines::new(io::stdout().lock());
    match Arguments::parse(env::args_os().skip(1))? {
        Arguments::Help => Ok(out.line(format_args!("{}", arguments::HELP.trim_end()))?),
        Arguments::Run { plan, output } => {
            let run = play(plan)?;
            report::print(&mut out, &plan, &run, output)?;
            Ok(report::verdict(&plan, &run)?)
        }
    }
}

fn play(plan: Plan) -> Result<Run, Box<dyn Error>> {
    Ok(match plan.mode {
        Mode::Pooled => server::run(&Pooled::new(server::seats(&plan))?, &plan),
        Mode::Unsafe => server::run(&Naive::new(server::seats(&plan)), &plan),
    })
}
