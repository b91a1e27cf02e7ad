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

# address LEAKS TEST...: without the tests that touch no page, and the one that counts allocations, which the sanitizer
# makes itself.
address() {
    local leaks=$1
    shift
    RUSTFLAGS="-Zsanitizer=address -Cdebuginfo=1" \
        ASAN_OPTIONS="detect_leaks=$leaks detect_stack_use_after_return=1" \
        cargo +nightly test --quiet --target "$triple" --target-dir "$target/address" "$@"
}

echo "== address and leak sanitizer: the library and the tests of its pages"
address 1 --lib --test bad_input --test soundness --test state_machine
echo "== address sanitizer: cases, handoffs, channel and secrets, which forget reservations on purpose"
address 0 --test cases --test handoff --test channel --test secrets

echo "== thread sanitizer: stress"
RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer -Cdebuginfo=1" \
    cargo +nightly build --quiet --target "$triple" --target-dir "$target/thread" --manifest-path tests/stress/Cargo.toml
TSAN_OPTIONS="halt_on_error=1 history_size=4 suppressions=$PWD/tests/gates/tsan.supp" "$target/thread/$triple/debug/pagestamp-stress" "${STRESS_ROUNDS:-800}" 4
echo "sanitizers: passed"
