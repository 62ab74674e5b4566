#!/bin/sh
# Engines as Modal apps: modal.sh start|stop|list, for scaling.provider exec (docs/providers.md).
# APP is a Python file whose app serves vLLM by a function `serve` with a web server, min_containers=1 and
# max_containers=1, so that an app is one engine. WORKSPACE is Modal's, which begins the addresses. Written for modal 1.6,
# whose Python runs the listing.
set -eu
app="$MILLRACE_DEPLOYMENT-${MILLRACE_ENGINE_ID:-}"
case "$1" in
start)
	modal deploy --name "$app" "${APP:?}" >&2
	;;
stop)
	if modal app list --json | MODAL_NAME="$app" python3 -c '
import json, os, sys

live = [app for app in json.load(sys.stdin) if app["Description"] == os.environ["MODAL_NAME"]]
sys.exit(all(app["State"].startswith("stop") for app in live))'; then
		modal app stop --yes "$app" >&2
	fi
	;;
list)
	modal app list --json | python3 -c '
import json, os, sys

prefix = os.environ["MILLRACE_DEPLOYMENT"] + "-"
engines = {}
for app in json.load(sys.stdin):
    name, state = app["Description"], app["State"]
    if not name.startswith(prefix) or state == "stopped" or name in engines:
        continue
    engine = {"id": name[len(prefix):], "state": "pending", "reason": "%s, %s containers" % (state, app["Tasks"])}
    if state.startswith("stopping"):
        engine["state"] = "ending"
    elif state == "disabled":
        engine["state"] = "failed"
    elif int(app["Tasks"]) > 0:
        engine.update(state="running", url="https://%s--%s-serve.modal.run" % (os.environ["WORKSPACE"], name))
    engines[name] = engine
print(json.dumps({"engines": list(engines.values())}))'
	;;
*)
	echo "usage: $0 start|stop|list" >&2
	exit 2
	;;
esac
