#!/usr/bin/env bash
# Runs the tests under the race detector. The detector itself breaks now and then ("ThreadSanitizer: CHECK failed", a fault
# of its runtime, which says nothing about the program); only then, and when no test failed and no race was found, what it
# broke in is tested once more.
set -uo pipefail

out=$(mktemp)
trap 'rm -f "$out"' EXIT
echo "$*"
"$@" 2>&1 | tee "$out"
rc=${PIPESTATUS[0]}
if [ "$rc" -ne 0 ] && grep -q "^ThreadSanitizer: CHECK failed" "$out" && ! grep -qE "DATA RACE|^ *--- FAIL|^panic:|build failed" "$out"; then
	echo "the race detector itself failed; what passed is cached, the rest is tested once more"
	"$@"
	rc=$?
fi
exit "$rc"
