#!/usr/bin/env bash
# Builds the release of the present commit twice, from two clones in folders of different names and lengths, with caches of
# their own, and compares what came out: make test-release. PLATFORMS=linux/amd64 builds for one alone.
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
date=$(TZ=UTC0 git log -1 --date=iso-strict-local --format=%cd | sed 's/+00:00$/Z/')
for folder in a another/folder/with-a-longer-name; do
	mkdir -p "$work/$folder"
	git clone -q . "$work/$folder/millrace"
	(
		cd "$work/$folder/millrace"
		go build -C deploy/tools/release -o "$work/$folder/release" .
		GOCACHE="$work/$folder/cache" "$work/$folder/release" -out "$work/$folder/dist" -version v0.0.0-test \
			-commit "$(git rev-parse HEAD)" -date "$date" ${PLATFORMS:+-platforms "$PLATFORMS"}
	)
	rm -rf "$work/$folder/cache" "$work/$folder/millrace"
	date -u +"built %H:%M:%S in $folder"
done
diff -r "$work/a/dist" "$work/another/folder/with-a-longer-name/dist"
cat "$work/a/dist/checksums.txt"
echo "both are the same"
