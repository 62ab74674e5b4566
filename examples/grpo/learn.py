"""learn.py VENV OUT: does a policy learn through the whole chain? Run by `make learn`.

Games against bots are played by a real vLLM, kept by Millrace, trained on by train.py with LoRA, and published
back, step after step. Each seed is three runs of equal length at once: the learner, and two controls that cannot learn:
one whose advantages are dealt to the wrong games, one whose learning rate is 0. The policy learned if the worst
learner's last games were better than the best control's, their 95 % intervals apart, and if in evaluations, games that
nobody trains on, each learner's last version is above what it began with; else the exit status is 1.

GAME=diplomacy has France and Turkey learn from one year, each answer held to legal orders by a regex, against powers that hold
or order at random.

With KILLS=1 each seed has a run more: a learner whose trainer, worker, server and engine are killed with kill -9, once each.
It must have learned as the others, with no game lost and none trained on twice.

Environment: GAME (tictactoe), SEEDS (as many as fit, 5 at most), FIRST_SEED (0), STEPS of each run (55; diplomacy 30),
MINUTES for all runs (18), LOSS (dapo), LR (6e-3), KILLS (0).
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import millrace

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import kills
import plot

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ARMS = {"learner": [], "shuffled": ["--shuffle-advantages"], "rate 0": []}
CONTROLS, KILLED = ("shuffled", "rate 0"), "killed"
MODEL = "tiny-qwen3"
MOST_SEEDS = 5
WINDOW = 10  # the last steps, on whose games runs are compared
EVALUATED = 10  # versions from one that is evaluated to the next
OVER, WAIT = ("completed", "failed", "stopped"), 600


def wilson(hits: float, n: int) -> tuple[float, float]:
    """The 95 % interval of a share."""
    if n == 0:
        return 0.0, 1.0
    z, p = 1.96, hits / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return middle - half, middle + half


def read(log: pathlib.Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def once(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The steps, of those that a killed trainer did again the last."""
    return list({line["step"]: line for line in lines}.values())


def name_of(seed: int, arm: str) -> str:
    return f"seed{seed}-{arm.replace(' ', '')}"


def no_loss(steps: list[dict[str, Any]]) -> tuple[float, float, float]:
    """The share of games that were not lost, and its interval."""
    rewards = [reward for step in steps for _, reward in step["games"]]
    kept = sum(reward >= 0.5 for reward in rewards)
    return (kept / len(rewards) if rewards else math.nan, *wilson(kept, len(rewards)))


def mean_reward(steps: list[dict[str, Any]]) -> tuple[float, float, float]:
    """The mean reward, and its interval by groups: games of one group meet the same orders of the bots that draw them."""
    groups: dict[str, list[float]] = {}
    for step in steps:
        for trajectory, (_, reward) in zip(step["trajectories"], step["games"], strict=True):
            groups.setdefault("/".join(trajectory.split("/")[:2]), []).append(reward)
    means = [sum(of) / len(of) for of in groups.values()]
    if len(means) < 2:
        return math.nan, 0.0, 1.0
    mean = sum(means) / len(means)
    half = 1.96 * math.sqrt(sum((m - mean) ** 2 for m in means) / (len(means) - 1) / len(means))
    return mean, mean - half, mean + half


@dataclasses.dataclass(frozen=True)
class Game:
    environment: dict[str, Any]
    steps: int
    groups: int  # of a step
    samples: int  # games of a group
    learners: int  # trajectories of a game
    max_tokens: int
    evaluation: int  # games in which a version is evaluated
    measured: str
    measure: Callable[[list[dict[str, Any]]], tuple[float, float, float]]
    panels: list[plot.Shown]


