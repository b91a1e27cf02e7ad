//! What people are told.

use std::io::Write;

use serde_json::json;

use crate::arguments::Plan;
use crate::engine::Served;
use crate::lines::{Lines, StdoutError};
use crate::trace::Trace;

/// Skipped lines that are named; the others are counted.
const NAMED: usize = 10;

/// Says what is replayed.
pub(crate) fn opening(out: &mut Lines<impl Write>, plan: &Plan, trace: &Trace) -> Result<(), StdoutError> {
    let hours = trace.jobs.last().map_or(0.0, |job| job.at) / 3600.0 / plan.rate;
    out.line(format_args!(
        "{}: {} requests in {hours:.2} h at rate {}, {} owners, {} threads, {} pages of {} tokens",
        trace.origin,
        trace.jobs.len(),
        plan.rate,
        plan.owners,
        plan.threads,
        plan.pages,
        plan.page_tokens
    ))?;
    for bad in trace.skipped.iter().take(NAMED) {
        out.line(format_args!("skipped {bad}"))?;
    }
    if trace.skipped.len() > NAMED {
        out.line(format_args!("skipped {} lines more", trace.skipped.len() - NAMED))?;
    }
    Ok(())
}

/// Says what became of it, as a table and, if asked for, as one JSON object.
pub(crate) fn closing(out: &mut Lines<impl Write>, plan: &Plan, served: &Served) -> Result<(), StdoutError> {
    let ns_per_page_op = served.in_pool.as_nanos() as f64 / served.page_ops.max(1) as f64;
    let audit = served.audit.as_deref().unwrap_or("ok");
    let rows = [
        ("completed", served.completed.to_string()),
        ("never fit", served.never_fits.to_string()),
        ("preemptions", served.preempted.to_string()),
        ("tokens of prompts found", percent(served.hit_tokens, served.tokens)),
        ("pages found", served.hit_pages.to_string()),
        ("pages evicted", served.evicted_pages.to_string()),
        ("pages live at the peak", served.peak_live_pages.to_string()),
        ("pages taken, found and given back", served.page_ops.to_string()),
        ("time in the pool for each of them", format!("{ns_per_page_op:.1} ns")),
        (
            "time in the pool, of all",
            format!("{:.2} s of {:.2} s", served.in_pool.as_secs_f64(), served.elapsed.as_secs_f64()),
        ),
        ("pages lost", served.lost_pages.to_string()),
        ("audit", audit.to_owned()),
    ];
    for (name, value) in rows {
        out.line(format_args!("  {name:<34} {value:>22}"))?;
    }
    for failure in served.failures.iter().take(NAMED) {
        out.line(format_args!("FAILED: {failure}"))?;
    }
    if plan.json {
        let line = json!({
            "requests": served.requests, "completed": served.completed, "never_fits": served.never_fits,
            "preempted": served.preempted, "hit_pages": served.hit_pages, "evicted_pages": served.evicted_pages,
            "peak_live_pages": served.peak_live_pages, "page_ops": served.page_ops,
            "ns_per_page_op": (ns_per_page_op * 10.0).round() / 10.0, "audit": audit, "lost_pages": served.lost_pages,
            "failures": served.failures.len(),
        });
        out.line(format_args!("{line}"))?;
    }
    Ok(())
}

fn percent(part: u64, all: u64) -> String {
    format!("{:.1} %", part as f64 * 100.0 / all.max(1) as f64)
}
