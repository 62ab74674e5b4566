#!/bin/sh
# Engines as virtual machines of Google Cloud: gcloud.sh start|stop|list, for scaling.provider exec (docs/providers.md).
# ZONE is where; TEMPLATE is an instance template whose machines serve vLLM on port 8000 once they have booted.
# Labels and names of machines take lower case letters, digits and '-' alone: set scaling.exec.deployment to such a name.
set -eu
vm="$MILLRACE_DEPLOYMENT-${MILLRACE_ENGINE_ID:-}"
case "$1" in
start)
	gcloud compute instances create "$vm" --zone="${ZONE:?}" --source-instance-template="${TEMPLATE:?}" \
		--labels="millrace-deployment=$MILLRACE_DEPLOYMENT" --quiet >&2
	;;
stop)
	found=$(gcloud compute instances list --zones="${ZONE:?}" --filter="name=$vm" --format='value(name)')
	if [ -n "$found" ]; then
		gcloud compute instances delete "$vm" --zone="$ZONE" --quiet >&2
	fi
	;;
list)
	# Not in the pipe: should it fail, so must this, or all engines would be taken to be gone.
	found=$(gcloud compute instances list --zones="${ZONE:?}" --filter="labels.millrace-deployment=$MILLRACE_DEPLOYMENT" \
		--format='csv[no-heading](name,status,networkInterfaces[0].networkIP)')
	printf '%s\n' "$found" |
		awk -F, -v prefix="$MILLRACE_DEPLOYMENT-" '
			BEGIN { printf "{\"engines\": [" }
			index($1, prefix) == 1 {
				state = "failed"; url = ""
				if ($2 == "PROVISIONING" || $2 == "STAGING") state = "ordered"
				if ($2 == "STOPPING" || $2 == "SUSPENDING") state = "stopping"
				if ($2 == "RUNNING") { state = "running"; url = "http://" $3 ":8000" }
				id = substr($1, length(prefix) + 1)
				printf "%s{\"id\": \"%s\", \"state\": \"%s\", \"url\": \"%s\", \"reason\": \"%s\"}", sep, id, state, url, $2
				sep = ", "
			}
			END { print "]}" }'
	;;
*)
	echo "usage: $0 start|stop|list" >&2
	exit 2
	;;
esac
