#!/usr/bin/env bash
# Address and leak sanitizer over the test suite, thread sanitizer over the stress program. Needs a nightly toolchain with
# its prebuilt sanitizer runtimes; the standard library is not rebuilt.
set -euo pipefail
cd "$(dirname "$0")/../.."

triple=x86_64-unknown-linux-gnu
if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "sanitizers: skipped, no nightly toolchain"
    exit 0
fi
if [ "$(rustc -vV | sed -n 's/^host: //p')" != "$triple" ]; then
    echo "sanitizers: skipped, the runtimes are taken for $triple only"
    exit 0
fi
target=${CARGO_TARGET_DIR:-target}/sanitizers
# A sanitized case costs several times a plain one, and finds what it finds in few.
export PROPTEST_CASES=${PROPTEST_CASES:-60}

echo "== address and leak sanitizer: libraries and tests"
RUSTFLAGS="-Zsanitizer=address -Cdebuginfo=1" ASAN_OPTIONS="detect_leaks=1 detect_stack_use_after_return=1" \
    cargo +nightly test --quiet --target "$triple" --target-dir "$target/address" --lib --tests

echo "== thread sanitizer: stress"
RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer -Cdebuginfo=1" \
    cargo +nightly build --quiet --target "$triple" --target-dir "$target/thread" --manifest-path tests/stress/Cargo.toml
TSAN_OPTIONS="halt_on_error=1 history_size=4 suppressions=$PWD/tests/gates/tsan.supp" "$target/thread/$triple/debug/pagestamp-stress" "${STRESS_ROUNDS:-800}" 4
echo "sanitizers: passed"
