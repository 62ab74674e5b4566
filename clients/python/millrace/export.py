"""A run's trajectories in the formats of others, and as files of JSON lines. Standard library only.

    millrace-export RUN --steps 0..9 --as training-trace -o step.jsonl

millrace run export writes rows of merged turns, also as Parquet.

Each function takes one trajectory of a batch (batch["groups"][i]["trajectories"][j]) and gives what the format's own
reader accepts: openenv's TrainingTrace (schema 1, which TRL trains on), NeMo Gym's TokenEntry, Harbor's ATIF v1.8. For
trainers that take batches in their own process there are verl's AgentLoopOutput, SkyRL's GeneratorOutput, prime-rl's
TrainingSample and NeMo-RL's DatumSpec. Token ids, logprobs and masks are the engine's own, as everywhere; nothing is
tokenised here.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from itertools import count
from typing import Any, Callable, Dict, Iterable, Iterator, List, Sequence, TextIO

from . import Client, Error, sequences
from .rows import _turns, merge_turns

__all__ = [
    "FORMATS",
    "atif",
    "nemo_rl_datum",
    "prime_rl_training_sample",
    "read_steps",
    "skyrl_generator_output",
    "token_entries",
    "training_trace",
    "verl_agent_loop_output",
]

Dicts = Iterator[Dict[str, Any]]


def training_trace(trajectory: Dict[str, Any]) -> Dict[str, Any]:
    """OpenEnv's TrainingTrace v1: a turn is a call of the model, its loss_mask spans prompt and completion.

    The reward is no part of a trace there; metadata of the first turn has it.
    """
    turns: List[Dict[str, Any]] = []
    for index, turn in enumerate(trajectory["turns"]):
        prompt = list(turn["prompt_token_ids"])
        metadata = {"policy_version": turn["policy_version"], "engine": turn["engine"], "phase": turn["phase"]}
        if index == 0:
            metadata.update(reward=trajectory["reward"], advantage=trajectory["advantage"], agent=trajectory["agent"])
        turns.append(
            {
                "node_id": "%s/%d" % (trajectory["trajectory_id"], index),
                "prompt_token_ids": prompt,
                "completion_token_ids": list(turn["token_ids"]),
                "per_token_logps": [float(x) for x in turn["logprobs"]],
                "loss_mask": [0] * len(prompt) + list(turn["loss_mask"]),
                "request": {},
                "response": {"text": turn.get("text", ""), "finish_reason": turn["finish_reason"]},
                "metadata": metadata,
            }
        )
    return {"schema_version": 1, "turns": turns}


def token_entries(trajectory: Dict[str, Any]) -> List[Dict[str, Any]]:
    """NeMo Gym's TokenEntry, one a call: rollout_id is the trajectory's id, model_call_id its turn's."""
    return [
        {
            "rollout_id": trajectory["trajectory_id"],
            "model_call_id": "%s/%d" % (trajectory["trajectory_id"], index),
            "prompt_token_ids": list(turn["prompt_token_ids"]),
            "generation_token_ids": list(turn["token_ids"]),
            "generation_log_probs": [float(x) for x in turn["logprobs"]],
            "routed_experts": None,
        }
        for index, turn in enumerate(trajectory["turns"])
    ]


def atif(trajectory: Dict[str, Any], version: str = "") -> Dict[str, Any]:
    """Harbor's ATIF v1.8: the agent's steps, each with the engine's ids and logprobs in its metrics.

    A batch has no texts of prompts, so that the steps of user and system are not among them: metrics.prompt_token_ids is
    all that the model was shown. `version` is what made the agent, for agent.version.
    """
    steps = [
        {
            "step_id": index + 1,
            "source": "agent",
            "message": turn.get("text", ""),
            "llm_call_count": 1,
            "metrics": {
                "prompt_tokens": len(turn["prompt_token_ids"]),
                "completion_tokens": len(turn["token_ids"]),
                "prompt_token_ids": list(turn["prompt_token_ids"]),
                "completion_token_ids": list(turn["token_ids"]),
                "logprobs": [float(x) for x in turn["logprobs"]],
            },
            "extra": {"policy_version": turn["policy_version"], "finish_reason": turn["finish_reason"]},
        }
        for index, turn in enumerate(trajectory["turns"])
    ]
    return {
        "schema_version": "ATIF-v1.8",
        "session_id": trajectory["trajectory_id"].rsplit("/", 1)[0],
        "trajectory_id": trajectory["trajectory_id"],
        "agent": {"name": trajectory["agent"], "version": version or "unknown"},
        "steps": steps,
        "extra": {
            "reward": trajectory["reward"],
            "advantage": trajectory["advantage"],
            "truncated": trajectory["truncated"],
        },
    }


