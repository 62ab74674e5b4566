"""TRL trains on a run: its completions are the run's trajectories, its weights go back.

The synchronous GRPOTrainer, by `Rollouts`:

    rollouts = Rollouts(millrace.Client(url).run("words"))
    GRPOTrainer(model, reward_funcs=rollouts.reward, rollout_func=rollouts, callbacks=[rollouts.callback()], ...).train()

Each generation of TRL's claims one step's batch. TRL's dataset is of placeholders, as many a generation as a batch has
trajectories, and num_generations is the run's group.samples: what is asked is up to the run. When TRL asks for the next
generation, or ends, the LoRA adapter is published and the step recorded. A trainer that is started again, from TRL's
checkpoint or not, goes on at the run's next step.

TRL takes one completion for a prompt, so a trajectory's turns must continue one another; what an environment says between
them has env_mask 0. Advantages are TRL's own, of the run's rewards. The engine's logprobs are given to TRL, which corrects
by them only with use_vllm.

The asynchronous one, by `RolloutWorker`:

    worker = RolloutWorker(millrace.Client(url).run("words"))
    AsyncGRPOTrainer(path, rollout_worker=worker, weight_transfer=worker, callbacks=[worker.callback()],
                     args=AsyncGRPOConfig(token_budget=0, ...), ...).train()

Each optimizer step is a step of the run, with the run's advantages; a trajectory whose turns do not continue one another
is several samples, as TRL's own are. While TRL trains, the next batch is claimed, one version earlier than it would be
without.

One process; tried with TRL 1.16.0, which calls both experimental.
"""

from __future__ import annotations

import itertools
import queue
import sys
import threading
import time
from typing import Any, Dict, List, Optional

from . import Invalid, Run, RunOver, Step
from .rows import merge_turns

PINNED = "1.16"


def _check_version() -> None:
    import trl

    if not trl.__version__.startswith(PINNED + "."):
        raise RuntimeError("TRL %s is installed; this was tried with %s: pip install 'trl==%s.*'" % (
            trl.__version__, PINNED, PINNED))


class Rollouts:
    """A rollout_func, with the reward function and the callback that belong to it."""

    def __init__(self, run: Run) -> None:
        _check_version()
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


