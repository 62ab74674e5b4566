"""logprobs.py URL DIR: the log-probabilities that the engine at URL reports, against the weights that model.py wrote to DIR.

A trainer divides by them, so they must be those of the distribution that was sampled from: temperature applied, of the adapter
that was asked for, and under a constraint renormalised over what it allows. transformers computes the same from the weights.
"""

import json
import pathlib
import sys
import urllib.request

import torch
from safetensors.torch import load_file
from transformers import Qwen2ForCausalLM
from transformers.utils import logging

PROMPT = "You are FRANCE. Order your units:\nA PAR: BRE BUR GAS PIC\nOrders:\n"
REGEX = r"(A PAR (H|- (BRE|BUR|GAS|PIC))\n){12}"
TEMPERATURE = 0.8
TOLERANCE = 1e-3  # float32 on both sides; a wrong temperature or adapter is off by tenths


def post(url: str, body: dict) -> bytes:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return answer.read()


def sample(url: str, model: str, **more) -> tuple[list[int], list[int], torch.Tensor]:
    body = {"model": model, "prompt": PROMPT, "max_tokens": 120, "temperature": TEMPERATURE, "seed": 1, "logprobs": 0}
    answer = json.loads(post(url + "/v1/completions", body | {"return_token_ids": True} | more))
    choice = answer["choices"][0]
    return choice["prompt_token_ids"], choice["token_ids"], torch.tensor(choice["logprobs"]["token_logprobs"])


@torch.no_grad()
def expected(model: Qwen2ForCausalLM, prompt: list[int], tokens: list[int]) -> torch.Tensor:
    logits = model(torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1 : -1]
    return torch.log_softmax(logits / TEMPERATURE, -1).gather(1, torch.tensor(tokens)[:, None])[:, 0]


@torch.no_grad()
def merge(model: Qwen2ForCausalLM, adapter: pathlib.Path) -> None:
    config = json.loads((adapter / "adapter_config.json").read_text())
    tensors = load_file(adapter / "adapter_model.safetensors")
    for name in [n for n in tensors if n.endswith(".lora_A.weight")]:
        module = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
        delta = tensors[name.replace("lora_A", "lora_B")] @ tensors[name]
        model.get_submodule(module).weight += config["lora_alpha"] / config["r"] * delta


def main() -> None:
    url, root = sys.argv[1].rstrip("/"), pathlib.Path(sys.argv[2])
    logging.disable_progress_bar()
    model = Qwen2ForCausalLM.from_pretrained(root / "model", dtype=torch.float32).eval()
    served = json.loads(urllib.request.urlopen(url + "/v1/models").read())
    base = next(m["id"] for m in served["data"] if m["parent"] is None)
    wrong = []

    def hold(what: str, good: bool, seen: str) -> None:
        print(f"  {what}: {seen}")
        if not good:
            wrong.append(what)

    prompt, tokens, reported = sample(url, base, ignore_eos=True)
    off = (reported - expected(model, prompt, tokens)).abs().max().item()
    hold("base model", off < TOLERANCE, f"{len(tokens)} tokens, off by {off:.1e} at most")

    prompt, tokens, reported = sample(url, base, structured_outputs={"regex": REGEX})
    gain = reported - expected(model, prompt, tokens)
    seen = f"{len(tokens)} tokens, raised by {gain.min():.3f} to {gain.max():.3f}"
    hold("under a constraint", gain.min().item() > -TOLERANCE, seen)

    adapter = (root / "lora-8").resolve()
    post(url + "/v1/load_lora_adapter", {"lora_name": "logprobs", "lora_path": str(adapter)})
    prompt, tokens, reported = sample(url, "logprobs", ignore_eos=True)
    post(url + "/v1/unload_lora_adapter", {"lora_name": "logprobs"})
    apart = (reported - expected(model, prompt, tokens)).abs().max().item()
    merge(model, adapter)
    off = (reported - expected(model, prompt, tokens)).abs().max().item()
    seen = f"{len(tokens)} tokens, off by {off:.1e} at most; by {apart:.2f} from the base model"
    hold("adapter", off < TOLERANCE < apart, seen)
    if wrong:
        sys.exit("logprobs are not those of what was sampled from: " + ", ".join(wrong))


if __name__ == "__main__":
    main()
