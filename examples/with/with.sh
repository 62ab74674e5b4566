#!/usr/bin/env bash
# with.sh PEER: `make with`. Installs the peer's pinned packages into .bin/with/PEER (once), starts a `millrace dev` on
# ports of its own (REDIS=redis://host:port/n: with that Redis, which must be empty), runs the peer's examples and ends
# everything.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
peer=${1:-} bin=$root/.bin
pins=$here/pins/$peer.txt
if [[ ! -f $pins ]]; then
	echo "make with PEER=...: one of $(cd "$here/pins" && echo *.txt | sed 's/\.txt//g')" >&2
	exit 2
fi
examples=$(sed -n 's/^# runs: //p' "$pins") wanted=$(sed -n 's/^# python: //p' "$pins")

venv=$bin/with/$peer
if ! cmp -s "$pins" "$venv/installed"; then
	python=""
	for candidate in python3 python3.13 python3.12 python3.11 ~/.pyenv/versions/3.1[321].*/bin/python; do
		if "$candidate" -c "import ensurepip, sys; sys.exit(sys.version_info[:2] < (${wanted/./, }))" 2>/dev/null; then
			python=$candidate
			break
		fi
	done
	[[ -n $python ]] || { echo "$peer needs Python $wanted or newer, with venv, on the PATH" >&2; exit 1; }
	echo "installing $(grep -v '^#' "$pins" | tr '\n' ' ')into .bin/with/$peer (once)"
	[[ -x $venv/bin/python ]] || "$python" -m venv "$venv"
	"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$pins"
	cp "$pins" "$venv/installed"
fi

log=$(mktemp)
"$bin/millrace" dev --listen 127.0.0.1:0 --speed "${SPEED:-10}" ${REDIS:+--redis "$REDIS"} >"$log" 2>&1 &
dev=$!
trap 'kill "$dev" 2>/dev/null || true; wait "$dev" 2>/dev/null || true; rm -f "$log"' EXIT
until url=$(sed -n 's/^up, with its page on \(http:[^;]*\)\/;.*/\1/p' "$log") && [[ -n $url ]]; do
	kill -0 "$dev" 2>/dev/null || { cat "$log"; exit 1; }
	sleep 0.5
done
engines=$(sed -n "s/.* simulated engines.*: \(http:.*\)/\1/p" "$log")
echo "$peer with Millrace at $url"
export MILLRACE_SERVER=$url MILLRACE_DEV=$dev MILLRACE_ENGINE=${engines%% *} MILLRACE_ENGINES=$engines PYTHONPATH=$root/clients/python PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
export PATH=$venv/bin:$PATH
cd "$here"
for example in $examples; do
	"$venv/bin/python" "$example"
done
echo "$peer: ok"
