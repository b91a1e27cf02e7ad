#!/usr/bin/env bash
# The main job on the real model: the leak shows, every layer holds, honest requests are bit-identical; and a stdout
# that goes away or is full is no panic.
set -euo pipefail
cd "$(dirname "$0")/../.."
incident() { cargo run --locked --release --quiet --example incident -- "$@"; }

lines=$(incident --json | tail -n 2)
printf '%s\n' "$lines"
python3 - "$lines" <<'PY'
import json, sys
verdict, line = sys.argv[1].split("\n")
run = json.loads(line)
assert run["unchecked"]["leaked"] is True, "the leak does not show"
names = [layer["name"] for layer in run["layers"]]
assert names == ["gate", "receipt", "extent", "stale", "zero"], names
assert all(layer["refused"] is True for layer in run["layers"]), run["layers"]
assert run["honest"]["bit_identical"] is True
assert run["secret"] not in run["honest"]["b"], run["honest"]
assert run["audit"] == "ok", run["audit"]
assert verdict == ("verdict: the leak shows without checks; 5 of 5 layers held; "
                   "honest answers are bit-identical"), verdict
PY

# Nobody reads the second line on: the run ends as it would have, and without a word.
rc=0
said=$( { incident | head -n 1 >/dev/null; } 2>&1) || rc=$?
[ "$rc" = 0 ] && [ -z "$said" ] || { echo "a closed stdout: exit code $rc: $said"; exit 1; }
rc=0
said=$(incident --help 2>&1 >/dev/full) || rc=$?
[[ "$rc" = 1 && "$said" = "incident: stdout: "* ]] || { echo "a full stdout: exit code $rc: $said"; exit 1; }
echo "incident: leak shown, five layers hold, honest requests bit-identical"
