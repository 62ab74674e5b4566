"""Reads a batch in compact form, application/x-millrace-batch. Needs numpy and zstandard.

Client(url, compact=True) asks for it: a fifth of the bytes, and less work for the server. What comes of it is what the JSON
has; internal/store/buffer/pack of the repository is the format's home.
"""

from __future__ import annotations

import datetime
import struct
from typing import Any, Dict, List, Tuple

import numpy as np

__all__ = ["decode"]

_MAGIC, _GROUP = b"MRB\x01", b"\xb7\x02\x01"  # the last byte but one of a group is the format


def decode(data: bytes) -> Dict[str, Any]:
    """The batch as the JSON answer has it. ValueError: not a batch, cut off, or of a format that this version does not read."""
    run, step, version, groups = groups_of(data)
    return {"run": run, "step": step, "trainer_version": version, "groups": [group.read() for group in groups]}


def groups_of(data: bytes) -> Tuple[str, int, int, List[_Group]]:
    """A batch's run, step and version of the trainer, and its groups, yet to be read."""
    import zstandard

    if data[:4] != _MAGIC:
        raise ValueError("not a batch in compact form, or of another format")
    head = _Plan(data[4:])
    run, step, version = head.text(), head.int(), head.int()
    groups = []
    for _ in range(head.uint()):
        packed = head.bytes()
        if packed[:3] != _GROUP:
            raise ValueError("a group of format %r; this client reads %r: update it" % (packed[:3], _GROUP))
        groups.append(_Group(zstandard.ZstdDecompressor().decompressobj().decompress(packed[3:])))
    return run, step, version, groups


