#!/usr/bin/env bash
# What an optimiser could take away is looked at in a release build: zeroing, and the suite of the pool.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo test --locked --release --lib --test secrets --quiet
