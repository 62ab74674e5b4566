"""What a step of a run is in numbers, under Millrace's names and those that prime-rl's and verl's users know.

METRICS is the list; docs/trackers.md is made from it. A value is a function of the service's record of the step, so
that it is the same in every process, for every rank, and for a step that is written later. A name of another project
has that project's meaning and unit; where ours differs, the two have rows of their own.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

STEP = "millrace/step"
NAMES = ("millrace", "prime-rl", "verl")

Record = Dict[str, Any]
Value = Callable[["StepView"], Optional[float]]


class StepView:
    """A step's record, as metrics are made from it."""

    def __init__(self, record: Record, gpus: Optional[int] = None) -> None:
        self.record, self.gpus = record, gpus
        self.step: int = record["step"]
        self.trainer: Dict[str, Any] = record["trainer"]
        self.service: Dict[str, Any] = record["service"]
        self.fleet: Dict[str, Any] = self.service.get("fleet") or {}
        self.at_claim: Dict[str, Any] = self.service.get("at_claim") or {}
        self.phases: Dict[str, float] = self.trainer.get("phases") or {}
        self.wall = float(self.trainer.get("wall_seconds") or 0.0)
        # The wait before step 0 fills the buffer for the first time, and belongs to no step.
        self.prefill = float(self.phases.get("wait", 0.0)) if self.step == 0 else 0.0
        self.step_time = self.wall - self.prefill
        self.groups: List[Dict[str, Any]] = self.service.get("groups") or []
        trained = [group.get("trained") for group in self.groups]
        # Records of servers before this one have no such figures; a part of a batch would be another batch.
        self.trained: List[Dict[str, Any]] = [t for t in trained if t] if all(trained) else []

    def phase(self, name: str) -> float:
        """Seconds of a phase, so that the phases add up to the step's time."""
        if name == "wait" and self.step == 0:
            return 0.0
        if name != "other":
            return float(self.phases.get(name, 0.0))
        return max(0.0, self.step_time - sum(self.phase(p) for p in PHASES if p != "other"))

    def sum(self, *path: str) -> Optional[float]:
        """The sum of a figure over the batch's groups."""
        return float(sum(_at(t, path) for t in self.trained)) if self.trained else None

    def mean_of(self, total: Sequence[str], count: str) -> Optional[float]:
        return _over(self.sum(*total), self.sum(count))

    def extreme(self, pick: Callable[[Iterable[float]], float], counted: str, *path: str) -> Optional[float]:
        """The least or the greatest of a figure, over the groups that have any."""
        values = [float(_at(t, path)) for t in self.trained if t[counted]]
        return pick(values) if values else None

    def by_group(
        self, pick: Callable[[List[float]], float], figure: Callable[[Dict[str, Any]], float]
    ) -> Optional[float]:
        """The mean, the least or the greatest of what each group has on average."""
        values = [figure(t) for t in self.trained if t["trajectories"]]
        return pick(values) if values else None

    def reward_mean(self) -> Optional[float]:
        total = sum(t["reward"]["mean"] * t["trajectories"] for t in self.trained)
        return _over(total, self.sum("trajectories"))

    def reward_std(self) -> Optional[float]:
        """The deviation of all rewards: within the groups, and of the groups' means from the mean of all."""
        mean = self.reward_mean()
        if mean is None:
            return None
        squares = sum(
            t["trajectories"] * (t["reward"]["std"] ** 2 + (t["reward"]["mean"] - mean) ** 2) for t in self.trained
        )
        return math.sqrt(squares / sum(t["trajectories"] for t in self.trained))

    def tokens(self) -> Optional[float]:
        prompt, completion = self.sum("prompt_tokens", "sum"), self.sum("completion_tokens", "sum")
        return None if prompt is None or completion is None else prompt + completion


PHASES = ("wait", "load", "ref_logprobs", "train", "publish", "checkpoint", "other")


def _at(figures: Dict[str, Any], path: Sequence[str]) -> Any:
    for name in path:
        figures = figures[name]
    return figures


def _over(total: Optional[float], count: Optional[float]) -> Optional[float]:
    return total / count if total is not None and count else None


