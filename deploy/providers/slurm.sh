#!/bin/sh
# Engines as Slurm jobs: slurm.sh start|stop|list, for scaling.provider exec (docs/providers.md).
# MODEL is what vLLM serves; SBATCH_OPTIONS are for sbatch, such as "--partition=gpu --gres=gpu:a100:1 --time=1-0".
# An engine's port follows from its job's number, so that several may run on one node.
# A job that failed is listed until Slurm forgets it (MinJobAge).
set -eu
prefix="millrace.$MILLRACE_DEPLOYMENT."
name="$prefix${MILLRACE_ENGINE_ID:-}"
case "$1" in
start)
	# singleton: should two orders cross, the second job waits until the first has ended, and stop cancels both.
	# shellcheck disable=SC2016,SC2086 # the job fills the command in; the options are several words
	sbatch --parsable --job-name="$name" --dependency=singleton ${SBATCH_OPTIONS:-} \
		--export="ALL,MODEL=${MODEL:?}" \
		--wrap 'exec vllm serve "$MODEL" --host 0.0.0.0 --port $((20000 + SLURM_JOB_ID % 10000)) --enable-lora'
	;;
stop)
	scancel --user="$(id -un)" --name="$name"
	;;
list)
	# Not in the pipe: should it fail, so must this, or all engines would be taken to be gone.
	found=$(squeue --user="$(id -un)" --noheader --format='%j|%T|%N|%A|%r' \
		--states=PENDING,CONFIGURING,RUNNING,COMPLETING,SUSPENDED,STOPPED,FAILED,NODE_FAIL,OUT_OF_MEMORY,TIMEOUT,PREEMPTED,BOOT_FAIL)
	printf '%s\n' "$found" |
		awk -F'|' -v prefix="$prefix" '
			BEGIN { printf "{\"engines\": [" }
			index($1, prefix) == 1 {
				id = substr($1, length(prefix) + 1)
				if (id in seen) next
				seen[id] = 1
				state = "failed"; url = ""
				if ($2 == "PENDING" || $2 == "CONFIGURING") state = "ordered"
				if ($2 == "COMPLETING") state = "stopping"
				if ($2 == "RUNNING") { state = "running"; url = "http://" $3 ":" (20000 + $4 % 10000) }
				gsub(/["\\]/, " ", $5)
				printf "%s{\"id\": \"%s\", \"state\": \"%s\", \"url\": \"%s\", \"reason\": \"%s: %s\"}", sep, id, state, url, $2, $5
				sep = ", "
			}
			END { print "]}" }'
	;;
*)
	echo "usage: $0 start|stop|list" >&2
	exit 2
	;;
esac
