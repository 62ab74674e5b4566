"""What a trainer does to a batch's rows before they become tensors. Standard library only.

A row is a dict as millrace.sequences yields it: one turn, prompt and completion. The order of use is

    rows = list(step.sequences())
    rows = merge_turns(rows)                 # optional: turns that continue one another, as one sequence
    mask_forced(rows)                        # optional: no loss on tokens that the constraint left no choice for
    advantages(rows, "grpo")                 # sets row["advantage"]
    loss_weights(rows, "token-mean")         # sets row["weight"]
    for micro in micro_batches(rows, 16384): ...

Functions that set a key change the rows they are given, and say so; nothing else is changed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any, Dict, Iterable, List, Sequence

__all__ = ["ADVANTAGES", "LOSS_AGGREGATIONS", "advantages", "loss_weights", "mask_forced", "merge_turns", "micro_batches", "share"]

Row = Dict[str, Any]

ADVANTAGES = ("grpo", "dr_grpo", "rloo", "reinforce_plus_plus", "reinforce_plus_plus_baseline")
LOSS_AGGREGATIONS = ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean")


def merge_turns(rows: Iterable[Row]) -> List[Row]:
    """Turns of one trajectory whose prompt begins with all of the turn before become one row.

    A merged row has the last turn's token_ids; loss_mask and logprobs are those of every completion in it, and 0 and 0.0
    on what the environment said between. `turns` lists the completions: begin and end in token_ids, constraint, and
    policy_version; policy_version of the row is the oldest. A turn that does not continue the one before stays a row.
    """
    out: List[Row] = []
    for row in rows:
        row = {**row, "turns": _turns(row)}
        before = out[-1] if out and out[-1]["trajectory_id"] == row["trajectory_id"] else None
        length = len(before["token_ids"]) if before else 0
        if before is None or row["input_tokens"] < length or row["token_ids"][:length] != before["token_ids"]:
            out.append(row)
            continue
        row["loss_mask"] = before["loss_mask"] + row["loss_mask"][length:]
        row["logprobs"] = before["logprobs"] + row["logprobs"][length:]
        row["turns"] = before["turns"] + row["turns"]
        row["policy_version"] = min(before["policy_version"], row["policy_version"])
        row["output_tokens"] += before["output_tokens"]
        row["input_tokens"] = len(row["token_ids"]) - row["output_tokens"]
        row["sequence_index"], row["sequence_id"] = before["sequence_index"], before["sequence_id"]
        out[-1] = row
    return out


def _turns(row: Row) -> List[Dict[str, Any]]:
    """The completions of a row: one, unless it was merged."""
    merged: List[Dict[str, Any]] | None = row.get("turns")
    if merged is not None:
        return merged
    begin, end = row["input_tokens"], len(row["token_ids"])
    return [{"begin": begin, "end": end, "constraint": row["constraint"], "policy_version": row["policy_version"]}]


def mask_forced(rows: Iterable[Row]) -> int:
    """Sets loss_mask to 0 where a constraint left one token only; answers how many tokens that were.

    Such a token has logprob exactly 0 under every policy, so its gradient is 0; it would only count in a mean. Tokens
    with logprob 0 and no constraint stay.
    """
    masked = 0
    for row in rows:
        mask = list(row["loss_mask"])
        for turn in _turns(row):
            if turn["constraint"] is None:
                continue
            for at in range(turn["begin"], turn["end"]):
                if mask[at] and row["logprobs"][at] == 0.0:
                    mask[at], masked = 0, masked + 1
        row["loss_mask"] = mask
    return masked


def advantages(rows: Sequence[Row], estimator: str = "grpo") -> None:
    """Sets row["advantage"] from the rewards, by verl's names of estimators.

    The rewards compared are those of one group's trajectories of one agent; n is their number, std is the population's.

    grpo                          (r - mean) / std, 0 where std is 0: what the service sent
    dr_grpo                       r - mean: groups with little variance do not weigh more (Dr. GRPO)
    rloo                          r - mean of the others = (r - mean) * n / (n - 1); 0 where n is 1
    reinforce_plus_plus           r, then whitened over the batch's trajectories
    reinforce_plus_plus_baseline  r - mean, then whitened over the batch's trajectories

    ValueError: an estimator that is not one of these.
    """
    if estimator not in ADVANTAGES:
        raise ValueError("advantage estimator %r: there are %s" % (estimator, ", ".join(ADVANTAGES)))
    rewards: Dict[Any, Dict[str, float]] = defaultdict(dict)
    for row in rows:
        rewards[row["group_id"], row["agent"]][row["trajectory_id"]] = row["reward"]
    found: Dict[str, float] = {}
    for of_group in rewards.values():
        mean, std = _mean_std(of_group.values())
        n = len(of_group)
        for trajectory, reward in of_group.items():
            found[trajectory] = {
                "grpo": (reward - mean) / std if std > 0 else 0.0,
                "rloo": (reward - mean) * n / max(n - 1, 1),
                "reinforce_plus_plus": reward,
            }.get(estimator, reward - mean)
    if estimator.startswith("reinforce_plus_plus"):
        mean, std = _mean_std(found.values())
        found = {trajectory: (a - mean) / std if std > 0 else 0.0 for trajectory, a in found.items()}
    for row in rows:
        row["advantage"] = found[row["trajectory_id"]]


def _mean_std(values: Iterable[float]) -> tuple[float, float]:
    values = list(values)
    mean = math.fsum(values) / len(values)
    std = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / len(values))
    return mean, std if std > 1e-12 else 0.0


def loss_weights(rows: Sequence[Row], aggregation: str = "token-mean") -> None:
    """Sets row["weight"]: the loss is the sum over tokens of weight * loss_mask * the token's loss, whatever the micro-batches.

    By verl's names; a sequence here is a trajectory with all its turns, so that a long game counts as one.

    token-mean            1 / tokens of the batch: every token counts the same (DAPO)
    seq-mean-token-sum    1 / trajectories: no division by a length, so unbiased by it (Dr. GRPO)
    seq-mean-token-mean   1 / (trajectories * tokens of the trajectory): every trajectory counts the same (GRPO's paper)

    Call it after mask_forced: only tokens with loss_mask 1 are counted. ValueError: another aggregation.
    """
    if aggregation not in LOSS_AGGREGATIONS:
        raise ValueError("loss aggregation %r: there are %s" % (aggregation, ", ".join(LOSS_AGGREGATIONS)))
    tokens: Dict[str, int] = defaultdict(int)
    for row in rows:
        tokens[row["trajectory_id"]] += sum(row["loss_mask"])
    total, trajectories = sum(tokens.values()), len(tokens)
    for row in rows:
        mine = tokens[row["trajectory_id"]]
        row["weight"] = {
            "token-mean": 1 / max(total, 1),
            "seq-mean-token-sum": 1 / max(trajectories, 1),
            "seq-mean-token-mean": 1 / max(trajectories * mine, 1),
        }[aggregation]


def micro_batches(rows: Sequence[Row], max_tokens: int, packed: bool = False) -> List[List[Row]]:
    """Cuts rows into lists that fit a budget of tokens: the longest row times the number of rows, or the sum if `packed`.

    Rows are sorted by length, so that little is padded. ValueError: a row alone is over the budget.
    """
    out: List[List[Row]] = []
    used = 0
    for row in sorted(rows, key=lambda r: len(r["token_ids"]), reverse=True):
        length = len(row["token_ids"])
        if length > max_tokens:
            raise ValueError("sequence %s has %d tokens; max_tokens is %d" % (row["sequence_id"], length, max_tokens))
        if not out or (used + length if packed else len(out[-1][0]["token_ids"]) * (len(out[-1]) + 1)) > max_tokens:
            out.append([])
            used = 0
        out[-1].append(row)
        used += length
    return out


def share(rows: Sequence[Row], rank: int, world: int) -> List[Row]:
    """The rank's part of rows that every rank holds: disjoint, complete, and about equal in tokens.

    Whole trajectories go to the rank that has the fewest tokens so far, the longest first; the same on every rank.
    Set weights before: they are then of the whole batch, and the ranks' gradients are to be summed, not averaged.
    """
    by_trajectory: Dict[str, List[Row]] = defaultdict(list)
    for row in rows:
        by_trajectory[row["trajectory_id"]].append(row)
    loads, parts = [0] * world, [[] for _ in range(world)]  # type: ignore[var-annotated]
    for group in sorted(by_trajectory.values(), key=lambda rs: -sum(len(r["token_ids"]) for r in rs)):
        least = loads.index(min(loads))
        loads[least] += sum(len(r["token_ids"]) for r in group)
        parts[least].extend(group)
    return list(parts[rank])
