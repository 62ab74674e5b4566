"""Tests of examples/grpo/train.py on an untaught tiny Qwen3: what it refuses, and that it goes on after a crash as if none
had been. Skipped without torch, peft and transformers."""

import argparse
import contextlib
import math
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples" / "grpo"))
try:
    import tiny_model
    import torch
    import train
    import xgrammar
    from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM
except ImportError as missing:
    raise unittest.SkipTest("%s; pip install './clients/python[torch]' peft transformers" % missing) from None

from millrace.tensors import collate, to_torch
from test_millrace_rows import row

TRAJECTORIES = (4, 1)  # of each step of Fake's run; of two ranks, the second has nothing to train on in the last one


class Killed(BaseException):
    """The process ends here, whatever it wanted to do next."""


class Service:
    """A run of four steps as its trainers see it, which ends the first of them at a moment of step 2."""

    def __init__(self, folder, batches, kill_at):
        self.folder, self.checkpoint, self.batches = folder, pathlib.Path(folder, "checkpoint"), batches
        self.kill_at, self.next_step, self.versions, self.processes = kill_at, 0, {}, 0

    def at(self, moment, step):
        if step == 2 and moment == self.kill_at:
            self.kill_at = None
            raise Killed

    def attach(self, resume_from=None):
        if resume_from is not None:
            if resume_from > self.next_step:
                raise AssertionError("out of order: step %d is not recorded" % self.next_step)
            self.next_step = resume_from

    def adapter_dir(self):
        return tempfile.mkdtemp(dir=self.folder)

    def publish(self, path, version):
        self.at("publish", version - 1)
        weights = pathlib.Path(path, "adapter_model.safetensors").read_bytes()
        if self.versions.setdefault(version, weights) != weights:
            raise AssertionError("version %d has other weights already" % version)
        self.at("published", version - 1)

    def never_quite_the_same(self, step, version):
        """A batch as a GPU sees it, which does not add up in the same order twice."""
        batches = self.batches(step.number)
        for batch in batches:
            batch["advantages"] += 1e-3 * self.processes * torch.rand_like(batch["advantages"])
        return batches

    def lead(self, trainer):
        """What main does, with a process that may be killed at moments that are named."""
        self.processes += 1
        trainer.batches = self.never_quite_the_same
        trainer.probe = lambda path: self.at("probe", trainer.trained + 1)
        save = trainer.save

        def save_between_moments():
            self.at("save", trainer.trained)
            save()
            self.at("saved", trainer.trained)

        trainer.save = save_between_moments
        trainer.restore()
        trainer.attach(self)
        while self.next_step < 4:
            step = self.next_step
            self.at("claimed", step)
            trainer.learn(Step(self, step), max(self.versions, default=0))
            self.at("record", step)
            self.next_step = step + 1
            self.at("recorded", step)


class Step:
    """A step of Service."""

    def __init__(self, service, number):
        self.number, self.metrics = number, {}
        self.adapter_dir, self.publish = service.adapter_dir, service.publish

    def phase(self, name):
        return contextlib.nullcontext()


