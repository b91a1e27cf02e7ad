#!/usr/bin/env bash
# Format, clippy and rustdoc are silent, with the features and without.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo fmt --check
for features in "" cuda,blake3; do
    cargo clippy --locked --all-targets --quiet --features "$features" -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --quiet --features "$features"
done
echo "lints: silent"
