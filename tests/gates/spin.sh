#!/usr/bin/env bash
# The handoff protocol, searched by spin: tests/spin/handoff.pml must hold, and every planted bug must be found by the promise
# that it breaks. Needs spin and gcc; without them it says so and proves nothing.
set -euo pipefail
model=$(cd "$(dirname "$0")/../spin" && pwd)/handoff.pml

if ! command -v spin >/dev/null; then
    if [ "$(id -u)" = 0 ]; then
        apt-get install -y spin >/dev/null 2>&1 || true
    else
        sudo -n apt-get install -y spin >/dev/null 2>&1 || true
    fi
fi
for tool in spin gcc; do
    if ! command -v "$tool" >/dev/null; then
        echo "spin: SKIPPED, $tool is not installed: apt-get install $tool"
        exit 0
    fi
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# search NAME KIND OPTIMISATION MACROS...: the verdict of one search is left in $work/NAME.out.
search() {
    local name=$1 kind=$2 optimise=$3
    shift 3
    mkdir "$work/$name"
    cd "$work/$name"
    spin "$@" -a "$model" >/dev/null
    if [ "$kind" = safety ]; then
        gcc "$optimise" -w -DSAFETY -DNOCLAIM -DVECTORSZ=2048 -DCOLLAPSE -o pan pan.c
        ./pan -n -m100000 -w20 >"$work/$name.out"
    else
        gcc "$optimise" -w -DNFAIR=3 -DVECTORSZ=2048 -o pan pan.c
        ./pan -a -f -n -m100000 -w20 >"$work/$name.out"
    fi
}

failed=0

# holds NAME: a search came to its end and found nothing.
holds() {
    local states
    states=$(grep -oE '[0-9]+ states, stored' "$work/$1.out" || true)
    if grep -q 'errors: 0' "$work/$1.out" && ! grep -qE 'max search depth too small|out of memory' "$work/$1.out"; then
        echo "holds: $1 ($states)"
    else
        echo "FAILED: $1: $(grep -m1 'pan:1' "$work/$1.out" || echo 'the search did not end')"
        failed=1
    fi
}

# found NAME PROMISE: a search found that the promise is broken, and not another.
found() {
    local name=$1 promise=$2 broken
    broken=$(grep -m1 'pan:1' "$work/$name.out" || true)
    case $promise in
    S1) pattern='\(page\[0\]==\(t\+1\)\)' ;;
    S2) pattern='holder\[.\]==job|page\[.\]==9' ;;
    S3) pattern='page\[.\]==0' ;;
    S4) pattern='covered' ;;
    S5) pattern='rejected' ;;
    S6) pattern='gone' ;;
    L) pattern='acceptance cycle' ;;
    esac
    if [[ $broken =~ $pattern ]]; then
        echo "found: $name breaks $promise"
    else
        echo "SURVIVED: $name should break $promise: ${broken:-nothing found}"
        failed=1
    fi
}

# One transfer with any two faults; a second on the same pages; the end of all under weak fairness.
search one_transfer safety -O1 -DTRANSFERS=1 -DFAULTS=2 &
search two_transfers safety -O1 -DTRANSFERS=2 -DFAULTS=0 -DVISITS=0
search every_transfer_ends liveness -O1 -DTRANSFERS=1 -DFAULTS=1 -DVISITS=0
wait $! || failed=1
holds one_transfer
holds two_transfers
holds every_transfer_ends

plants="
    FREE_ON_DEADLINE:S2 TICKETS_END_WITH_REFUSAL:S2 REVOKE_WITHOUT_TEARDOWN:S2 ACCEPT_WITH_OPEN_TICKETS:S2 ID_REUSE:S2
    NO_COVERAGE:S4 COVERAGE_PER_MESSAGE:S4 NO_DIGEST:S1 NO_ZEROING:S3 REJECTED_REVIVES:S5
    ACK_PER_MESSAGE:S6 UNPIN_ON_SEND:S6 SECOND_OFFER_STARTS:S6
    REFUSAL_KEEPS_SOURCE:L ANSWERS_NO_REPEATS:L"

# plant NAME PROMISE: the smallest search that has what the bug needs.
plant() {
    local transfers=1 kind=safety
    if [ "$1" = ID_REUSE ]; then transfers=2; fi
    if [ "$2" = L ]; then kind=liveness; fi
    search "$1" "$kind" -O0 "-D$1" "-DTRANSFERS=$transfers" -DFAULTS=1
}

# Two at a time.
for entry in $plants; do
    plant "${entry%:*}" "${entry#*:}" &
    if [ "$(jobs -rp | wc -l)" -ge 2 ]; then wait -n || true; fi
done
wait
for entry in $plants; do
    found "${entry%:*}" "${entry#*:}"
done

# A name that nobody planted must find nothing, or the list above proves nothing.
search NO_SUCH_PLANT safety -O0 -DNO_SUCH_PLANT -DTRANSFERS=1 -DFAULTS=0
holds NO_SUCH_PLANT
if [ "$failed" -ne 0 ]; then
    echo "spin: the model failed or a planted bug survived" >&2
fi
exit "$failed"