def _average(values: List[float]) -> float:
    return sum(values) / len(values)


class Metric(NamedTuple):
    """One figure under its names; a name in capitals inside of one stands for the names that the step has."""

    name: str
    meaning: str
    unit: str
    prime_rl: Tuple[str, ...]
    verl: Tuple[str, ...]
    value: Value


def _metric(name: str, meaning: str, unit: str, value: Value, prime_rl: str = "", verl: str = "") -> Metric:
    return Metric(name, meaning, unit, tuple(prime_rl.split()), tuple(verl.split()), value)


def _phase(name: str) -> Value:
    return lambda s: s.phase(name)


def _reported(name: str) -> Value:
    return lambda s: float(s.phases.get(name, 0.0))


def _service(*path: str) -> Value:
    def value(s: StepView) -> Optional[float]:
        found: Any = s.service
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return None if found is None else float(found)

    return value


def _tokens_each(kind: str) -> Callable[[Dict[str, Any]], float]:
    return lambda t: float(t[kind]["sum"] / t["trajectories"])


def _turns_each(t: Dict[str, Any]) -> float:
    return float(t["sequences"] / t["trajectories"])


def _group_reward(t: Dict[str, Any]) -> float:
    return float(t["reward"]["mean"])


# fmt: off
_OWN_TIMES = [
    _metric("millrace/time/wall", "the step from asking for its batch to its end; for step 0 with filling the buffer",
            "s", lambda s: s.wall, "time/step", "timing_s/step perf/time_per_step"),
    _metric("", "waiting for the batch; for step 0 with filling the buffer", "s", _reported("wait"),
            "time/wait_for_batch", "timing_s/gen"),
    _metric("", "share of the step that the trainer waited for its batch; for step 0 with filling the buffer", "0 to 1",
            lambda s: _over(float(s.phases.get("wait", 0.0)), s.wall), "", "fully_async/trainer/idle_ratio"),
    _metric("millrace/time/prefill", "filling the buffer before step 0; at step 0 only", "s",
            lambda s: s.prefill if s.step == 0 else None),
    _metric("millrace/time/step", "the step without filling the buffer: the phases below add up to it", "s",
            lambda s: s.step_time),
    _metric("millrace/time/wait", "waiting for the batch, without filling the buffer", "s", _phase("wait")),
    _metric("millrace/time/load", "reading the batch, and the trainer's phase `load`", "s", _phase("load"),
            "time/load_data"),
    _metric("millrace/time/ref_logprobs", "the trainer's phase `ref_logprobs`", "s", _phase("ref_logprobs"), "",
            "timing_s/ref"),
    _metric("millrace/time/train", "the trainer's phase `train`: forward, backward and optimizer", "s", _phase("train"),
            "time/forward_backward", "timing_s/update_actor"),
    _metric("millrace/time/publish", "publishing the weights until engines serve them", "s", _phase("publish"),
            "time/broadcast_weights", "timing_s/update_weights"),
    _metric("millrace/time/checkpoint", "the trainer's phase `checkpoint`", "s", _phase("checkpoint"), "time/save_ckpt",
            "timing_s/save_checkpoint"),
    _metric("millrace/time/other", "what no phase above accounts for", "s", _phase("other")),
    _metric("millrace/starved_share",
            "share of the step that the trainer waited for its batch, without filling the buffer", "0 to 1",
            lambda s: _over(s.phase("wait"), s.step_time)),
]

_REWARDS = [
    _metric("millrace/reward/mean", "rewards of the batch's trajectories", "reward", lambda s: s.reward_mean(), "",
            "critic/rewards/mean critic/score/mean"),
    _metric("millrace/reward/std", "their standard deviation (of all, not of a sample)", "reward",
            lambda s: s.reward_std()),
    _metric("millrace/reward/max", "the greatest", "reward", lambda s: s.extreme(max, "trajectories", "reward", "max"),
            "", "critic/rewards/max critic/score/max"),
    _metric("millrace/reward/min", "the least", "reward", lambda s: s.extreme(min, "trajectories", "reward", "min"), "",
            "critic/rewards/min critic/score/min"),
    _metric("", "mean of the groups' mean rewards", "reward", lambda s: s.by_group(_average, _group_reward),
            "reward/all/mean reward/mean"),
    _metric("", "greatest of the groups' mean rewards", "reward", lambda s: s.by_group(max, _group_reward),
            "reward/all/max"),
    _metric("", "least of the groups' mean rewards", "reward", lambda s: s.by_group(min, _group_reward),
            "reward/all/min"),
    _metric("millrace/zero_variance_share",
            "groups in which every agent's rewards are equal: no gradient comes of them", "0 to 1",
            lambda s: _over(_service("zero_variance_groups")(s) or 0.0, float(len(s.groups)))),
]

