#!/bin/sh
# Engines as Modal apps: modal.sh start|stop|list, for scaling.provider exec (docs/providers.md).
# APP is a Python file whose app serves vLLM by a function `serve` with a web server, min_containers=1 and
# max_containers=1, so that an app is one engine. WORKSPACE is Modal's, which begins the addresses (WORKSPACE-ENVIRONMENT
# in an environment that has a suffix; MODAL_ENVIRONMENT names it). Written for modal 1.6, whose Python runs the listing.
set -eu
app="$MILLRACE_DEPLOYMENT-${MILLRACE_ENGINE_ID:-}"
case "$1" in
start)
	modal deploy --name "$app" "${APP:?}" >&2
	;;
stop)
	found=$(modal app list --json)
	if printf '%s' "$found" | MODAL_NAME="$app" python3 -c '
import json, os, sys

apps = [{k.lower(): v for k, v in app.items()} for app in json.load(sys.stdin)]
sys.exit(all(a["state"].startswith("stop") for a in apps if a["description"] == os.environ["MODAL_NAME"]))'; then
		modal app stop --yes "$app" >&2
	fi
	;;
list)
	found=$(modal app list --json)
	printf '%s' "$found" | python3 -c '
import json, os, sys

prefix = os.environ["MILLRACE_DEPLOYMENT"] + "-"
engines = {}
for app in json.load(sys.stdin):
    app = {k.lower(): v for k, v in app.items()}  # "State" before modal 1.5, "state" since
    name, state = app["description"], app["state"]
    if not name.startswith(prefix) or state == "stopped" or name in engines:
        continue
    engine = {"id": name[len(prefix):], "state": "ordered", "reason": "%s, %s containers" % (state, app["tasks"])}
    if state.startswith("stopping"):
        engine["state"] = "stopping"
    elif state == "disabled":
        engine["state"] = "failed"
    elif int(app["tasks"]) > 0:
        engine.update(state="running", url="https://%s--%s-serve.modal.run" % (os.environ["WORKSPACE"], name))
    engines[name] = engine
print(json.dumps({"engines": list(engines.values())}))'
	;;
*)
	echo "usage: $0 start|stop|list" >&2
	exit 2
	;;
esac
