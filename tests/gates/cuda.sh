#!/usr/bin/env bash
# The pool on a CUDA device, on the stand-in driver: it executes the shipped PTX, holds streams, and lets calls fail. Needs no
# GPU and no toolkit. On a GPU: tests/gates/gpu.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."
driver=$(bash tests/gates/kvstandin.sh --build)
export PAGESTAMP_CUDA_DRIVER=$driver
cargo test --locked --quiet --features cuda --test cuda
cargo test --locked --quiet --features cuda --test state_machine a_device_does
cargo test --locked --quiet --features cuda --doc cuda
# A machine without a driver: an error that says so, and nothing else changes.
if PAGESTAMP_CUDA_DRIVER=libcuda-that-is-not-there.so cargo test --locked --quiet --features cuda --test cuda 2>/dev/null \
    >/dev/null; then
    echo "cuda: tests pass without a driver, so they test nothing"
    exit 1
fi
if PAGESTAMP_EXPECT_GPU=1 cargo test --locked --quiet --features cuda --test cuda 2>/dev/null >/dev/null; then
    echo "cuda: the stand-in passes for a GPU"
    exit 1
fi
echo "cuda: the device suite passed on $driver"