_STALENESS = [
    _metric("millrace/policy_version", "the trainer's version when the batch was formed", "versions",
            _service("trainer_version")),
    _metric("millrace/staleness/mean", "that version minus the oldest that sampled a group: mean over the groups",
            "versions", _service("staleness_mean")),
    _metric("millrace/staleness/max", "the greatest", "versions", _service("staleness_max")),
    _metric("millrace/staleness/min", "the least", "versions", _service("staleness_min")),
    _metric("millrace/staleness/in_flight", "the part that came while groups were played, mean", "versions",
            _service("staleness_in_flight_mean")),
    _metric("millrace/staleness/in_buffer", "the part that came in the buffer, mean", "versions",
            _service("staleness_in_buffer_mean")),
]

_TOKENS = [
    _metric("millrace/batch/groups", "groups in the batch", "groups",
            lambda s: float(len(s.groups)) if s.groups else None, "progress/problems"),
    _metric("millrace/batch/trajectories", "trajectories in the batch: one agent's turns in one game", "trajectories",
            _service("trajectories"), "progress/samples"),
    _metric("millrace/batch/sequences", "sequences in the batch: one for each turn", "sequences",
            lambda s: s.sum("sequences")),
    _metric("millrace/tokens/total", "tokens of the batch's sequences, prompts and completions", "tokens",
            lambda s: s.tokens(), "", "perf/total_num_tokens"),
    _metric("millrace/tokens/prompt", "those of the prompts", "tokens", lambda s: s.sum("prompt_tokens", "sum"),
            "progress/prefill_tokens"),
    _metric("millrace/tokens/completion", "those of the completions", "tokens",
            lambda s: s.sum("completion_tokens", "sum"), "progress/decode_tokens"),
    _metric("", "completion tokens of a sequence: mean", "tokens",
            lambda s: s.mean_of(("completion_tokens", "sum"), "sequences"), "", "response_length/mean"),
    _metric("", "the greatest", "tokens", lambda s: s.extreme(max, "sequences", "completion_tokens", "max"), "",
            "response_length/max"),
    _metric("", "the least", "tokens", lambda s: s.extreme(min, "sequences", "completion_tokens", "min"), "",
            "response_length/min"),
    _metric("", "prompt tokens of a sequence: mean", "tokens",
            lambda s: s.mean_of(("prompt_tokens", "sum"), "sequences"), "", "prompt_length/mean"),
    _metric("", "the greatest", "tokens", lambda s: s.extreme(max, "sequences", "prompt_tokens", "max"), "",
            "prompt_length/max"),
    _metric("", "the least", "tokens", lambda s: s.extreme(min, "sequences", "prompt_tokens", "min"), "",
            "prompt_length/min"),
    _metric("", "completion tokens of a trajectory: mean of the groups' means", "tokens",
            lambda s: s.by_group(_average, _tokens_each("completion_tokens")), "decode_len/all/mean"),
    _metric("", "prompt tokens of a trajectory, of all its turns: mean of the groups' means", "tokens",
            lambda s: s.by_group(_average, _tokens_each("prompt_tokens")), "prefill_len/all/mean"),
    _metric("", "turns of a trajectory: mean of the groups' means", "turns",
            lambda s: s.by_group(_average, _turns_each), "num_turns/all/mean samples_per_rollout/all/mean"),
    _metric("", "tokens of the batch by second of the step and GPU; with log_to(gpus=N) only", "tokens/s/GPU",
            lambda s: _over(s.tokens(), s.wall * s.gpus if s.gpus else None), "", "perf/throughput"),
]

