//! Mutants of the PTX: one instruction is another, or missing. Each must change what the rounds see.
//!
//! The list is not chosen: every instruction of every kernel is mutated in every way that is known here. Mutants that do
//! the same in every way are known by name, with the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kvstandin::ptx::{Launch, Module, Order};

use crate::PTX;
use crate::round::{self, Bench, Round};

/// A PTX text in which one line is another.
struct Mutant {
    kernel: String,
    line: usize,
    was: String,
    /// Counts the lines of the kernel that say the same, from 1.
    nth: usize,
    is: String,
}

impl Mutant {
    /// The mutated kernel alone, in a text of its own.
    fn text(&self) -> String {
        let mut text = String::from(".version 8.0\n.target sm_80\n.address_size 64\n");
        let mut is_in = false;
        for (number, line) in PTX.lines().enumerate() {
            if line.starts_with(".visible .entry") {
                is_in = line.contains(&format!("{}(", self.kernel));
            }
            if is_in {
                text += if number == self.line { &self.is } else { line };
                text.push('\n');
            }
        }
        text
    }
}

/// Instructions for which another stands.
const SWAPS: &[(&str, &str)] = &[
    ("setp.lt.", "setp.le."),
    ("setp.lt.", "setp.ge."),
    ("setp.le.", "setp.lt."),
    ("setp.le.", "setp.gt."),
    ("setp.gt.", "setp.ge."),
    ("setp.gt.", "setp.le."),
    ("setp.ge.", "setp.gt."),
    ("setp.ge.", "setp.lt."),
    ("setp.eq.", "setp.ne."),
    ("setp.ne.", "setp.eq."),
    ("add.s", "sub.s"),
    ("sub.s", "add.s"),
    ("and.pred", "or.pred"),
    ("or.pred", "and.pred"),
    ("and.b64", "or.b64"),
    ("or.b64", "and.b64"),
    ("and.b32", "xor.b32"),
    ("xor.b32", "and.b32"),
    ("xor.b64", "and.b64"),
    ("mul.lo.s", "add.s"),
    ("shl.b32", "shr.u32"),
    ("shr.u32", "shl.b32"),
    ("shl.b64", "shr.u64"),
    ("shr.u64", "shl.b64"),
    ("min.u32", "add.s32"),
    ("min.u64", "add.s64"),
    ("neg.s32", "mov.u32"),
    ("neg.s64", "mov.u64"),
    ("not.pred", "mov.pred"),
    ("atom.global.min.u64", "atom.global.exch.b64"),
    ("atom.global.add.u32", "atom.global.exch.b32"),
    ("atom.shared.xor.b32", "// "),
];

fn mutants() -> Vec<Mutant> {
    let mut mutants = Vec::new();
    let mut kernel = None;
    let mut seen = BTreeMap::new();
    for (number, line) in PTX.lines().enumerate() {
        if let Some(entry) = line.strip_prefix(".visible .entry ") {
            kernel = Some(entry.trim_end_matches('('));
        }
        let Some(kernel) = kernel.filter(|_| line.starts_with(['\t', '@']) && line.ends_with(';')) else { continue };
        if line.trim_start().starts_with('.') {
            continue;
        }
        let nth = seen.entry((kernel, line)).or_insert(0);
        *nth += 1;
        for is in variants(line) {
            mutants.push(Mutant {
                kernel: kernel.to_owned(),
                line: number,
                was: line.trim().to_owned(),
                nth: *nth,
                is,
            });
        }
    }
    mutants
}

fn variants(line: &str) -> Vec<String> {
    let mut variants: Vec<_> =
        SWAPS.iter().filter(|(from, _)| line.contains(from)).map(|(from, to)| line.replace(from, to)).collect();
    // Missing.
    variants.push(String::new());
    // Taken where it is not, and the other way round.
    if let Some(guarded) = line.strip_prefix("@!") {
        variants.push(format!("@{guarded}"));
    } else if let Some(guarded) = line.strip_prefix('@') {
        variants.push(format!("@!{guarded}"));
    }
    // Another field.
    if let Some((before, rest)) = line.split_once('[') {
        let (address, after) = rest.split_once(']').expect("an address ends");
        let (base, offset) = address.split_once('+').unwrap_or((address, "0"));
        let offset: i64 = offset.parse().expect("an offset is a number");
        for by in [4, 8] {
            variants.push(format!("{before}[{base}+{}]{after}", offset + by));
        }
    }
    // Another number.
    if let Some((before, number)) = line.trim_end_matches(';').rsplit_once(", ")
        && let Ok(number) = number.parse::<i64>()
    {
        variants.push(format!("{before}, {};", number + 1));
    }
    // The other of two.
    if let Some((before, operands)) = line.split_once("selp.") {
        let parts: Vec<_> = operands.split(", ").collect();
        variants.push(format!("{before}selp.{}, {}, {}, {}", parts[0], parts[2], parts[1], parts[3]));
    }
    variants
}

/// Mutants that do the same in every way, each below the reason: `# reason`, then `kernel | was | is`. Where a kernel says
/// the same twice, the second is `kernel | was #2 | is`.
const EQUIVALENT: &str = include_str!("equivalent.txt");

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let is = if self.is.is_empty() { "(nothing)".to_owned() } else { words(&self.is) };
        let nth = if self.nth == 1 { String::new() } else { format!(" #{}", self.nth) };
        write!(f, "{} | {}{nth} | {is}", self.kernel, words(&self.was))
    }
}

/// A round, and what a mutant may spend on it: several times what the kernel does.
struct Trial<'a> {
    round: &'a Round,
    budget: u64,
}

impl Trial<'_> {
    fn notices(&self, bench: &mut Bench, mutant: &Module) -> bool {
        // What is a race on a device shows in one of the two.
        [Order::Forward, Order::Backward].into_iter().any(|order| {
            let outcome = bench.run(self.round, mutant, order, self.budget);
            outcome.map_or(true, |(after, _)| after != self.round.after.bytes)
        })
    }
}

#[test]
fn every_mutant_of_one_instruction_is_noticed() {
    let rounds: Vec<_> = round::all().collect();
    let original = Module::parse(PTX).expect("the PTX that is shipped is known");
    let mut bench = Bench::default();
    let mut trials: BTreeMap<&str, Vec<Trial<'_>>> = BTreeMap::new();
    for round in &rounds {
        let (_, instructions) = bench.run(round, &original, Order::Forward, Launch::BUDGET).expect("no access fails");
        let trial = Trial { round, budget: instructions * 3 + 10_000 };
        trials.entry(round.kernel).or_default().push(trial);
    }

    let (mut killed, mut alive) = (0, BTreeSet::new());
    for mutant in mutants() {
        // What is no PTX any more is no mutant.
        let Ok(module) = Module::parse(&mutant.text()) else { continue };
        if trials[mutant.kernel.as_str()].iter().any(|trial| trial.notices(&mut bench, &module)) {
            killed += 1;
        } else {
            alive.insert(mutant.to_string());
        }
    }
    let equivalent: BTreeSet<_> =
        EQUIVALENT.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(str::to_owned).collect();
    let unnoticed: Vec<_> = alive.difference(&equivalent).collect();
    assert!(unnoticed.is_empty(), "mutants that no round notices:\n{unnoticed:#?}");
    let gone: Vec<_> = equivalent.difference(&alive).collect();
    assert!(gone.is_empty(), "listed as equivalent, and killed or no mutant any more:\n{gone:#?}");
    println!("{killed} mutants killed, {} known to be equivalent", equivalent.len());
}
