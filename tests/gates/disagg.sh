#!/usr/bin/env bash
# A handoff between two processes: every fault on the tiny model, three on the real one. Without the library's checks the
# example sees the leak; a stdout that goes away or is full is no panic.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --locked --release --quiet --example disagg
disagg() { "${CARGO_TARGET_DIR:-target}/release/examples/disagg" "$@"; }

table=$(disagg --fault all --json)
printf '%s\n' "$table" | head -n -1
python3 - "$(tail -n 1 <<<"$table")" <<'PY'
import json, sys
run = json.loads(sys.argv[1])
names = ["none", "oversize", "short", "gap", "overlap", "bitflip", "swap", "layout", "wrong_owner", "replay",
         "duplicate", "late_write", "kill_prefill", "kill_decode", "refuse"]
# What the first error says, in the library's words; where the system decides what comes first, any of them.
words = {
    "oversize": "never fit", "short": "8 pages are reserved, the receipt is for 1", "gap": "page 4: the digest",
    "overlap": "two different parts", "bitflip": "page 4: the digest", "swap": "page 4: the digest",
    "layout": "nothing was sent", "wrong_owner": "the receipt is for owner 3", "replay": "this is transfer 2",
    "late_write": "cancelled", "kill_prefill": "has not said that it sent layer 0 of page 3",
    "kill_decode": "its pipe is closed", "refuse": "cancelled",
}
assert [fault["fault"] for fault in run["faults"]] == names, names
for fault in run["faults"]:
    completes = fault["fault"] in ("none", "duplicate")
    assert fault["outcome"] == ("completed" if completes else "refused"), fault
    assert fault["leaked"] is False and fault["audit"] == "ok", fault
    assert fault["next_tenant_intact"] is True and fault["free_pages_restored"] is True, fault
    assert (fault["error"] == "") == completes and words.get(fault["fault"], "") in fault["error"], fault
assert run["without_checks"]["leaked"] is True, "the example does not see a leak"
assert run["without_checks"]["outcome"] == "completed", run["without_checks"]
assert run["right"] is True
PY

for fault in none oversize short; do
    lines=$(disagg --model real --fault "$fault" --json)
    printf '%s\n' "$lines" | tail -n 2 | head -n 1
    python3 - "$fault" "$(tail -n 1 <<<"$lines")" <<'PY'
import json, sys
fault, run = sys.argv[1], json.loads(sys.argv[2])
assert run["fault"] == fault and run["outcome"] == ("completed" if fault == "none" else "refused"), run
assert run["leaked"] is False and run["audit"] == "ok", run
assert run["next_tenant_intact"] is True and run["free_pages_restored"] is True, run
PY
done
lines=$(disagg --model real --fault short --unchecked --json)
python3 - "$lines" <<'PY'
import json, sys
assert json.loads(sys.argv[1].split("\n")[-1])["leaked"] is True, "the real model's leak does not show"
assert "ORCHID-7421-ZEPHYR" in sys.argv[1], "tenant B's answer does not hold tenant A's secret"
PY

# Nobody reads the second line on: the run ends as it would have, and without a word.
rc=0
said=$( { disagg | head -n 1 >/dev/null; } 2>&1) || rc=$?
[ "$rc" = 0 ] && [ -z "$said" ] || { echo "a closed stdout: exit code $rc: $said"; exit 1; }
rc=0
said=$(disagg --help 2>&1 >/dev/full) || rc=$?
[[ "$rc" = 1 && "$said" = "disagg: stdout: "* ]] || { echo "a full stdout: exit code $rc: $said"; exit 1; }
for wrong in --fault=fire --model=huge --more --fault --unchecked --role=decode; do
    rc=0
    said=$(disagg "$wrong" 2>&1) || rc=$?
    [[ "$rc" = 2 && "$said" = "disagg: "*"--help shows"* ]] || { echo "$wrong: exit code $rc: $said"; exit 1; }
done
echo "disagg: every fault ends as it should; without checks the leak shows"
