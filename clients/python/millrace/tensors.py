"""Rows as arrays, padded or packed, and importance ratios. Needs numpy; to_torch and token_logprobs need torch.

    batch = to_torch(collate(micro, pad_id, allowed=allowed), device)
    logprobs = token_logprobs(model(batch["input_ids"], attention_mask=..., position_ids=...).logits, batch)
    weights, kept = importance_weights(logprobs.detach(), batch)

All arrays of shape [B, T] are aligned with input_ids: the value at t is of the token at t, and 0 where loss_mask is 0.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .constraints import AllowedTokens, ConstraintError
from .rows import Row, _turns

__all__ = ["IMPORTANCE_MODES", "collate", "importance_weights", "staleness_weights", "to_torch", "token_logprobs"]

Batch = Dict[str, Any]
_FLOATS = ("old_logprobs", "advantages", "weights", "temperature")


def collate(
    rows: Sequence[Row],
    pad_id: int = 0,
    multiple_of: int = 1,
    packed: bool = False,
    allowed: Optional[AllowedTokens] = None,
) -> Batch:
    """Rows as numpy arrays, [B, T]: B rows padded on the right, or B = 1 and all rows one after the other if `packed`.

    input_ids        int64    padded with pad_id, T a multiple of `multiple_of`
    attention_mask   int64    1 on tokens, 0 on padding
    position_ids     int64    from 0 in each row
    loss_mask        float32  1 on tokens that are trained on
    old_logprobs     float32  nats, of the distribution that was sampled from
    advantages       float32  row["advantage"] on every token of the loss
    weights          float32  row["weight"] on every token of the loss, 1 if loss_weights was not called
    temperature      float32  1 where a row does not say it
    policy_version   int64    of each completion token's turn; -1 elsewhere
    constrained      bool     tokens of the loss whose logprob was renormalised by a constraint
    group_ids, trajectory_ids  int64 [rows]  numbers from 0 in the order of first appearance
    cu_seqlens       int32 [rows + 1]        where each row begins, and the end; packed only
    allowed_at       int64 [n]               flat places (b * T + t) of the constrained tokens
    allowed_bits     int32 [n, vocab / 32]   what was allowed there; None without `allowed`
    truncated        bool                    some row was sampled with top_p below 1, or top_k

    Without `allowed`, a batch with constrained tokens can be looked at, but no ratio is made of it.
    """
    lengths = [len(row["token_ids"]) for row in rows]
    places, shape = _places(lengths, multiple_of, packed)
    batch: Batch = {"input_ids": np.full(shape, pad_id, np.int64)}
    for name in ("attention_mask", "position_ids"):
        batch[name] = np.zeros(shape, np.int64)
    for name in ("loss_mask", *_FLOATS):
        batch[name] = np.zeros(shape, np.float32)
    batch["policy_version"], batch["constrained"] = np.full(shape, -1, np.int64), np.zeros(shape, bool)
    ats: List[np.ndarray] = []
    bits: List[np.ndarray] = []
    for row, (b, start), length in zip(rows, places, lengths, strict=True):
        part = (b, slice(start, start + length))
        mask = np.asarray(row["loss_mask"], np.float32)
        batch["input_ids"][part], batch["attention_mask"][part] = row["token_ids"], 1
        batch["position_ids"][part], batch["loss_mask"][part] = np.arange(length), mask
        batch["old_logprobs"][part] = np.asarray(row["logprobs"], np.float32) * mask
        batch["advantages"][part] = mask * row["advantage"]
        batch["weights"][part] = mask * row.get("weight", 1.0)
        batch["temperature"][part] = 1.0 if row["temperature"] is None else row["temperature"]
        for turn in _turns(row):
            begin, end = turn["begin"], turn["end"]
            batch["policy_version"][b, start + begin : start + end] = turn["policy_version"]
            if turn["constraint"] is None:
                continue
            held = mask[begin:end] > 0
            batch["constrained"][b, start + begin : start + end] = held
            ats.append(b * shape[1] + start + begin + np.flatnonzero(held))
            if allowed is not None:
                bits.append(allowed.bitmask(turn["constraint"], row["token_ids"][begin:end])[held])
    batch["allowed_at"] = np.concatenate(ats) if ats else np.zeros(0, np.int64)
    batch["allowed_bits"] = None if allowed is None or not bits else np.concatenate(bits)
    batch["group_ids"], batch["trajectory_ids"] = (_numbers([row[k] for row in rows]) for k in ("group_id", "trajectory_id"))
    batch["truncated"] = any((row["top_p"] or 1) < 1 or (row["top_k"] or 0) > 0 for row in rows)
    if packed:
        batch["cu_seqlens"] = np.cumsum([0, *lengths], dtype=np.int32)
    return batch


def _places(lengths: Sequence[int], multiple_of: int, packed: bool) -> Tuple[List[Tuple[int, int]], Tuple[int, int]]:
    """Where each row begins, and the arrays' shape."""
    if packed:
        starts = np.cumsum([0, *lengths])
        width = int(starts[-1])
        places = [(0, int(at)) for at in starts[:-1]]
    else:
        width = max(lengths)
        places = [(b, 0) for b in range(len(lengths))]
    width += -width % multiple_of
    return places, (1 if packed else len(lengths), width)


def _numbers(names: Sequence[str]) -> np.ndarray:
    known: Dict[str, int] = {}
    return np.asarray([known.setdefault(name, len(known)) for name in names], np.int64)


