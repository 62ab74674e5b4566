"""Tinker's training data of a run's batch: what forward_backward takes, with any server that speaks Tinker's API.

    client.forward_backward(datums(step.sequences()), loss_fn="importance_sampling")

Written for the SDK 0.38.0; servers pin others.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List

from .rows import merge_turns


def datums(rows: Iterable[Dict[str, Any]]) -> List[Any]:
    """A tinker.Datum for each sequence (Step.sequences), turns that continue one another as one.

    Token i + 1 is the target of token i; logprobs and advantages are those of the target, and both are 0 on what the
    model did not say. importance_sampling, ppo and cispo read them so, and sum over tokens: normalise the advantages
    (millrace.rows.advantages, loss_weights) as your recipe wants it.
    """
    from tinker import types

    out = []
    for row in merge_turns(rows):
        mask = row["loss_mask"][1:]
        inputs = {
            "target_tokens": row["token_ids"][1:],
            "logprobs": [float(logprob) for logprob in row["logprobs"][1:]],
            "advantages": [row["advantage"] * said for said in map(float, mask)],
        }
        out.append(types.Datum(model_input=types.ModelInput.from_ints(row["token_ids"][:-1]), loss_fn_inputs=inputs))
    return out
