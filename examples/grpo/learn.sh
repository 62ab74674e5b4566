#!/usr/bin/env bash
# learn.sh: `make learn`. Installs a vLLM for CPUs and what train.py needs into .bin/vllm (once; some 6 GB), then learn.py.
# What it makes is in .bin/learn/GAME: the model, the logs of all processes, learning.svg.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=$root/.bin here=$root/deploy/conformance
cd "$root"
source "$here/install_once.sh"
"$bin/vllm/bin/python" -c 'import peft' 2>/dev/null || {
	echo "installing peft into .bin/vllm (once)"
	"$bin/vllm/bin/python" -m pip install --quiet --no-deps peft accelerate
}
export PYTHONPATH=$root/clients/python MILLRACE_TEMPORAL=$bin/temporal
exec "$bin/vllm/bin/python" examples/grpo/learn.py "$bin/vllm" "$bin/learn"
