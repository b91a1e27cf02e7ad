//! loom models of pagestamp's protocols, over the real `sync.rs`, `id.rs`, `stamp.rs`, `hazard.rs`, `header.rs`, and of the
//! slots `stamp.rs`, `lane.rs` and `stock.rs` with the free list.
//!
//! *Owns* the table of models and planted bugs, and the run. *Does not know* what a model shows: `models/`.
//!
//! ```text
//! cargo run                             every sound model, then every planted order of steps
//! cargo run -- NAME                     the sound models whose name contains NAME
//! PAGESTAMP_PLANT=bug cargo run         one bug planted into the source (`plants.rs`); fails if it survives
//! cargo run -- --source-plants          their names
//! ```
//!
//! `tests/gates/loom.sh` does all of it. What is proved is proved within a model: some threads, one or two pages, the
//! number of switches in the table. What to know of that:
//!
//! - loom takes `SeqCst` loads and stores for `AcqRel`, and lets one `fence(SeqCst)` order *everything* before it
//!   before everything behind the next. The language promises less (a total order of fences, which decides what loads
//!   behind them may still miss). So every model that shows a missing Release or Acquire is laid out so that no later
//!   fence hides it, and is paired with a planted bug that proves so.
//! - loom 0.7 by itself skips orders that matter here, and so "proves" too much; `watched.rs` says which and mends it.
//!   Each model also counts outcomes, and is no proof when one of those listed with it never came.
//! - Steps that `src/pool/` and `src/access/` take around the real words are repeated in `world.rs`; `build.rs` holds
//!   them against the source.
//! - Not here: a race for the right to scrub a page ("Relaxed scrub claim"), which this design has not: dirty pages are
//!   taken into a hand under the pool's lock.
//!
//! Not observable, so not planted: a Relaxed `Block::unclaim`. Each slot is filled before a `fence(SeqCst)`, which makes
//! the later store a release of those fills even when it is Relaxed. The Release stays: it says what is meant. Nor the Release
//! of a slot's compare-and-swap: it keeps a look at the owner before a change by another thread that comes later, and loom
//! lets no load see what is stored later anyway.

mod bytes;
mod locks;
mod models;
mod once;
#[path = "../plants.rs"]
#[allow(dead_code, reason = "shared with build.rs, which uses the other fields")]
mod plants;
mod slot_world;
mod watched;
mod world;

/// What the free list names of the options of a pool.
#[allow(dead_code, reason = "slots lie as they come")]
mod config {
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) enum Placement {
        HotFirst,
        Contiguous,
    }
}

#[allow(dead_code, reason = "the models use a part of each real file")]
mod real {
    include!(concat!(env!("OUT_DIR"), "/real.rs"));
}
use real::{free_list, free_runs, hazard, header, id, slots, stamp, sync};

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use models::{blocks, extent, header as revoke, release, shared, slot, step, stock, ticket};
use plants::SOURCE_PLANTS;
use world::Plant;

struct Model {
    name: &'static str,
    run: fn(Plant),
    /// Switches between threads that are not forced; `None`: any number.
    bound: Option<usize>,
    /// What must have happened in some execution; a proof that never got there is none.
    outcomes: &'static [&'static str],
}

macro_rules! models {
    ($($module:ident :: $name:ident, $bound:expr, [$($outcome:literal),*];)*) => {
        &[$(Model { name: stringify!($name), run: $module::$name, bound: $bound, outcomes: &[$($outcome),*] }),*]
    };
}

