#!/usr/bin/env bash
# Prints how large Millrace is, each figure beside its budget, and fails where one is above it. Lines are those of Go
# without tests, blank lines and lines that are comments. PRINT=1 only prints.
set -euo pipefail
cd "$(dirname "$0")/.."

lines() { xargs -r cat | grep -cvE '^[[:space:]]*(//.*)?$' || true; }
linked() {
	go list -deps -f '{{with .Module}}{{if .Main}}{{range $.GoFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}{{end}}{{end}}' "$1" |
		grep . | lines
}
direct() { go list -m -f '{{if not (or .Main .Indirect)}}{{.Path}}{{end}}' all | grep -c .; }
stripped() {
	local binary
	binary=$(mktemp)
	go build -ldflags '-s -w' -o "$binary" ./cmd/millrace
	echo $((($(stat -c %s "$binary") + 999999) / 1000000))
	rm -f "$binary"
}

above=0
figure() { # WHAT IS BUDGET
	local mark=""
	[ "$2" -le "$3" ] || { mark="  ABOVE" && above=1; }
	printf '%-52s %7d of %6d%s\n' "$1" "$2" "$3" "$mark"
}
figure "lines of Go linked into cmd/millrace" "$(linked ./cmd/millrace)" 88000
figure "lines of Go linked into the worker" "$(linked ./worker)" 40500
figure "lines of Go in trials" "$(find trials -name '*.go' ! -name '*_test.go' | lines)" 22000
figure "folders directly under internal" "$(find internal -mindepth 1 -maxdepth 1 -type d | wc -l)" 14
figure "words in docs" "$(find docs -name '*.md' -print0 | xargs -0 cat | wc -w)" 45000
figure "direct dependencies of the product" "$(direct)" 39
figure "stripped binary in MB" "$(stripped)" 52
[ -n "${PRINT:-}" ] || exit $above