GAMES = {
    "tictactoe": Game(
        {"kind": "tictactoe", "opponent": "random"}, 55, 8, 8, 1, 4, 256, "not lost", no_loss,
        [plot.Shown("games not lost", lambda reward: float(reward >= 0.5), (0.5, 1)), plot.Shown("reward", float, (0.4, 1))],
    ),
    "diplomacy": Game(
        {
            "kind": "diplomacy", "horizon_years": 1, "train": ["FRANCE", "TURKEY"], "constraint": "regex",
            "opponents": {"AUSTRIA": "hold", "ENGLAND": "random", "GERMANY": "hold", "ITALY": "random", "RUSSIA": "hold"},
            "prompt": {"neighbours": False}, "reward": {"kind": "center_share"},
        },
        30, 4, 8, 2, 120, 64, "share of all centres", mean_reward,
        [plot.Shown("centres of a power", lambda reward: 34 * reward, (3, 6))],
    ),
}  # fmt: skip


class Processes:
    """What was started here; all of it ends with this program."""

    def __init__(self, out: pathlib.Path) -> None:
        self.out, self.running, self.calls = out, {}, {}

    def start(self, name: str, command: list[str], **env: str) -> subprocess.Popen[bytes]:
        (self.out / f"{name}.log").unlink(missing_ok=True)
        self.calls[name] = command, {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "clients/python"), **env}
        return self.again(name)

    def again(self, name: str) -> subprocess.Popen[bytes]:
        command, env = self.calls[name]
        with (self.out / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=env, cwd=ROOT, start_new_session=True)
        self.running[name] = process
        return process

    def kill(self, name: str) -> None:
        """Kills it and all that it started, and starts it again as it was."""
        os.killpg(self.running[name].pid, signal.SIGKILL)
        self.running[name].wait()
        self.again(name)

    def end(self) -> None:
        for process in reversed(self.running.values()):
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        for process in self.running.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def until_up(url: str, process: subprocess.Popen[bytes], log: pathlib.Path, seconds: float = 600) -> None:
    began = said = time.monotonic()
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() - began > seconds:
                sys.exit(f"learn: {url} does not come up; {log} says:\n" + "\n".join(log.read_text().splitlines()[-20:]))
        if time.monotonic() - said > 15:
            said = time.monotonic()
            print(f"  starting since {said - began:.0f} s", flush=True)
        time.sleep(1)


