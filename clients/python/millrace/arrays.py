"""Padded arrays straight from a batch in compact form: no list or dict of a turn is made. Needs numpy and zstandard.

    batch = step.arrays(pad_id)                # Client(url, compact=True)
    batch = to_torch(batch, device)            # of millrace.tensors
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from .compact import groups_of
from .constraints import AllowedTokens

__all__ = ["collate_compact"]


class _Columns:
    """What arrays need of the turns of a batch: a number of each turn in every list."""

    def __init__(self) -> None:
        self.like: List[int] = []  # the row whose prompt this one begins like; -1: none
        self.shared: List[int] = []
        self.rest: List[int] = []
        self.tokens: List[int] = []
        self.version: List[int] = []
        self.held: List[int] = []  # index in constraints; -1: it was free
        self.trajectory: List[int] = []
        self.constraints: List[Tuple[List[str], Tuple[int, ...]]] = []  # numbers of their words in the names of a group
        self.group: List[int] = []  # of each trajectory
        self.advantage: List[float] = []

    def read(self, p: Any, number: int) -> None:
        """Takes in a group's plan, which was read up to its trajectories. In one function, since every call costs."""
        data, names = p.data, p.names
        at = p.at
        history: Dict[int, List[List[int]]] = {}  # by agent: the rows of its last two trajectories
        known: Dict[Tuple[int, ...], int] = {}
        last = -1

        def uint() -> int:
            nonlocal at
            byte: int = data[at]
            at += 1
            if byte < 128:
                return byte
            value, shift = byte & 127, 7
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 127) << shift
                if byte < 128:
                    return value
                shift += 7

        def name() -> int:
            nonlocal at
            index = uint()
            if index:
                return index
            length = uint()
            names.append(data[at : at + length].decode())
            at += length
            return len(names)

        for _ in range(uint()):
            uint()
            agent = name()
            at += 1
            if not data[at - 1]:
                name()
            p.at = at + 8
            self.advantage.append(p.float())
            at = p.at + 1
            self.group.append(number)
            kept = history.setdefault(agent, [])
            kept.append([])
            del kept[:-2]
            for turn in range(uint()):
                if 0 < data[at] < 128:  # as nearly always: one byte, and no call
                    at += 1
                else:
                    name()
                version = uint()
                self.version.append((version >> 1) ^ -(version & 1))
                for _ in range(2):
                    if 0 < data[at] < 128:
                        at += 1
                    else:
                        name()
                at += 8
                length = uint()
                at += length
                best = uint()
                like = last
                if best:
                    before = kept[-1] if best == 1 else kept[0] if len(kept) == 2 else []
                    like = -1
                    if best == 1 and before:
                        like = before[-1]
                    elif best == 2 and turn < len(before):
                        like = before[turn]
                self.like.append(like)
                self.shared.append(uint())
                self.rest.append(uint())
                count = uint()
                self.tokens.append(count)
                if data[at] == count < 128:
                    at += 1
                elif uint() != count:
                    raise ValueError("a turn without a logprob for each token")
                constraint = (name(), name(), *[name() for _ in range(uint())])
                held = known.get(constraint)
                if held is None:
                    held = known[constraint] = len(self.constraints) if names[constraint[0] - 1] else -1
                    if held >= 0:
                        self.constraints.append((names, constraint))
                self.held.append(held)
                last = len(self.trajectory)
                self.trajectory.append(len(self.group) - 1)
                kept[-1].append(last)

    def constraint(self, row: int) -> Dict[str, Any]:
        """What a row's completion was held to."""
        names, numbers = self.constraints[self.held[row]]
        kind, pattern, *choices = (names[number - 1] for number in numbers)
        return {key: value for key, value in (("kind", kind), ("pattern", pattern), ("choices", choices)) if value}


def collate_compact(
    data: bytes,
    pad_id: int = 0,
    multiple_of: int = 1,
    sampling: Optional[Dict[str, Any]] = None,
    allowed: Optional[AllowedTokens] = None,
) -> Dict[str, Any]:
    """What tensors.collate(sequences(batch, sampling), pad_id, multiple_of, allowed=allowed) makes: a row for each turn.

    ValueError: not a batch in compact form, cut off, or of a format that this version does not read.
    """
    c = _Columns()
    prompts: List[np.ndarray] = []
    tokens: List[np.ndarray] = []
    probs: List[np.ndarray] = []
    for number, group in enumerate(groups_of(data)[3]):
        group.head()
        c.read(group.plan, number)
        prompts.append(group.prompts)
        tokens.append(group.tokens)
        probs.append(group.probs)
    begin, count = np.add(c.shared, c.rest, dtype=np.int64), np.asarray(c.tokens, np.int64)
    length = begin + count
    width = int(length.max(initial=0))
    width += -width % multiple_of
    rows = len(length)
    flat = np.full(rows * width, pad_id, np.int64)
    starts = np.arange(rows) * width
    ids, fresh = flat.reshape(rows, width), np.concatenate(prompts)
    at = 0
    for row, (like, same, more) in enumerate(zip(c.like, c.shared, c.rest, strict=True)):
        if same:
            ids[row, :same] = ids[like, :same]
        ids[row, same : same + more] = fresh[at : at + more]
        at += more
    ends = _runs(starts + begin, count)  # the completions' tokens
    flat[ends] = np.concatenate(tokens)
    column = np.arange(width)
    there = column < length[:, None]
    batch: Dict[str, Any] = {"input_ids": ids, "attention_mask": there.astype(np.int64), "position_ids": there * column}
    drawn = sampling or {}
    temperature = drawn.get("temperature")
    of = np.repeat(np.arange(rows), count)
    held = np.asarray(c.held, np.int64)
    trajectory = np.asarray(c.trajectory, np.int64)

    def on_tokens(values: Any, kind: Any, empty: int = 0) -> np.ndarray:
        out = np.full(rows * width, empty, kind) if empty else np.zeros(rows * width, kind)
        out[ends] = values
        return out.reshape(rows, width)

    batch["loss_mask"] = on_tokens(1, np.float32)
    batch["old_logprobs"] = on_tokens(np.concatenate(probs), np.float32)
    batch["advantages"] = on_tokens(np.asarray(c.advantage, np.float32)[trajectory][of], np.float32)
    batch["weights"] = batch["loss_mask"].copy()
    batch["temperature"] = np.multiply(there, 1.0 if temperature is None else temperature, dtype=np.float32)
    batch["policy_version"] = on_tokens(np.asarray(c.version, np.int64)[of], np.int64, -1)
    batch["constrained"] = on_tokens(held[of] >= 0, bool)
    batch["allowed_at"] = ends[held[of] >= 0]
    bits = []
    if allowed is not None:
        for turn in np.flatnonzero(held >= 0).tolist():
            completion = ids[turn, begin[turn] : length[turn]].tolist()
            bits.append(allowed.bitmask(c.constraint(turn), completion))
    batch["allowed_bits"] = np.concatenate(bits) if bits else None
    batch["group_ids"], batch["trajectory_ids"] = np.asarray(c.group, np.int64)[trajectory], trajectory
    batch["truncated"] = (drawn.get("top_p") or 1) < 1 or (drawn.get("top_k") or 0) > 0
    return batch


def _runs(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The places of runs that begin at starts, one after another."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
