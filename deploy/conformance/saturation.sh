#!/usr/bin/env bash
# saturation.sh: does what `diagnose` predicts of saturated engines come true on a real vLLM?
#
# Plays saturated.yaml with one engine at depth 2, with two engines, and with one at depth 4. Then saturation.py compares what
# the record of the first predicts with what the others gave. An engine's speed is 0.6 of a processor, held by a control group:
# engines that share processors without a limit do not add up, and nothing could be said about a second one. That takes root
# and Linux. 7 minutes on two cores, after run.sh's installation. Records and reports stay in .bin/saturation.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
bin=$root/.bin out=$root/.bin/saturation
cd "$root"
source "$here/prepare.sh"

share=60 # percent of a processor for one engine
running=()
groups=()

finish() {
	local pid
	for pid in "${running[@]}"; do kill -INT -- "-$pid" 2>/dev/null || true; done
	wait 2>/dev/null || true
	for group in "${groups[@]}"; do rmdir "$group" 2>/dev/null || true; done
	running=() groups=()
}
trap finish EXIT

# limited NAME: a control group that has $share percent of a processor, by either version of the kernel's interface.
limited() {
	local group
	if [[ -e /sys/fs/cgroup/cgroup.controllers ]]; then
		group=/sys/fs/cgroup/millrace-$1
		echo +cpu 2>/dev/null >/sys/fs/cgroup/cgroup.subtree_control || true
		mkdir -p "$group" && echo "${share}000 100000" >"$group/cpu.max"
	else
		group=/sys/fs/cgroup/cpu/millrace-$1
		mkdir -p "$group" && echo 100000 >"$group/cpu.cfs_period_us" && echo "${share}000" >"$group/cpu.cfs_quota_us"
	fi || {
		echo "saturation: cannot limit an engine's processor time (control group $group): run as root, where cgroups can be written" >&2
		return 1
	}
	echo "$group"
}

free_port() { "$bin/vllm/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# play NAME ENGINES DEPTH
play() {
	local name=$1 count=$2 depth=$3 engines=() i port group server deadline
	mkdir -p "$out/$name"
	sed "s/depth: 2/depth: $depth/" "$here/saturated.yaml" >"$out/$name/spec.yaml"
	for ((i = 1; i <= count; i++)); do
		port=$(free_port) group=$(limited "$i")
		groups+=("$group")
		MAX_NUM_SEQS=256 setsid bash -c 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"' engine "$group" \
			"$here/serve.sh" "$bin/vllm" "$models/model" "$port" >"$out/$name/engine-$i.log" 2>&1 &
		running+=($!)
		engines+=(--engine "http://127.0.0.1:$port")
		deadline=$((SECONDS + 300))
		until curl --silent --fail --max-time 5 "http://127.0.0.1:$port/health" >/dev/null; do
			if ((SECONDS > deadline)); then
				tail -n 20 "$out/$name/engine-$i.log" >&2
				echo "saturation: vLLM does not come up" >&2
				exit 1
			fi
			sleep 1
		done
	done
	port=$(free_port)
	setsid "$bin/millrace" dev --listen "127.0.0.1:$port" --spec "$out/$name/spec.yaml" "${engines[@]}" \
		>"$out/$name/dev.log" 2>&1 &
	running+=($!)
	deadline=$((SECONDS + 900))
	until grep -q "the run is over" "$out/$name/dev.log"; do
		if ((SECONDS > deadline)); then
			tail -n 5 "$out/$name/dev.log" >&2
			echo "saturation: the run does not end; $out/$name/ holds what its parts said" >&2
			exit 1
		fi
		sleep 1
	done
	server=http://127.0.0.1:$port
	MILLRACE_SERVER=$server "$bin/millrace" run record saturated -f "$out/$name/record.json.gz"
	"$bin/millrace" diagnose -f "$out/$name/record.json.gz" >"$out/$name/diagnosis.txt"
	"$bin/millrace" diagnose -f "$out/$name/record.json.gz" -o json >"$out/$name/diagnosis.json"
	finish
}

play one 1 2
play two-engines 2 2
play depth-4 1 4
cat "$out/one/diagnosis.txt"
echo
"$bin/vllm/bin/python" "$here/saturation.py" "$out"