_ENGINES = [
    _metric("millrace/tps/input", "prompt tokens by second, all engines, since the batch before", "tokens/s",
            _service("fleet", "input_tps")),
    _metric("millrace/tps/output", "completion tokens by second", "tokens/s", _service("fleet", "output_tps")),
    _metric("", "both together", "tokens/s",
            lambda s: s.fleet["input_tps"] + s.fleet["output_tps"] if "input_tps" in s.fleet else None,
            "inference/agg/throughput"),
    _metric("millrace/engines/ready", "engines that were ready, mean", "engines", _service("fleet", "engines")),
    _metric("millrace/engines/busy_share", "share of their time with a request running", "0 to 1",
            _service("fleet", "busy_share")),
    _metric("millrace/engines/slot_share", "share of their request slots in use", "0 to 1", _service("fleet",
            "slot_share")),
    _metric("millrace/engines/queued_requests", "requests that waited for an engine, mean", "requests",
            _service("fleet", "queued_requests")),
    _metric("millrace/buffer/ready_depth", "batches ready when this one was taken, itself among them", "batches",
            _service("ready_depth")),
    _metric("millrace/buffer/queued", "groups that were launched and not begun, then", "groups",
            _service("at_claim", "queued")),
    _metric("millrace/buffer/in_flight", "groups being played, then", "groups", _service("at_claim", "in_flight")),
]
# fmt: on

METRICS: List[Metric] = [
    _metric(STEP, "the step's number, from 0", "steps", lambda s: float(s.step), "step"),
    *_OWN_TIMES,
    *_REWARDS,
    *_STALENESS,
    *_TOKENS,
    *_ENGINES,
]

# What depends on the trainer or the run: the name, its meaning and its unit.
FAMILIES = [
    ("NAME", "the trainer's own figure, such as `loss`, as it was put into `s.metrics`", "the trainer's"),
    ("millrace/dropped/CODE", "groups that left without being trained on, since the run's start, by why", "groups"),
    ("millrace/failed_attempts", "attempts at games that failed, since the run's start", "attempts"),
]


def values_of(
    record: Record, status: Optional[Dict[str, Any]] = None, names: Sequence[str] = NAMES, gpus: Optional[int] = None
) -> Dict[str, float]:
    """What is written of a step: its record under the names asked for, and what the run's status says of failures."""
    view = StepView(record, gpus)
    values: Dict[str, float] = {}
    for metric in METRICS:
        value = metric.value(view)
        if value is None or not math.isfinite(value):
            continue
        for name in names_of(metric, names):
            values[name] = value
    values[STEP] = float(view.step)  # always: it is the axis, and how a tracker is asked what it has
    for name, value in (view.trainer.get("metrics") or {}).items():
        values[name if name not in _RESERVED else "trainer/" + name] = float(value)
    if status and "millrace" in names:
        values.update(_failures(status))
    return values


def names_of(metric: Metric, names: Sequence[str]) -> Iterator[str]:
    if "millrace" in names and metric.name:
        yield metric.name
    if "prime-rl" in names:
        yield from metric.prime_rl
    if "verl" in names:
        yield from metric.verl


_RESERVED = {name for metric in METRICS for name in names_of(metric, NAMES)}


def _failures(status: Dict[str, Any]) -> Dict[str, float]:
    counts = {"millrace/failed_attempts": float((status.get("attempts") or {}).get("failed", 0))}
    for left in status.get("departures") or []:
        if left["code"] != "trained":
            counts["millrace/dropped/" + left["code"]] = float(left["groups"])
    return counts


def table() -> str:
    """The table of docs/trackers.md."""

    def row(*cells: str) -> str:
        return "| " + " | ".join(cells) + " |\n"

    def code(names: Iterable[str]) -> str:
        return ", ".join("`%s`" % name for name in names if name)

    text = row("Millrace", "meaning", "unit", "prime-rl", "verl") + "|---|---|---|---|---|\n"
    for m in METRICS:
        text += row(code([m.name]), m.meaning, m.unit, code(m.prime_rl), code(m.verl))
    for name, meaning, unit in FAMILIES:
        text += row(code([name]), meaning, unit, "", "")
    return text
