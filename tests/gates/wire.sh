#!/usr/bin/env bash
# The messages of a handoff, as readers in Python and C++ see them that were written from the format's tables alone: every
# field of every sample as the library says it is, every damaged one refused, and the known bytes of version 1.
set -euo pipefail
cd "$(dirname "$0")/../.."

samples=$(mktemp -d)
trap 'rm -rf "$samples"' EXIT
PAGESTAMP_WIRE_SAMPLES=$samples cargo test --locked --quiet --test wire samples >"$samples/log" || {
    cat "$samples/log"
    exit 1
}

python3 tests/wire_reader/reader.py "$samples"

if ! command -v g++ >/dev/null; then
    echo "wire: C++ skipped, no g++"
    exit 0
fi
g++ -std=c++17 -O1 -Wall -Wextra -Werror -fsanitize=address,undefined -fno-sanitize-recover=all \
    -o "$samples/check" tests/wire_reader/check.cpp
"$samples/check" "$samples"/good_*.bin >"$samples/good.lines"
"$samples/check" "$samples"/bad_*.bin >"$samples/bad.lines"
python3 - "$samples" "$samples"/good_*.bin <<'PY'
import json, pathlib, sys
folder, *paths = map(pathlib.Path, sys.argv[1:])
lines = lambda name: [json.loads(line) for line in (folder / name).read_text().splitlines()]
good, bad = lines("good.lines"), lines("bad.lines")
assert len(good) == len(paths)
for path, found in zip(paths, good):
    assert found == json.loads(path.with_suffix(".json").read_text()), path.name
assert bad and all(found is None for found in bad), "a damaged message was taken"
print(f"c++: {len(good)} messages read field by field, {len(bad)} damaged ones refused")
PY