class Proof:
    """The runs of all seeds, and what they came to."""

    def __init__(self, venv: pathlib.Path, out: pathlib.Path) -> None:
        name = os.environ.get("GAME", "tictactoe")
        if name not in GAMES:
            sys.exit(f"learn: no GAME {name}; there are {', '.join(GAMES)}")
        self.game, self.game_name = GAMES[name], name
        self.venv, self.out = venv, out / name
        self.out.mkdir(parents=True, exist_ok=True)
        self.steps, self.seeds = int(os.environ.get("STEPS", self.game.steps)), int(os.environ.get("SEEDS", "0"))
        self.first = int(os.environ.get("FIRST_SEED", "0"))
        self.seconds = 60 * float(os.environ.get("MINUTES", "18"))
        self.kills = os.environ.get("KILLS", "0") != "0"
        self.arms = [*ARMS, KILLED] if self.kills else list(ARMS)
        self.accounts: dict[int, tuple[int, int, list[str]]] = {}  # of killed runs: lost, duplicated, findings
        self.loss, self.rate = os.environ.get("LOSS", "dapo"), os.environ.get("LR", "6e-3")
        self.runs: dict[tuple[int, str], list[dict[str, Any]]] = {}
        self.scores: dict[int, dict[int, dict[str, float]]] = {}  # by seed and version
        self.trajectories = self.game.groups * self.game.samples * self.game.learners  # of a step
        self.processes = Processes(self.out)

    def serve(self) -> str:
        """Starts an engine and Millrace; answers Millrace's address."""
        model = self.out / "model"
        if not (model / "model.safetensors").exists():
            print("making a tiny Qwen3 (once)", flush=True)
            env = {**os.environ, "OMP_NUM_THREADS": "1"}
            subprocess.run([self.venv / "bin/python", HERE / "tiny_model.py", model, self.game_name], check=True, env=env)
        engine, api = free_port(), free_port()
        print("starting vLLM", flush=True)
        # vLLM 0.28 on CPUs answers a request for the base model with the adapter of the last slot when others of its batch
        # have adapters. With a slot for every adapter that is ever loaded, and one more, the last stays empty.
        evaluated = self.steps // EVALUATED + 1
        slots = 1 + (len(self.arms) * self.steps + evaluated) * (self.seeds or MOST_SEEDS)
        serve = [str(ROOT / "deploy/conformance/serve.sh"), str(self.venv), str(model), str(engine)]
        vllm = self.processes.start("vllm", serve, NAME=MODEL, MAX_LORAS=str(slots))
        until_up(f"http://127.0.0.1:{engine}/health", vllm, self.out / "vllm.log")
        print("starting Millrace", flush=True)
        dev = [str(ROOT / ".bin/millrace"), "dev", "--engine", f"http://127.0.0.1:{engine}", "--listen", f"127.0.0.1:{api}"]
        up = self.processes.start("millrace", dev)
        until_up(f"http://127.0.0.1:{api}/v1/runs", up, self.out / "millrace.log")
        print(f"  its page: http://127.0.0.1:{api}/", flush=True)
        return f"http://127.0.0.1:{api}"

    def play(self) -> None:
        url = self.serve()
        began = time.monotonic()
        for played, seed in enumerate(range(self.first, self.first + (self.seeds or MOST_SEEDS))):
            took = time.monotonic() - began
            if not self.seeds and played and took + took / played > self.seconds:
                print(f"{played} seeds took {took / 60:.1f} min; no other fits into {self.seconds / 60:.0f}", flush=True)
                return
            self.play_seed(url, seed, began)
            if self.kills:
                self.play_killed(url, seed)

    def begin(self, url: str, seed: int, arm: str, *flags: str) -> pathlib.Path:
        """Starts a run and its trainer, both of the same name; answers the trainer's log of steps."""
        name = name_of(seed, arm)
        millrace.Client(url).call("POST", "/v1/runs", self.spec(name, seed))
        log = self.out / f"{name}.jsonl"
        log.unlink(missing_ok=True)
        shutil.rmtree(self.out / "adapters" / name, ignore_errors=True)  # of a run of this name that was before
        command = [self.venv / "bin/python", HERE / "train.py", "--url", url, "--run", name, "--model", self.out / "model",
                   "--loss", self.loss, "--lr", "0" if arm == "rate 0" else self.rate, "--seed", str(seed),
                   "--log", log, "--keep-adapters", str(self.steps), *flags]  # fmt: skip
        self.processes.start(name, [str(part) for part in command])
        return log

    def check(self, seed: int, arm: str) -> None:
        name = name_of(seed, arm)
        if self.processes.running[name].returncode:
            text = (self.out / f"{name}.log").read_text().splitlines()
            sys.exit(f"learn: the trainer of {arm}, seed {seed}, failed:\n" + "\n".join(text[-15:]))

    def play_seed(self, url: str, seed: int, began: float) -> None:
        logs = {arm: self.begin(url, seed, arm, *flags) for arm, flags in ARMS.items()}
        said = -1
        while any(self.processes.running[name_of(seed, arm)].poll() is None for arm in ARMS):
            time.sleep(2)
            for arm, log in logs.items():
                self.runs[seed, arm] = read(log)
            done = min(len(self.runs[seed, arm]) for arm in ARMS)
            if done // 5 > said:
                said = done // 5
                self.progress(seed, done, began)
        for arm, log in logs.items():
            self.runs[seed, arm] = read(log)
            self.check(seed, arm)
        self.scores[seed] = self.evaluate(url, name_of(seed, "learner"))

    def play_killed(self, url: str, seed: int) -> None:
        """A learner alone, of which every part is killed once; what Millrace started, it starts again by itself."""
        name, processes = name_of(seed, KILLED), self.processes
        checkpoint = self.out / f"{name}-checkpoint"
        shutil.rmtree(checkpoint, ignore_errors=True)
        print(f"\n{name}: its trainer, worker, server and engine are killed once each", flush=True)
        log = self.begin(url, seed, KILLED, "--checkpoint", str(checkpoint))
        dev = processes.running["millrace"].pid
        schedule = kills.Schedule(self.steps, {
            "trainer": lambda: processes.kill(name),
            "worker": lambda: os.kill(kills.child(dev, "worker"), signal.SIGKILL),
            "server": lambda: os.kill(kills.child(dev, "server"), signal.SIGKILL),
            "engine": lambda: processes.kill("vllm"),
        })  # fmt: skip
        while processes.running[name].poll() is None:
            time.sleep(0.5)
            self.runs[seed, KILLED] = once(read(log))
            schedule.reached(len(self.runs[seed, KILLED]))
        self.check(seed, KILLED)
        self.runs[seed, KILLED] = once(read(log))
        client = millrace.Client(url)
        status = client.call("GET", f"/v1/runs/{name}")
        records = client.call("GET", f"/v1/runs/{name}/steps")["steps"]
        self.accounts[seed] = kills.account(status, records, read(log), self.steps, self.game.groups, self.trajectories)

    def evaluate(self, url: str, run: str) -> dict[int, dict[str, float]]:
        """Has versions of a run evaluated, and shows how good they are; answers their scores."""
        print(f"evaluating {run}", flush=True)
        client, began = millrace.Client(url), time.monotonic()
        for version in [*range(0, self.steps, EVALUATED), self.steps]:
            question = {"version": version, "against": "random", "games": self.game.evaluation}
            if version:
                (path,) = (self.out / "adapters" / run).glob(f"step{version - 1:06}-*")
                question["path"] = str(path)
            client.call("POST", f"/v1/runs/{run}/evaluations", question)
        while True:
            found = client.call("GET", f"/v1/runs/{run}/evaluations")["evaluations"]
            if all(one["state"] in OVER for one in found):
                break
            if time.monotonic() - began > WAIT:
                sys.exit(f"learn: the evaluations of {run} are not over after {WAIT} s; {self.out}/millrace.log may say why")
            time.sleep(2)
        for command in (["run", "curve", run, "--points", "6"], ["eval", run], ["run", "ratings", run, "--players", "7"]):
            print(f"\n$ millrace {' '.join(command)}", flush=True)
            subprocess.run([ROOT / ".bin/millrace", *command, "--server", url], check=True)
        return {one["version"]: one["score"] for one in found if one.get("score")}

    def spec(self, name: str, seed: int) -> dict[str, Any]:
        return {
            "name": name, "model": MODEL, "steps": self.steps, "seed": seed,
            "environment": self.game.environment, "group": {"samples": self.game.samples},
            "buffer": {"depth": 1, "groups_per_step": self.game.groups, "max_staleness": 2},
            "sampling": {"temperature": 1, "max_tokens": self.game.max_tokens},
            "adapters": {"rank": 8, "path_prefix": str(self.out / "adapters")},
        }  # fmt: skip

    def progress(self, seed: int, done: int, began: float) -> None:
        shares = ", ".join(f"{arm} {self.game.measure(self.runs[seed, arm][-WINDOW:])[0]:.1%}" for arm in ARMS)
        print(f"seed {seed}: step {done} of {self.steps}, {(time.monotonic() - began) / 60:.1f} min; {self.game.measured}, last "
              f"{WINDOW} steps: {shares if done else '-'}", flush=True)  # fmt: skip

    def report(self) -> bool:
        """Prints what is known, writes the picture; reports whether every learner is above every control."""
        played = {key: steps for key, steps in self.runs.items() if steps}
        if not played:
            print("nothing was played")
            return False
        print(f"\n{self.game_name}: {self.game.measured}, in the first and last {WINDOW} steps")
        print(f"{'run':20} {'steps':>5} {'games':>6}   first    last   95 %            reward")
        ends: dict[str, list[tuple[float, float]]] = {arm: [] for arm in self.arms}
        for (seed, arm), steps in sorted(played.items(), key=lambda item: (self.arms.index(item[0][1]), item[0][0])):
            share, low, high = self.game.measure(steps[-WINDOW:])
            first = self.game.measure(steps[:WINDOW])[0]
            last = [reward for step in steps[-WINDOW:] for _, reward in step["games"]]
            ends[arm].append((low, high))
            games = sum(len(step["games"]) for step in steps) // self.game.learners
            print(f"{arm + ', seed ' + str(seed):20} {len(steps):5} {games:6} {first:7.1%} {share:7.1%}   "
                  f"{low:.1%} to {high:.1%}  {sum(last) / len(last):.3f}")  # fmt: skip
        self.costs([steps for (_, arm), steps in played.items() if arm != KILLED])
        (self.out / "learning.svg").write_text(plot.picture(played, self.arms, self.game.panels))
        print(f"picture: {self.out / 'learning.svg'}")
        whole = all(len(steps) == self.steps for steps in played.values())
        worst = min((low for arm in self.arms if arm not in CONTROLS for low, _ in ends[arm]), default=0.0)
        best = max((high for arm in CONTROLS for _, high in ends[arm]), default=1.0)
        better = True
        for seed, scores in sorted(self.scores.items()):
            first, final = scores[0], scores[self.steps]
            better &= final["mean"] - final["half"] > first["mean"] + first["half"]
            print(f"evaluated, seed {seed}: version 0 {first['mean']:.3f} ± {first['half']:.3f}, "
                  f"version {self.steps} {final['mean']:.3f} ± {final['half']:.3f}")  # fmt: skip
        for seed, (lost, twice, found) in self.accounts.items():
            better &= not found
            print(f"killed, seed {seed}: {self.steps * self.trajectories} trajectories, {lost} lost, {twice} duplicated")
            print("".join(f"  {finding}\n" for finding in found), end="")
        learned = whole and worst > best and better
        print(f"worst learner above {worst:.1%}, best control below {best:.1%}: " + (
            "it learns" if learned else "it is not shown that it learns" if whole else "the runs are not complete"))  # fmt: skip
        return learned

    def costs(self, runs: list[list[dict[str, Any]]]) -> None:
        steps = [step for run in runs for step in run]
        phases = {name: sum(s["phases"].get(name, 0.0) for s in steps) / len(steps) for name in ("wait", "load", "train", "publish")}
        print(f"step: {sum(phases.values()):.1f} s on average, three runs at once: "
              + ", ".join(f"{name} {seconds:.1f}" for name, seconds in phases.items()))  # fmt: skip
        behind: dict[int, int] = {}
        for step in steps:
            for version, _ in step["games"]:
                behind[step["step"] - version] = behind.get(step["step"] - version, 0) + 1
        total = sum(behind.values())
        print("staleness: " + ", ".join(f"{n} versions {count / total:.0%}" for n, count in sorted(behind.items())))
        error = max(step["metrics"]["fresh_ratio_error"] for step in steps)
        print(f"ratio of trainer and engine at version distance 0: 1 within {error:.0e}")


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    proof = Proof(pathlib.Path(sys.argv[1]).absolute(), pathlib.Path(sys.argv[2]).absolute())
    try:
        proof.play()
    except KeyboardInterrupt:
        print("\nstopped; what is known so far:")
    finally:
        proof.processes.end()
        learned = proof.report()
    sys.exit(0 if learned else 1)


if __name__ == "__main__":
    main()