const MODELS: &[Model] = models! {
    release::loom_release_races_read, None, ["read", "refused", "reissued at once", "quarantined"];
    release::loom_release_races_two_readers, Some(3), ["read", "refused", "reissued at once", "quarantined"];
    release::loom_quarantine_is_collected_by_reader_and_reserve, Some(4), ["reissued at once", "quarantined"];
    release::loom_slot_is_reused_while_a_release_scans, Some(5), ["read", "refused", "reissued at once", "quarantined"];
    release::loom_guard_ends_on_another_thread, Some(3), ["reissued at once", "quarantined"];
    release::loom_first_guard_of_a_thread_races_release, Some(5), ["read", "refused", "reissued at once", "quarantined"];
    release::loom_handle_outlives_two_lives, Some(5), ["read", "refused", "third life"];
    release::loom_guessed_handle_is_refused, Some(5), ["read", "refused", "reissued at once", "quarantined"];
    release::loom_release_races_reserve, None, ["taken", "not free yet"];
    release::loom_two_releases_of_one_page, None, ["here", "there"];
    extent::loom_append_races_read, None, ["before", "after"];
    extent::loom_rewrite_races_read, Some(5), ["before", "between", "after", "refused", "in place", "moved"];
    shared::loom_rewrite_by_the_holder_who_is_left_races_read, Some(4),
        ["before", "between", "after", "refused", "in place", "moved"];
    shared::loom_rewrite_races_the_leave_of_the_other_holder, None, ["in place", "moved"];
    shared::loom_eviction_of_a_cached_page_races_read, Some(5), ["read", "refused", "reissued at once", "quarantined"];
    shared::loom_lookup_of_a_cached_page_races_read, Some(4), ["read", "refused", "freed", "quarantined"];
    shared::loom_lookup_races_the_release_of_the_last_holder, None, ["live", "cached"];
    ticket::loom_write_ticket_races_read, None, ["before", "after", "refused", "opened", "busy"];
    ticket::loom_read_by_reservation_follows_ticket_end, None, ["read", "busy"];
    ticket::loom_release_races_last_ticket_end, None, ["reissued at once", "quarantined"];
    ticket::loom_two_ticket_ends_race_release, Some(5), ["reissued at once", "quarantined"];
    ticket::loom_release_races_read_ticket_end, None, ["reissued at once", "quarantined"];
    ticket::loom_two_write_ticket_ends_race_read, None, ["read", "busy"];
    ticket::loom_two_write_ticket_ends_race_read_by_reservation, Some(4), ["read", "busy"];
    ticket::loom_revoke_races_done_of_a_read_ticket, Some(6),
        ["by revoke", "by done", "reissued at once", "quarantined"];
    ticket::loom_revoke_races_done_of_a_write_ticket, Some(6),
        ["by revoke", "by done", "reissued at once", "quarantined"];
    ticket::loom_proven_end_races_done, Some(6), ["by revoke", "by done", "reissued at once", "quarantined"];
    ticket::loom_release_of_a_reservation_races_its_last_write_ticket_end, None, ["same page", "other page"];
    ticket::loom_reclaim_races_the_last_write_ticket_end, Some(4),
        ["read", "refused", "reissued at once", "quarantined"];
    step::loom_step_end_races_release, None, ["reissued at once", "quarantined"];
    step::loom_two_step_ends_race_release, Some(4), ["reissued at once", "quarantined"];
    step::loom_table_races_release, None, ["reissued at once", "quarantined", "in the table", "refused"];
    revoke::loom_revoke_races_borrow, None, ["read", "refused", "by the revoker", "by a borrower"];
    revoke::loom_revoke_races_two_borrowers, Some(5), ["read", "refused", "by the revoker", "by a borrower"];
    revoke::loom_two_revocations_race_borrow, Some(6), ["read", "refused", "by the revoker", "by a borrower"];
    revoke::loom_revoke_races_a_look_at_the_flags, None, ["refused", "busy", "gone"];
    blocks::loom_two_threads_claim_their_first_blocks, None, ["claimed"];
    blocks::loom_two_threads_claim_a_block_that_was_left, None, ["claimed"];
    blocks::loom_block_changes_hands_with_a_guard_in_it, None, ["one block", "two blocks"];
    slot::loom_slot_release_races_read, Some(4), ["read", "refused", "reissued at once", "quarantined"];
    slot::loom_slot_release_races_two_readers, Some(2), ["read", "refused", "reissued at once", "quarantined"];
    slot::loom_slot_release_races_write, Some(4), ["written", "refused", "reissued at once", "quarantined"];
    slot::loom_slot_writers_race, None, ["written", "busy"];
    slot::loom_slot_write_races_read, None, ["read", "written", "busy"];
    slot::loom_slot_write_races_two_reads, Some(3), ["read", "written", "busy"];
    slot::loom_slot_init_races_read, None, ["read", "blank", "busy"];
    slot::loom_two_releases_of_one_slot, None, ["here", "there"];
    slot::loom_late_message_to_a_slot, Some(4), ["read", "refused"];
    slot::loom_guessed_slot_handle_is_refused, None, ["refused", "foreign"];
    slot::loom_slot_poisoned_by_a_panic_races_read, None, ["read", "busy", "poisoned"];
    slot::loom_quarantined_slot_is_collected_once, Some(4), ["here", "there", "not yet"];
    stock::loom_two_threads_claim_and_free_one_slot, None, ["claimed", "none"];
    stock::loom_two_threads_claim_and_free_two_slots, None, ["claimed", "central", "magazine"];
    stock::loom_gather_races_free, None, ["gathered"];
};