def verl_agent_loop_output(row: Dict[str, Any]) -> Dict[str, Any]:
    """The fields of verl 0.9's AgentLoopOutput, of a row as sequences() or merge_turns() give it.

    Of merged turns what the environment said between is part of the response, with response_mask 0. verl works out its
    own advantages from reward_score and the group, extra_fields["uid"].
    """
    turns = _turns(row)
    begin = turns[0]["begin"]
    return {
        "prompt_ids": row["token_ids"][:begin],
        "response_ids": row["token_ids"][begin:],
        "response_mask": row["loss_mask"][begin:],
        "response_logprobs": row["logprobs"][begin:],
        "reward_score": row["reward"],
        "num_turns": 2 * len(turns),
        "metrics": {},
        "extra_fields": {"uid": "%s/%s" % (row["group_id"], row["agent"]), "policy_version": row["policy_version"]},
    }


def skyrl_generator_output(rows: Sequence[Dict[str, Any]]) -> Dict[str, Any]:
    """SkyRL 0.4's GeneratorOutput of a batch's rows, step-wise: a turn is a sample, and the last one has the reward.

    trajectory_ids are pairs of instance_id and repetition_id, for SkyRL's TrajectoryID(*pair): one instance is one
    agent of a group. Rows of one trajectory must follow one another, as sequences() gives them.
    """
    instances: Dict[str, Dict[str, int]] = {}
    keys = (
        "prompt_token_ids",
        "response_ids",
        "rewards",
        "loss_masks",
        "rollout_logprobs",
        "stop_reasons",
        "trajectory_ids",
        "is_last_step",
    )
    out: Dict[str, Any] = {key: [] for key in keys}
    for i, row in enumerate(rows):
        begin, trajectory = row["input_tokens"], row["trajectory_id"]
        instance = "%s/%s" % (row["group_id"], row["agent"])
        of = instances.setdefault(instance, {})
        last = i + 1 == len(rows) or rows[i + 1]["trajectory_id"] != trajectory
        sample = (
            row["token_ids"][:begin],
            row["token_ids"][begin:],
            row["reward"] if last else 0.0,
            row["loss_mask"][begin:],
            row["logprobs"][begin:],
            row["stop_reason"],
            (instance, of.setdefault(trajectory, len(of))),
            last,
        )
        for key, value in zip(keys, sample, strict=True):
            out[key].append(value)
    return {**out, "rollout_metrics": None}


def prime_rl_training_sample(row: Dict[str, Any]) -> Dict[str, Any]:
    """The fields that each version of prime-rl's TrainingSample begins with, of a row as for verl; the others default.

    They are in the struct's order: msgspec packs it as an array. The temperature is the batch's, row["temperature"].
    """
    begin = _turns(row)[0]["begin"]
    return {
        "prompt_ids": row["token_ids"][:begin],
        "prompt_mask": [False] * begin,
        "completion_ids": row["token_ids"][begin:],
        "completion_mask": [bool(said) for said in row["loss_mask"][begin:]],
        "completion_logprobs": row["logprobs"][begin:],
        "advantage": row["advantage"],
    }


