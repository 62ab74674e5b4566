"""What TRL is given of a batch, and when. That TRL takes it is shown by `make with PEER=trl`."""

import dataclasses
import importlib.util
import queue
import sys
import threading
import types
import unittest
from typing import Any, Dict, List
from unittest import mock

from millrace import Invalid, RunOver
from millrace.trl import Rollouts, RolloutWorker, completions, samples


def row(trajectory: str, prompt: List[int], completion: List[int], reward: float = 0.5) -> Dict[str, Any]:
    """As Step.sequences has it."""
    return {
        "trajectory_id": trajectory, "sequence_id": trajectory, "group_id": trajectory.rpartition("/")[0],
        "agent": "agent", "reward": reward,
        "token_ids": prompt + completion, "input_tokens": len(prompt), "constraint": None, "policy_version": 3,
        "loss_mask": [0] * len(prompt) + [1] * len(completion),
        "logprobs": [0.0] * len(prompt) + [-0.5] * len(completion), "turn_reward": 0.0, "sequence_index": 0,
        "sequences_in_trajectory": 1, "output_tokens": len(completion), "stop_reason": "stop", "advantage": reward - 0.5,
        "text": "said", "top_p": 1.0, "top_k": 0,
    }


class Completions(unittest.TestCase):
    def test_turns_that_continue_are_one_with_what_came_between_masked(self) -> None:
        rows = [row("g/0/0", [1, 2], [3]), row("g/0/0", [1, 2, 3, 4, 5], [6, 7]), row("g/0/1", [1, 2], [8], 1.0)]
        self.assertEqual(completions(rows, prompts=2, samples=2), {
            "prompt_ids": [[1, 2], [1, 2]],
            "completion_ids": [[3, 4, 5, 6, 7], [8]],
            "logprobs": [[-0.5, 0.0, 0.0, -0.5, -0.5], [-0.5]],
            "env_mask": [[1, 0, 0, 1, 1], [1]],
            "millrace_reward": [0.5, 1.0],
        })

    def test_what_trl_cannot_hold_is_refused_with_a_reason(self) -> None:
        one, two = row("g/0/0", [1], [2]), row("g/0/1", [1], [3])
        for rows, prompts, of_group, said in (
            ([one, row("g/0/0", [9], [2])], 1, 1, "do not continue one another"),
            ([one, two], 4, 2, "2 trajectories and TRL asks for 4"),
            ([one, two], 2, 1, "num_generations is group.samples"),
            ([one, row("g/1/0", [1], [2])], 2, 2, "num_generations is group.samples"),
        ):
            with self.subTest(said), self.assertRaisesRegex(Invalid, said):
                completions(rows, prompts, of_group)


class Samples(unittest.TestCase):
    def test_have_a_place_each_and_what_is_left_has_no_loss(self) -> None:
        rows = [row("r/7/0", [1, 2], [3]), row("r/7/0", [9], [6, 7]), row("r/7/1", [1, 2], [8], 1.0)]
        made = samples(rows, 5)
        self.assertEqual([one["input_ids"] for one in made], [[1, 2, 3], [9, 6, 7], [1, 2, 8], [1, 2, 8], [1, 2, 8]])
        self.assertEqual([one["completion_mask"] for one in made], [[0, 0, 1], [0, 1, 1], [0, 0, 1], [0, 0, 0], [0, 0, 0]])
        self.assertEqual(made[2], {"input_ids": [1, 2, 8], "completion_mask": [0, 0, 1], "old_log_probs": [0.0, 0.0, -0.5],
                                   "advantage": 0.5, "group_id": 7, "text": "said", "policy_version": 3,
                                   "metrics": {"reward": 1.0}})
        self.assertEqual(made[4]["metrics"], {}, "a place that is left counts in no mean")

    def test_that_trl_cannot_take_are_refused_with_a_reason(self) -> None:
        one = row("r/7/0", [1], [2])
        for rows, said in (
            ([one, row("r/7/1", [1], [2])], "2 samples and an optimizer step takes 1"),
            ([{**one, "constraint": {"kind": "regex", "pattern": "a"}}], "environment.constraint: none"),
            ([{**one, "top_p": 0.9}], "top_p or top_k"),
            ([{**one, "top_k": 5}], "top_p or top_k"),
        ):
            with self.subTest(said), self.assertRaisesRegex(Invalid, said):
                samples(rows, 1)


