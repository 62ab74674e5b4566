#!/usr/bin/env bash
# Writes deploy/helm/rendered: what helm makes of the chart with the values of deploy/tools/deploy/testdata/values, for
# tests that have no helm, and the sums of what that was made of (make chart-rendered). Alerts and dashboard are left out:
# they are files of their own, with tests of their own.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-deploy/helm/rendered}
mkdir -p "$out"
for values in deploy/tools/deploy/testdata/values/*.yaml; do
	release=m
	[ "$(basename "$values")" != odd.yaml ] || release=2024.the-longest-name-that-helm-takes-for-a-release.5
	.bin/check/helm template "$release" deploy/helm/millrace -n rl -f "$values" --kube-version 1.34.0 \
		--set metrics.rules.enabled=false,metrics.dashboard.enabled=false \
		2> >(grep -v 'walk.go:.*found symbolic link' >&2) >"$out/$(basename "$values")"
done
find deploy/helm/millrace deploy/tools/deploy/testdata/values -type f | LC_ALL=C sort | xargs sha256sum \
	>"$out/sources.sha256"
