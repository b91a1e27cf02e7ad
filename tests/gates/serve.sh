#!/usr/bin/env bash
# The books of an engine under a load of the shape of real ones: every request ends, no page is lost, the audit holds, whether
# pages are promised ahead or requests preempt each other, with one engine or several, one tenant or many. With
# PAGESTAMP_TRACES, a folder of recorded traces, these too. Lines that cannot be read are refused by number, or skipped.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo test --locked --quiet --example serve >/dev/null
cargo build --locked --release --quiet --example serve
serve() { "${CARGO_TARGET_DIR:-target}/release/examples/serve" "$@"; }

# sound EXPECTED ARGUMENT...: exit code 0, and the last line says what is expected of it.
sound() {
    local expected=$1 lines
    shift
    lines=$(serve "$@" --json) || { printf '%s\n' "$lines"; exit 1; }
    python3 - "$expected" "$(printf '%s\n' "$lines" | tail -n 1)" "$*" <<'PY'
import json, sys
expected, line, arguments = sys.argv[1:]
run = json.loads(line)
keys = {"requests", "completed", "never_fits", "preempted", "hit_pages", "evicted_pages", "peak_live_pages", "page_ops",
        "ns_per_page_op", "audit", "lost_pages", "failures"}
assert set(run) == keys, run
assert run["audit"] == "ok" and run["lost_pages"] == 0 and run["failures"] == 0, run
assert run["completed"] + run["never_fits"] == run["requests"] > 0 and run["page_ops"] > 0, run
assert eval(expected, {}, run), f"{expected}: {run}"
print(f"serve {arguments}: {line}")
PY
}
sound 'preempted == 0 and never_fits == 0 and hit_pages > 0 and evicted_pages > 0'
sound 'preempted == 0 and hit_pages > 0' --owners 7 --threads 2 --rate 4
sound 'preempted > 0 and hit_pages > 0 and evicted_pages > 0' --pages 8000 --admit prompt --rate 16
sound 'never_fits > 0 and completed > 0 and peak_live_pages <= 998' --pages 1000 --threads 2 --owners 3
sound 'requests == 300 and hit_pages > 0' --requests 300 --page-tokens 64 --seed 7

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
printf '%s\n' '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 7]}' 'not a request' \
    '{"timestamp": 1, "input_length": 600, "output_length": 5, "hash_ids": [0, 7]}' >"$folder/damaged"
rc=0
said=$(serve --trace "$folder/damaged" 2>&1) || rc=$?
[[ "$rc" = 2 && "$said" = "serve: line 2: "*"--malformed skip"* ]] || { echo "a damaged line: exit code $rc: $said"; exit 1; }
said=$(serve --trace "$folder/damaged" --malformed skip)
[[ "$said" = *"skipped line 2: "* ]] || { echo "a skipped line is not named: $said"; exit 1; }
sound 'requests == 2 and hit_pages == 37' --trace "$folder/damaged" --malformed skip
for wrong in --pages "--pages 2" "--more" "--trace $folder/none" "--format csv"; do
    rc=0
    # shellcheck disable=SC2086
    said=$(serve $wrong 2>&1) || rc=$?
    [[ "$rc" = 2 && "$said" = "serve: "* ]] || { echo "$wrong: exit code $rc: $said"; exit 1; }
done

# Traces are not part of this repository.
if [ -n "${PAGESTAMP_TRACES:-}" ]; then
    for rate in 1 4 16; do
        sound 'completed > 10000 and hit_pages > 0' --trace "$PAGESTAMP_TRACES/mooncake_conversation_trace.jsonl" --rate "$rate"
        sound 'completed > 10000' --trace "$PAGESTAMP_TRACES/AzureLLMInferenceTrace_conv.csv" --rate "$rate" --threads 2
        for session in "$PAGESTAMP_TRACES"/claude_code_sessions/*.json; do
            sound 'completed > 0' --trace "$session" --rate "$rate" --page-tokens 64
        done
    done
fi
echo "serve: every request ended, no page lost"
