#!/usr/bin/env bash
# The chart as its operator meets it, in a throw-away cluster that has the image: installed with helm in a
# namespace of level "restricted", tested, used by a run that buys engines, evicted, rolled, given back and taken away.
# make test-chart-pods. Needs KUBECONFIG of an administrator, HELM, MILLRACE, TEMPORAL, HOST (this machine, as pods see
# it), IMAGE (NAME:TAG) and redis-server.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
logs=$(dirname "$KUBECONFIG")/logs pids=()
stop() { for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done; wait 2>/dev/null || true; rm -rf "$work"; }
trap stop EXIT
k() { kubectl -n rl "$@"; }
helm() { "$HELM" -n rl "$@" 2> >(grep -v 'walk.go:.*found symbolic link' >&2); }
say() { printf '%s  %s\n' "$(date +%T)" "$*"; }
fail() { say "FAILED: $*"; k get pods -o wide; k get events --sort-by=.lastTimestamp | tail -20; exit 1; }
# within SECONDS WHAT COMMAND: until the command succeeds.
within() {
	local until=$(($(date +%s) + $1)) what=$2
	shift 2
	until "$@" >"$work/last" 2>&1; do
		[ "$(date +%s)" -lt "$until" ] || { cat "$work/last"; fail "not within its time: $what"; }
		sleep 1
	done
	say "$what"
}
pods() { k get pods -l "$1" --field-selector=status.phase=Running -o name | wc -l; }
engines() { pods millrace.dev/deployment=millrace; }

say "Redis and Temporal on this machine"
redis-server --bind "$HOST" --protected-mode no --port 6379 --dir "$work" --appendonly yes \
	--maxmemory-policy noeviction >"$work/redis.log" & pids+=($!)
# Of one address alone it does not find its own parts.
"$TEMPORAL" server start-dev --ip 0.0.0.0 --port 7233 --headless --log-level error \
	--dynamic-config-value matching.numTaskqueueReadPartitions=1 \
	--dynamic-config-value matching.numTaskqueueWritePartitions=1 >"$work/temporal.log" 2>&1 & pids+=($!)

