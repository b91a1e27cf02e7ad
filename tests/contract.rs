//! The gate of the contract: every clause, C1 to C12, has tests, and this prints which.
//!
//! A test says which clauses it proves in a comment directly above it: `// C4`, `// B72, C9`, `// C10: why`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const CLAUSES: [(u32, &str); 12] = [
    (1, "conservation"),
    (2, "one owner"),
    (3, "clean when handed out"),
    (4, "stale fails"),
    (5, "written only"),
    (6, "rejected is terminal"),
    (7, "no reuse in flight"),
    (8, "all or nothing"),
    (9, "one door"),
    (10, "handoff"),
    (11, "calm"),
    (12, "one writer"),
];

/// The clauses that a comment names; `None` when it is no list of tags. Numbers of cases stand there as well.
fn tags(comment: &str) -> Option<Vec<u32>> {
    let list = comment.split_once(':').map_or(comment, |(list, _)| list);
    let mut clauses = Vec::new();
    for tag in list.split(',').map(str::trim) {
        let (kind, number) = tag.split_at_checked(1)?;
        match (kind, number.parse()) {
            ("C", Ok(clause)) => clauses.push(clause),
            ("B", Ok(_)) => {}
            _ => return None,
        }
    }
    Some(clauses)
}

/// Clauses and names of the tests of one file.
fn tests_of(source: &str) -> Vec<(u32, String)> {
    let mut tests = Vec::new();
    let (mut clauses, mut is_test) = (Vec::new(), false);
    for line in source.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("// ") {
            clauses.extend(tags(comment).unwrap_or_default());
        } else if line == "#[test]" {
            is_test = true;
        } else if let Some(rest) = line.strip_prefix("fn ")
            && is_test
        {
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            tests.extend(clauses.drain(..).map(|clause| (clause, name.clone())));
            is_test = false;
        } else if !line.starts_with("#[") && !is_test {
            clauses.clear();
        }
    }
    tests
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let (folders, files): (Vec<_>, Vec<_>) = entries.map(|entry| entry.unwrap().path()).partition(|path| path.is_dir());
    let folders = folders.into_iter().filter(|path| path.file_name().is_some_and(|name| name != "target"));
    let rust = files.into_iter().filter(|path| path.extension().is_some_and(|e| e == "rs"));
    rust.chain(folders.flat_map(|folder| sources(&folder))).collect()
}

fn empty_clauses(found: &BTreeMap<u32, Vec<String>>) -> Vec<u32> {
    let is_empty = |clause: &u32| found.get(clause).is_none_or(Vec::is_empty);
    CLAUSES.iter().map(|(clause, _)| *clause).filter(is_empty).collect()
}

#[test]
fn every_clause_of_the_contract_has_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for folder in ["src", "tests"] {
        let mut files = sources(&root.join(folder));
        files.sort();
        for file in files.iter().filter(|file| !file.ends_with("contract.rs")) {
            let shown = file.strip_prefix(root).unwrap_or(file).display();
            for (clause, name) in tests_of(&fs::read_to_string(file).unwrap()) {
                found.entry(clause).or_default().push(format!("{shown}: {name}"));
            }
        }
    }
    for (clause, words) in CLAUSES {
        let tests = found.get(&clause).map_or(&[][..], Vec::as_slice);
        println!("C{clause} {words}: {} tests", tests.len());
        tests.iter().for_each(|test| println!("    {test}"));
    }
    let unknown: Vec<_> = found.keys().filter(|clause| !(1..=12).contains(*clause)).collect();
    assert!(unknown.is_empty(), "no such clause: {unknown:?}");
    assert_eq!(empty_clauses(&found), [0; 0], "clauses without a test");
}

#[test]
fn the_gate_sees_tags_above_tests_and_nothing_else() {
    let source = "\
        // C4\n#[test]\nfn one() {}\n\
        // B72, C9, C12\n#[test]\n#[expect(x)]\nfn two() {}\n\
        // C10: because\n#[test]\nfn three() {\n // C5\n}\n\
        // C1\nfn helper() {}\n#[test]\nfn untagged() {}\n\
        // C2 is what this is about\n#[test]\nfn prose() {}\n\
        // C3\n// and a word on it\n#[test]\nfn four() {}\n\
        // C6\n\n#[test]\nfn apart() {}\n";
    let expected = [(4, "one"), (9, "two"), (12, "two"), (10, "three"), (3, "four")];
    assert_eq!(tests_of(source), expected.map(|(clause, name)| (clause, name.to_owned())));
}

#[test]
fn the_gate_fails_on_a_clause_without_a_test() {
    let mut found: BTreeMap<u32, Vec<String>> = (1..=12).map(|clause| (clause, vec!["a test".to_owned()])).collect();
    assert_eq!(empty_clauses(&found), [0; 0]);
    found.remove(&7);
    found.insert(11, Vec::new());
    assert_eq!(empty_clauses(&found), [7, 11]);
}
