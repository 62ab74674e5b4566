"""TRL's synchronous GRPOTrainer trains on a run: its completions are the run's trajectories, its weights go back.

    rollouts = Rollouts(millrace.Client(url).run("words"))
    GRPOTrainer(model, reward_funcs=rollouts.reward, rollout_func=rollouts, callbacks=[rollouts.callback()], ...).train()

Each generation of TRL's claims one step's batch. TRL's dataset is of placeholders, as many a generation as a batch has
trajectories, and num_generations is the run's group.samples: what is asked is up to the run. When TRL asks for the next
generation, or ends, the LoRA adapter is published and the step recorded. A trainer that is started again, from TRL's
checkpoint or not, goes on at the run's next step.

TRL takes one completion for a prompt, so a trajectory's turns must continue one another; what an environment says between
them has env_mask 0. Advantages are TRL's own, of the run's rewards. The engine's logprobs are given to TRL, which corrects
by them only with use_vllm. One process; tried with TRL 1.16.0, which calls rollout_func experimental.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from . import Invalid, Run, Step
from .rows import merge_turns

PINNED = "1.16"


class Rollouts:
    """A rollout_func, with the reward function and the callback that belong to it."""

    def __init__(self, run: Run) -> None:
        import trl

        if not trl.__version__.startswith(PINNED + "."):
            raise RuntimeError("TRL %s is installed; this was tried with %s: pip install 'trl==%s.*'" % (
                trl.__version__, PINNED, PINNED))
        self.run = run
        self._steps = run.steps()
        self._step: Optional[Step] = None
        self._trainer: Any = None

    def __call__(self, prompts: List[Any], trainer: Any) -> Dict[str, List[Any]]:
        """The next batch, as TRL's completions of as many prompts."""
        if trainer.accelerator.num_processes != 1:
            raise Invalid("millrace.trl feeds one process; TRL has %d" % trainer.accelerator.num_processes)
        self._trainer = trainer
        self.finish()
        step = next(self._steps, None)
        if step is None:
            raise Invalid("the run %s has no further step: set max_steps to what is left of it" % self.run.name)
        self._step = step.__enter__()
        try:
            return completions(list(step.sequences()), len(prompts), trainer.args.num_generations)
        except BaseException as err:
            self._step = None
            step.__exit__(type(err), err, None)
            raise

    def reward(self, completions: List[Any], millrace_reward: List[float], **_: Any) -> List[float]:
        """The reward function: what the run's environment gave."""
        return millrace_reward

    def finish(self) -> None:
        """Publishes what was learned from the batch in hand, and records its step."""
        step, self._step = self._step, None
        if step is None:
            return
        step.phases["train"] = step.run.client.clock() - step._started - sum(step.phases.values())
        path = step.adapter_dir()
        self._trainer.accelerator.unwrap_model(self._trainer.model).save_pretrained(path)
        step.publish(path)
        step.__exit__(None, None, None)

    def callback(self) -> Any:
        """Finishes the last step when TRL's training ends."""
        from transformers import TrainerCallback

        rollouts = self

        class Finish(TrainerCallback):  # type: ignore[misc]
            def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
                rollouts.finish()

        return Finish()


def completions(rows: List[Dict[str, Any]], prompts: int, samples: int) -> Dict[str, List[Any]]:
    """A batch's rows (Step.sequences) as what rollout_func returns; Invalid where TRL cannot hold them."""
    merged = merge_turns(rows)
    names = [row["trajectory_id"] for row in merged]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise Invalid("trajectory %s has turns that do not continue one another, and TRL takes one completion" % twice)
    if len(merged) != prompts:
        raise Invalid("the batch has %d trajectories and TRL asks for %d: per_device_train_batch_size x steps_per_generation "
                      "is groups_per_step x samples x agents" % (len(merged), prompts))
    groups = [{(row["group_id"], row["agent"]) for row in merged[at:at + samples]} for at in range(0, prompts, samples)]
    if any(len(group) != 1 for group in groups) or len({tuple(group)[0] for group in groups}) != len(groups):
        raise Invalid("TRL compares each %d completions in a row, the run's groups are others: num_generations is "
                      "group.samples, and min_samples must not let a group have fewer" % samples)
    out: Dict[str, List[Any]] = {key: [] for key in ("prompt_ids", "completion_ids", "logprobs", "env_mask",
                                                     "millrace_reward")}
    for row in merged:
        begin = row["turns"][0]["begin"]
        out["prompt_ids"].append(row["token_ids"][:begin])
        out["completion_ids"].append(row["token_ids"][begin:])
        out["logprobs"].append(row["logprobs"][begin:])
        out["env_mask"].append(row["loss_mask"][begin:])
        out["millrace_reward"].append(row["reward"])
    return out
