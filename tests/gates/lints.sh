#!/usr/bin/env bash
# Format, clippy and rustdoc are silent.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo fmt --check
cargo clippy --locked --all-targets --quiet -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --quiet
echo "lints: silent"
