#!/usr/bin/env bash
# The committed PTX is what the pinned compiler makes of the committed kernels, byte for byte and twice, and the assembler
# accepts it for five generations of chips. Needs no GPU. The compilers come by pip into a folder that is used again
# (PTX_TOOLS); without network and without that folder it says so and proves nothing. `ptx.sh --write` renews the PTX.
set -euo pipefail
cd "$(dirname "$0")/../.."

if [ "$(uname -sm)" != "Linux x86_64" ]; then
    echo "ptx: skipped, the compilers are taken for Linux x86_64 only"
    exit 0
fi
tools=$(realpath -m "${PTX_TOOLS:-${CARGO_TARGET_DIR:-target}/ptx-tools}")
nvrtc=$tools/nvidia/cuda_nvrtc/lib
ptxas=$tools/nvidia/cu13/bin/ptxas

# The compiler decides which drivers can load the PTX: 12.0 says `.version 8.0`, a newer one shuts older drivers out. The
# assembler is newer, since it must know newer chips; it comes in parts.
if [ ! -e "$tools/done" ]; then
    wheels=$(mktemp -d)
    trap 'rm -rf "$wheels"' EXIT
    if ! python3 -m pip download --quiet --no-deps --dest "$wheels" nvidia-cuda-nvrtc-cu12==12.0.140 \
        nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-runtime==13.0.96 \
        nvidia-cuda-cccl==13.0.85 2>"$wheels/log"; then
        echo "ptx: SKIPPED, the compilers cannot be fetched: $(tail -n 1 "$wheels/log")"
        exit 0
    fi
    mkdir -p "$tools"
    for wheel in "$wheels"/*.whl; do
        python3 -m zipfile -e "$wheel" "$tools"
    done
    chmod +x "$ptxas"
    touch "$tools/done"
fi

work=$(mktemp -d)
trap 'rm -rf "$work" "${wheels:-$work}"' EXIT
chips="sm_80 sm_90 sm_100 sm_103 sm_120"
# SOURCE, the header that it includes if any: the PTX lies beside the source.
while read -r source header; do
    committed=${source%.cu}.ptx
    for run in first second; do
        LD_LIBRARY_PATH=$nvrtc python3 tests/gates/ptx/compile.py "$nvrtc/libnvrtc.so.12" \
            "$source" ${header:+"$header"} >"$work/$run.ptx"
    done
    cmp "$work/first.ptx" "$work/second.ptx" || { echo "ptx: two runs of the compiler differ"; exit 1; }
    if [ "${1:-}" = --write ]; then
        cp "$work/first.ptx" "$committed"
    fi
    cmp "$work/first.ptx" "$committed" || { echo "ptx: $committed is not made from $source; ptx.sh --write"; exit 1; }
    for chip in $chips; do
        "$ptxas" -arch="$chip" -Werror -o "$work/$chip.cubin" "$committed"
    done
    echo "ptx: $committed, $(wc -c <"$committed") bytes as committed, accepted for $chips"
done <<'SOURCES'
src/memory/cuda/kernels.cu src/memory/cuda/stamp_check.cuh
examples/gpu_incident/reader.cu
SOURCES