class Fake(train.millrace.Client):
    """A server with a run of two steps, for rank 0 alone."""

    def _send(self, method, path, body, timeout, answered=lambda: None):
        if os.environ.get("RANK", "0") != "0":
            raise AssertionError("rank %s asks for %s" % (os.environ["RANK"], path))
        spec = {"steps": len(TRAJECTORIES), "adapters": {"rank": 4, "path_prefix": os.environ["ADAPTERS"]}, "sampling": {}}
        if "/claim" in path:
            return 200, self.batch(int(path.split("/")[-2]))
        if method == "GET":
            return 200, {"spec": spec, "policies": [], "evaluations": []}
        return 200, {"generation": 1, "next_step": 0, "policy_version": 0, "spec": spec, "state": "ready"}

    @staticmethod
    def batch(step):
        rng, trajectories = random.Random(step), []
        for at in range(TRAJECTORIES[step]):
            turn = {"prompt_token_ids": [rng.randrange(200) for _ in range(6)], "loss_mask": [1] * 3, "reward": 0.0,
                    "token_ids": [rng.randrange(200) for _ in range(3)], "logprobs": [-6.2] * 3, "policy_version": step,
                    "finish_reason": "stop", "phase": "play", "engine": "e"}  # fmt: skip
            trajectories.append({"trajectory_id": "t%d" % at, "agent": "X", "turns": [turn], "reward": rng.random(),
                                 "advantage": 0.0, "truncated": False})  # fmt: skip
        return {"run": "demo", "groups": [{"ref": {"run": "demo", "seq": step}, "trajectories": trajectories}]}


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
                first.trained = step
                first.save()
            first.train(self.batches(2), 2, 2)  # and is killed before its checkpoint
            second = self.trainer(pathlib.Path(folder))
            second.restore()
            self.assertEqual((second.trained, second.updates()), (1, 2))
            for step in range(2, 4):
                second.train(self.batches(step), step, step)
        for one, other in zip(self.weights(undisturbed), self.weights(second), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)
        moved = max(float(weight.detach().abs().max()) for name, weight in second.model.named_parameters() if "lora_B" in name)
        self.assertGreater(moved, 1e-3, "nothing was learnt that could differ")

    def test_whenever_it_is_killed_each_batch_is_trained_once(self):
        """Wherever in step 2 of 4 it is killed, the run ends with one version a step, of weights that never change."""
        for moment in ("claimed", "probe", "save", "saved", "publish", "published", "record", "recorded"):
            with self.subTest(killed=moment), tempfile.TemporaryDirectory() as folder:
                service = Service(folder, self.batches, kill_at=moment)
                with contextlib.suppress(Killed):
                    service.lead(self.trainer(service.checkpoint))
                self.assertLess(service.next_step, 4)
                last = self.trainer(service.checkpoint)
                service.lead(last)
                self.assertEqual((service.next_step, last.updates(), sorted(service.versions)), (4, 4, [1, 2, 3, 4]))

    def test_two_ranks_end_where_one_process_does(self):
        """The same weights and figures; it is Adam's moments that tell a sum of gradients from their mean."""
        ended = []
        for command in ([], ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--"]):
            with tempfile.TemporaryDirectory() as folder:
                options = ["--run=demo", "--model", str(self.model), "--checkpoint", folder, "--lr=1e-3", "--warmup=0"]
                done = subprocess.run(
                    [sys.executable, *command, __file__, *options],
                    env=os.environ | {"ADAPTERS": folder}, capture_output=True, text=True, timeout=600,
                )
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                ended.append(torch.load(pathlib.Path(folder, "state.pt"), weights_only=False))
        one, two = ended
        torch.testing.assert_close(one["adapter"], two["adapter"], rtol=0, atol=1e-5)
        torch.testing.assert_close(one["optimizer"]["state"], two["optimizer"]["state"], rtol=1e-3, atol=1e-7)
        torch.testing.assert_close(one["trained"][2], two["trained"][2], rtol=1e-3, atol=1e-5)
        self.assertGreater(max(float(w.abs().max()) for name, w in two["adapter"].items() if "lora_B" in name), 1e-4)

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

    def test_every_diplomacy_answer_can_be_written_and_in_one_way(self):
        """Whatever is drawn under a constraint of Diplomacy, there is a token to go on with, until the answer is one."""
        texts = [file.read_text() for file in (tiny_model.GAME / "diplomacyenv/testdata").glob("*.txt")]
        patterns = sorted({pattern for text in texts for pattern in re.findall("=== constraint regex\n(.*)", text)})
        self.assertGreater(len(patterns), 5)
        with tempfile.TemporaryDirectory() as folder:
            tiny_model.write_diplomacy_tokenizer(pathlib.Path(folder))
            tokenizer = AutoTokenizer.from_pretrained(folder)
        size, rng = len(tokenizer), random.Random(0)
        allowed = train.AllowedTokens(tokenizer, size)
        for pattern in patterns:
            for _ in range(20):
                answer, matcher = [], xgrammar.GrammarMatcher(allowed._compiled("regex", pattern))
                bits = xgrammar.allocate_token_bitmask(1, size)
                while answer[-1:] != [tokenizer.eos_token_id]:
                    matcher.fill_next_token_bitmask(bits)
                    choices = [token for token in range(size) if int(bits[0, token // 32]) >> (token % 32) & 1]
                    self.assertTrue(choices, "nothing can follow %r under %s" % (tokenizer.decode(answer), pattern))
                    words = [tokenizer.decode([token]) for token in choices]
                    for word in words:
                        self.assertEqual([other for other in words if other.startswith(word)], [word])
                    answer.append(rng.choice(choices))
                    matcher.accept_token(answer[-1])
                self.assertTrue(re.fullmatch(pattern, tokenizer.decode(answer[:-1])))

    def test_a_folder_without_a_tokenizer_is_named(self):
        with tempfile.TemporaryDirectory() as folder, self.assertRaises(SystemExit) as refused:
            train.load(folder, 4)
        self.assertIn("has no tokenizer", str(refused.exception))
        self.assertIn("the whole folder that the engines serve", str(refused.exception))


if __name__ == "__main__":
    if "--run=demo" not in sys.argv:
        unittest.main()
    with unittest.mock.patch.object(train.millrace, "Client", Fake):
        train.main()
