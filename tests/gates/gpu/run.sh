#!/usr/bin/env bash
# Runs what gpu.sh put into this folder: the device tests, cudarc's tests, the incident, the pool's machine over a device,
# compute-sanitizer where it is, the bench. Needs no toolchain, and under five minutes. The driver is PAGESTAMP_CUDA_DRIVER,
# else the system's. Where that is no real GPU's, all but the machine and the sanitizer runs on the stand-in, unless
# PAGESTAMP_EXPECT_GPU=1 makes that a failure. Every step runs, whatever the one before it said.
set -euo pipefail
cd "$(dirname "$0")"
export PAGESTAMP_COMMIT=${PAGESTAMP_COMMIT:-$(cat commit)}
export PAGESTAMP_CUDA_DRIVER=${PAGESTAMP_CUDA_DRIVER:-libcuda.so.1}

answered=0
probed=$(./gpu-bench --probe 2>&1) || answered=$?
case $answered in
0)
    gpu=1
    # From here on the stand-in is an error.
    export PAGESTAMP_EXPECT_GPU=1
    ;;
3)
    gpu=0
    echo "gpu: $probed"
    if [ -n "${PAGESTAMP_EXPECT_GPU:-}" ]; then
        echo "gpu: FAILED, a real GPU was expected"
        exit 1
    fi
    export PAGESTAMP_CUDA_DRIVER=$PWD/standin/libcuda.so.1
    export LD_LIBRARY_PATH=$PWD/standin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    ;;
*)
    printf 'gpu: FAILED, a driver answered and is no use:\n%s\n' "$probed"
    exit 1
    ;;
esac
./gpu-bench --probe || [ "$gpu" = 0 ]

log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0

# tests NAME COMMAND...: a test binary, by itself or under a tool.
tests() {
    local name=$1 begin=$SECONDS
    shift
    if timeout 150 "$@" >"$log" 2>&1; then
        echo "$name: $(grep -oE '[0-9]+ passed' "$log" | head -n 1), $((SECONDS - begin)) s"
    else
        cat "$log"
        echo "$name: FAILED"
        failed=1
    fi
}

# all NAME COMMAND...: both suites, under a command or by themselves.
all() {
    local name=$1
    shift
    tests "device tests$name" "$@" ./cuda-tests
    tests "cudarc$name" "$@" ./cudarc-tests
}

all ""
if ./gpu_incident --driver "$PAGESTAMP_CUDA_DRIVER" --json >"$log" 2>&1; then
    echo "incident: $(tail -n 1 "$log")"
else
    cat "$log"
    echo "incident: FAILED"
    failed=1
fi
if [ "$gpu" = 0 ]; then
    # A test that leans on what only the stand-in can do would fail on a GPU: better here.
    all ", as on a GPU" env LD_LIBRARY_PATH="$PWD/plain" PAGESTAMP_CUDA_DRIVER="$PWD/plain/libcuda.so.1" \
        PAGESTAMP_EXPECT_GPU=1
else
    # On the stand-in it takes half a minute, and cuda.sh runs it there.
    tests "machine" ./machine-tests a_device_does
    sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | tail -n 1 || true)
    if [ -n "$sanitizer" ]; then
        # Errors that the tests ask the driver for are answers, not findings.
        tests "memcheck" "$sanitizer" --tool memcheck --report-api-errors no --error-exitcode 9 ./cuda-tests --test-threads=1
    else
        echo "memcheck: SKIPPED, no compute-sanitizer here"
    fi
fi
./gpu-bench || failed=1
[ "$failed" = 0 ] || echo "gpu: FAILED, see above"
exit "$failed"
