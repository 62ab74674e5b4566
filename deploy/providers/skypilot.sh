#!/bin/sh
# Engines as SkyPilot clusters: skypilot.sh start|stop|list, for scaling.provider exec (docs/providers.md).
# TASK is a task file that serves vLLM on port 8000 and opens it (resources: {ports: 8000}). SKY_OPTIONS are for
# sky launch, such as "--use-spot --gpus A100:1". Written for SkyPilot 0.14, whose Python runs the listing.
set -eu
cluster="$MILLRACE_DEPLOYMENT-${MILLRACE_ENGINE_ID:-}"
case "$1" in
start)
	# shellcheck disable=SC2086 # the options are several words
	sky launch --async --yes --detach-run ${SKY_OPTIONS:-} --cluster "$cluster" "${TASK:?}" >&2
	;;
stop)
	found=$(sky status --no-show-managed-jobs --no-show-services --no-show-pools -o json)
	if printf '%s' "$found" | grep -qF "\"name\": \"$cluster\""; then
		sky down --yes "$cluster" >&2
	fi
	;;
list)
	found=$(sky status --refresh --no-show-managed-jobs --no-show-services --no-show-pools -o json)
	printf '%s' "$found" | python3 -c '
import json, os, subprocess, sys

prefix = os.environ["MILLRACE_DEPLOYMENT"] + "-"
states = {"PENDING": "ordered", "INIT": "ordered", "UP": "running", "AUTOSTOPPING": "stopping"}
engines = []
for cluster in json.load(sys.stdin):
    if not cluster["name"].startswith(prefix):
        continue
    engine = {"id": cluster["name"][len(prefix):], "state": states.get(cluster["status"], "failed"),
              "reason": cluster.get("init_status_reason") or cluster["status"]}
    if cluster.get("init_kind") == "unhealthy":
        engine["state"] = "failed"
    if engine["state"] == "running":
        asked = subprocess.run(["sky", "status", "--endpoint", "8000", cluster["name"]], stdout=subprocess.PIPE, text=True)
        url = asked.stdout.strip().split("\n")[-1]
        if asked.returncode or not url:
            engine.update(state="ordered", reason="port 8000 has no address yet")
        else:
            engine["url"] = url if "://" in url else "http://" + url
    engines.append(engine)
print(json.dumps({"engines": engines}))'
	;;
*)
	echo "usage: $0 start|stop|list" >&2
	exit 2
	;;
esac
