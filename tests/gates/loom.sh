#!/usr/bin/env bash
# The concurrent protocols, checked with loom over the real source: every sound model must hold, every planted bug must be
# caught. Needs nothing but cargo. Build products go to CARGO_TARGET_DIR if it is set.
set -euo pipefail
cd "$(dirname "$0")/../loom"
export CARGO_TERM_COLOR=never
unset PAGESTAMP_PLANT

cargo build --locked --quiet
failed=0
cargo run --locked --quiet || failed=1

# One bug at a time in a copy of the source, one small compile each.
plants=$(cargo run --locked --quiet -- --source-plants)
for plant in $plants; do
    PAGESTAMP_PLANT=$plant cargo run --locked --quiet || failed=1
done

# A name that is not in the table must stop the build, or the loop above proves nothing.
if PAGESTAMP_PLANT=no_such_plant cargo build --locked --quiet 2>/dev/null; then
    echo "SURVIVED: no_such_plant (an unknown plant was built)"
    failed=1
fi
if [ "$failed" -ne 0 ]; then
    echo "loom: a model failed or a planted bug survived" >&2
fi
exit "$failed"