/// Wrong orders of steps, each with the model that must fail.
const ORDER_PLANTS: &[(&str, Plant, &str)] = &[
    ("check_then_read", Plant::CheckThenRead, "loom_release_races_read"),
    ("check_then_announce", Plant::CheckThenAnnounce, "loom_release_races_read"),
    ("release_ignores_readers", Plant::ReleaseIgnoresReaders, "loom_release_races_read"),
    ("scan_before_publish", Plant::ScanBeforePublish, "loom_release_races_read"),
    ("bump_after_zero", Plant::BumpAfterZero, "loom_release_races_read"),
    ("free_before_zero", Plant::FreeBeforeZero, "loom_release_races_reserve"),
    ("collect_ignores_readers", Plant::CollectIgnoresReaders, "loom_quarantine_is_collected_by_reader_and_reserve"),
    ("owner_not_compared", Plant::OwnerNotCompared, "loom_guessed_handle_is_refused"),
    ("check_outside_the_lock", Plant::CheckOutsideLock, "loom_two_releases_of_one_page"),
    ("release_ignores_tickets", Plant::ReleaseIgnoresTickets, "loom_release_races_last_ticket_end"),
    ("extent_before_bytes", Plant::ExtentBeforeBytes, "loom_append_races_read"),
    ("rewrite_ignores_readers", Plant::RewriteIgnoresReaders, "loom_rewrite_races_read"),
    ("extent_lowered_after_scan", Plant::ExtentLoweredAfterScan, "loom_rewrite_races_read"),
    (
        "shared_extent_lowered_after_scan",
        Plant::SharedExtentLoweredAfterScan,
        "loom_rewrite_by_the_holder_who_is_left_races_read",
    ),
    ("shared_extent_not_lowered", Plant::SharedExtentNotLowered, "loom_rewrite_by_the_holder_who_is_left_races_read"),
    ("shared_page_rewritten", Plant::SharedPageRewritten, "loom_rewrite_races_the_leave_of_the_other_holder"),
    ("sharers_not_counted", Plant::SharersNotCounted, "loom_rewrite_races_the_leave_of_the_other_holder"),
    ("lookup_is_no_holder", Plant::SharersNotCounted, "loom_lookup_races_the_release_of_the_last_holder"),
    ("eviction_ignores_readers", Plant::EvictionIgnoresReaders, "loom_eviction_of_a_cached_page_races_read"),
    ("eviction_of_a_held_page", Plant::EvictionOfAHeldPage, "loom_lookup_races_the_release_of_the_last_holder"),
    ("write_ticket_ignores_readers", Plant::TicketIgnoresReaders, "loom_write_ticket_races_read"),
    ("writing_flag_after_scan", Plant::WritingAfterScan, "loom_write_ticket_races_read"),
    ("relaxed_ticket_count", Plant::RelaxedTicketCount, "loom_read_by_reservation_follows_ticket_end"),
    ("release_ignores_read_tickets", Plant::ReleaseIgnoresTickets, "loom_release_races_read_ticket_end"),
    ("release_ignores_two_tickets", Plant::ReleaseIgnoresTickets, "loom_two_ticket_ends_race_release"),
    ("first_end_shows_page", Plant::FirstEndShowsPage, "loom_two_write_ticket_ends_race_read"),
    ("first_end_clears_count", Plant::FirstEndClearsCount, "loom_two_write_ticket_ends_race_read_by_reservation"),
    ("read_end_checked_outside_the_lock", Plant::EndCheckedOutsideLock, "loom_revoke_races_done_of_a_read_ticket"),
    ("write_end_checked_outside_the_lock", Plant::EndCheckedOutsideLock, "loom_revoke_races_done_of_a_write_ticket"),
    ("second_read_end_counts_again", Plant::EndNotChecked, "loom_revoke_races_done_of_a_read_ticket"),
    ("second_write_end_counts_again", Plant::EndNotChecked, "loom_revoke_races_done_of_a_write_ticket"),
    ("proof_not_looked_at_again", Plant::ProofNotLookedAtAgain, "loom_proven_end_races_done"),
    (
        "release_clears_count",
        Plant::ReleaseClearsCount,
        "loom_release_of_a_reservation_races_its_last_write_ticket_end",
    ),
    (
        "counted_record_is_reused",
        Plant::CountedRecordIsReused,
        "loom_release_of_a_reservation_races_its_last_write_ticket_end",
    ),
    ("reclaim_ignores_borrows", Plant::ReclaimIgnoresBorrows, "loom_reclaim_races_the_last_write_ticket_end"),
    ("reclaim_ignores_tickets", Plant::ReleaseIgnoresTickets, "loom_reclaim_races_the_last_write_ticket_end"),
    (
        "flags_of_a_lost_page_are_trusted",
        Plant::BorrowTrustsFlagsOfALostPage,
        "loom_reclaim_races_the_last_write_ticket_end",
    ),
    ("release_ignores_steps", Plant::ReleaseIgnoresSteps, "loom_step_end_races_release"),
    ("steps_looked_at_outside_the_lock", Plant::StepsLookedAtOutsideLock, "loom_table_races_release"),
    ("end_ignores_other_steps", Plant::EndIgnoresOtherSteps, "loom_two_step_ends_race_release"),
    ("page_waits_for_the_oldest_step", Plant::PageWaitsForOldestStep, "loom_two_step_ends_race_release"),
    ("table_before_its_step", Plant::TableBeforeStep, "loom_table_races_release"),
    ("both_hand_back", Plant::BothHandBack, "loom_revoke_races_borrow"),
    ("slot_looked_at_and_read", Plant::CheckThenRead, "loom_slot_release_races_read"),
    ("slot_free_before_reset", Plant::FreeBeforeZero, "loom_two_threads_claim_and_free_one_slot"),
    ("slot_reset_by_the_reader", Plant::ReaderResets, "loom_slot_release_races_read"),
];

