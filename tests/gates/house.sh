#!/usr/bin/env bash
# The rules of the house that no lint knows: where unsafe, atomics and unfinished marks may stand.
set -euo pipefail
cd "$(dirname "$0")/../.."
failed=0

# refuse NAME PATTERN EXCEPT PATHS...: no file under the paths but those of EXCEPT holds the pattern.
refuse() {
    local name=$1 pattern=$2 except=$3
    shift 3
    local found
    # Comments may name what code may not.
    found=$(grep -rnE --include='*.rs' "$pattern" "$@" | grep -vE "^($except):|^[^:]+:[0-9]+: *//" || true)
    if [ -n "$found" ]; then
        printf '%s:\n%s\n' "$name" "$found"
        failed=1
    fi
}

refuse "unsafe outside its files" '(^|[^_a-z"])unsafe (fn|impl|trait|\{)|expect\(\s*unsafe_code' \
    'src/(memory|access)/[a-z_0-9/]+\.rs|src/slots/cell\.rs' src
refuse "atomics outside sync.rs" 'std::sync::atomic|core::sync::atomic|loom::' \
    'src/sync\.rs|src/memory/[a-z_0-9/]+\.rs' src
marks=$(grep -rnE --include='*.rs' 'todo!|unimplemented!|TODO|FIXME|XXX' src examples benches tests || true)
if [ -n "$marks" ]; then
    printf 'unfinished marks:\n%s\n' "$marks"
    failed=1
fi
refuse "ignored tests" '#\[ignore' '-' src tests
refuse "network in a crate without networking" 'std::net|std::os::unix::net|TcpStream|UdpSocket' 'tests/dependencies\.rs' \
    src tests benches

# Each file that opens unsafe says why, in its own words.
for file in $(grep -rlE '^ *[^/ ].*unsafe (fn|impl|\{)|^ *unsafe (fn|impl|\{)' src --include='*.rs'); do
    if ! grep -qE 'expect\($|expect\(unsafe_code' "$file"; then
        echo "$file uses unsafe without saying why at its head"
        failed=1
    fi
done

# Long files: near 400 lines of code is the time to split; 700 with tests is too many.
long=$(find src -name '*.rs' -exec awk 'END { if (NR > 700) print FILENAME": "NR" lines" }' {} \;)
if [ -n "$long" ]; then
    printf 'long files:\n%s\n' "$long"
    failed=1
fi
[ "$failed" = 0 ] && echo "house: in order"
exit "$failed"
