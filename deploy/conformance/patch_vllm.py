"""patch_vllm.py: repairs what kills a vLLM for CPUs that is asked for logprobs of a prompt while it answers others.

Of such a prompt it computes a row of logits for each token, and applies an adapter's part of the output layer to them by
a list that has an entry for each request: "einsum(): subscript b has size 53 ...". It is so in 0.28.0 and 0.32.0, on CPUs
only. Adapters here have no part of the output layer, so rows that the list does not fit are left as they are.
"""

from __future__ import annotations

import importlib.util
import pathlib

WRONG = "        # LogitsProcessorWithLoRA always using bgmv.\n"
REPAIRED = "        if self.sampler_indices.size(0) != x.size(0):  # by Millrace: rows of a prompt\n            return\n" + WRONG

spec = importlib.util.find_spec("vllm")
assert spec is not None and spec.origin is not None
path = pathlib.Path(spec.origin).parent / "lora/punica_wrapper/punica_cpu.py"
text = path.read_text()
if REPAIRED not in text:
    assert text.count(WRONG) == 1, f"{path} is not what this was written for"
    path.write_text(text.replace(WRONG, REPAIRED))
