"""Tests of export.py; what others' own readers say is asked too where they are installed (openenv, harbor)."""

import contextlib
import io
import json
import unittest
from pathlib import Path
from unittest import mock

from millrace import NotRetained, export, sequences
from millrace.rows import merge_turns

TURN = {
    "phase": "S1901M",
    "prompt_token_ids": [1, 2, 3],
    "token_ids": [4, 5],
    "logprobs": [-0.5, 0],
    "loss_mask": [1, 0],
    "policy_version": 7,
    "engine": "a",
    "finish_reason": "stop",
    "reward": 0,
    "text": "A PAR H",
}
TRAJECTORY = {
    "trajectory_id": "demo/3/1/FRANCE",
    "sample": 1,
    "agent": "FRANCE",
    "reward": 0.25,
    "advantage": -1.5,
    "truncated": False,
    "turns": [TURN, {**TURN, "prompt_token_ids": [1, 2, 3, 4, 5, 6], "policy_version": 8}],
}
SILENT = {**TRAJECTORY, "trajectory_id": "demo/3/1/ITALY", "agent": "ITALY", "turns": []}
BATCH = {"run": "demo", "step": 0, "groups": [{"ref": {"run": "demo", "seq": 3}, "trajectories": [TRAJECTORY, SILENT]}]}


class Server:
    """Answers as the API does: steps 0 and 1 are kept."""

    def __init__(self, *_, **__):
        pass

    def run(self, _):
        return self

    def sampling(self):
        return {"temperature": 0.8}

    def call(self, method, path):
        if method != "GET" or path not in ("/v1/runs/demo/steps/0/batch", "/v1/runs/demo/steps/1/batch"):
            raise NotRetained("the batch of that step is not kept any more")
        return BATCH


def exported(*arguments):
    out, err = io.StringIO(), io.StringIO()
    with mock.patch.object(export, "Client", Server), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = export.main(["demo", *arguments])
    return code, [json.loads(line) for line in out.getvalue().splitlines()], err.getvalue()


class Formats(unittest.TestCase):
    def test_a_training_trace_has_every_call_with_its_mask_over_prompt_and_completion(self):
        trace = export.training_trace(TRAJECTORY)
        self.assertEqual([turn["node_id"] for turn in trace["turns"]], ["demo/3/1/FRANCE/0", "demo/3/1/FRANCE/1"])
        first = trace["turns"][0]
        self.assertEqual((first["completion_token_ids"], first["per_token_logps"]), ([4, 5], [-0.5, 0.0]))
        self.assertEqual(first["loss_mask"], [0, 0, 0, 1, 0])
        self.assertEqual((first["metadata"]["reward"], first["metadata"]["policy_version"]), (0.25, 7))
        self.assertNotIn("reward", trace["turns"][1]["metadata"])
        try:
            from openenv.core.harness.training import TrainingTrace
        except ImportError:
            return
        self.assertEqual(TrainingTrace.model_validate(trace).model_dump(), trace)

    def test_token_entries_name_the_rollout_and_the_call(self):
        first, second = export.token_entries(TRAJECTORY)
        self.assertEqual((first["rollout_id"], second["model_call_id"]), ("demo/3/1/FRANCE", "demo/3/1/FRANCE/1"))
        self.assertEqual((second["prompt_token_ids"], second["generation_token_ids"]), ([1, 2, 3, 4, 5, 6], [4, 5]))

    def test_atif_counts_steps_from_one_and_keeps_the_ids(self):
        found = export.atif(TRAJECTORY)
        self.assertEqual([step["step_id"] for step in found["steps"]], [1, 2])
        self.assertEqual(found["steps"][1]["metrics"]["prompt_tokens"], 6)
        self.assertEqual((found["session_id"], found["extra"]["reward"]), ("demo/3/1", 0.25))
        try:
            from harbor.models.trajectories import Trajectory
        except ImportError:
            return
        self.assertEqual(Trajectory.model_validate(found).to_json_dict(), found)


