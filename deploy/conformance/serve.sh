#!/usr/bin/env bash
# serve.sh VENV MODEL PORT: vLLM on this machine's processors, as an engine of Millrace must be started. In the foreground.
# NAME is the model's, as runs call it; MAX_LORAS how many adapters have a slot.
#
# The last two lines of flags are those that any engine of Millrace needs; docs/conformance.md says why. The budget of tokens is so
# large that no prompt is ever cut in two: vLLM 0.28 on CPUs dies where the cut one has a seed ("CPU Generator does not use offset").
set -euo pipefail

venv=${1:?usage: serve.sh VENV MODEL PORT} model=${2:?} port=${3:?}

export VLLM_ALLOW_RUNTIME_LORA_UPDATING=1
export VLLM_TARGET_DEVICE=cpu VLLM_CPU_KVCACHE_SPACE=${VLLM_CPU_KVCACHE_SPACE:-1} # GiB
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} VLLM_CPU_OMP_THREADS_BIND=${VLLM_CPU_OMP_THREADS_BIND:-nobind}
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
export CUDA_VISIBLE_DEVICES=""

exec "$venv/bin/vllm" serve "$model" --served-model-name "${NAME:-tiny-qwen2}" --host 127.0.0.1 --port "$port" \
	--dtype float32 --max-model-len 4096 --max-num-seqs "${MAX_NUM_SEQS:-64}" --max-num-batched-tokens 65536 --enforce-eager \
	--enable-lora --max-loras "${MAX_LORAS:-6}" --max-cpu-loras $((${MAX_LORAS:-6} + 2)) --max-lora-rank 16 \
	--generation-config vllm --logprobs-mode processed_logprobs --enable-prompt-tokens-details --api-server-count 1