kubectl create namespace rl
kubectl label namespace rl pod-security.kubernetes.io/enforce=restricted pod-security.kubernetes.io/warn=restricted
kubectl apply -f - <<YAML
apiVersion: v1
kind: PersistentVolume
metadata: {name: adapters}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteMany]
  hostPath: {path: $work/adapters}
  claimRef: {namespace: rl, name: adapters}
  storageClassName: ""
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: adapters, namespace: rl}
spec: {accessModes: [ReadWriteMany], storageClassName: "", resources: {requests: {storage: 1Gi}}, volumeName: adapters}
YAML
mkdir -p "$work/adapters" && chmod 777 "$work" "$work/adapters"
token=$("$MILLRACE" config token --name me --role operator 2>"$work/line" | tail -1)
printf 'tokens:\n%s\n' "$(grep -- '- {' "$work/line")" >"$work/tokens.yaml"
k create secret generic millrace-tokens --from-file=tokens.yaml="$work/tokens.yaml"
k create secret generic millrace-redis --from-literal=url="redis://$HOST:6379/0"
cat >"$work/values.yaml" <<YAML
image: {repository: ${IMAGE%:*}, tag: ${IMAGE##*:}}
config:
  temporal: {address: "$HOST:7233"}
  worker: {games: 64}
  scaling:
    {provider: kubernetes, min: 0, max: 3, window: 2s, cold_start: 5s, scale_to_zero: 5s, kubernetes: {grace: 5s}}
secrets: {tokens: {name: millrace-tokens}, redis: {name: millrace-redis}}
server: {resources: {requests: {cpu: 10m, memory: 16Mi}}}
worker: {resources: {requests: {cpu: 10m, memory: 16Mi}}}
volumes: [{name: adapters, persistentVolumeClaim: {claimName: adapters}}]
volumeMounts: [{name: adapters, mountPath: $work/adapters}]
networkPolicy: {enabled: true}
enginePod:
  spec:
    automountServiceAccountToken: false
    enableServiceLinks: false
    securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
    containers:
      - name: engine
        image: $IMAGE
        args: [engine, simulate, --host, 0.0.0.0, --speed, "8", --max-num-seqs, "1", --cold-start, 10s]
        resources: {limits: {nvidia.com/gpu: 1}}
        securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
        volumeMounts: [{name: adapters, mountPath: $work/adapters}]
    volumes: [{name: adapters, persistentVolumeClaim: {claimName: adapters}}]
YAML
helm lint --strict deploy/helm/millrace -f "$work/values.yaml" --quiet
helm install millrace deploy/helm/millrace -f "$work/values.yaml" --wait --timeout 4m >/dev/null || fail "helm install"
say "installed: $(pods app.kubernetes.io/component=server) servers, $(pods app.kubernetes.io/component=worker) workers"
helm test millrace --timeout 2m >"$work/test" || { cat "$work/test"; fail "helm test"; }
say "helm test: $(grep Phase "$work/test")"

say "the rights of a worker are those of the chart, and no others"
may() { kubectl auth can-i "$@" --as system:serviceaccount:rl:millrace -q; }
for verb in create get list patch delete; do may "$verb" pods -n rl || fail "a worker may not $verb pods"; done
may get nodes --all-namespaces || fail "a worker may not get nodes"
for more in "get secrets -n rl" "list nodes --all-namespaces" "create pods -n default" "update pods -n rl" "create pods --subresource=exec -n rl"; do
	# shellcheck disable=SC2086
	! may $more || fail "a worker may $more"
done

address=$(k get service millrace -o jsonpath='{.spec.clusterIP}:{.spec.ports[0].port}')
export MILLRACE_SERVER=http://$address MILLRACE_TOKEN=$token
# The example, without the services that `millrace dev` would start for it.
sed -E "s#/tmp/adapters#$work/adapters#; s/engines: 1, max_engines: 6, cold_start: 60s, engine_max_num_seqs: 1, //" \
	config/examples/elastic.yaml >"$work/run.yaml"
within 120 "a run is launched at the Service's address" "$MILLRACE" run start -f "$work/run.yaml"
"$MILLRACE" trainer demo elastic --journal "$work/journal" >"$work/trainer.log" 2>&1 & pids+=($!)
some() { [ "$(engines)" -ge "$1" ]; }
none() { [ "$(k get pods -l "$1" -o name | wc -l)" = 0 ]; }
steps() { [ "$(wc -l <"$work/journal")" -ge "$1" ]; }
within 180 "it woke the fleet: an engine's pod runs" some 1
within 300 "it was worth a second one" some 2
within 120 "two steps are trained" steps 2

say "a worker is evicted, as by kubectl drain"
evict() {
	kubectl create --raw "/api/v1/namespaces/rl/pods/$1/eviction" -f - 2>&1 <<JSON
{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "$1", "namespace": "rl"}}
JSON
}
evict millrace-worker-1 >/dev/null || fail "the first worker was not evicted"
! refusal=$(evict millrace-worker-0) || fail "the second worker was evicted beside the first"
[[ $refusal == *"disruption budget"* ]] || fail "$refusal"
say "the disruption budget holds the other one"
ready() { [ "$(k get statefulset millrace-worker -o jsonpath='{.status.readyReplicas}')" = 2 ]; }
within 120 "two workers are ready again" ready
before=$(wc -l <"$work/journal")
within 180 "and the run goes on" steps $((before + 1))

say "an engine's pod is evicted"
engine=$(k get pods -l millrace.dev/deployment=millrace -o jsonpath='{.items[0].metadata.name}')
evict "$engine" >/dev/null || fail "evict"
gone() { ! k get pod "$engine" >/dev/null 2>&1; }
within 120 "it is gone" gone
within 120 "and replaced" some 2

say "a key that processes take up, by helm upgrade: no pod is replaced"
uids() { k get pods -l app.kubernetes.io/instance=millrace -o jsonpath='{.items[*].metadata.uid}'; }
were=$(uids)
helm upgrade millrace deploy/helm/millrace -f "$work/values.yaml" --set config.log_level=debug --wait --timeout 5m \
	>/dev/null
taken() { k get pod millrace-worker-0 -o name >/dev/null && grep -q 'key=log_level' "$logs"/rl_millrace-worker-0.log; }
within 90 "a worker has taken it up" taken
[ "$were" = "$(uids)" ] || fail "pods were replaced"

say "a key that needs a restart: pods are replaced one by one, under the run"
before=$(wc -l <"$work/journal")
helm upgrade millrace deploy/helm/millrace -f "$work/values.yaml" --set config.worker.games=48 --wait --timeout 6m \
	>/dev/null || fail "helm upgrade"
k rollout status statefulset/millrace-worker --timeout=4m >/dev/null || fail "the workers' roll"
within 180 "the run goes on" steps $((before + 1))
say "a version that is not there: the roll stops, and is taken back"
! helm upgrade millrace deploy/helm/millrace -f "$work/values.yaml" --set image.tag=none --atomic --timeout 40s \
	>/dev/null 2>&1 || fail "it was taken"
within 120 "two workers are ready" ready
within 180 "the run goes on" steps $((before + 2))

say "the run is paused: engines are given back"
"$MILLRACE" run pause elastic >/dev/null
within 180 "none is left" none millrace.dev/deployment=millrace
"$MILLRACE" run resume elastic >/dev/null
within 180 "the run is resumed: it is bought again" some 1
within 600 "the run is at its end" steps 14
[ "$(sort -u "$work/journal" | wc -l)" = "$(wc -l <"$work/journal")" ] || fail "a step was trained on twice"
"$MILLRACE" run show elastic | head -20
"$MILLRACE" fleet show

say "uninstalled"
within 180 "no run, no engines" none millrace.dev/deployment=millrace
helm uninstall millrace --wait --timeout 3m >/dev/null || fail "helm uninstall"
within 60 "nothing of it is left" none app.kubernetes.io/instance=millrace
left=$(k get all,configmaps,pdb,networkpolicies,roles,rolebindings -l app.kubernetes.io/instance=millrace -o name)
[ -z "$left" ] || fail "left: $left"
say "all of it"
