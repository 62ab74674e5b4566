#!/usr/bin/env bash
# Runs the tests under the race detector. The detector itself breaks now and then, which says nothing about the program:
# with "ThreadSanitizer: CHECK failed", or with a bare SIGSEGV, in its own code, when a timer of a synctest bubble fires
# (Go 1.26: runtime.(*timer).maybeRunChan without a race context; a nil pointer of the program is a panic, and printed as
# one). Only then, and when no test failed and no race was found, what it broke in is tested again, twice at most.
set -uo pipefail

out=$(mktemp)
trap 'rm -f "$out"' EXIT
echo "$*"
for attempt in 1 2 3; do
	"$@" 2>&1 | tee "$out"
	rc=${PIPESTATUS[0]}
	broke='^ThreadSanitizer: CHECK failed|^SIGSEGV: segmentation violation$'
	if [ "$rc" -eq 0 ] || [ "$attempt" -eq 3 ] || ! grep -qE "$broke" "$out" ||
		grep -qE "DATA RACE|^ *--- FAIL|^panic:|build failed" "$out"; then
		exit "$rc"
	fi
	echo "the race detector itself failed; what passed is cached, the rest is tested once more"
done