def nemo_rl_datum(row: Dict[str, Any], idx: int) -> Dict[str, Any]:
    """NeMo-RL's DatumSpec, of a row as for verl: a message for each completion and for what stands before it.

    What its trainer has as tensors, one to a message, are lists here. A message has no text: content is empty.
    """
    log, at = [], 0
    for turn in _turns(row):
        for role, begin, end in (("user", at, turn["begin"]), ("assistant", turn["begin"], turn["end"])):
            log.append(
                {
                    "role": role,
                    "content": "",
                    "token_ids": row["token_ids"][begin:end],
                    "token_loss_mask": row["loss_mask"][begin:end],
                    "generation_logprobs": row["logprobs"][begin:end],
                }
            )
        at = turn["end"]
    of = {key: row[key] for key in ("group_id", "agent", "reward", "advantage", "policy_version")}
    return {
        "message_log": log,
        "length": len(row["token_ids"]),
        "extra_env_info": of,
        "loss_multiplier": 1.0,
        "idx": idx,
    }


def _trajectories(batch: Dict[str, Any]) -> Dicts:
    for group in batch["groups"]:
        yield from group["trajectories"]


# What a batch and the run's sampling become: a dict a line.
FORMATS: Dict[str, Callable[[Dict[str, Any], Dict[str, Any]], Iterable[Dict[str, Any]]]] = {
    "rows": lambda batch, sampling: sequences(batch, sampling),
    "training-trace": lambda batch, _: (training_trace(t) for t in _trajectories(batch) if t["turns"]),
    "token-entry": lambda batch, _: (entry for t in _trajectories(batch) for entry in token_entries(t)),
    "verl": lambda batch, sampling: (verl_agent_loop_output(row) for row in merge_turns(sequences(batch, sampling))),
    "prime-rl": lambda batch, sampling: map(prime_rl_training_sample, merge_turns(sequences(batch, sampling))),
    "nemo-rl": lambda batch, sampling: map(nemo_rl_datum, merge_turns(sequences(batch, sampling)), count()),
    "atif": lambda batch, _: (atif(t) for t in _trajectories(batch) if t["turns"]),
}


def read_steps(client: Client, run: str, steps: Sequence[int], form: str = "rows") -> Dicts:
    """The batches of steps that were claimed and are kept (retain_steps), as dicts of a format. It claims nothing.

    Raises NotRetained for a step whose batch is gone, KeyError for a format that is not one of FORMATS.
    """
    sampling = client.run(run).sampling()
    for step in steps:
        batch = client.call("GET", "/v1/runs/%s/steps/%d/batch" % (run, step))
        yield from FORMATS[form](batch, sampling)


def _steps(text: str) -> List[int]:
    first, dots, last = text.partition("..")
    try:
        steps = list(range(int(first), int(last if dots else first) + 1))
    except ValueError:
        steps = []
    if not steps or steps[0] < 0:
        raise argparse.ArgumentTypeError("%r is no range of steps, such as 4 or 0..9" % text)
    return steps


def _write_lines(dicts: Dicts, out: TextIO) -> int:
    lines = 0
    for one in dicts:
        out.write(json.dumps(one, separators=(",", ":")) + "\n")
        lines += 1
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; answers its exit code."""
    parser = argparse.ArgumentParser(prog="millrace-export", description="writes the batches of a run's steps as lines of JSON")
    parser.add_argument("run")
    parser.add_argument("--steps", type=_steps, required=True, help="a step, or a range with its end: 0..9")
    parser.add_argument("--as", dest="form", choices=list(FORMATS), default="rows")
    parser.add_argument("-o", "--output", default="-", help="a file; - is stdout")
    parser.add_argument(
        "--server",
        default=os.environ.get("MILLRACE_SERVER", "http://127.0.0.1:8700"),
        help="the API server (default: $MILLRACE_SERVER, else %(default)s); $MILLRACE_TOKEN is its token",
    )
    args = parser.parse_args(arguments)
    if args.output.endswith(".parquet"):
        parser.error("lines of JSON alone are written here; `millrace run export` writes Parquet")
    dicts = read_steps(Client(args.server, retry_for=10), args.run, args.steps, args.form)
    try:
        if args.output == "-":
            n = _write_lines(dicts, sys.stdout)
        else:
            part = args.output + ".part"  # a file is whole, or not there
            with open(part, "w", encoding="utf-8") as out:
                n = _write_lines(dicts, out)
            os.replace(part, args.output)
    except Error as error:
        print("millrace-export: %s" % error, file=sys.stderr)
        return 1
    print("%d %s of %d steps" % (n, args.form, len(args.steps)), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
