"""Tests of examples/grpo/train.py on an untaught tiny Qwen3: what it refuses, and that it goes on after a crash as if none
had been. Skipped without torch, peft and transformers."""

import argparse
import math
import pathlib
import random
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples" / "grpo"))
try:
    import tiny_model
    import torch
    import train
    from transformers import Qwen3Config, Qwen3ForCausalLM
except ImportError as missing:
    raise unittest.SkipTest("%s; pip install './clients/python[torch]' peft transformers" % missing) from None

from millrace.tensors import collate, to_torch
from test_millrace_rows import row


class GRPO(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.model = pathlib.Path(folder.name)
        tokenizer = tiny_model.write_tokenizer(cls.model, random.Random(0))
        torch.manual_seed(0)
        config = Qwen3Config(
            vocab_size=tokenizer.get_vocab_size(), hidden_size=32, intermediate_size=64, num_hidden_layers=1,
            num_attention_heads=2, num_key_value_heads=2, head_dim=16, max_position_embeddings=256,
        )
        Qwen3ForCausalLM(config).save_pretrained(cls.model)

    def trainer(self, checkpoint=None):
        args = argparse.Namespace(
            model=str(self.model), loss="grpo", lr=1e-2, warmup=0, max_grad_norm=1.0, seed=0, checkpoint=checkpoint
        )
        return train.Trainer(args, 4)

    @staticmethod
    def batches(step, advantage=None):
        """What a service that keeps its batches gives for a step, however often it is asked."""
        rng = random.Random(step)
        rows = []
        for at in range(4):
            one = row("t%d" % at, [rng.randrange(200) for _ in range(6)], [rng.randrange(200) for _ in range(3)], version=step)
            one.update(advantage=rng.uniform(-1, 1) if advantage is None else advantage, weight=0.25, temperature=1.0, top_k=0)
            one["logprobs"] = [0.0] * 6 + [-6.2] * 3
            rows.append(one)
        return [to_torch(collate(rows[:2])), to_torch(collate(rows[2:]))]

    def weights(self, trainer):
        return [weight.detach().clone() for weight in trainer.weights]

    def test_a_killed_trainer_ends_where_an_undisturbed_one_does(self):
        undisturbed = self.trainer()
        for step in range(4):
            undisturbed.train(self.batches(step), step, step)
        with tempfile.TemporaryDirectory() as folder:
            first = self.trainer(pathlib.Path(folder))
            for step in range(2):
                first.train(self.batches(step), step, step)
                first.save(step)
            first.train(self.batches(2), 2, 2)  # and is killed before its checkpoint
            second = self.trainer(pathlib.Path(folder))
            begin = second.restore()
            self.assertEqual(begin, 2)
            for step in range(begin, 4):
                second.train(self.batches(step), step, step)
        for one, other in zip(self.weights(undisturbed), self.weights(second), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)
        moved = max(float(weight.detach().abs().max()) for name, weight in second.model.named_parameters() if "lora_B" in name)
        self.assertGreater(moved, 1e-3, "nothing was learnt that could differ")

    def test_a_loss_that_is_no_number_changes_nothing(self):
        trainer = self.trainer()
        trainer.train(self.batches(0), 0, 0)
        before = self.weights(trainer)
        with self.assertRaisesRegex(FloatingPointError, "loss nan"):
            trainer.train(self.batches(1, math.nan), 1, 1)
        for one, other in zip(before, self.weights(trainer), strict=True):
            self.assertTrue(torch.equal(one, other))

    def test_weights_that_are_no_number_are_not_published(self):
        trainer = self.trainer()
        trainer.prober = train.Prober([[1, 2, 3]])
        with torch.no_grad():
            for weight in trainer.weights:
                weight.fill_(math.nan)
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(ArithmeticError, "no number"):
            trainer.probe(folder)

    def test_a_folder_without_a_tokenizer_is_named(self):
        with tempfile.TemporaryDirectory() as folder, self.assertRaises(SystemExit) as refused:
            train.load(folder, 4)
        self.assertIn("has no tokenizer", str(refused.exception))
        self.assertIn("the whole folder that the engines serve", str(refused.exception))


if __name__ == "__main__":
    unittest.main()
