//! A continuous-batching engine that keeps its books in a [`pagestamp::PagePool`] and has no bytes: it replays a trace of real
//! requests at full speed.
//!
//! `cargo run --release --example serve -- --trace FILE`; `--help` shows the options. Without a trace it makes a seeded load.
//!
//! [`trace`] reads what was recorded, [`load`] makes the like, [`words`] makes token ids of both. [`engine`] is the scheduler:
//! it admits, finds prefixes, grows, preempts, publishes and releases. [`clock`] says how long a model would take.

mod arguments;
mod clock;
mod engine;
#[path = "../incident/lines.rs"]
mod lines;
mod load;
mod progress;
mod report;
mod trace;
mod words;

use std::env;
use std::error::Error;
use std::fs;
use std::io;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use arguments::{ArgumentError, Arguments, Plan};
use engine::{Engine, Served};
use lines::Lines;
use pagestamp::{CapacityPlan, NullMemory, PageGeometry, PagePool, Plane, PoolConfig};
use progress::Progress;
use trace::Trace;

/// What ends the example early.
type Failure = Box<dyn Error>;

fn main() -> ExitCode {
    match act() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            lines::note(format_args!("serve: {error}"));
            let is_input = error.is::<ArgumentError>() || error.is::<trace::TraceError>();
            ExitCode::from(if is_input { 2 } else { 1 })
        }
    }
}

/// Says whether the books add up.
fn act() -> Result<bool, Failure> {
    let mut out = Lines::new(io::stdout().lock());
    let plan = match Arguments::parse(env::args_os().skip(1))? {
        Arguments::Help => {
            out.line(format_args!("{}", arguments::HELP.trim_end()))?;
            return Ok(true);
        }
        Arguments::Run(plan) => plan,
    };
    let trace = requests(&plan)?;
    report::opening(&mut out, &plan, &trace)?;
    let served = serve(&plan, trace)?;
    report::closing(&mut out, &plan, &served)?;
    Ok(served.is_sound())
}

fn requests(plan: &Plan) -> Result<Trace, Failure> {
    let Some(path) = &plan.trace else { return Ok(load::make(plan.seed, plan.requests)) };
    let text = fs::read_to_string(path).map_err(|error| trace::TraceError::unreadable(path, &error))?;
    Ok(Trace::parse(&text, plan.format, plan.malformed)?)
}

/// Serves all requests, each thread those of its own sessions, over one pool.
fn serve(plan: &Plan, trace: Trace) -> Result<Served, Failure> {
    let geometry = PageGeometry::new(plan.page_tokens, &[Plane::per_token(1, 1)])?;
    let pool = PagePool::new(PoolConfig::new(plan.pages), NullMemory::new(geometry, plan.pages)?)?;
    let largest = pool.stats().usable_pages * u64::from(plan.page_tokens);
    let proof = pool.prove(CapacityPlan::new(largest))?;
    let progress = Progress::new(trace.jobs.len());
    let mut shares: Vec<Vec<trace::Job>> = (0..plan.threads).map(|_| Vec::new()).collect();
    for job in trace.jobs {
        let share = (job.session % plan.threads as u64) as usize;
        shares[share].push(job);
    }
    let begun = Instant::now();
    let parts: Vec<Served> = thread::scope(|scope| {
        let work = |jobs| Engine::new(&pool, &proof, plan, &progress).serve(jobs);
        let threads: Vec<_> = shares.into_iter().map(|jobs| scope.spawn(move || work(jobs))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a worker panics only by a defect")).collect()
    });
    progress.done();
    let mut served = parts.into_iter().fold(Served::default(), Served::and);
    served.close(&pool, begun.elapsed());
    Ok(served)
}
