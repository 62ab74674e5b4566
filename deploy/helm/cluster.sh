#!/usr/bin/env bash
# Runs a command in a cluster of this machine whose pods are the container image, in a network of its own:
# cluster.sh COMMAND... (Linux, root; make test-chart-pods).
set -euo pipefail
cd "$(dirname "$0")/../.."
[ "$(id -u)" = 0 ] || { echo "cluster.sh: pods need networks and mounts of their own: run it as root"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
if [ -z "${IMAGE_ROOT-}" ]; then # what the Dockerfile puts into the image
	IMAGE_ROOT=$work/image
	mkdir -p "$IMAGE_ROOT"/{etc/ssl/certs,etc/millrace,var/lib/millrace,tmp}
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags timetzdata -ldflags "-s -w" -o "$IMAGE_ROOT/millrace" ./cmd/millrace
	chmod 1777 "$IMAGE_ROOT/tmp" && chown 65532:65532 "$IMAGE_ROOT/var/lib/millrace"
fi
go build -o "$work/localcluster" ./internal/provider/kubernetes/localcluster
export HELM=$PWD/.bin/check/helm MILLRACE=$IMAGE_ROOT/millrace IMAGE=millrace:walk HOST=10.243.0.1
TEMPORAL=${MILLRACE_TEMPORAL:-$(command -v temporal || echo "$PWD/.bin/temporal")}
export TEMPORAL
unshare --net --mount "$work/localcluster" -binaries .bin/kubernetes -dir "$work/cluster" \
	-image "$IMAGE=deploy/docker/Dockerfile:$IMAGE_ROOT" -- "$@"
