"""Kills of what a run is made of, and an account of what became of its games: KILLS=1 of learn.py."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

STATES = ("queued", "in_flight", "ready", "claimed", "completed", "dropped")  # of a group, in the buffer's account
PARTS = ("trainer", "worker", "server", "engine")


def moments(steps: int) -> list[tuple[int, str]]:
    """At which step which part is killed: one after the other, while there are steps left to go on with."""
    return [(steps * at // (len(PARTS) + 1), part) for at, part in enumerate(PARTS, 1)]


def child(parent: int, command: str) -> int:
    """The process that `parent` started for a command of millrace."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        pid, ppid, *args = line.split()
        if int(ppid) == parent and args[0].endswith("millrace") and args[1:2] == [command]:  # Temporal's has a `server`, too
            return int(pid)
    raise RuntimeError(f"process {parent} has no {command}")


class Schedule:
    """Kills each part when its step has come. `how` says how each is killed, and started again if nobody else does."""

    def __init__(self, steps: int, how: dict[str, Callable[[], None]]) -> None:
        self.left, self.how, self.killed = moments(steps), how, (0, "", 0.0)

    def reached(self, step: int) -> None:
        at, part, when = self.killed
        if part and step > at:
            print(f"  the next step was trained {time.monotonic() - when:.0f} s after the kill of the {part}", flush=True)
            self.killed = (0, "", 0.0)
        if self.left and step >= self.left[0][0]:
            _, part = self.left.pop(0)
            print(f"  step {step}: kill -9 of the {part}", flush=True)
            self.killed = (step, part, time.monotonic())
            self.how[part]()


def account(
    status: dict[str, Any], records: list[dict[str, Any]], journal: list[dict[str, Any]], steps: int, groups: int, each: int
) -> tuple[int, int, list[str]]:
    """What was lost, what came twice, in trajectories, and each finding in words; of a completed run.

    status    the run, as the service shows it
    records   the service's records of its steps
    journal   lines of train.py's log, as written: of a step that a killed trainer did again, there are two
    each      trajectories of a step
    """
    lost, twice, found = 0, 0, []
    trained = {line["step"]: line for line in journal}  # the last of each step
    recorded = {record["step"]: [group["seq"] for group in record["service"]["groups"]] for record in records if record["done"]}
    for step in range(steps):
        line = trained.get(step)
        if line is None or step not in recorded:
            lost += each
            found.append(f"step {step} is not {'recorded' if line else 'in the journal'}")
            continue
        missing = each - len(line["trajectories"])
        lost, twice = lost + max(missing, 0), twice + max(-missing, 0)
        if missing or line["groups"] != recorded[step]:
            found.append(f"step {step} was trained on {len(line['trajectories'])} trajectories of the groups {line['groups']}; "
                         f"the service granted {recorded[step]}")  # fmt: skip
        if line["updates"] != step + 1:
            off = each * (line["updates"] - step - 1)
            lost, twice = lost + max(-off, 0), twice + max(off, 0)
            found.append(f"after step {step} the weights had learned from {line['updates']} batches")
    for line in journal:
        if line["trajectories"] != trained[line["step"]]["trajectories"]:
            twice += len(line["trajectories"])
            found.append(f"step {line['step']} was given two batches")
    for trajectory, times in Counter(one for line in trained.values() for one in line["trajectories"]).items():
        if times > 1:
            twice += times - 1
            found.append(f"trajectory {trajectory} is in {times} steps")
    states = status["buffer"]
    nowhere = status["launched"] - sum(states[state] for state in STATES)
    if nowhere or states["completed"] != steps * groups:
        lost += max(nowhere, 0) * each // groups
        found.append(f"{status['launched']} groups were launched, {steps * groups} are to be completed; there are {states}")
    return lost, twice, found
