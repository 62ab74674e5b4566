#!/usr/bin/env bash
# run.sh [URL]: what Millrace relies on, asked of a real engine.
#
# With a URL, the contract suite runs against the engine there; nothing but completions is asked of it, unless it is told of
# adapters by GOOD_ADAPTER and DEEP_ADAPTER: directories, as the engine sees them, of one that it can serve and of one above its
# --max-lora-rank. ENGINE_KEY is its API key; MAX_QUEUED, its --max-num-queued-reqs, adds the case of too much work.
#
# Without one, a vLLM for CPUs is installed into .bin/vllm (once; some 6 GB and a few minutes), a tiny model and its adapters are
# made; the suite, a comparison of its logprobs with the weights (logprobs.py) and a whole small run (small.yaml) go against it.
# .bin/vllm.log is what it said.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
bin=$root/.bin
cd "$root"

# contract URL [FLAG...]: the suite of internal/engine/vllm, never from Go's cache of test results.
contract() {
	go test -count=1 -timeout 20m ./internal/engine/vllm -run '^TestContract$' -v -engine "$@"
}

if [[ -n ${1:-} ]]; then
	contract "$1" -engine-key "${ENGINE_KEY:-}" -good-adapter "${GOOD_ADAPTER:-}" -deep-adapter "${DEEP_ADAPTER:-}" -max-queued "${MAX_QUEUED:-0}"
	exit
fi

source "$here/prepare.sh"

port=$("$bin/vllm/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
url=http://127.0.0.1:$port
echo "starting vLLM $version on $url"
"$here/serve.sh" "$bin/vllm" "$models/model" "$port" >"$bin/vllm.log" 2>&1 &
engine=$!
trap 'kill $engine 2>/dev/null || true; wait $engine 2>/dev/null || true' EXIT

deadline=$((SECONDS + 300)) waited=0
until curl --silent --fail --max-time 5 "$url/health" >/dev/null; do
	if ! kill -0 $engine 2>/dev/null || ((SECONDS > deadline)); then
		tail -n 30 "$bin/vllm.log" >&2
		echo "conformance: vLLM does not come up; all it said is in .bin/vllm.log" >&2
		exit 1
	fi
	((++waited % 15)) || echo "vLLM is starting since $waited s; it may take 300"
	sleep 1
done

contract "$url" -good-adapter "$models/lora-8" -deep-adapter "$models/lora-32"
echo
echo "its logprobs against the weights:"
"$bin/vllm/bin/python" "$here/logprobs.py" "$url" "$models"
echo
echo "a whole run against it:"
"$bin/millrace" dev --exit --engine "$url" --spec "$here/small.yaml"