class _Plan:
    """The structure column: numbers, names, texts."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.names: List[str] = []

    def uint(self) -> int:
        value = shift = 0
        while True:
            if self.at >= len(self.data):
                raise ValueError("a batch that is cut off")
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def int(self) -> int:
        value = self.uint()
        return (value >> 1) ^ -(value & 1)

    def bytes(self) -> bytes:
        length = self.uint()
        self.at += length
        if self.at > len(self.data):
            raise ValueError("a batch that is cut off")
        return self.data[self.at - length : self.at]

    def text(self) -> str:
        return self.bytes().decode()

    def bool(self) -> bool:
        self.at += 1
        return self.data[self.at - 1] == 1

    def float(self) -> float:
        self.at += 8
        value: float = struct.unpack_from("<d", self.data, self.at - 8)[0]
        return value

    def name(self) -> str:
        number = self.uint()
        if number == 0:
            self.names.append(self.text())
            return self.names[-1]
        return self.names[number - 1]

    def time(self) -> str:
        if not self.bool():
            return "0001-01-01T00:00:00Z"
        seconds, nanos = self.int(), self.uint()
        at = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
        return at + (".%09d" % nanos).rstrip("0").rstrip(".") + "Z"


def _varints(data: bytes) -> np.ndarray:
    """All signed varints of a column, of 62 bits at most; int64."""
    octets = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(octets < 128)
    if not len(ends):
        return np.zeros(0, np.int64)
    starts = np.empty_like(ends)
    starts[0], starts[1:] = 0, ends[:-1] + 1
    lengths = ends - starts
    values = octets[starts].astype(np.int64) & 127
    for place in range(1, int(lengths.max()) + 1):
        more = np.flatnonzero(lengths >= place)
        values[more] |= (octets[starts[more] + place].astype(np.int64) & 127) << 7 * place
    return (values >> 1) ^ -(values & 1)


class _Group:
    """One group, whose columns are read side by side."""

    def __init__(self, raw: bytes) -> None:
        head = _Plan(raw)
        lengths = [head.uint() for _ in range(3)]
        at = [head.at, *(head.at + sum(lengths[: i + 1]) for i in range(3))]
        self.plan = _Plan(raw[at[0] : at[1]])
        self.prompts, self.tokens = _varints(raw[at[1] : at[2]]), _varints(raw[at[2] : at[3]])
        planes = np.frombuffer(raw[at[3] :], np.uint8).reshape(4, -1)  # the highest byte of each number first
        self.probs = np.ascontiguousarray(planes.T).view(">f4")[:, 0].astype(np.float32)
        self.next_prompt = self.next_token = self.next_prob = 0
        self.last: List[int] = []
        self.history: Dict[str, List[List[List[int]]]] = {}  # by agent: the prompts of its last two trajectories
        self.constraints: List[Dict[str, Any]] = []

    def head(self) -> Dict[str, Any]:
        """Reads the plan up to the trajectories."""
        p = self.plan
        group: Dict[str, Any] = {"ref": {"run": p.name(), "seq": p.int()}}
        for key in ("policy_version_min", "policy_version_max", "samples", "failed"):
            group[key] = p.int()
        group["times"] = {key: p.time() for key in ("launched_at", "started_at", "ready_at")}
        group["usage"] = self.usage()
        for key in ("episode_seconds", "model_seconds", "queue_seconds", "env_seconds"):
            group[key] = [p.float() for _ in range(p.uint())]
        phases = [p.int() for _ in range(p.uint())]
        if phases:
            group["phases"] = phases
        return group

    def read(self) -> Dict[str, Any]:
        p, group = self.plan, self.head()
        trajectories = [self.trajectory(group["ref"]) for _ in range(p.uint())]
        self.timings([turn for trajectory in trajectories for turn in trajectory["turns"]])
        if self.constraints:
            group["constraints"] = self.constraints
        group["trajectories"] = trajectories
        return group

    def usage(self) -> Dict[str, Any]:
        p = self.plan
        usage: Dict[str, Any] = {key: p.int() for key in ("requests", "input_tokens", "output_tokens", "cached_tokens")}
        usage.update(exec_seconds=p.float(), queue_seconds=p.float(), repeated_tokens=p.int())
        return usage

    def trajectory(self, ref: Dict[str, Any]) -> Dict[str, Any]:
        p = self.plan
        sample, agent = p.int(), p.name()
        usual = "%s/%d/%d/%s" % (ref["run"], ref["seq"], sample, agent)
        found: Dict[str, Any] = {"trajectory_id": usual if p.bool() else p.name(), "sample": sample, "agent": agent}
        found.update(reward=p.float(), advantage=p.float(), truncated=p.bool())
        kept = self.history.setdefault(agent, [])
        kept.append([])
        del kept[:-2]
        found["turns"] = [self.turn(agent) for _ in range(p.uint())]
        return found

    def turn(self, agent: str) -> Dict[str, Any]:
        p = self.plan
        turn: Dict[str, Any] = {"phase": p.name(), "policy_version": p.int(), "engine": p.name(), "finish_reason": p.name()}
        turn["reward"] = p.float()
        text = p.text()
        if text:
            turn["text"] = text
        turn["prompt_token_ids"] = self.prompt(agent)
        count = p.uint()
        turn["token_ids"] = self.tokens[self.next_token : self.next_token + count].tolist()
        self.next_token += count
        count = p.uint()
        turn["logprobs"] = self.probs[self.next_prob : self.next_prob + count].tolist()
        self.next_prob += count
        turn["loss_mask"] = [1] * len(turn["token_ids"])
        constraint: Dict[str, Any] = {"kind": p.name(), "pattern": p.name(), "choices": [p.name() for _ in range(p.uint())]}
        constraint = {key: value for key, value in constraint.items() if value}
        if constraint:
            if constraint not in self.constraints:
                self.constraints.append(constraint)
            turn["constraint_index"] = self.constraints.index(constraint)
        return turn

    def prompt(self, agent: str) -> List[int]:
        """A prompt begins like one of three before it: the last, the agent's last, the same turn of the agent's last game."""
        best, shared, rest = self.plan.uint(), self.plan.uint(), self.plan.uint()
        kept = self.history[agent]
        like = [self.last, kept[-1][-1] if kept[-1] else [], []]
        if len(kept) == 2 and len(kept[-1]) < len(kept[0]):
            like[2] = kept[0][len(kept[-1])]
        ids: List[int] = like[best][:shared] + self.prompts[self.next_prompt : self.next_prompt + rest].tolist()
        self.next_prompt += rest
        kept[-1].append(ids)
        self.last = ids
        return ids

    def timings(self, turns: List[Dict[str, Any]]) -> None:
        p = self.plan
        for turn in turns:
            turn["timing"] = {"queue_seconds": p.uint() / 1e3}
        for turn in turns:
            turn["timing"]["exec_seconds"] = p.uint() / 1e3
        for turn in turns:
            turn["timing"]["attempts"] = p.int()
        if p.uint() > 0:
            for turn in turns:
                failed = [{"engine": p.name(), "code": p.name(), "seconds": p.uint() / 1e3} for _ in range(p.uint())]
                if failed:
                    turn["timing"]["failed_attempts"] = failed
        for turn in turns:
            if turn["timing"] == {"queue_seconds": 0.0, "exec_seconds": 0.0, "attempts": 0}:
                del turn["timing"]
