"""Tests of rows.py and tensors.py; numpy is needed, torch is not."""

import math
import unittest

import numpy as np

from millrace import rows as r
from millrace.constraints import ConstraintError
from millrace.tensors import collate, importance_weights, staleness_weights

HELD = {"kind": "choice", "choices": ["a", "b"]}


def row(trajectory="t0", prompt=(1, 2), completion=(3, 4), group="g0", reward=1.0, constraint=None, version=0, logprobs=None):
    logprobs = [-0.5] * len(completion) if logprobs is None else logprobs
    return {
        "sequence_id": trajectory + "/0",
        "sequence_index": 0,
        "group_id": group,
        "trajectory_id": trajectory,
        "agent": "X",
        "token_ids": [*prompt, *completion],
        "loss_mask": [0] * len(prompt) + [1] * len(completion),
        "logprobs": [0.0] * len(prompt) + list(logprobs),
        "input_tokens": len(prompt),
        "output_tokens": len(completion),
        "reward": reward,
        "advantage": 0.0,
        "policy_version": version,
        "constraint": constraint,
        "temperature": 0.8,
        "top_p": 1,
        "top_k": 0,
    }


class Rows(unittest.TestCase):
    def test_turns_that_continue_one_another_are_one_row(self):
        first = row(prompt=(1, 2), completion=(3,), version=4)
        second = row(prompt=(1, 2, 3, 9), completion=(5, 6), version=5, constraint=HELD)
        fresh = row(prompt=(7,), completion=(8,))
        other = row(trajectory="t1", prompt=(7, 8), completion=(8,))
        got = r.merge_turns([first, second, fresh, other])
        self.assertEqual([g["token_ids"] for g in got], [[1, 2, 3, 9, 5, 6], [7, 8], [7, 8, 8]])
        self.assertEqual(got[0]["loss_mask"], [0, 0, 1, 0, 1, 1])
        self.assertEqual(got[0]["logprobs"], [0.0, 0.0, -0.5, 0.0, -0.5, -0.5])
        self.assertEqual([(t["begin"], t["end"], t["policy_version"]) for t in got[0]["turns"]], [(2, 3, 4), (4, 6, 5)])
        self.assertEqual((got[0]["policy_version"], got[0]["output_tokens"], got[0]["input_tokens"]), (4, 3, 3))
        self.assertEqual(first["loss_mask"], [0, 0, 1], "the rows given are left alone")

    def test_forced_tokens_are_those_under_a_constraint_alone(self):
        free, held = row(logprobs=[0.0, -1.0]), row(logprobs=[-1.0, 0.0], constraint=HELD)
        self.assertEqual(r.mask_forced([free, held]), 1)
        self.assertEqual((free["loss_mask"], held["loss_mask"]), ([0, 0, 1, 1], [0, 0, 1, 0]))

    def test_advantages(self):
        rows = [row(f"t{i}", reward=reward) for i, reward in enumerate([0.0, 0.0, 0.0, 4.0])] + [row("e", group="g1")]
        for name, want in {
            "grpo": [-1 / math.sqrt(3)] * 3 + [math.sqrt(3), 0.0],
            "dr_grpo": [-1.0] * 3 + [3.0, 0.0],
            "rloo": [-4 / 3] * 3 + [4.0, 0.0],
            "reinforce_plus_plus": [-2 / 3] * 3 + [2.0, 0.0],
            "reinforce_plus_plus_baseline": [-1 / math.sqrt(12 / 5)] * 3 + [3 / math.sqrt(12 / 5), 0.0],
        }.items():
            r.advantages(rows, name)
            got = [x["advantage"] for x in rows]
            if name == "reinforce_plus_plus":
                rewards = np.array([0, 0, 0, 4, 1.0])
                want = list((rewards - rewards.mean()) / rewards.std())
            np.testing.assert_allclose(got, want, err_msg=name)
        with self.assertRaisesRegex(ValueError, "rloo"):
            r.advantages(rows, "gae")

    def test_weights_add_up_whatever_the_micro_batches(self):
        rows = [row("a", completion=(3,)), row("a", completion=(3, 4, 5)), row("b", completion=(3, 4))]
        for name, want in (("token-mean", 1.0), ("seq-mean-token-mean", 1.0), ("seq-mean-token-sum", 3.0)):
            r.loss_weights(rows, name)
            self.assertAlmostEqual(sum(x["weight"] * sum(x["loss_mask"]) for x in rows), want, msg=name)
        r.loss_weights(rows, "seq-mean-token-mean")
        self.assertEqual([x["weight"] for x in rows], [1 / 8, 1 / 8, 1 / 4])

    def test_micro_batches_keep_to_the_budget(self):
        rows = [row(str(i), prompt=range(n), completion=(1,)) for i, n in enumerate([9, 3, 4, 4, 1])]
        for packed in (False, True):
            parts = r.micro_batches(rows, 12, packed)
            self.assertCountEqual([x["trajectory_id"] for part in parts for x in part], "01234")
            for part in parts:
                lengths = [len(x["token_ids"]) for x in part]
                self.assertLessEqual(sum(lengths) if packed else max(lengths) * len(lengths), 12)
        with self.assertRaisesRegex(ValueError, "max_tokens is 9"):
            r.micro_batches(rows, 9)

    def test_shares_are_disjoint_and_complete(self):
        rows = [row(f"t{i}", prompt=range(1 + i % 7)) for i in range(40)]
        parts = [r.share(rows, rank, 3) for rank in range(3)]
        self.assertCountEqual([x["trajectory_id"] for p in parts for x in p], [x["trajectory_id"] for x in rows])
        tokens = [sum(len(x["token_ids"]) for x in part) for part in parts]
        self.assertLessEqual(max(tokens) - min(tokens), 9)


