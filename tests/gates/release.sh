#!/usr/bin/env bash
# What an optimiser could take away is looked at in a release build: zeroing, and the suite of the pool. And what is fast there
# is tried more often: damaged messages, handoffs over a bad channel.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo test --locked --release --lib --test secrets --test digests --quiet
PROPTEST_CASES=${WIRE_CASES:-20000} cargo test --locked --release --test wire --quiet
PROPTEST_CASES=${CHANNEL_CASES:-1500} cargo test --locked --release --test channel --quiet
# The digests of a feature, too.
cargo test --locked --release --lib --features blake3 --quiet digest
