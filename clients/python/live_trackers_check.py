"""Trains on a running Millrace with all three trackers, kills the trainer in the middle, and reads back what they wrote.

Usage: live_trackers_check.py URL, with wandb, tensorboard and mlflow-skinny installed; `make test-trackers` does it all.
W&B is used offline. Three processes of this file train on a run of 12 steps of tic-tac-toe: the first is killed while it
trains, the second goes back to step 2, the third goes on to the end. Each tracker must then have every step once, with
what the service recorded.
"""

import json
import math
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time

import millrace
from millrace.metrics import NAMES, STEP, values_of
from millrace.trackers import offline_records

STEPS = 12
SPEC = {
    "name": "trackers",
    "model": "Qwen/Qwen2.5-7B-Instruct",
    "steps": STEPS,
    "environment": {"kind": "tictactoe", "opening_moves": 1},
    "group": {"samples": 4, "min_samples": 3},
    "buffer": {"depth": 2, "groups_per_step": 4},
    "sampling": {"temperature": 1.0, "max_tokens": 4},
    "timeouts": {"completion": "20s", "episode": "2m", "heartbeat": "10s"},
}


def save_adapter(path):
    """An adapter without tensors, as PEFT lays one out: simulated engines take it."""
    os.makedirs(path)
    header = json.dumps({"__metadata__": {"format": "pt", "of": path}}).encode()
    with open(os.path.join(path, "adapter_model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
    with open(os.path.join(path, "adapter_config.json"), "w") as file:
        json.dump({"peft_type": "LORA", "r": 8, "lora_alpha": 16, "target_modules": ["q_proj"], "bias": "none"}, file)
    return path


def train(url, folder, resume_from):
    os.chdir(folder)
    run = millrace.Client(url).run(SPEC["name"])
    for tracker in ("wandb", "tensorboard", "mlflow"):
        run.log_to(
            tracker,
            **({"tracking_uri": "sqlite:///" + os.path.join(folder, "mlflow.db")} if tracker == "mlflow" else {}),
        )
    for step in run.steps(resume_from=resume_from):
        with step as s:
            with s.phase("train"):
                time.sleep(0.05)
            s.metrics["loss"] = 1.0 / (s.number + 1)
            s.publish(save_adapter(s.adapter_dir(os.path.join(folder, "adapters"))))
        print("step", s.number, flush=True)


def trained(url, folder, until=None, resume_from=None):
    """Trains in a process of its own; with until, kills it -9 as soon as it has done so many steps."""
    arguments = [sys.executable, __file__, url, folder] + ([] if resume_from is None else [str(resume_from)])
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, text=True, env={**os.environ, "WANDB_MODE": "offline"}
    ) as p:
        done = 0
        for line in p.stdout:
            done += line.startswith("step ")
            if done == until:
                p.send_signal(signal.SIGKILL)
                p.wait()
                return
    if until is not None or p.returncode != 0:
        raise AssertionError("the trainer ended with %s after %d steps" % (p.returncode, done))


def in_tensorboard(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (name,) = os.listdir(os.path.join(folder, "runs"))
    events = EventAccumulator(os.path.join(folder, "runs", name))
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def in_mlflow(folder):
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri="sqlite:///" + os.path.join(folder, "mlflow.db"))
    (run,) = client.search_runs([client.get_experiment_by_name("millrace").experiment_id])
    return {
        name: [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, name)] for name in run.data.metrics
    }


def in_wandb(folder):
    """The rows of all processes' offline runs, which have one id: what a sync would put together."""
    from wandb.proto import wandb_internal_pb2

    found, ids = {}, set()
    for run in sorted(os.listdir(os.path.join(folder, "wandb"))):
        if not run.startswith("offline-run-"):
            continue
        ids.add(run.split("-", 3)[3])
        (file,) = [f for f in os.listdir(os.path.join(folder, "wandb", run)) if f.endswith(".wandb")]
        for data in offline_records(os.path.join(folder, "wandb", run, file)):
            row = wandb_internal_pb2.Record()
            row.ParseFromString(data)
            if row.WhichOneof("record_type") == "history":
                items = {(i.key or "/".join(i.nested_key)): json.loads(i.value_json) for i in row.history.item}
                for name, value in items.items():
                    if not name.startswith("_"):
                        found.setdefault(name, []).append((int(items[STEP]), value))
    if len(ids) != 1:
        raise AssertionError("W&B has several runs: %s" % ids)
    return found


def compare(tracker, found, want, instead):
    """Every value of the records, once for each step, and no other. Of a step in `instead` either record will do, whole."""
    wrong, wall = [], dict(found["millrace/time/wall"])
    for step, values in instead.items():
        if math.isclose(wall[step], values["millrace/time/wall"], rel_tol=1e-6):
            want = {**want, step: values}
    for name in sorted({name for values in want.values() for name in values}):
        expected = [(step, want[step][name]) for step in sorted(want) if name in want[step]]
        got = sorted(found.get(name, []))
        same = [step for step, _ in got] == [step for step, _ in expected] and all(
            math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-6) for (_, a), (_, b) in zip(got, expected, strict=True)
        )
        if not same:
            wrong.append("%s: has %s, recorded is %s" % (name, got, expected))
    print("%s: %d series of %d steps, %d wrong" % (tracker, len(found), len(found[STEP]), len(wrong)))
    return wrong


def main(url):
    client = millrace.Client(url)
    with tempfile.TemporaryDirectory(prefix="millrace-trackers-") as folder:
        client.call(
            "POST", "/v1/runs", {**SPEC, "adapters": {"rank": 32, "path_prefix": os.path.join(folder, "adapters")}}
        )
        trained(url, folder, until=5)
        before = records(client)
        trained(url, folder, until=2, resume_from=max(before) - 1)
        trained(url, folder)
        after = records(client)
        redone = [step for step in before if before[step]["generation"] != after[step]["generation"]]
        print("steps that were trained twice: %s" % redone)
        if sorted(after) != list(range(STEPS)) or not redone:
            raise AssertionError("%d steps, %s redone" % (len(after), redone))
        final = {step: values_of(record, None, NAMES) for step, record in after.items()}
        # TensorBoard takes steps back. The others keep what they had of the first trainer when it was killed.
        first = {step: values_of(before[step], None, NAMES) for step in redone}
        wrong = compare("tensorboard", in_tensorboard(folder), final, {})
        wrong += compare("mlflow", in_mlflow(folder), final, first) + compare("wandb", in_wandb(folder), final, first)
    if wrong:
        raise AssertionError("\n".join(wrong[:20]))
    print("checked")


def records(client):
    page = client.call("GET", "/v1/runs/%s/steps?limit=100" % SPEC["name"])
    return {record["step"]: record for record in page["steps"] if record["done"]}


if __name__ == "__main__":
    if len(sys.argv) == 2:
        main(sys.argv[1])
    else:
        train(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else None)
