"""What the examples beside this file share: a run of programs on a `millrace dev` of their own, a trainer that checks
what it gets, and a server and a worker that are killed meanwhile.

with.sh starts the service and sets MILLRACE_SERVER and MILLRACE_DEV, the process that started all others.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

import millrace

SERVER = os.environ["MILLRACE_SERVER"]
MODEL = "Qwen/Qwen2.5-7B-Instruct"  # as the simulated engines serve it
HERE = pathlib.Path(__file__).parent


def versions(*packages: str) -> str:
    return ", ".join(f"{name} {metadata.version(name)}" for name in packages) + f", Python {sys.version.split()[0]}"


def start(name: str, environment: dict[str, Any] | None = None, steps: int = 3, samples: int = 4,
          groups: int = 4, max_tokens: int = 16, **more: Any) -> millrace.Run:
    """Starts a run whose games programs play."""
    spec: dict[str, Any] = {
        "name": name, "model": MODEL, "steps": steps,
        "environment": environment if "kind" in (environment or {}) else {"kind": "external", "lease": "10s", **(environment or {})},
        "group": {"samples": samples}, "buffer": {"depth": 2, "groups_per_step": groups, "max_staleness": 8},
        "sampling": {"temperature": 1.0, "max_tokens": max_tokens}, **more,
    }
    client = millrace.Client(SERVER)
    client.call("POST", "/v1/runs", spec)
    return client.run(name)


def kill_server_and_worker() -> None:
    """kill -9 of both; the dev service starts them again."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines()[1:]:
        pid, parent, args = line.split(None, 2)
        if parent == os.environ["MILLRACE_DEV"] and (" server " in args and "millrace" in args or " worker " in args):
            os.kill(int(pid), signal.SIGKILL)
            print(f"killed -9: {' '.join(args.split()[1:2])} {pid}")


def serve(environment: str, run: str, slots: int = 64) -> tuple[subprocess.Popen[bytes], pathlib.Path]:
    """millrace-env, as a process of its own, and its journal."""
    journal = pathlib.Path(tempfile.mkdtemp(prefix="millrace-with-")) / "journal"
    command = [sys.executable, "-m", "millrace.env", "serve", environment, "--run", run, "--slots", str(slots),
               "--journal", str(journal)]
    return subprocess.Popen(command, cwd=HERE), journal


Check = Callable[[dict[str, Any]], None]


def train(run: millrace.Run, check: Check = lambda trajectory: None, kill: bool = True) -> dict[str, dict[str, float]]:
    """Claims all steps; the rewards by game and agent. Each game must come once."""
    got: dict[str, dict[str, float]] = {}
    turns = tokens = 0
    killer = threading.Thread(target=kill_server_and_worker)
    for step in run.steps():
        with step:
            for group in step.batch["groups"]:
                for trajectory in group["trajectories"]:
                    game = "-".join(trajectory["trajectory_id"].split("/")[1:3])
                    rewards = got.setdefault(game, {})
                    if trajectory["agent"] in rewards:
                        raise SystemExit(f"game {game} came twice")
                    rewards[trajectory["agent"]] = trajectory["reward"]
                    turns += len(trajectory["turns"])
                    tokens += sum(len(turn["token_ids"]) for turn in trajectory["turns"])
                    check(trajectory)
            print(f"step {step.number}: {sum(len(g['trajectories']) for g in step.batch['groups'])} trajectories, "
                  f"waited {step.phases['wait']:.1f} s")
            if kill and step.number == 0:
                killer.start()
    print(f"trained on {len(got)} games, {turns} turns, {tokens} tokens")
    return got


def compare(got: dict[str, dict[str, float]], journal: pathlib.Path) -> None:
    """What was trained on is what the environment has reported, each game once."""
    ends: dict[str, list[dict[str, Any]]] = {}
    for line in journal.read_text().splitlines():
        end = json.loads(line)
        ends.setdefault(end["episode"], []).append(end)
    for game, rewards in got.items():
        said = [end["rewards"] for end in ends.get(game, []) if end["ended"] == "played"]
        if said != [rewards]:
            raise SystemExit(f"game {game}: trained on {rewards}, and the environment has reported {said}")
    counts: dict[str, int] = {}
    for end in (end for all_of in ends.values() for end in all_of):
        kind = end["ended"] + (", leased before" if end["leased"] > 1 else "")
        counts[kind] = counts.get(kind, 0) + 1
    print(f"the environment's journal agrees, game by game: {counts}")


def play(name: str, environment: str, agents: list[str] | None = None, check: Check = lambda trajectory: None,
         slots: int = 64, **how: Any) -> dict[str, dict[str, float]]:
    """A whole run with the environment, with the deaths of server and worker in its middle."""
    run = start(name, {"agents": agents} if agents else None, **how)
    began = time.monotonic()
    process, journal = serve(environment, name, slots)
    try:
        got = train(run, check)
        if code := process.wait(60):
            raise SystemExit(f"millrace-env has ended with {code}")
    finally:
        process.terminate()
    compare(got, journal)
    print(f"{name}: {time.monotonic() - began:.0f} s")
    return got
