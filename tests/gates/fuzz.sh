#!/usr/bin/env bash
# libFuzzer over the decoders of handoff messages, from samples of every kind on, for a fixed number of runs. Needs a nightly
# toolchain for its coverage and address sanitizer, and a C++ compiler that builds libFuzzer. FUZZ_RUNS asks for more.
set -euo pipefail
cd "$(dirname "$0")/../.."

triple=x86_64-unknown-linux-gnu
if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "fuzz: skipped, no nightly toolchain"
    exit 0
fi
if [ "$(rustc -vV | sed -n 's/^host: //p')" != "$triple" ]; then
    echo "fuzz: skipped, the runtimes are taken for $triple only"
    exit 0
fi
if ! command -v c++ >/dev/null; then
    echo "fuzz: skipped, no C++ compiler"
    exit 0
fi
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/fuzz

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/samples" "$work/corpus" "$work/found"
PAGESTAMP_WIRE_SAMPLES=$work/samples cargo test --locked --quiet --test wire samples >"$work/log" || {
    cat "$work/log"
    exit 1
}
cp "$work"/samples/*.bin "$work/corpus"

# The flags that cargo-fuzz sets: edge counters, the table of edges, compared values.
flags="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
flags+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
flags+=" -Cllvm-args=-sanitizer-coverage-trace-compares -Zsanitizer=address -Ccodegen-units=1 --cfg=fuzzing"
RUSTFLAGS=$flags cargo +nightly build --locked --release --quiet --target "$triple" --target-dir "$target" \
    --manifest-path tests/fuzz/Cargo.toml

runs=${FUZZ_RUNS:-200000}
# A crash leaves its input, which is shown since the folder goes; seeded, so that a run can be had again.
if ! "$target/$triple/release/messages" -runs="$runs" -seed="${FUZZ_SEED:-1}" -max_len=4096 -timeout=10 \
    -rss_limit_mb=1024 -malloc_limit_mb=64 -artifact_prefix="$work/found/" "$work/corpus" >"$work/log" 2>&1; then
    tail -n 40 "$work/log"
    for input in "$work"/found/*; do
        od -An -v -tx1 "$input"
    done
    echo "fuzz: a decoder failed; the bytes of the input are above"
    exit 1
fi
echo "fuzz: $(sed -n 's/^Done \([0-9]*\) runs in \([0-9]*\).*/\1 runs in \2 s/p' "$work/log")," \
    "$(sed -n 's/.*DONE *cov: \([0-9]*\).*/\1/p' "$work/log") edges"
