#!/usr/bin/env bash
# The stand-in for libcuda, and by it the kernels: the shipped PTX against a model and against its own source as plain C++,
# every mutant of one instruction noticed, and the driver's order, memory, faults and capture. Needs no GPU; without g++ the
# plain C++ is left out, and said so. `--build` only builds the library and prints its path.
set -euo pipefail
cd "$(dirname "$0")/../kvstandin"
target=$(realpath -m "${CARGO_TARGET_DIR:-../../target}")
export CARGO_TARGET_DIR=$target/kvstandin

cargo build --locked --quiet
if [ "${1:-}" = --build ]; then
    echo "$CARGO_TARGET_DIR/debug/libkvstandin.so"
    exit 0
fi
cargo clippy --locked --all-targets --quiet -- -D warnings
cargo test --locked --quiet -- --nocapture 2>"$CARGO_TARGET_DIR/said" >"$CARGO_TARGET_DIR/log" || {
    cat "$CARGO_TARGET_DIR/log" "$CARGO_TARGET_DIR/said"
    exit 1
}
grep -h 'SKIPPED' "$CARGO_TARGET_DIR/said" || true
echo "kvstandin: $(grep -hoE '[0-9]+ mutants killed.*' "$CARGO_TARGET_DIR/log")," \
    "$(grep -oE '[0-9]+ passed' "$CARGO_TARGET_DIR/log" | awk '{ n += $1 } END { print n }') tests passed"
