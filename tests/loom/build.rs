//! Copies the protocol files of `../../src` to `OUT_DIR`, with the bug that `PAGESTAMP_PLANT` names planted in them.
//!
//! Every text that is looked for must stand in its file exactly once: a plant, an adaptation or a mirror that no longer
//! fits stops the build, so that none of them rots.

use std::path::{Path, PathBuf};
use std::{env, fs};

#[path = "plants.rs"]
#[allow(dead_code, reason = "shared with the runner, which uses the other fields")]
mod plants;

/// The files that the models run.
const FILES: &[&str] = &[
    "sync.rs",
    "id.rs",
    "stamp.rs",
    "hazard.rs",
    "header.rs",
    "free_list.rs",
    "free_runs.rs",
    "slots/stamp.rs",
    "slots/lane.rs",
    "slots/stock.rs",
];

/// What is changed in every copy: file, text, replacement. Nothing here touches an atomic of a protocol.
const ADAPTATIONS: &[(&str, &str, &str)] = &[
    // loom's own atomics behind a face that lets loom see more: `watched.rs`.
    ("sync.rs", "pub(crate) use loom::sync::atomic::{", "pub(crate) use crate::watched::{"),
    // The counter of pool ids is a static, which loom's atomics cannot be; it is not part of a protocol.
    ("id.rs", "use crate::sync::{AtomicU64, Ordering};", "use std::sync::atomic::{AtomicU64, Ordering};"),
    // So is the counter of threads.
    ("slots/lane.rs", "use crate::sync::{AtomicU32, Ordering};", "use std::sync::atomic::{AtomicU32, Ordering};"),
    // parking_lot's locks on loom's parts: `locks.rs`.
    ("slots/stock.rs", "use parking_lot::{Mutex, MutexGuard};", "use crate::locks::{Mutex, MutexGuard};"),
    // loom does not see into std's OnceLock; `once.rs` is the same promise on loom's own parts.
    ("hazard.rs", "use std::sync::OnceLock;", "use crate::once::OnceLock;"),
    (
        "hazard.rs",
        "pub(crate) const fn new() -> Self {\n        Self { first:",
        "pub(crate) fn new() -> Self {\n        Self { first:",
    ),
];

/// Doors to what only `hazard::thread` calls, which is not there under loom.
const BRIDGE: (&str, &str) = (
    "hazard.rs",
    "
impl Block {
    pub(crate) fn announce_key(&'static self, key: u64) -> Option<Hazard> {
        self.announce(key)
    }

    pub(crate) fn leave(&self) {
        self.unclaim();
    }
}
",
);