def to_torch(batch: Batch, device: Any = None) -> Batch:
    """The same batch with torch tensors, on the device."""
    import torch

    return {k: torch.from_numpy(v).to(device) if isinstance(v, np.ndarray) else v for k, v in batch.items()}


def _refuse(batch: Batch) -> None:
    """Raises where logprobs of a model are not comparable with those of the batch."""
    if len(batch["allowed_at"]) and batch["allowed_bits"] is None:
        raise ConstraintError(
            "%d tokens of the batch were sampled under a constraint: their logprobs are renormalised over what it allowed, "
            "and ratios without the same mask are wrong by nats. Give collate(rows, allowed=AllowedTokens(tokenizer, "
            "vocab_size)), or start the run with environment.constraint: none" % len(batch["allowed_at"])
        )
    if batch["truncated"]:
        raise ConstraintError(
            "the run samples with top_p or top_k: logprobs are renormalised over tokens that nobody reported, so ratios "
            "would be wrong. Start the run with sampling.top_p: 1 and without sampling.top_k"
        )


def token_logprobs(logits: Any, batch: Batch, with_entropy: bool = False) -> Any:
    """Logprobs, [B, T] float32, of the tokens of the loss, under the distribution that they were sampled from.

    logits: [B, T, vocab], of any float type; those at t are of the token at t + 1. Temperature and the constraint's mask
    are applied. With `with_entropy`, a pair: logprobs and the entropy in nats, both [B, T].
    ConstraintError: the batch was sampled under a constraint, top_p or top_k that cannot be applied here.
    """
    import torch

    _refuse(batch)
    shape = batch["input_ids"].shape
    at = batch["loss_mask"].reshape(-1).nonzero()[:, 0]
    at = at[at % shape[1] > 0]  # nothing predicts the first token
    scores = logits.reshape(-1, logits.shape[-1])[at - 1].float() / batch["temperature"].reshape(-1)[at].clamp_min(1e-6)[:, None]
    if batch["allowed_bits"] is not None:
        scores = scores.masked_fill(~_allowed(batch, at, scores.shape[-1]), float("-inf"))
    log = torch.log_softmax(scores, -1)
    chosen = log.gather(1, batch["input_ids"].reshape(-1)[at][:, None])[:, 0]
    out = torch.zeros(shape, device=log.device).reshape(-1).index_copy(0, at, chosen).reshape(shape)
    if not with_entropy:
        return out
    entropy = -(log.exp() * log.masked_fill(log == float("-inf"), 0.0)).sum(-1)
    return out, torch.zeros(shape, device=log.device).reshape(-1).index_copy(0, at, entropy).reshape(shape)


def _allowed(batch: Batch, at: Any, vocab: int) -> Any:
    """Which tokens were allowed at the flat places `at`, [len(at), vocab] bool; all of them where nothing constrained."""
    import torch

    order = torch.full((batch["input_ids"].numel(),), -1, device=at.device, dtype=torch.long)
    order[batch["allowed_at"]] = torch.arange(len(batch["allowed_at"]), device=at.device)
    which = order[at]
    words = batch["allowed_bits"][which.clamp_min(0)]
    bits = (words[:, :, None] >> torch.arange(32, device=at.device)) & 1
    allowed = bits.reshape(len(at), -1)[:, :vocab].bool()
    if allowed.shape[1] < vocab:
        raise ConstraintError(
            "the logits have %d columns and AllowedTokens was made for %d: give it the model's vocab_size" % (vocab, allowed.shape[1])
        )
    return allowed | (which < 0)[:, None]


IMPORTANCE_MODES = ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask")


def importance_weights(logprobs: Any, batch: Batch, mode: str = "sequence_mask", cap: float = 3.0) -> Tuple[Any, Any]:
    """What corrects for the policy that sampled: exp(logprobs - old_logprobs), bounded. Numpy or torch, [B, T] each.

    Answers (weights, kept): kept is 1 where a token is trained on. Names and defaults are TRL's
    vllm_importance_sampling_mode and _cap; verl's rollout_is=token and =sequence with rollout_is_threshold 2.0 are
    token_truncate and sequence_truncate with cap=2.0. A sequence's ratio is the product over its tokens of the loss;
    "truncate" bounds a ratio by cap, "mask" leaves out what is above it. Packed batches have ratios by token only.
    ConstraintError: as token_logprobs. ValueError: an unknown mode, or a sequence's ratio of a packed batch.
    """
    if mode not in IMPORTANCE_MODES:
        raise ValueError("importance sampling mode %r: there are %s" % (mode, ", ".join(IMPORTANCE_MODES)))
    _refuse(batch)
    mask = batch["loss_mask"]
    delta = (logprobs - batch["old_logprobs"]) * mask
    if mode.startswith("sequence"):
        if "cu_seqlens" in batch:
            raise ValueError("%s needs a padded batch; a packed one has token_truncate and token_mask" % mode)
        delta = delta.sum(-1)[:, None] + 0 * delta
    ratio = delta.clip(-20.0, 20.0)
    ratio = np.exp(ratio) if isinstance(ratio, np.ndarray) else ratio.exp()
    if mode.endswith("truncate"):
        return ratio.clip(None, cap) * mask, mask
    kept = mask * (ratio <= cap)
    return ratio * kept, kept


def staleness_weights(batch: Batch, trainer_version: int, half_life: float = 4.0) -> Any:
    """Weights [B, T] that halve every `half_life` versions that a token is behind the trainer; 0 off the loss."""
    behind = (trainer_version - batch["policy_version"]).clip(0)
    return 0.5 ** (behind / half_life) * batch["loss_mask"]
