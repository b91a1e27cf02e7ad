#!/usr/bin/env bash
# The main job on the real model: the leak shows, every layer refuses, honest requests are bit-identical.
set -euo pipefail
cd "$(dirname "$0")/../.."
line=$(cargo run --locked --release --quiet --example incident -- --json | tail -n 1)
printf '%s\n' "$line"
python3 - "$line" <<'PY'
import json, sys
run = json.loads(sys.argv[1])
assert run["unchecked"]["leaked"] is True, "the leak does not show"
names = [layer["name"] for layer in run["layers"]]
assert names == ["gate", "receipt", "extent", "stale", "zero"], names
assert all(layer["refused"] is True for layer in run["layers"]), run["layers"]
assert run["honest"]["bit_identical"] is True
assert run["audit"] == "ok", run["audit"]
PY
echo "incident: leak shown, five layers refuse, honest requests bit-identical"
