//! The page for game authors names tests that exist.

/// The pairs of file and test in the page's table.
fn proofs() -> Vec<(&'static str, &'static str)> {
    let rows = include_str!("../../src/game_servers.md").lines().filter(|line| line.contains(".rs`: `"));
    rows.map(|row| {
        let (file, test) = row.rsplit_once("`: `").expect("filtered for it");
        let file = file.rsplit('`').next().unwrap_or_default();
        (file, test.trim_end_matches("` |"))
    })
    .collect()
}

#[test]
fn every_guarantee_of_the_page_names_a_test_that_is_there() {
    let proofs = proofs();
    assert!(proofs.len() > 15, "the table is read");
    for (file, test) in proofs {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let source = std::fs::read_to_string(path).unwrap_or_default();
        assert!(source.contains(&format!("fn {test}(")), "{file} has no {test}");
    }
}