class InProcess(unittest.TestCase):
    def rows(self):
        return list(sequences(BATCH, {"temperature": 0.8}))

    def test_verl_has_one_response_of_turns_that_continue_one_another(self):
        (row,) = merge_turns(self.rows())
        found = export.verl_agent_loop_output(row)
        self.assertEqual((found["prompt_ids"], found["response_ids"]), ([1, 2, 3], [4, 5, 6, 4, 5]))
        self.assertEqual((found["response_mask"], found["num_turns"]), ([1, 0, 0, 1, 0], 4))
        self.assertEqual(found["response_logprobs"], [-0.5, 0, 0.0, -0.5, 0])
        self.assertEqual(found["extra_fields"]["uid"], "demo/3/FRANCE")

    def test_verl_and_skyrl_give_back_what_the_rows_have(self):
        rows = self.rows()
        sky = export.skyrl_generator_output(rows)
        for i, row in enumerate(rows):
            verl = export.verl_agent_loop_output(row)
            for prompt, response, mask, logprobs in (
                (verl["prompt_ids"], verl["response_ids"], verl["response_mask"], verl["response_logprobs"]),
                tuple(sky[k][i] for k in ("prompt_token_ids", "response_ids", "loss_masks", "rollout_logprobs")),
            ):
                self.assertEqual(prompt + response, row["token_ids"])
                self.assertEqual([0] * len(prompt) + mask, row["loss_mask"])
                self.assertEqual([0.0] * len(prompt) + logprobs, row["logprobs"])

    def test_prime_rl_and_nemo_rl_give_back_what_merged_rows_have(self):
        for rows in (self.rows(), merge_turns(self.rows())):
            for idx, row in enumerate(rows):
                sample = export.prime_rl_training_sample(row)
                self.assertEqual(list(sample)[:2], ["prompt_ids", "prompt_mask"])  # packed by place, not by name
                self.assertEqual(sample["prompt_ids"] + sample["completion_ids"], row["token_ids"])
                self.assertEqual(sample["prompt_mask"] + sample["completion_mask"], [x == 1 for x in row["loss_mask"]])
                self.assertEqual([0.0] * len(sample["prompt_ids"]) + sample["completion_logprobs"], row["logprobs"])
                self.assertEqual(sample["advantage"], row["advantage"])

                datum = export.nemo_rl_datum(row, idx)
                log = datum["message_log"]
                for key, of in ("token_ids", "token_ids"), ("token_loss_mask", "loss_mask"), ("generation_logprobs", "logprobs"):
                    self.assertEqual([x for message in log for x in message[key]], row[of])
                self.assertEqual([message["role"] for message in log], ["user", "assistant"] * (len(log) // 2))
                self.assertEqual((datum["length"], datum["idx"]), (len(row["token_ids"]), idx))
        self.assertEqual(len(log), 4)  # two turns that continue one another

    def test_the_page_of_verl_is_as_it_says(self):
        page = Path(__file__).parents[2].joinpath("docs", "with", "verl.md").read_text(encoding="utf-8")
        step = mock.MagicMock(sequences=lambda: sequences(BATCH), metrics={})
        client = mock.Mock(return_value=mock.Mock(run=lambda _: mock.Mock(steps=lambda: [step])))
        with mock.patch("millrace.Client", client):
            exec(page.split("```python")[1].split("```")[0], made := {})
        self.assertEqual((len(made["verl"]), len(made["skyrl"]["rewards"]), step.metrics), (1, 2, {"trained_on": 1}))
        self.assertEqual((len(made["prime_rl"]), made["nemo_rl"][0]["length"]), (1, 8))

    def test_skyrl_rewards_the_last_step_and_counts_repetitions_of_an_instance(self):
        other = {**TRAJECTORY, "trajectory_id": "demo/3/0/FRANCE", "turns": [TURN]}
        batch = {**BATCH, "groups": [{"ref": {"run": "demo", "seq": 3}, "trajectories": [TRAJECTORY, other]}]}
        found = export.skyrl_generator_output(list(sequences(batch)))
        self.assertEqual((found["rewards"], found["is_last_step"]), ([0.0, 0.25, 0.25], [False, True, True]))
        self.assertEqual(found["trajectory_ids"], [("demo/3/FRANCE", 0), ("demo/3/FRANCE", 0), ("demo/3/FRANCE", 1)])


class Command(unittest.TestCase):
    def test_lines_of_every_step(self):
        code, lines, said = exported("--steps", "0..1")
        self.assertEqual((code, len(lines), said), (0, 4, "4 rows of 2 steps\n"))
        self.assertEqual((lines[0]["temperature"], lines[0]["loss_mask"]), (0.8, [0, 0, 0, 1, 0]))

    def test_a_trajectory_without_turns_is_no_trace(self):
        for form, n in (("training-trace", 1), ("atif", 1), ("token-entry", 2)):
            self.assertEqual(len(exported("--steps", "0", "--as", form)[1]), n, form)

    def test_a_step_that_is_not_kept_is_an_error_that_says_so(self):
        code, _, said = exported("--steps", "0..5")
        self.assertEqual((code, said), (1, "millrace-export: the batch of that step is not kept any more\n"))

    def test_a_range_that_is_none_is_refused(self):
        for text in ("", "3..1", "x", "-1"):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                export.main(["demo", "--steps=" + text])


if __name__ == "__main__":
    unittest.main()