class Tensors(unittest.TestCase):
    def test_padded(self):
        rows = [row("a"), row("b", prompt=(1,), completion=(2, 3, 4, 5), version=3, group="g1")]
        rows[1]["advantage"] = 2.0
        batch = collate(rows, pad_id=99, multiple_of=8)
        self.assertEqual(batch["input_ids"].shape, (2, 8))
        self.assertEqual(batch["input_ids"][0].tolist(), [1, 2, 3, 4, 99, 99, 99, 99])
        self.assertEqual(batch["position_ids"][1].tolist(), [0, 1, 2, 3, 4, 0, 0, 0])
        self.assertEqual(batch["policy_version"][1].tolist(), [-1, 3, 3, 3, 3, -1, -1, -1])
        self.assertEqual(batch["advantages"][1].tolist(), [0, 2, 2, 2, 2, 0, 0, 0])
        self.assertEqual((batch["group_ids"].tolist(), batch["trajectory_ids"].tolist()), ([0, 1], [0, 1]))
        kinds = {name: batch[name].dtype.name for name in ("input_ids", "loss_mask", "old_logprobs", "policy_version")}
        self.assertEqual(kinds, {"input_ids": "int64", "loss_mask": "float32", "old_logprobs": "float32", "policy_version": "int64"})

    def test_packed_has_the_same_tokens(self):
        rows = [row("a"), row("b", prompt=(1,), completion=(2, 3, 4, 5))]
        batch = collate(rows, packed=True)
        self.assertEqual(batch["input_ids"].tolist(), [[1, 2, 3, 4, 1, 2, 3, 4, 5]])
        self.assertEqual(batch["position_ids"].tolist(), [[0, 1, 2, 3, 0, 1, 2, 3, 4]])
        self.assertEqual(batch["cu_seqlens"].tolist(), [0, 4, 9])

    def test_no_ratio_of_what_is_not_comparable(self):
        held = collate([row(constraint=HELD)])
        self.assertEqual(held["constrained"].tolist(), [[False, False, True, True]])
        with self.assertRaisesRegex(ConstraintError, r"sampled under a constraint.*AllowedTokens.*constraint: none"):
            importance_weights(held["old_logprobs"], held)
        top_p = row()
        top_p["top_p"] = 0.9
        batch = collate([top_p])
        with self.assertRaisesRegex(ConstraintError, "top_p"):
            importance_weights(batch["old_logprobs"], batch)

    def test_importance_weights(self):
        batch = collate([row(completion=(3, 4)), row("b", completion=(3, 4))])
        logprobs = batch["old_logprobs"] + np.log([[1, 1, 2, 2], [1, 1, 0.5, 8]]).astype(np.float32)
        for mode, cap, want in (
            ("token_truncate", 2.0, [[2, 2], [0.5, 2]]),
            ("token_mask", 3.0, [[2, 2], [0.5, 0]]),
            ("sequence_truncate", 3.0, [[3, 3], [3, 3]]),
            ("sequence_mask", 4.5, [[4, 4], [4, 4]]),
            ("sequence_mask", 3.0, [[0, 0], [0, 0]]),
        ):
            got, kept = importance_weights(logprobs, batch, mode, cap)
            np.testing.assert_allclose(got[:, 2:], want, rtol=1e-5, err_msg=mode)
            self.assertFalse(got[:, :2].any() or kept[:, :2].any())
        with self.assertRaisesRegex(ValueError, "token_truncate"):
            importance_weights(logprobs, batch, "clip")

    def test_staleness(self):
        batch = collate([row(version=3), row(version=7)])
        np.testing.assert_allclose(staleness_weights(batch, 7)[:, 2:], [[0.5, 0.5], [1, 1]])


if __name__ == "__main__":
    unittest.main()
