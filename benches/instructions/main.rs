//! Instructions of the hottest calls, counted one by one: `cargo bench --bench instructions`.
//!
//! A child of this process runs each call, and this process steps it. Unlike time, the count is the same on a busy machine,
//! so that a gate can compare it with what is committed in `counts.txt`. `-- --check` fails when a count is further than
//! [`TOLERANCE`] from there, `-- --write FILE` writes what was counted.

mod calls;
mod stepper;

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::process::ExitCode;

/// Counts as they were committed.
const COMMITTED: &str = include_str!("counts.txt");
/// Part of a count by which it may differ: another libc, another compiler of the same version range.
const TOLERANCE: f64 = 0.05;
/// Instructions by which a count may differ in any case.
const SLACK: u64 = 8;

fn main() -> ExitCode {
    let counts: Vec<(&str, u64)> = match stepper::count(&calls::all()) {
        Ok(counts) => counts,
        Err(error) => {
            eprintln!("instructions: this system lets no process step its child: {error}");
            return ExitCode::from(3);
        }
    };
    let committed = parse(COMMITTED);
    let mut failed = false;
    println!("{:<44} {:>12} {:>10}", "instructions", "now", "committed");
    for (name, now) in &counts {
        let before = committed.get(*name);
        let is_off = before.is_none_or(|before| is_far(*now, *before));
        failed |= is_off;
        let before = before.map_or("none".to_owned(), u64::to_string);
        println!("{name:<44} {now:>12} {before:>10}{}", if is_off { "  OFF" } else { "" });
    }
    let arguments: Vec<String> = env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--write") {
        let lines: String = counts.iter().map(|(name, now)| format!("{now} {name}\n")).collect();
        let Some(path) = arguments.get(at + 1) else {
            eprintln!("--write needs a path");
            return ExitCode::from(2);
        };
        if let Err(error) = fs::write(path, lines) {
            eprintln!("{path}: {error}");
            return ExitCode::FAILURE;
        }
    }
    let checks = arguments.iter().any(|argument| argument == "--check");
    if failed && checks {
        eprintln!("a count is off: make the call as cheap as it was, or say why not and commit the new counts");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// `COUNT NAME` on each line.
fn parse(text: &str) -> BTreeMap<&str, u64> {
    text.lines().filter_map(|line| line.split_once(' ')).filter_map(|(n, name)| Some((name, n.parse().ok()?))).collect()
}

fn is_far(now: u64, before: u64) -> bool {
    now.abs_diff(before) > SLACK.max((before as f64 * TOLERANCE) as u64)
}
