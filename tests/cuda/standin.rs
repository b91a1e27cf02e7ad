//! Which driver the tests use: a real one when told so, else the stand-in, which is built once.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Where the driver is: `PAGESTAMP_CUDA_DRIVER`, else the stand-in of `tests/kvstandin`.
pub(crate) fn driver_path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    let named = std::env::var_os("PAGESTAMP_CUDA_DRIVER").filter(|path| !path.is_empty());
    PATH.get_or_init(|| named.map_or_else(build_standin, PathBuf::from))
}

fn build_standin() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kvstandin");
    // Beside this test's own products, so that two checkouts do not meet.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kvstandin");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--locked", "--quiet", "--manifest-path"])
        .arg(package.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .status()
        .unwrap();
    assert!(built.success(), "the stand-in driver does not build");
    target.join("debug/libkvstandin.so")
}
