//! What types promise: every `compile_fail` example of the documentation fails for the reason that it names.
//!
//! rustdoc on stable checks that an example fails, not why. This compiles each one and compares the error's code.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// An example that must not compile.
#[derive(Debug)]
struct Example {
    place: String,
    code: String,
    source: String,
}

fn examples_of(place: &str, text: &str) -> Vec<Example> {
    let mut examples = Vec::new();
    let mut open: Option<Example> = None;
    for (number, line) in text.lines().enumerate() {
        let Some(doc) = line.trim().strip_prefix("///").or(line.trim().strip_prefix("//!")) else { continue };
        let doc = doc.strip_prefix(' ').unwrap_or(doc);
        if let Some(attributes) = doc.strip_prefix("```") {
            if let Some(example) = open.take() {
                examples.push(example);
            } else if attributes.starts_with("compile_fail") {
                let code = attributes.split(',').nth(1).unwrap_or("").to_owned();
                open = Some(Example { place: format!("{place}:{}", number + 1), code, source: String::new() });
            }
        } else if let Some(example) = &mut open {
            example.source += doc.strip_prefix("# ").unwrap_or(doc);
            example.source.push('\n');
        }
    }
    examples
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    files.into_iter().chain(folders.iter().flat_map(|folder| sources(folder))).collect()
}

/// Where this test was linked from: the library lies beside it.
fn build_folder() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// The builds of the library, newest first.
fn libraries() -> Vec<PathBuf> {
    let entries = fs::read_dir(build_folder()).unwrap().map(|entry| entry.unwrap());
    let is_library =
        |name: &OsString| name.to_str().is_some_and(|n| n.starts_with("libpagestamp-") && n.ends_with(".rlib"));
    let mut found: Vec<(SystemTime, PathBuf)> = entries
        .filter(|entry| is_library(&entry.file_name()))
        .map(|entry| (entry.metadata().unwrap().modified().unwrap(), entry.path()))
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, path)| path).collect()
}

/// Codes of the errors that a source gives; empty when it compiles.
fn errors(library: &Path, name: &str, source: &str) -> BTreeSet<String> {
    let folder = std::env::temp_dir().join(format!("pagestamp-compile-fail-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("{name}.rs"));
    fs::write(&file, source).unwrap();
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()))
        .args(["--edition", "2024", "--crate-type", "lib", "--emit", "metadata", "--error-format", "short", "-o"])
        .arg(folder.join(format!("{name}.rmeta")))
        .arg("-L")
        .arg(format!("dependency={}", build_folder().display()))
        .arg("--extern")
        .arg(format!("pagestamp={}", library.display()))
        .arg(&file)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    let codes: BTreeSet<String> =
        text.split("error[").skip(1).filter_map(|rest| rest.split(']').next()).map(str::to_owned).collect();
    fs::remove_dir_all(&folder).unwrap();
    if output.status.success() || !codes.is_empty() { codes } else { BTreeSet::from([text.into_owned()]) }
}

const COMPILES: &str = "use pagestamp::*;\n\
    pub fn once(kv: Reservation<HostMemory>) -> Result<(), ReadError> {\n\
        kv.read(0..1)?.copy(0, &mut [0; 8])?;\n\
        kv.release();\n\
        Ok(())\n\
    }\n";

// C2, C4, C6, C9, C12
#[test]
fn every_example_that_must_not_compile_fails_for_its_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = sources(&root.join("src"));
    files.sort();
    let examples: Vec<Example> = files
        .iter()
        .flat_map(|file| {
            examples_of(&file.strip_prefix(root).unwrap().display().to_string(), &fs::read_to_string(file).unwrap())
        })
        .collect();
    // What compiles shows that the examples fail for themselves and not for want of the library.
    let library = libraries().into_iter().find(|library| errors(library, "control", COMPILES).is_empty());
    let library = library.expect("the library lies beside its tests");
    for Example { place, code, source } in &examples {
        assert!(code.starts_with('E') && code.len() == 5, "{place} names no error code: {code:?}");
        assert_eq!(errors(&library, "example", source), BTreeSet::from([code.clone()]), "{place}\n{source}");
    }
    let promised = [
        ("E0308", "pool.admit(proof, rejected)"),
        ("E0308", "pool.reserve(proof, rejected, 1)"),
        ("E0599", "rejected.reserve(1)"),
        ("E0382", "kv.release();\n    kv.release();"),
        ("E0277", "Reservation::clone(kv)"),
        ("E0308", "handle: PageHandle<NullMemory>"),
        ("E0308", "monster: SlotHandle<u64>"),
        ("E0382", "lobby.release();\n    lobby.release();"),
        ("E0505", "kv.release();"),
        ("E0502", "kv.write("),
        ("E0382", "admitted.reserve(1);\n    let _ = admitted.reserve(1);"),
    ];
    for (code, part) in promised {
        assert!(examples.iter().any(|e| e.code == code && e.source.contains(part)), "no example {code}: {part}");
    }
}

#[test]
fn examples_are_found_in_documentation_and_nowhere_else() {
    let text = "/// ```compile_fail,E0308\n/// # use a::*;\n/// b\n/// ```\n/// ```\n/// fine\n/// ```\n    //! ```compile_fail\n    //! c\n    //! ```\n// ```compile_fail\n";
    let found = examples_of("f", text);
    assert_eq!(
        found.iter().map(|e| (&*e.place, &*e.code, &*e.source)).collect::<Vec<_>>(),
        [("f:1", "E0308", "use a::*;\nb\n"), ("f:8", "", "c\n"),]
    );
}
