#!/usr/bin/env bash
# Checks the Python client with the real W&B, TensorBoard and MLflow: ruff, mypy, the tests, and a run of `millrace dev`
# whose trainer is killed. Usage: check.sh VENV MILLRACE
set -euo pipefail
venv=$1 millrace=$2
python=$venv/bin/python
if ! "$python" -c 'import wandb, tensorboard, mlflow, sqlalchemy, ruff, mypy, numpy' 2>/dev/null; then
	echo "installing W&B, TensorBoard and MLflow to $venv"
	python3 -m venv "$venv"
	# MLflow's database needs the last two; the client does not.
	"$venv/bin/pip" install --quiet wandb tensorboard mlflow-skinny ruff mypy sqlalchemy alembic numpy
fi
"$venv/bin/ruff" check clients/python
"$venv/bin/mypy" --config-file clients/python/pyproject.toml clients/python/millrace
(cd clients/python && "$OLDPWD/$python" -B -m unittest -v test_millrace_trackers test_millrace_rows)

log=$(mktemp)
"$millrace" dev --listen 127.0.0.1:0 >"$log" 2>&1 &
dev=$!
trap 'kill "$dev" 2>/dev/null || true; wait "$dev" 2>/dev/null || true; rm -f "$log"' EXIT
until url=$(sed -n 's/^up, with its page on \(http:[^;]*\)\/;.*/\1/p' "$log") && [ -n "$url" ]; do
	kill -0 "$dev" 2>/dev/null || { cat "$log"; exit 1; }
	sleep 0.5
done
"$python" -B clients/python/live_trackers_check.py "$url"
