#!/usr/bin/env bash
# systemd's own checks of the units, in a root of their own: make test-units.
set -euo pipefail
cd "$(dirname "$0")"
command -v systemd-analyze >/dev/null || { echo "systemd-analyze is not here: the units are not checked"; exit 0; }
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{etc/systemd/system/millrace-worker@.service.d,usr/local/bin,bin,usr/lib/sysusers.d,usr/lib/tmpfiles.d}
for program in usr/local/bin/millrace bin/kill; do
	printf '#!/bin/sh\n' >"$root/$program" && chmod +x "$root/$program"
done
install -m 644 millrace-server.service millrace-worker@.service "$root/etc/systemd/system/"
if [ -d /usr/lib/systemd/system ]; then # the targets that they name
	mkdir -p "$root/usr/lib/systemd" && cp -r /usr/lib/systemd/system "$root/usr/lib/systemd/"
fi
check() {
	said=$(systemd-analyze verify --root="$root" --recursive-errors=no --man=no "$1" 2>&1) || { echo "$said"; exit 1; }
	[ -z "$said" ] || { echo "$said"; exit 1; }
	echo "$1: ok${2:+, $2}"
}
check millrace-server.service
check millrace-worker@1.service
install -m 644 engines.conf "$root/etc/systemd/system/millrace-worker@.service.d/"
check millrace-worker@1.service "with engines.conf"
rm "$root/etc/systemd/system/millrace-worker@.service.d/engines.conf"
for unit in millrace-server.service millrace-worker@1.service; do
	# 0 is locked up, 10 is open. A unit that is let do more than these do should say why.
	systemd-analyze security --offline=yes --root="$root" --threshold=25 --no-pager "$unit" | tail -1
done
install -m 644 millrace.sysusers.conf "$root/usr/lib/sysusers.d/millrace.conf"
install -m 644 millrace.tmpfiles.conf "$root/usr/lib/tmpfiles.d/millrace.conf"
systemd-sysusers --root="$root" millrace.conf >/dev/null 2>&1
grep -q '^millrace:' "$root/etc/passwd" && echo "millrace.sysusers.conf: ok"
systemd-tmpfiles --root="$root" --create millrace.conf
[ "$(stat -c %a "$root/etc/millrace")" = 750 ] && echo "millrace.tmpfiles.conf: ok"
