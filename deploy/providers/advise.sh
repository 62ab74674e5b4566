#!/bin/sh
# A scaler of your own, for scaling.provider advise (docs/providers.md): makes as many engines run on this host as the
# service wants, and keeps the list of them that engines_from: file:LIST reads.
#
#   COMMAND="vllm serve Qwen/Qwen2.5-7B-Instruct --enable-lora" LIST=/srv/millrace/engines advise.sh
#
# PORT is the first port (8000). MILLRACE_SERVER is the service, MILLRACE_TOKEN a token of the role operator, or of
# reader where engines need not be drained. EVERY is how often the number is read (10 s). It wants curl and jq, and ends
# its engines when it ends.
set -eu
: "${COMMAND:?what starts an engine, without --port}" "${LIST:?the file of engines_from}"
server=${MILLRACE_SERVER:-http://127.0.0.1:8700} port=${PORT:-8000} every=${EVERY:-10}
engines="" # PID:PORT, the oldest first

asked() { # what the service says of its fleet
	curl -sf --max-time 10 -H "Authorization: Bearer ${MILLRACE_TOKEN:-}" "$server/v1/fleet"
}
write_list() { # whole or not at all: a list that is cut off would have engines leave
	: >"$LIST.new"
	for e in $engines; do echo "http://127.0.0.1:${e#*:} id=advised-${e#*:}" >>"$LIST.new"; done
	mv "$LIST.new" "$LIST"
}
start() {
	# shellcheck disable=SC2086 # the command is several words
	$COMMAND --port "$port" &
	engines="$engines $!:$port" port=$((port + 1))
}
stop() { # a drain that fails must not keep what nobody wants: its requests are sent again elsewhere
	millrace engine drain "advised-${1#*:}" --wait --timeout "${DRAIN:-280s}" --server "$server" || true
	kill "${1%:*}" 2>/dev/null || true
	keep=""
	for e in $engines; do [ "$e" = "$1" ] || keep="$keep $e"; done
	engines=$keep
}
end() {
	for e in $engines; do kill "${e%:*}" 2>/dev/null || true; done
	exit 0
}
trap end INT TERM

while :; do
	alive=""
	for e in $engines; do if kill -0 "${e%:*}" 2>/dev/null; then alive="$alive $e"; fi; done
	engines=$alive
	# A service that does not answer wants nothing new.
	if wanted=$(asked | jq -e .wanted); then
		# shellcheck disable=SC2086 # each word is an engine
		set -- $engines
		while [ $# -lt "$wanted" ]; do
			start
			set -- "$@" one
		done
		while [ $# -gt "$wanted" ]; do # the newest goes first
			eval "last=\${$#}"
			# shellcheck disable=SC2154 # eval has set it
			stop "$last"
			# shellcheck disable=SC2086
			set -- $engines
		done
		write_list
	fi
	sleep "$every" &
	wait $! || true
done