/// The bug in this build's copy of the source; empty for none.
const PLANTED: &str = env!("PAGESTAMP_PLANTED");

/// How a run ends that found what a model looks for, and how one that broke down.
const FOUND: u8 = 40;
const BROKE: u8 = 41;

static EXECUTIONS: AtomicU64 = AtomicU64::new(0);
static OUTCOMES: Mutex<BTreeMap<&str, u64>> = Mutex::new(BTreeMap::new());

/// Notes what happened in this execution.
fn saw(outcome: &'static str) {
    if let Ok(mut outcomes) = OUTCOMES.lock() {
        *outcomes.entry(outcome).or_default() += 1;
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["--source-plants"] => {
            SOURCE_PLANTS.iter().for_each(|plant| println!("{}", plant.name));
            ExitCode::SUCCESS
        }
        ["--run", model, plant] => run(model, plant),
        [] if !PLANTED.is_empty() => {
            let Some(plant) = SOURCE_PLANTS.iter().find(|plant| plant.name == PLANTED) else {
                return ExitCode::FAILURE;
            };
            verdict(is_caught(plant.name, plant.model, "sound"))
        }
        [] => {
            let sound = MODELS.iter().filter(|model| !is_proved(model)).count() == 0;
            let caught = ORDER_PLANTS.iter().filter(|(name, _, model)| !is_caught(name, model, name)).count() == 0;
            verdict(sound && caught)
        }
        [part] => {
            let chosen: Vec<&Model> = MODELS.iter().filter(|model| model.name.contains(part)).collect();
            verdict(!chosen.is_empty() && chosen.into_iter().filter(|model| !is_proved(model)).count() == 0)
        }
        _ => {
            eprintln!("usage: models [NAME | --source-plants]");
            ExitCode::FAILURE
        }
    }
}