/// Steps of the pool that `world.rs` repeats by hand, since those files need a whole memory: file, function, and pieces
/// that stand in it in this order. Who changes one is sent to `world.rs` first.
const MIRRORS: &[(&str, &str, &[&str])] = &[
    (
        "access/handle.rs",
        "fn open_guard(",
        &[
            "hazard::announce(self.identity.pool, page)",
            "let word = meta.word_for_reader();",
            "word.is_readable_as(handle.generation())",
            "meta.owner() != Some(owner)",
            "meta.extent().written()",
        ],
    ),
    (
        "access/write.rs",
        "fn prepare_for(",
        &["extent().high() > from", "inner.keep_readers_off(", "meta.set_extent(meta.extent().with_high(end));"],
    ),
    (
        "pool/release.rs",
        "pub(crate) fn let_go_of_list(",
        &["self.free_at_once(state, run)", "self.let_go_of_page(", "self.end_letting_go("],
    ),
    ("pool/release.rs", "pub(crate) fn let_go(", &["self.let_go_of_page(", "self.end_letting_go("]),
    ("pool/release.rs", "fn free_at_once(", &["meta.word().freed(last)", "meta.free(*word)", "state.free.extend("]),
    (
        "pool/release.rs",
        "fn let_go_of_page(",
        &[
            "let waits = parting.borrowed || state.steps.is_any_open();",
            "meta.free(word);",
            "} else if waits || word.holds() > 0 {",
            "let word = word.released().with_state(PageState::Quarantined);",
            "meta.publish(if parting.borrowed { word.held().unwrap_or(word) } else { word });",
            "meta.publish(word.released().with_state(PageState::Cleaning));",
        ],
    ),
    ("pool/release.rs", "fn end_letting_go(", &["hazard::pages_announced(", "self.quarantine_announced("]),
    (
        "pool/release.rs",
        "pub(crate) fn collect_quarantine(",
        &[
            "hazard::pages_announced(",
            "word.holds() > 0 || announced.contains(page)",
            "meta.publish(word.with_state(PageState::Cleaning));",
        ],
    ),
    (
        "pool/release.rs",
        "pub(crate) fn make_free(",
        &["meta.clear_owner();", "meta.set_extent(", "meta.publish(word.with_state(PageState::Free));"],
    ),
    ("pool/release.rs", "fn clean_leaving(", &["drop(state);", "self.clean_in_hand(batch);"]),
    (
        "pool/release.rs",
        "pub fn release_pages(",
        &["inner.state.lock()", "inner.check_owned(owner, handle)", "inner.let_go("],
    ),
    ("pool/steps.rs", "fn hold(", &["self.open.is_empty()", "self.pages.push_back(page);", "last.before == self.next"]),
    (
        "pool/steps.rs",
        "fn passed(",
        &["self.open.front()", "oldest.is_none_or(|oldest| stretch.before <= oldest)"],
    ),
    (
        "pool/steps.rs",
        "pub(crate) fn close_step(",
        &[
            "inner.state.lock()",
            "state.steps.open.retain(",
            "inner.let_go_of_waiting(&mut state)",
            "inner.finish_leaving(state, leaving)",
        ],
    ),
    (
        "pool/steps.rs",
        "fn let_go_of_waiting(",
        &[
            "state.steps.passed()",
            "hazard::pages_announced(",
            "word.holds() > 0 || announced.contains(&page)",
            "meta.publish(word.with_state(PageState::Cleaning));",
        ],
    ),
    (
        "pool/tickets.rs",
        "fn check_pinnable(",
        &["self.set_writing(*page, true)", "hazard::pages_announced(", "self.set_writing(*page, false)"],
    ),
    (
        "pool/tickets.rs",
        "pub(crate) fn end_ticket(",
        &[
            "inner.find_ticket(&mut state, id)?;",
            "state.tickets.remove(&id.sequence)",
            "inner.close_ticket(&mut state, ticket);",
            "inner.look_after_holds(",
        ],
    ),
    (
        "pool/tickets.rs",
        "pub fn end_dead_holder(",
        &["self.inner.find_ticket(", "process.has_ended()", "self.end_proven(&[id.sequence]) > 0"],
    ),
    (
        "pool/tickets.rs",
        "fn end_proven(",
        &["state.tickets.remove(sequence)", "inner.close_ticket(&mut state, &ticket);", "inner.look_after_holds("],
    ),
    ("pool/tickets.rs", "fn close_ticket(", &["self.unhold(state, *page);", ".fetch_sub(1, Ordering::Release);"]),
    (
        "pool/state.rs",
        "pub(crate) fn close_record(",
        &["core.off_limits.load(Ordering::Acquire) > 0", "self.records.remove(core.key);", "self.idle.push(core);"],
    ),
    (
        "pool/release.rs",
        "pub(crate) fn last_borrow_ended(",
        &["self.unhold(&mut state, page)", "self.look_after_holds("],
    ),
    ("slots/cell.rs", "pub(super) fn read(", &["stamp.share(owner, handle.generation())", "SlotRef {"]),
    ("slots/cell.rs", "pub(super) fn write(", &["stamp.seize(owner, handle.generation(), purpose)", "SlotMut {"]),
    (
        "slots/release.rs",
        "pub fn release(",
        &[
            "inner.slots.leave(",
            "inner.renew(&mut hand)",
            "inner.stock.put(inner.slots.stamps(), slot, lane)",
            "inner.stock.central().quarantined.push(handle.index())",
        ],
    ),
    ("slots/release.rs", "pub(super) fn collect<", &["central.quarantined.retain(", "self.slots.collect("]),
    ("slots/release.rs", "pub(super) fn finish(", &["self.renew(hand)", "self.stock.put("]),
    (
        "slots/claim.rs",
        "fn take(",
        &[
            "self.stock.issue(",
            "self.stock.central()",
            "self.stock.issue_last(",
            "self.collect(&mut central",
            "drop(central);",
            "self.finish(hands);",
        ],
    ),
    ("reservation.rs", "pub fn read(", &["let borrow = self.borrow()?;", "self.check_no_writer(&tokens)?;"]),
    (
        "reservation.rs",
        "fn check_no_writer(",
        &["off_limits.load(Ordering::Acquire) == 0", "self.check_each_page(tokens)"],
    ),
    ("reservation.rs", "fn check_each_page(", &["word_for_reader()", "word.off_limits()"]),
    (
        "pool/tickets.rs",
        "pub(crate) fn keep_readers_off(",
        &["self.room_to_move(", "self.unpublish_own(", "self.move_away("],
    ),
    (
        "pool/tickets.rs",
        "fn room_to_move(",
        &["self.state.lock()", "core.header.is_revoked()", "self.pages_being_read(", "self.gather("],
    ),
    ("pool/tickets.rs", "fn must_move(", &["word.holds() > 0 || word.is_kept() || state.announced.contains(&page)"]),
    (
        "pool/tickets.rs",
        "fn lower_extent(",
        &["!meta.word().is_kept() && meta.extent().written() > from", "meta.set_extent("],
    ),
    ("pool/evict.rs", "fn let_go_of_cached(", &["self.revive(", "self.let_go(", "Parting::FOR_GOOD"]),
    ("pool/evict.rs", "pub(super) fn look_after_holds(", &["self.evict_surplus(", "self.collect_quarantine("]),
    (
        "pool/share.rs",
        "pub(super) fn hold_page(",
        &["meta.set_sharers(meta.sharers() + 1);", "meta.publish(word.with_kept(true));", "self.revive("],
    ),
    (
        "pool/share.rs",
        "pub(super) fn stays(",
        &[
            "if meta.sharers() > 0 {",
            "meta.set_sharers(meta.sharers() - 1);",
            "meta.publish(held.with_kept(",
            "meta.publish(held.cached());",
            "self.unpublish(state, page);",
        ],
    ),
    ("reservation.rs", "fn move_written(", &["word_for_reader().is_kept()", "meta.extent().with_written(written)"]),
    (
        "pool/tickets.rs",
        "fn pages_being_read(",
        &["self.lower_extent(page, from)", "hazard::pages_announced(", "self.must_move(state, *page)"],
    ),
    (
        "pool/tickets.rs",
        "fn move_away(",
        &[
            "meta.issue(owner);",
            "self.copy_prefix(page, fresh, from)",
            "meta.set_extent(meta.extent().with_written(from));",
            "core.pages.set(ordinal, fresh);",
            "self.let_go(",
        ],
    ),
];

