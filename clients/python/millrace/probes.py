"""Probes: by them each engine proves that it serves the trainer's weights, before anything is sampled there.

    prober = Prober([row["token_ids"][:64] for row in rows[:4]])     # once; texts of the run itself say most
    model.save_pretrained(path)
    prober.write(path, model)                                         # before it is published

Needs torch and a PEFT model. docs/engines.md says what engines are held to.
"""

import json
import os
from typing import Any, Dict, List, Optional, Sequence

import torch

FILE = "probes.json"


class Prober:
    """The same texts for all versions of a run: of each it remembers the logprobs of the version before.

    texts   token ids; 1 to 16 texts of 4,096 tokens together at most
    first   index of the first token that is looked at; the logprob of the first token of a text is not known
    """

    def __init__(self, texts: Sequence[Sequence[int]], first: int = 1) -> None:
        if first < 1 or not texts or any(len(text) <= first for text in texts):
            raise ValueError("probes: every text needs more than `first` = %d tokens" % first)
        self.texts, self.first = [list(map(int, text)) for text in texts], first
        self._before: Optional[List[List[float]]] = None

    def write(self, path: str, model: Any) -> None:
        """Writes probes.json into an adapter's directory: logprobs in nats at temperature 1, with the adapter and without.

        ArithmeticError: a logprob is no number; the weights are broken, and must not be published.
        """
        now = [self._logprobs(model, text) for text in self.texts]
        with model.disable_adapter():
            base = [self._logprobs(model, text) for text in self.texts]
        probes: List[Dict[str, Any]] = []
        for at, text in enumerate(self.texts):
            probe = {"tokens": text, "from": self.first, "logprobs": now[at], "base_logprobs": base[at]}
            if self._before is not None:
                probe["previous_logprobs"] = self._before[at]
            probes.append(probe)
        part = os.path.join(path, FILE + ".part")
        with open(part, "w", encoding="utf-8") as file:
            json.dump({"probes": probes}, file, allow_nan=False)
        os.replace(part, os.path.join(path, FILE))
        self._before = now

    def _logprobs(self, model: Any, text: List[int]) -> List[float]:
        training = model.training
        model.eval()
        try:
            with torch.no_grad():
                ids = torch.tensor([text], device=model.device)
                logits = model(input_ids=ids).logits[0, self.first - 1 : -1].float()
        finally:
            model.train(training)
        logprobs = torch.log_softmax(logits, -1).gather(-1, ids[0, self.first :, None])[:, 0]
        if not torch.isfinite(logprobs).all():
            raise ArithmeticError("probes: a logprob of the adapter's is no number")
        return [float(value) for value in logprobs]
