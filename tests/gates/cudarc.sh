#!/usr/bin/env bash
# pagestamp in a context and on a stream that cudarc made. The driver is the one that PAGESTAMP_CUDA_DRIVER names, which has
# to be the one that the loader finds as libcuda, since cudarc looks there; without it the stand-in, under that name in a
# folder of its own. PAGESTAMP_EXPECT_GPU=1 fails when the driver is the stand-in. `--build` only builds, and prints the
# path of the tests.
set -euo pipefail
cd "$(dirname "$0")/../cudarc_interop"
target=$(realpath -m "${CARGO_TARGET_DIR:-../../target}")

build() {
    CARGO_TARGET_DIR=$target/cudarc cargo test --locked --quiet --no-run --message-format=json |
        grep -oE '"executable":"[^"]+"' | tail -n 1 | cut -d'"' -f4
}
if [ "${1:-}" = --build ]; then
    build
    exit 0
fi
cargo fmt --check
CARGO_TARGET_DIR=$target/cudarc cargo clippy --locked --all-targets --quiet -- -D warnings

if [ -z "${PAGESTAMP_CUDA_DRIVER:-}" ]; then
    standin=$(CARGO_TARGET_DIR=$target bash ../gates/kvstandin.sh --build)
    # Not beside what cargo builds: `cargo test` lets the loader look there, on a machine with a GPU too.
    folder=$target/cudarc-driver
    mkdir -p "$folder"
    ln -sf "$standin" "$folder/libcuda.so.1"
    ln -sf libcuda.so.1 "$folder/libcuda.so"
    export PAGESTAMP_CUDA_DRIVER=$folder/libcuda.so.1 LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
tests=$(build)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$tests" --nocapture >"$log" 2>&1 || { cat "$log"; exit 1; }
echo "cudarc: $(grep -oE 'driver: .*' "$log" | head -n 1), $(grep -oE '[0-9]+ passed' "$log")"
