"""What TRL's rollout_func makes of a batch. That TRL takes it is shown by `make with PEER=trl`."""

import unittest
from typing import Any, Dict, List

from millrace import Invalid
from millrace.trl import completions


def row(trajectory: str, prompt: List[int], completion: List[int], reward: float = 0.5) -> Dict[str, Any]:
    """As Step.sequences has it."""
    return {
        "trajectory_id": trajectory, "sequence_id": trajectory, "group_id": trajectory.rpartition("/")[0],
        "agent": "agent", "reward": reward,
        "token_ids": prompt + completion, "input_tokens": len(prompt), "constraint": None, "policy_version": 3,
        "loss_mask": [0] * len(prompt) + [1] * len(completion),
        "logprobs": [0.0] * len(prompt) + [-0.5] * len(completion), "turn_reward": 0.0, "sequence_index": 0,
        "sequences_in_trajectory": 1, "output_tokens": len(completion), "stop_reason": "stop",
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
        for rows, prompts, samples, said in (
            ([one, row("g/0/0", [9], [2])], 1, 1, "do not continue one another"),
            ([one, two], 4, 2, "2 trajectories and TRL asks for 4"),
            ([one, two], 2, 1, "num_generations is group.samples"),
            ([one, row("g/1/0", [1], [2])], 2, 2, "num_generations is group.samples"),
        ):
            with self.subTest(said), self.assertRaisesRegex(Invalid, said):
                completions(rows, prompts, samples)


if __name__ == "__main__":
    unittest.main()