fn main() {
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    let source = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../src");
    let name = env::var("PAGESTAMP_PLANT").unwrap_or_default();
    let plant = plants::SOURCE_PLANTS.iter().find(|plant| plant.name == name);
    assert!(plant.is_some() || name.is_empty(), "PAGESTAMP_PLANT: there is no plant {name:?}, see plants.rs");

    let (mut modules, mut slots) = (String::new(), String::new());
    fs::create_dir_all(out.join("slots")).expect("OUT_DIR can be written");
    for file in FILES {
        let real = read(&source, file);
        for plant in plants::SOURCE_PLANTS.iter().filter(|plant| plant.file == *file) {
            replace(&real, plant.old, plant.new, &format!("{file}: plant {}", plant.name));
        }
        let mut text = real;
        if let Some(plant) = plant.filter(|plant| plant.file == *file) {
            text = replace(&text, plant.old, plant.new, plant.name);
        }
        for (_, old, new) in ADAPTATIONS.iter().filter(|(of, ..)| of == file) {
            text = replace(&text, old, new, &format!("{file}: adaptation"));
        }
        if BRIDGE.0 == *file {
            text.push_str(BRIDGE.1);
        }
        fs::write(out.join(file), text).expect("OUT_DIR can be written");
        let module = file.trim_end_matches(".rs");
        let (name, modules) = match module.strip_prefix("slots/") {
            Some(name) => (name, &mut slots),
            None => (module, &mut modules),
        };
        *modules += &format!("#[path = {:?}]\npub(crate) mod {name};\n", out.join(file));
    }
    modules += &format!("pub(crate) mod slots {{\n{slots}}}\n");
    fs::write(out.join("real.rs"), modules).expect("OUT_DIR can be written");
    for (file, function, steps) in MIRRORS {
        check_mirror(&read(&source, file), file, function, steps);
    }

    println!("cargo::rustc-cfg=loom");
    println!("cargo::rustc-check-cfg=cfg(loom)");
    println!("cargo::rustc-env=PAGESTAMP_PLANTED={name}");
    println!("cargo::rerun-if-env-changed=PAGESTAMP_PLANT");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=plants.rs");
}

fn read(source: &Path, file: &str) -> String {
    let path = source.join(file);
    println!("cargo::rerun-if-changed={}", path.display());
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn replace(text: &str, old: &str, new: &str, what: &str) -> String {
    let found = text.matches(old).count();
    assert!(found == 1, "{what}: this text stands there {found} times, not once:\n{old}");
    text.replace(old, new)
}

fn check_mirror(text: &str, file: &str, function: &str, steps: &[&str]) {
    let squeeze = |text: &str| text.split_whitespace().collect::<String>();
    assert!(text.matches(function).count() == 1, "src/{file}: {function:?} is not there exactly once");
    let begin = text.find(function).expect("counted");
    // A method of an impl ends at the first brace in column 4.
    let body = &text[begin..];
    let body = squeeze(&body[..body.find("\n    }\n").unwrap_or(body.len())]);
    let mut at = 0;
    for step in steps {
        let found = body[at..].find(&squeeze(step)).unwrap_or_else(|| {
            panic!(
                "src/{file}, {function}): the step `{step}` is not where it was. The models repeat this function in \
                 tests/loom/src/world.rs: make them do what it does now, then change MIRRORS in tests/loom/build.rs"
            )
        });
        at += found + squeeze(step).len();
    }
}