fn verdict(good: bool) -> ExitCode {
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a model in a process of its own, since a run that finds something ends there and then.
fn child(model: &str, plant: &str) -> (Option<i32>, String) {
    let program = std::env::current_exe().expect("the path of this program");
    let output = Command::new(program).args(["--run", model, plant]).output().expect("a process");
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.code(), said)
}

fn is_proved(model: &Model) -> bool {
    let (code, said) = child(model.name, "sound");
    let good = code == Some(0);
    println!("{}: {}: {said}", if good { "proved" } else { "FAILED" }, model.name);
    good
}

fn is_caught(name: &str, model: &str, plant: &str) -> bool {
    let (code, said) = child(model, plant);
    let good = code == Some(i32::from(FOUND));
    println!("{}: {name} (by {model}: {said})", if good { "caught" } else { "SURVIVED" });
    good
}

fn run(name: &str, plant: &str) -> ExitCode {
    let model = MODELS.iter().find(|model| model.name == name);
    let plant = ORDER_PLANTS.iter().find(|(of, ..)| *of == plant).map_or(Plant::Sound, |(_, plant, _)| *plant);
    let Some(Model { run, bound, outcomes, .. }) = model else {
        println!("there is no such model");
        return ExitCode::from(BROKE);
    };
    std::panic::set_hook(Box::new(|panic| {
        let said = panic.payload_as_str().unwrap_or("a panic without words").trim();
        // Only a race that loom saw, or a promise of the contract that a model saw broken, is a finding.
        let promise = said.starts_with('C') && said[1..].starts_with(|c: char| c.is_ascii_digit());
        let promise = promise || said.contains(": C") && said.starts_with("assertion");
        let found = promise || said.contains("Causality violation");
        let first = said.lines().next().unwrap_or_default();
        println!("execution {}: {first}", EXECUTIONS.load(Ordering::Relaxed));
        // Here and now: unwinding would end guards, and so run the model on.
        std::process::exit(i32::from(if found { FOUND } else { BROKE }));
    }));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = *bound;
    builder.max_branches = 10_000;
    let run = *run;
    builder.check(move || {
        EXECUTIONS.fetch_add(1, Ordering::Relaxed);
        watched::begin();
        run(plant);
    });
    let switches = bound.map_or("any number of switches".to_owned(), |bound| format!("at most {bound} switches"));
    let seen = OUTCOMES.lock().map(|seen| seen.clone()).unwrap_or_default();
    let shown: Vec<String> = seen.iter().map(|(outcome, times)| format!("{outcome} {times}")).collect();
    println!("{} executions, {switches} ({})", EXECUTIONS.load(Ordering::Relaxed), shown.join(", "));
    if let Some(missing) = outcomes.iter().find(|outcome| !seen.contains_key(*outcome)) {
        println!("never came to: {missing}");
        return ExitCode::from(BROKE);
    }
    ExitCode::SUCCESS
}