@dataclasses.dataclass
class RolloutSample:
    """As TRL has it."""

    prompt: Any
    completion: Any
    input_ids: Any
    completion_mask: Any
    old_log_probs: Any
    advantage: float
    model_version: int
    group_id: int
    metrics: Any
    enqueued_at: Any


def package(version: str = "1.16.0") -> Any:
    """A package of TRL's that has nothing but what is asked of it here."""
    worker = types.SimpleNamespace(RolloutSample=RolloutSample)
    names = ("trl", "trl.experimental", "trl.experimental.async_grpo", "trl.experimental.async_grpo.async_rollout_worker")
    parts = [types.SimpleNamespace(__version__=version), types.SimpleNamespace(), types.SimpleNamespace(), worker]
    return mock.patch.dict(sys.modules, dict(zip(names, parts, strict=True)))  # type: ignore[arg-type]


class Run:
    """A run of so many steps, each batch of which is two trajectories."""

    def __init__(self, steps: int) -> None:
        self.name, self.generation, self.next_step, self.policy_version = "demo", 1, 0, 5
        self.spec = {"steps": steps, "buffer": {"max_staleness": 2}}
        self.client = types.SimpleNamespace(clock=lambda: 0.0)
        self.claimed: List[int] = []
        self.recorded: List[int] = []
        self.why: List[str] = []

    def sampling(self) -> Dict[str, Any]:
        return {"temperature": 1.0}

    def step(self, number: int) -> Any:
        run = self

        class Step:
            phases = {"wait": 0.0, "load": 1.0}
            _over = threading.Event()

            def __enter__(self) -> Any:
                run.claimed.append(number)
                return self

            def sequences(self) -> List[Dict[str, Any]]:
                return [{**row(f"r/{number}/{n}", [1], [number]), "policy_version": run.policy_version} for n in range(2)]

            def adapter_dir(self) -> str:
                return f"step{number}"

            def publish(self, path: str) -> None:
                assert path == f"step{number}"
                run.policy_version += 1

            def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
                if kind is None:
                    run.recorded.append(number)
                else:
                    run.why.append(f"{number}: {value}")

        return Step()


@unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
class Worker(unittest.TestCase):
    def setUp(self) -> None:
        import numpy  # noqa: F401  # outside of what is patched: it is imported once in a process

        trl = package()
        trl.start()
        self.addCleanup(trl.stop)

    def started(self, steps: int) -> RolloutWorker:
        worker = RolloutWorker(Run(steps))  # type: ignore[arg-type]
        worker._samples, worker._model = 3, types.SimpleNamespace(save_pretrained=lambda path: None)
        worker.send_weights(None)  # as TRL does before it starts
        worker.update_model_version(1)
        worker.start()
        self.addCleanup(worker.stop)
        return worker

    def taken(self, worker: RolloutWorker) -> List[RolloutSample]:
        return [worker.rollout_buffer.get(timeout=10) for _ in range(3)]

    def test_claims_one_batch_ahead_and_records_each_as_it_was_trained(self) -> None:
        worker = self.started(3)
        run: Any = worker.run
        first, second = self.taken(worker), self.taken(worker)
        self.assertEqual((run.claimed, run.recorded), ([0, 1], []))
        with self.assertRaises(queue.Empty):
            worker.rollout_buffer.get(timeout=0.05)
        self.assertEqual([one.input_ids.tolist() for one in first + second], [[1, 0]] * 3 + [[1, 1]] * 3)
        self.assertEqual({one.model_version for one in first}, {1}, "TRL's count of versions is another than the run's")
        worker.send_weights(None)
        worker.update_model_version(2)
        third = self.taken(worker)
        self.assertEqual((run.claimed, run.recorded), ([0, 1, 2], [0]))
        self.assertEqual({one.model_version for one in third}, {2})

    def test_has_samples_without_loss_after_the_last_batch_and_then_says_that_there_is_no_more(self) -> None:
        worker = self.started(1)
        self.taken(worker)
        self.assertEqual([int(one.completion_mask.sum()) for one in self.taken(worker)], [0, 0, 0])
        worker.send_weights(None)
        self.assertEqual(worker.run.recorded, [0])  # type: ignore[attr-defined]
        with self.assertRaisesRegex(Invalid, "no further step: set max_steps"):
            worker.send_weights(None)
        worker._thread.join(10)
        with self.assertRaisesRegex(RuntimeError, "max_steps is more than was left"):
            worker.check_health(1)

    def test_health_is_the_threads(self) -> None:
        run = Run(2)
        with mock.patch.object(run, "step", side_effect=RunOver("the run demo is stopped")):
            worker = RolloutWorker(run)  # type: ignore[arg-type]
            worker._samples = 3
            worker.check_health(1)
            worker.start()
            worker._thread.join(10)
        with self.assertRaisesRegex(RuntimeError, "the run demo is stopped"):
            worker.check_health(1)

    def test_a_trainer_that_fails_says_why_for_the_steps_in_hand(self) -> None:
        worker = self.started(3)
        self.taken(worker), self.taken(worker)
        try:
            raise ZeroDivisionError("loss")
        except ZeroDivisionError:
            worker.stop()
        self.assertEqual(worker.run.why, ["0: loss", "1: loss"])  # type: ignore[attr-defined]

    def test_a_batch_that_comes_after_the_end_is_nobodys(self) -> None:
        run, asked, answered = Run(2), threading.Event(), threading.Event()
        late = mock.MagicMock()
        late.__enter__ = lambda step: asked.set() or answered.wait(10) and step  # type: ignore[func-returns-value]
        with mock.patch.object(run, "step", return_value=late):
            worker = RolloutWorker(run)  # type: ignore[arg-type]
            worker._samples = 3
            worker.start()
            asked.wait(10)
            worker.stop()
            answered.set()
            worker._thread.join(10)
        late._over.set.assert_called_once_with()
        self.assertTrue(worker.rollout_buffer.empty())

    def test_arguments_that_do_not_fit_the_run_are_refused_with_what_fits(self) -> None:
        worker = RolloutWorker(Run(3))  # type: ignore[arg-type]
        fits = {"world_size": 1, "token_budget": 0, "max_steps": 3, "weight_sync_steps": 1, "max_staleness": 3, "temperature": 1.0}
        worker._check(types.SimpleNamespace(**fits))
        for name, wrong, said in (
            ("world_size", 2, "world_size=2; a run is trained with 1"),
            ("token_budget", None, "token_budget=None; a run is trained with 0"),
            ("max_steps", -1, "max_steps=-1"),
            ("weight_sync_steps", 2, "weight_sync_steps=2"),
            ("max_staleness", 2, "max_staleness=2; a run is trained with 3 or more"),
            ("temperature", 0.7, "temperature=0.7; a run is trained with 1.0"),
        ):
            with self.subTest(name), self.assertRaisesRegex(Invalid, said):
                worker._check(types.SimpleNamespace(**{**fits, name: wrong}))

    def test_without_its_callback_does_not_start(self) -> None:
        with self.assertRaisesRegex(Invalid, r"callbacks=\[worker.callback\(\)\]"):
            RolloutWorker(Run(1)).start()  # type: ignore[arg-type]

    def test_another_version_of_trl_is_refused_with_the_one_that_was_tried(self) -> None:
        for feeds in (Rollouts, RolloutWorker):
            with package("1.17.1"), self.assertRaisesRegex(RuntimeError, r"TRL 1.17.1 is installed.*pip install 'trl==1.16.\*'"):
                feeds(Run(1))  # type: ignore[arg-type]


if __name__ == "__main__":
    unittest.main()
