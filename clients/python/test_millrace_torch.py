"""Tests of what needs torch and xgrammar: allowed tokens, logprobs under a constraint, losses. Skipped without them."""

import contextlib
import json
import math
import os
import tempfile
import unittest
from types import SimpleNamespace

import numpy as np

try:
    import torch
    import xgrammar
except ImportError as missing:
    raise unittest.SkipTest("%s; pip install './clients/python[torch]'" % missing) from None

from millrace.constraints import AllowedTokens, ConstraintError
from millrace.losses import LOSSES, policy_loss
from millrace.probes import Prober
from millrace.rows import advantages, loss_weights, mask_forced
from millrace.tensors import collate, importance_weights, to_torch, token_logprobs
from test_millrace_rows import row

END, WORDS = 0, ["<end>", "a", "b", "ab", "c", "1"]


def allowed_tokens():
    """AllowedTokens of six tokens, without a tokenizer's files."""
    allowed = AllowedTokens.__new__(AllowedTokens)
    allowed._xgrammar, allowed.vocab_size = xgrammar, len(WORDS)
    info = xgrammar.TokenizerInfo(WORDS, vocab_size=len(WORDS), stop_token_ids=[END])
    allowed._compiler = xgrammar.GrammarCompiler(info)
    allowed._compiled = allowed._compile
    return allowed


def ids(bits, at):
    return [token for token in range(len(WORDS)) if bits[at, 0] >> token & 1]


class TinyAdapter(torch.nn.Module):
    """A language model of six tokens with an adapter that can be left out, as PEFT's can."""

    device = "cpu"

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.adapter, self.on = torch.randn(6, 6), torch.zeros(6, 6), True

    def forward(self, input_ids):
        return SimpleNamespace(logits=(self.table + self.on * self.adapter)[input_ids])

    @contextlib.contextmanager
    def disable_adapter(self):
        self.on = False
        yield
        self.on = True


class Probes(unittest.TestCase):
    def test_versions_are_told_from_base_and_before(self):
        model, prober = TinyAdapter(), Prober([[0, 1, 2, 3], [5, 4, 3]], first=2)
        with tempfile.TemporaryDirectory() as path:
            for version in range(2):
                model.adapter = (version + 1) * torch.eye(6)
                prober.write(path, model)
                with open(os.path.join(path, "probes.json")) as file:
                    first, second = json.load(file)["probes"]
                self.assertEqual((first["tokens"], first["from"], len(second["logprobs"])), ([0, 1, 2, 3], 2, 1))
                want = torch.log_softmax(model.table + model.adapter, -1)
                self.assertAlmostEqual(first["logprobs"][0], want[1, 2].item(), 5)
                self.assertAlmostEqual(first["base_logprobs"][1], torch.log_softmax(model.table, -1)[2, 3].item(), 5)
                self.assertEqual("previous_logprobs" in first, version == 1)
            self.assertNotAlmostEqual(first["previous_logprobs"][0], first["logprobs"][0], 3)
            model.adapter[1, 2] = float("nan")
            with self.assertRaises(ArithmeticError):
                prober.write(path, model)
        with self.assertRaises(ValueError):
            Prober([[1]])


class Allowed(unittest.TestCase):
    def test_each_kind(self):
        for held in (
            {"kind": "choice", "choices": ["ab", "b"]},
            {"kind": "regex", "pattern": "ab|b"},
            {"kind": "grammar", "pattern": 'root ::= "ab" | "b"'},
        ):
            bits = allowed_tokens().bitmask(held, [1, 2, END])
            self.assertEqual([ids(bits, at) for at in range(3)], [[1, 2, 3], [2], [END]], held)

    def test_another_tokenizer_is_noticed(self):
        with self.assertRaisesRegex(ConstraintError, "tokenizer"):
            allowed_tokens().bitmask({"kind": "choice", "choices": ["ab"]}, [4])


class Logprobs(unittest.TestCase):
    def batch(self, logits, packed=False):
        """Two rows as an engine samples them: one under a choice of a1, b1, c1, one free; logprobs are the engine's."""
        held = {"kind": "choice", "choices": ["a1", "b1", "c1"]}
        out = []
        for b, constraint in enumerate((held, None)):
            probs = torch.softmax(logits[b, 1:4] / 0.8, -1)
            if constraint:
                mask = torch.tensor([[0, 1, 1, 0, 1, 0], [0, 0, 0, 0, 0, 1], [1, 0, 0, 0, 0, 0]])
                probs = probs * mask / (probs * mask).sum(-1, keepdim=True)
            chosen = probs[range(3), [2, 5, END]].log().tolist()
            out.append(row(str(b), prompt=(1, 4), completion=(2, 5, END), constraint=constraint, logprobs=chosen, reward=float(b)))
        return out

    def test_ratios_of_the_same_weights_are_one(self):
        logits = torch.randn(2, 5, len(WORDS), generator=torch.Generator().manual_seed(0))
        rows = self.batch(logits)
        for packed in (False, True):
            batch = to_torch(collate(rows, packed=packed, allowed=allowed_tokens()))
            got = token_logprobs(logits.reshape(1, 10, -1) if packed else logits, batch)
            ratio = (got - batch["old_logprobs"]).exp()
            self.assertLess((ratio - 1).abs().max().item(), 1e-5)
        wrong = to_torch(collate(rows))
        for call in (lambda: token_logprobs(logits, wrong), lambda: importance_weights(wrong["old_logprobs"], wrong)):
            with self.assertRaises(ConstraintError):
                call()

    def test_forced_tokens_do_not_count(self):
        rows = self.batch(torch.randn(2, 5, len(WORDS)))
        self.assertEqual(mask_forced(rows), 2)
        self.assertEqual(rows[0]["loss_mask"], [0, 0, 1, 0, 0])

    def test_losses_push_towards_what_was_better(self):
        for name, recipe in LOSSES.items():
            logits = torch.randn(2, 5, len(WORDS), generator=torch.Generator().manual_seed(1))
            rows = self.batch(logits)
            for x in rows:
                x["agent"], x["group_id"] = "X", "g"
            advantages(rows, recipe.advantage)
            loss_weights(rows, recipe.aggregation)
            batch = to_torch(collate(rows, allowed=allowed_tokens()))
            logits.requires_grad_()
            logprobs, entropy = token_logprobs(logits, batch, with_entropy=True)
            loss, figures = policy_loss(logprobs, batch, name)
            loss.backward()
            self.assertEqual(logits.grad.sign()[0, 1, 2].item(), 1.0, name)  # the worse game's token becomes less likely
            self.assertEqual(logits.grad.sign()[1, 1, 2].item(), -1.0, name)
            self.assertEqual(figures["clip_fraction"], 0.0)
            self.assertTrue(math.isfinite(entropy.sum().item()) and np.isfinite(loss.item()))


if __name__ == "__main__":
    unittest.main()
