#!/usr/bin/env bash
# Has a real API server take what the chart renders, with the definitions of KEDA and the Prometheus operator: make test-chart.
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"
helm=.bin/check/helm
out=.millrace/chart
rm -rf "$out" && mkdir -p "$out"
quietly() { "$@" 2> >(grep -v 'walk.go:.*found symbolic link' >&2); } # helm says of every link that it follows it
module() { go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p'; }
keda=$(module github.com/kedacore/keda/v2@v2.21.0)/config/crd/bases
prometheus=$(module github.com/prometheus-operator/prometheus-operator@v0.85.0)/example/prometheus-operator-crd
cp "$keda"/keda.sh_scaledobjects.yaml "$prometheus"/monitoring.coreos.com_{servicemonitors,prometheusrules}.yaml "$out/"
deploy/helm/render.sh "$out/rendered"
diff -r deploy/helm/rendered "$out/rendered" || { echo "deploy/helm/rendered is of another chart: make chart-rendered"; exit 1; }
for values in deploy/tools/deploy/testdata/values/*.yaml; do
	name=$(basename "$values" .yaml)
	quietly "$helm" lint --strict deploy/helm/millrace -f "$values" --quiet
	quietly "$helm" template "m-$name" deploy/helm/millrace -n rollouts -f "$values" >"$out/$name.rendered"
done
for file in "$out"/*.rendered; do mv "$file" "${file%.rendered}.objects.yaml"; done
make --no-print-directory kubernetes-dry-run FILES="$(echo "$out"/*.objects.yaml)" \
	CRDS="$(echo "$out"/keda.sh_*.yaml "$out"/monitoring.*.yaml)"
