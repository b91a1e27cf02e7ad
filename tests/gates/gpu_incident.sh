#!/usr/bin/env bash
# The incident in the memory of a CUDA device, on the stand-in driver: unchecked, both wrong tables leak; cleaned or checked
# on the device, nothing does, and the wrong row is flagged. A missing driver is an error that says which, never a panic.
set -euo pipefail
cd "$(dirname "$0")/../.."
driver=$(bash tests/gates/kvstandin.sh --build)
cargo build --locked --quiet --features cuda --example gpu_incident
gpu_incident() { "${CARGO_TARGET_DIR:-target}/debug/examples/gpu_incident" "$@"; }

lines=$(gpu_incident --driver "$driver" --json) || { printf '%s\n' "$lines"; exit 1; }
printf '%s\n' "$lines" | tail -n 2
python3 - "$driver" "$lines" <<'PY'
import json, sys
driver, lines = sys.argv[1], sys.argv[2].split("\n")
run = json.loads(lines[-1])
named = run.pop("driver")
assert named.startswith(driver + ": ") and named.endswith("(stand-in, no GPU)"), named
assert lines[0] == "driver: " + named, lines[0]
assert json.dumps(run, sort_keys=True) == json.dumps(
    {"unchecked_leaked": True, "guarded_leaked": False, "flagged": [0], "audit": "ok"}, sort_keys=True), run
answers = [line for line in lines if " reads \"" in line]
assert ["LEAK" in answer for answer in answers] == [True, False, True, False], answers
assert ["ORCHID-7421-ZEPHYR" in answer for answer in answers] == [True, False, True, False], answers
assert any("7 entries refused" in line and "entry 1 of row 0: Released" in line for line in lines), lines
assert lines[-2] == ("verdict: unchecked, both wrong tables leak; cleaned or checked, nothing does, and the wrong row is "
                     "flagged"), lines[-2]
PY

# refused WORDS ARGUMENT...: exit code 2, and stderr begins with the words.
refused() {
    local words=$1 rc=0 said
    shift
    said=$(gpu_incident "$@" 2>&1) || rc=$?
    [[ "$rc" = 2 && "$said" = "gpu_incident: $words"* ]] || { echo "$*: exit code $rc: $said"; exit 1; }
}
refused "no CUDA driver could be loaded as /nowhere/libcuda.so.1: " --driver /nowhere/libcuda.so.1
refused "the CUDA driver libc.so.6 has no function cuInit; " --driver=libc.so.6 --json
if ! ldconfig -p | grep 'libcuda\.so\.1 ' >/dev/null; then
    refused "no CUDA driver could be loaded as libcuda.so.1: "
fi
refused "--driver needs a path; " --driver
refused "--driver is given twice; " --driver a --driver=b
refused "unknown argument --more; " --more

# Nobody reads the second line on: the run ends as it would have, and without a word.
rc=0
said=$( { gpu_incident --driver "$driver" | head -n 1 >/dev/null; } 2>&1) || rc=$?
[ "$rc" = 0 ] && [ -z "$said" ] || { echo "a closed stdout: exit code $rc: $said"; exit 1; }
rc=0
said=$(gpu_incident --help 2>&1 >/dev/full) || rc=$?
[[ "$rc" = 1 && "$said" = "gpu_incident: stdout: "* ]] || { echo "a full stdout: exit code $rc: $said"; exit 1; }
echo "gpu_incident: leaks shown on the stand-in, cleaned or checked pages leak nothing, the wrong row is flagged"