class RolloutWorker:
    """AsyncGRPOTrainer's rollout_worker and weight_transfer; its callback looks at TRL's arguments, and lends the model.

    A thread claims batches and puts their samples into rollout_buffer: at most two steps of the run are in hand, for TRL
    fetches the next samples before it trains on those that it has. Where TRL would send weights, the adapter is published
    and the step recorded. A trainer that is started again goes on at the run's next step.
    """

    def __init__(self, run: Run) -> None:
        _check_version()
        self.run = run if run.generation is not None else run.attach()
        self.rollout_buffer: "queue.Queue[Any]" = queue.Queue()
        self.metrics_queue: "queue.Queue[Dict[str, Any]]" = queue.Queue()
        self._samples = 0  # that TRL takes in an optimizer step
        self._model: Any = None
        self._ahead = 0  # TRL's version of the weights, less the run's
        self._hand: "queue.Queue[tuple[Step, float]]" = queue.Queue()  # steps whose samples TRL has, and since when
        self._turn = 0.0  # when the step that TRL trains on had its turn
        self._places = threading.Semaphore(2)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._feed, name="millrace-rollouts", daemon=True)
        self._fault: Optional[BaseException] = None

    def callback(self) -> Any:
        """Refuses arguments of TRL's that do not fit the run, as the trainer is made."""
        from transformers import TrainerCallback

        worker = self

        class Look(TrainerCallback):  # type: ignore[misc]
            def on_init_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
                worker._samples = args.per_device_train_batch_size * args.gradient_accumulation_steps
                worker._check(args)

            def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
                if not hasattr(model, "peft_config"):
                    raise Invalid("engines load LoRA adapters: give the trainer a peft_config")
                worker._model = model

        return Look()

    def _check(self, args: Any) -> None:
        bound = int(self.run.spec["buffer"]["max_staleness"]) + 1
        temperature = self.run.sampling().get("temperature")
        for name, fits, wanted in (
            ("world_size", args.world_size == 1, "1: one process is fed"),
            ("token_budget", args.token_budget == 0, "0: an optimizer step is one batch of the run, whatever its length"),
            ("max_steps", args.max_steps > 0, "how many steps of the run to train, at most what is left of it"),
            ("weight_sync_steps", args.weight_sync_steps == 1, "1: each step of the run ends with a version"),
            ("max_staleness", args.max_staleness >= bound, "%d or more: the run's buffer.max_staleness, and 1 for the "
             "batch that is fetched ahead. TRL would throw samples away" % bound),
            ("temperature", args.temperature == temperature, "%s, as in the run's sampling" % temperature),
        ):
            if not fits:
                raise Invalid("AsyncGRPOConfig has %s=%r; a run is trained with %s" % (name, getattr(args, name), wanted))

    # What RolloutWorkerProtocol asks for.

    def start(self) -> None:
        if not self._samples:
            raise Invalid("give the trainer callbacks=[worker.callback()]")
        self._turn = self.run.client.clock()
        self._thread.start()

    def stop(self) -> None:
        """Claims no more. A step that was not trained to its end says why, if the trainer fails."""
        self._stopped.set()
        self._places.release()
        why = sys.exc_info()
        while not self._hand.empty():
            step, _ = self._hand.get()
            if why[0] is None:
                step._over.set()
            else:
                step.__exit__(*why)

    def update_model_version(self, model_version: int) -> None:
        self._ahead = model_version - self.run.policy_version

    def check_health(self, stale_after_s: float) -> None:
        """Raises what ended the thread. Slow games are no fault; a service that is away is one after Client.retry_for."""
        if self._fault is not None:
            raise RuntimeError("no more batches of the run %s: %s" % (self.run.name, self._fault)) from self._fault

    # What WeightTransferProtocol asks for.

    def init_weight_transfer(self) -> None:
        """The first version that is published is that of the first step."""

    def pause(self) -> None:
        """Games go on by the version with which they began."""

    def resume(self) -> None: ...

    def destroy(self) -> None: ...

    def send_weights(self, iterator: Any) -> None:
        """Publishes the adapter that TRL has trained, and records its step. The merged weights are not read."""
        if self._thread.ident is None:
            return  # before the first step: TRL wants to begin with its own weights everywhere
        try:
            step, ready = self._hand.get_nowait()
        except queue.Empty:
            raise Invalid("the run %s has no further step: set max_steps to what is left of it" % self.run.name) from None
        step._started, wait = self._turn, max(0.0, ready - self._turn)  # what was claimed ahead is no wait
        step.phases = {"wait": wait, "train": self.run.client.clock() - self._turn - wait}
        path = step.adapter_dir()
        self._model.save_pretrained(path)
        step.publish(path)
        step.__exit__(None, None, None)
        self._turn = self.run.client.clock()
        self._places.release()

    def _feed(self) -> None:
        last: List[Dict[str, Any]] = []
        try:
            for number in itertools.count(self.run.next_step):
                self._places.acquire()
                if self._stopped.is_set():
                    return
                if number >= self.run.spec.get("steps", number + 1):
                    break
                step = self.run.step(number).__enter__()
                if self._stopped.is_set():
                    step._over.set()  # nobody trains on it: no sign of life shall say so
                    return
                try:
                    last = samples(list(step.sequences()), self._samples)
                except BaseException as err:
                    step.__exit__(type(err), err, None)
                    raise
                self._hand.put((step, self.run.client.clock()))
                self.metrics_queue.put({
                    "rollout/claim_s": step.phases["wait"],
                    "rollout/samples_per_step": float(sum(any(one["completion_mask"]) for one in last)),
                })
                self._put(last)
            if last:  # the last batch is trained on when the one after it is there
                self._put([{**_without_loss(last[-1]), "policy_version": self.run.policy_version}] * self._samples)
            raise RunOver("it has no further step: max_steps is more than was left of it")
        except BaseException as fault:
            self._fault = fault

    def _put(self, made: List[Dict[str, Any]]) -> None:
        import numpy as np
        from trl.experimental.async_grpo.async_rollout_worker import RolloutSample

        for one in made:
            self.rollout_buffer.put(RolloutSample(
                prompt=[], completion=[{"role": "assistant", "content": one["text"]}],
                input_ids=np.asarray(one["input_ids"], np.int64),
                completion_mask=np.asarray(one["completion_mask"], np.int64),
                old_log_probs=np.asarray(one["old_log_probs"], np.float32), advantage=one["advantage"],
                model_version=one["policy_version"] + self._ahead, group_id=one["group_id"], metrics=one["metrics"],
                enqueued_at=time.time(),
            ))


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


def samples(rows: List[Dict[str, Any]], places: int) -> List[Dict[str, Any]]:
    """A batch's rows (Step.sequences) as what an optimizer step of the asynchronous trainer takes, `places` samples.

    Places that are left get a sample once more, without loss; TRL does not compute it again. Invalid: more samples than
    places, or rows whose logprobs TRL cannot compare with its own.
    """
    merged = merge_turns(rows)
    if len(merged) > places:
        raise Invalid("the batch has %d samples and an optimizer step takes %d: per_device_train_batch_size x "
                      "gradient_accumulation_steps may be more than the run's batch, places left cost nothing" % (
                          len(merged), places))
    if any(turn["constraint"] for row in merged for turn in row["turns"]):
        raise Invalid("the batch was sampled under a constraint, and TRL's ratios know of none: start the run with "
                      "environment.constraint: none")
    if any((row.get("top_p") or 1) < 1 or (row.get("top_k") or 0) > 0 for row in merged):
        raise Invalid("the batch was sampled with top_p or top_k, and TRL's ratios know of neither")
    made = [{
        "input_ids": row["token_ids"], "completion_mask": row["loss_mask"], "old_log_probs": row["logprobs"],
        "advantage": row["advantage"], "group_id": int(row["group_id"].rpartition("/")[2]), "text": row["text"],
        "policy_version": row["policy_version"], "metrics": {"reward": row["reward"]},
    } for row in merged]
    return made + [_without_loss(made[-1])] * (places - len(made))


def _without_loss(sample: Dict[str, Any]) -> Dict[str, Any]:
    return {**sample, "completion_mask": [0] * len(sample["input_ids"]), "metrics": {}}
