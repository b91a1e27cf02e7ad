//! The table of cases, checked against the tests that it names: no case without a line, no line without a test, no test of
//! these modules without a line.

use std::collections::{BTreeMap, BTreeSet};

const TABLE: &str = include_str!("table.txt");

/// The tests, by module.
const MODULES: [(&str, &str); 12] = [
    ("transfers", include_str!("transfers.rs")),
    ("handoffs", include_str!("handoffs.rs")),
    ("zeroing", include_str!("zeroing.rs")),
    ("giving_back", include_str!("giving_back.rs")),
    ("admission", include_str!("admission.rs")),
    ("prefixes", include_str!("prefixes.rs")),
    ("resizing", include_str!("resizing.rs")),
    ("handles", include_str!("handles.rs")),
    ("threads", include_str!("threads.rs")),
    ("counting", include_str!("counting.rs")),
    ("cancelling", include_str!("cancelling.rs")),
    ("slots", include_str!("slots.rs")),
];

/// The cases of all groups.
const CASES: [u32; 68] = [
    1, 2, 4, 5, 6, 7, 9, 10, 11, 12, 14, 16, 17, // transfers in flight
    18, 19, 21, 22, 25, 26, 27, 29, 30, // handoffs
    33, 34, 36, 37, 38, 43, // stale memory
    45, 46, 47, 48, 50, 51, 52, 53, 56, // double frees and pins
    58, 59, 60, 61, 62, 63, // prefixes
    68, // rollback
    72, 73, 74, 75, 76, 78, 79, 80, 83, // admission
    84, // resizing
    86, 88, 89, 90, 92, 93, // handles
    94, 95, 96, // threads
    99, 100, // counting
    101, 102, 103, // other pools
];

/// What is wrong between a table, the tests of some modules, and the cases that must be there.
fn gaps(table: &str, modules: &[(&str, &str)], cases: &BTreeSet<u32>) -> Vec<String> {
    let mut gaps = Vec::new();
    let tests: BTreeMap<String, BTreeSet<u32>> =
        modules.iter().flat_map(|(module, text)| tests_of(module, text)).collect();
    let mut listed: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    let mut case = None;
    for line in table.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        if let Some(head) = line.strip_prefix('B') {
            case = head.split_whitespace().next().and_then(|number| number.parse().ok());
            match case {
                Some(number) if listed.contains_key(&number) => gaps.push(format!("B{number} has two entries")),
                Some(number) => drop(listed.insert(number, BTreeSet::new())),
                None => gaps.push(format!("no case number: {line}")),
            }
            continue;
        }
        let Some(entry) = case.and_then(|number| listed.get_mut(&number)) else {
            gaps.push(format!("no case before: {line}"));
            continue;
        };
        entry.insert(line.trim().to_owned());
    }
    for case in cases {
        match listed.get(case) {
            None => gaps.push(format!("B{case} is not in the table")),
            Some(entry) if entry.is_empty() => gaps.push(format!("B{case} has neither a test nor a reason")),
            Some(_) => {}
        }
    }
    for (case, entry) in &listed {
        if !cases.contains(case) {
            gaps.push(format!("B{case} is no case of these groups"));
        }
        for name in entry {
            if let Some(reason) = name.strip_prefix("later:") {
                if reason.trim().is_empty() {
                    gaps.push(format!("B{case} is put off without a reason"));
                }
            } else if tests.get(name).is_none_or(|tagged| !tagged.contains(case)) {
                gaps.push(format!("B{case}: no test {name} with that tag"));
            }
        }
    }
    for (name, tagged) in &tests {
        for case in tagged {
            if listed.get(case).is_none_or(|entry| !entry.contains(name)) {
                gaps.push(format!("B{case}: {name} is not in the table"));
            }
        }
        if tagged.is_empty() {
            gaps.push(format!("{name} has no case"));
        }
    }
    gaps
}

/// Names of the tests of a module, with the cases of the comment above.
fn tests_of(module: &str, text: &str) -> Vec<(String, BTreeSet<u32>)> {
    let mut tests = Vec::new();
    let (mut cases, mut is_test) = (BTreeSet::new(), false);
    for line in text.lines().map(str::trim) {
        if let Some(tags) = line.strip_prefix("// ") {
            let number = |tag: &str| tag.trim().strip_prefix('B').and_then(|n| n.parse().ok());
            cases = tags.split(',').filter_map(number).collect();
        } else if line == "#[test]" {
            is_test = true;
        } else if let Some(rest) = line.strip_prefix("fn ")
            && std::mem::take(&mut is_test)
        {
            let name = rest.split('(').next().unwrap_or(rest);
            tests.push((format!("{module}::{name}"), std::mem::take(&mut cases)));
        }
    }
    tests
}

#[test]
fn every_case_has_its_tests_and_every_test_its_case() {
    let gaps = gaps(TABLE, &MODULES, &BTreeSet::from(CASES));
    assert!(gaps.is_empty(), "{}", gaps.join("\n"));
}

#[test]
fn the_check_of_the_table_finds_each_kind_of_gap() {
    let module = [("m", "// B1, C3\n#[test]\nfn a() {\n}\n// B2\n#[test]\nfn b() {}\nfn helper() {}\n")];
    let cases = BTreeSet::from([1, 2, 3]);
    let good = "# words\nB1 one\n  m::a\nB2 two\n  m::b\nB3 three\n  later: prefixes\n";
    assert_eq!(gaps(good, &module, &cases), [""; 0]);
    for (cut, with, found) in [
        ("B3 three\n  later: prefixes\n", "", "B3 is not in the table"),
        ("  later: prefixes\n", "", "B3 has neither"),
        ("later: prefixes", "later:", "without a reason"),
        ("m::a", "m::gone", "no test m::gone"),
        ("m::a", "m::helper", "no test m::helper"),
        ("  m::b\n", "  later: lazy\n", "m::b is not in the table"),
        ("B3 three", "B4 four", "B4 is no case"),
        ("B2 two", "B1 two", "two entries"),
        ("B2 two", "Btwo", "no case number"),
    ] {
        let gaps = gaps(&good.replace(cut, with), &module, &cases);
        assert!(gaps.iter().any(|gap| gap.contains(found)), "{found}: {gaps:?}");
    }
    let untagged = [("m", "#[test]\nfn c() {}\n")];
    assert!(gaps("", &untagged, &BTreeSet::new()).iter().any(|gap| gap == "m::c has no case"));
}
