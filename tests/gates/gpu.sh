#!/usr/bin/env bash
# Everything that a GPU can say, in under five minutes: the device tests, the incident replayed there, compute-sanitizer where
# it is, and cleaning, checking and reuse measured (benches/gpu), as a table and as one line of JSON. Without a GPU the same runs on the
# stand-in at tiny sizes, and says that its times mean nothing; PAGESTAMP_EXPECT_GPU=1 makes that a failure.
#
# `gpu.sh --build FOLDER` builds here what runs there: copy the folder to a machine that has a GPU, and no toolchain, and
# start its run.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export CARGO_TARGET_DIR=$target

if [ "${1:-}" = --build ]; then
    out=$(realpath -m "${2:?the folder to build into}")
    measures=1
else
    out=$target/gpu-run
    # Optimised where it will be measured; elsewhere what the tests were built with does, and is there already.
    measures=0
    if [ -n "${PAGESTAMP_EXPECT_GPU:-}" ] || [ -e /dev/nvidiactl ] || [ -e /dev/dxg ]; then
        measures=1
    fi
fi

# executable CARGO'S ARGUMENTS...: builds, and prints the path of what was built.
executable() {
    cargo "$@" --locked --quiet --features cuda --message-format=json |
        grep -oE '"executable":"[^"]+"' | tail -n 1 | cut -d'"' -f4
}

rm -rf "$out"
mkdir -p "$out/standin"
cp "$(executable test --no-run --test cuda)" "$out/cuda-tests"
cp "$(executable test --no-run --test state_machine)" "$out/machine-tests"
cp "$(executable build --example gpu_incident)" "$out/gpu_incident"
if [ "$measures" = 1 ]; then
    cp "$(executable bench --no-run --bench gpu)" "$out/gpu-bench"
else
    cp "$(executable build --bench gpu)" "$out/gpu-bench"
fi
cp "$(bash tests/gates/cudarc.sh --build)" "$out/cudarc-tests"
cp "$(bash tests/gates/kvstandin.sh --build)" "$out/standin/libcuda.so.1"
ln -s libcuda.so.1 "$out/standin/libcuda.so"
# The same without its own functions, of another name as long: like a GPU it cannot be held, counted or told to fail.
mkdir "$out/plain"
LC_ALL=C sed 's/kvstandin_/kvhidden__/g' "$out/standin/libcuda.so.1" >"$out/plain/libcuda.so.1"
ln -s libcuda.so.1 "$out/plain/libcuda.so"
install -m 755 tests/gates/gpu/run.sh "$out/run.sh"
# What is measured is named by its commit, and by whether it is more than that.
(git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown) >"$out/commit"
strip --strip-debug "$out"/*-tests "$out/gpu-bench" "$out/gpu_incident" 2>/dev/null || true

if [ "${1:-}" = --build ]; then
    echo "gpu: built into $out ($(du -sh "$out" | cut -f1)); copy it, and start run.sh there"
else
    bash "$out/run.sh"
fi
