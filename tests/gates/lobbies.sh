#!/usr/bin/env bash
# Matches on one to eight threads: nothing leaks from a slot pool, and a queue of indices leaks, so that the example is seen to
# look. A stdout that goes away or is full is no panic.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --locked --release --quiet --example lobbies
lobbies() { "${CARGO_TARGET_DIR:-target}/release/examples/lobbies" "$@"; }

for threads in 1 2 4 8; do
    for mode in "" --unsafe-mode; do
        said=$(lobbies --threads "$threads" --matches 20000 --json $mode)
        python3 - "$threads" "$mode" "$said" <<'PY'
import json, sys
threads, mode, said = sys.argv[1], sys.argv[2], sys.argv[3]
line = said.split("\n")[-1]
print(f"threads={threads} {mode or 'SlotPool'}: {line}")
run = json.loads(line)
assert list(run) == ["matches", "stale_refused", "leaks", "claims_per_s", "audit"], run
assert run["matches"] == 20000 and run["claims_per_s"] > 0, run
if mode:
    assert run["leaks"] > 0 and run["stale_refused"] == 0, "the leak does not show"
    assert "a player sat down and had what player" in said, "nobody is told what leaked"
    assert "was given a gift that was meant for match" in said, "nobody is told what leaked"
else:
    assert run["leaks"] == 0 and run["audit"] == "ok", run
    assert run["stale_refused"] > 1000, "no message came late"
PY
    done
done
lobbies --matches 3000 | grep -q '^  leaks  *0$' || { echo "the table does not say that nothing leaks"; exit 1; }

# Nobody reads the second line on: the run ends as it would have, and without a word.
rc=0
said=$( { lobbies | head -n 1 >/dev/null; } 2>&1) || rc=$?
[ "$rc" = 0 ] && [ -z "$said" ] || { echo "a closed stdout: exit code $rc: $said"; exit 1; }
rc=0
said=$(lobbies --help 2>&1 >/dev/full) || rc=$?
[[ "$rc" = 1 && "$said" = "lobbies: stdout: "* ]] || { echo "a full stdout: exit code $rc: $said"; exit 1; }
for wrong in --threads=0 --threads=many --matches=-1 --matches --more --json=1; do
    rc=0
    said=$(lobbies "$wrong" 2>&1) || rc=$?
    [[ "$rc" = 2 && "$said" = "lobbies: "*"--help shows"* ]] || { echo "$wrong: exit code $rc: $said"; exit 1; }
done
echo "lobbies: nothing leaks from the pool at 1, 2, 4 and 8 threads; without it the leak shows"
