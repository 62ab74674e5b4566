"""Policy losses by their standard names. Needs torch.

    logprobs = token_logprobs(logits, batch)
    loss, figures = policy_loss(logprobs, batch, "dapo")
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Tuple

__all__ = ["LOSSES", "Recipe", "policy_loss"]


class Recipe(NamedTuple):
    """What a named loss is made of: rows.advantages, rows.loss_weights, and the clip of the ratio."""

    advantage: str
    aggregation: str
    clip_low: float
    clip_high: float


LOSSES: Dict[str, Recipe] = {
    "grpo": Recipe("grpo", "seq-mean-token-mean", 0.2, 0.2),
    "dapo": Recipe("grpo", "token-mean", 0.2, 0.28),
    "dr_grpo": Recipe("dr_grpo", "seq-mean-token-sum", 0.2, 0.2),
    "reinforce++": Recipe("reinforce_plus_plus", "token-mean", 0.2, 0.2),
}


def policy_loss(
    logprobs: Any, batch: Dict[str, Any], name: str = "grpo", correction: Optional[Any] = None
) -> Tuple[Any, Dict[str, float]]:
    """PPO's clipped loss of a micro-batch, a scalar, and figures for the step record.

    logprobs: [B, T] with gradient, from token_logprobs. The ratio is to the policy that sampled (old_logprobs).
    correction: [B, T] weights of tokens, such as importance_weights or staleness_weights give; no gradient.
    The losses of all micro-batches of a step add up to the step's: the weights are of the whole batch.
    Figures are sums, for the caller to add up over micro-batches and divide by "tokens".
    """
    import torch

    recipe = LOSSES[name]
    mask, advantage = batch["loss_mask"], batch["advantages"]
    delta = (logprobs - batch["old_logprobs"]) * mask
    ratio = delta.exp()
    clipped = ratio.clamp(1 - recipe.clip_low, 1 + recipe.clip_high)
    per_token = -torch.minimum(ratio * advantage, clipped * advantage) * mask
    if correction is not None:
        per_token = per_token * correction.detach()
    loss = (per_token * batch["weights"]).sum()
    with torch.no_grad():
        outside = ((ratio < 1 - recipe.clip_low) & (advantage < 0)) | ((ratio > 1 + recipe.clip_high) & (advantage > 0))
        figures = {
            "tokens": mask.sum().item(),
            "clip_fraction": (outside * mask).sum().item(),
            "approx_kl": ((ratio - 1 - delta) * mask).sum().item(),
        }
    return loss, figures
