"""GRPO with LoRA on a Hugging Face model, fed by Millrace: one file, to be read and changed.

    pip install './clients/python[torch]' peft transformers
    python examples/grpo/train.py --url http://127.0.0.1:8700 --run NAME --model PATH
    torchrun --nproc-per-node 4 -- examples/grpo/train.py ...     # four GPUs, or processes on CPUs; "--": it knows --run, too

The run's engines serve the same model (docs/conformance.md says with which flags), and its adapters.path_prefix is a
folder that this process writes and the engines read. --loss is grpo, dapo, dr_grpo or reinforce++.

Each step: claim a batch, compute the logprobs of what was sampled under the same temperature and constraint, one step of
Adam on the clipped loss, write adapter and checkpoint, publish the adapter. After a crash, start it again with the same
--checkpoint: whenever it was killed, each batch is trained once, and a version has the weights that it had.

Under torchrun each rank trains on its share of the trajectories, and the gradients of all are added up. Rank 0 alone
talks to Millrace, and writes adapters and checkpoints.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import datetime
import json
import math
import os
import pathlib
import random
import sys
from typing import Any

import torch
import torch.distributed as dist
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from transformers import AutoModelForCausalLM, AutoTokenizer

import millrace
from millrace.constraints import AllowedTokens
from millrace.losses import LOSSES, policy_loss
from millrace.probes import Prober
from millrace.rows import advantages, loss_weights, mask_forced, merge_turns, micro_batches, share
from millrace.tensors import collate, importance_weights, to_torch, token_logprobs


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8700")
    parser.add_argument("--run", required=True)
    parser.add_argument("--model", required=True, help="the folder of the model and its tokenizer")
    parser.add_argument("--loss", choices=sorted(LOSSES), default="grpo")
    parser.add_argument("--lr", type=float, default=5e-5)
    parser.add_argument("--warmup", type=int, default=5, help="steps over which the learning rate rises to --lr")
    parser.add_argument("--max-grad-norm", type=float, default=1.0)
    parser.add_argument("--micro-tokens", type=int, default=16384, help="tokens, with padding, of one forward pass")
    parser.add_argument("--checkpoint", type=pathlib.Path, help="a folder of this trainer's own; it goes on from there")
    parser.add_argument("--log", type=pathlib.Path, help="append a line of JSON for each step to this file")
    parser.add_argument("--keep-adapters", type=int, default=2, help="retired versions that stay on disk")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shuffle-advantages", action="store_true", help="a control: nothing can be learned then")
    return parser.parse_args()


def load(path: str, rank: int) -> tuple[Any, Any]:
    """The tokenizer, and the model with a fresh LoRA adapter, which changes nothing yet."""
    if not any((pathlib.Path(path) / name).exists() for name in ("tokenizer.json", "tokenizer.model", "vocab.json")):
        sys.exit(f"train: {path} has no tokenizer (tokenizer.json, tokenizer.model or vocab.json): give --model the whole "
                 "folder that the engines serve")
    tokenizer = AutoTokenizer.from_pretrained(path)
    device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu"
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32 if device == "cpu" else torch.bfloat16)
    lora = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM")
    return tokenizer, get_peft_model(model.to(device), lora).train()


def join() -> int:
    """This process's rank among those that torchrun started; 0 if it was started alone."""
    if "RANK" not in os.environ:
        return 0
    dist.init_process_group("gloo", timeout=datetime.timedelta(days=7))  # a rank waits while rank 0 waits for a batch
    atexit.register(dist.destroy_process_group)  # its threads must end before the interpreter does
    return dist.get_rank()


def tell(said: Any = None) -> Any:
    """What rank 0 says, on every rank."""
    box = [said]
    if dist.is_initialized():
        dist.broadcast_object_list(box)
    return box[0]


def add_up(weights: list[Any], figures: dict[str, float]) -> dict[str, float]:
    """Makes the gradients of the ranks' shares those of the whole batch, on every rank; so the figures that it answers.

    A sum, no mean: each row's weight is of the whole batch.
    """
    if not dist.is_initialized():
        return figures
    total = torch.cat([torch.zeros(w.numel()) if w.grad is None else w.grad.flatten().float().cpu() for w in weights])
    dist.all_reduce(total)
    for weight, gradient in zip(weights, total.split([w.numel() for w in weights]), strict=True):
        weight.grad = gradient.view_as(weight).to(weight)
    parts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(parts, figures)
    names = sorted({name for part in parts for name in part})
    return {name: (max if name == "fresh_ratio_error" else sum)(part.get(name, 0.0) for part in parts) for name in names}


class Trainer:
    """Model, optimizer and what a step does with them."""

    def __init__(self, args: argparse.Namespace, rank: int) -> None:
        self.args, self.recipe = args, LOSSES[args.loss]
        random.seed(args.seed)
        torch.manual_seed(args.seed)
        self.tokenizer, self.model = load(args.model, rank)
        self.allowed = AllowedTokens(self.tokenizer, self.model.config.vocab_size)
        self.weights = [p for p in self.model.parameters() if p.requires_grad]
        self.prober: Prober | None = None
        self.optimizer = torch.optim.AdamW(self.weights, args.lr, betas=(0.9, 0.95), weight_decay=0.0)
        self.trained, self.path, self.figures = -1, "", {}  # the last step, the adapter after it, and what was measured

    def batches(self, step: millrace.Step, version: int) -> list[dict[str, Any]]:
        """The step's micro-batches as tensors, this rank's share; the other ranks are told of theirs."""
        rows = merge_turns(step.sequences())
        forced = mask_forced(rows)
        if self.prober is None:
            self.prober = Prober([row["token_ids"][:64] for row in rows[:4]])
        advantages(rows, self.recipe.advantage)
        if self.args.shuffle_advantages:
            shuffle(rows)
        loss_weights(rows, self.recipe.aggregation)
        step.metrics["forced_tokens"] = forced
        tell((rows, step.number, version))
        return self.tensors(rows)

    def tensors(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """This rank's share of a batch's rows, as micro-batches, with the weights of the whole batch."""
        if dist.is_initialized():
            rows = share(rows, dist.get_rank(), dist.get_world_size())
        pad = self.tokenizer.pad_token_id or 0
        micros = micro_batches(rows, self.args.micro_tokens)
        return [to_torch(collate(micro, pad, allowed=self.allowed), self.model.device) for micro in micros]

    def train(self, batches: list[dict[str, Any]], step: int, version: int) -> dict[str, float]:
        """One step of the optimizer. FloatingPointError: the loss or its gradient is no number; nothing was changed."""
        self.optimizer.zero_grad(set_to_none=True)
        total: dict[str, float] = {"loss": 0.0, "fresh_ratio_error": 0.0, "stale_tokens": 0.0, "entropy": 0.0}
        for batch in batches:
            out = self.model(
                input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], position_ids=batch["position_ids"]
            )
            logprobs, entropy = token_logprobs(out.logits, batch, with_entropy=True)
            correction, _ = importance_weights(logprobs.detach(), batch)
            kept = (correction > 0).float()  # the ratio is in the loss already; sequences too far off are left out
            loss, figures = policy_loss(logprobs, batch, self.args.loss, correction=kept)
            loss.backward()
            fresh = (batch["policy_version"] == version) & (batch["loss_mask"] > 0)
            error = ((logprobs - batch["old_logprobs"]).exp() - 1).abs()[fresh]
            total["fresh_ratio_error"] = max(total["fresh_ratio_error"], error.max().item() if len(error) else 0.0)
            figures |= {
                "loss": loss.item(),
                "entropy": entropy.sum().item(),
                "stale_tokens": ((batch["loss_mask"] > 0) & ~fresh).sum().item(),
            }
            for name, value in figures.items():
                total[name] = total.get(name, 0.0) + value
        total = add_up(self.weights, total)
        norm = torch.nn.utils.clip_grad_norm_(self.weights, self.args.max_grad_norm).item()
        if not math.isfinite(total["loss"]) or not math.isfinite(norm):
            raise FloatingPointError(f"loss {total['loss']}, gradient norm {norm}")
        for group in self.optimizer.param_groups:
            group["lr"] = self.args.lr * min(1.0, (step + 1) / max(self.args.warmup, 1))
        self.optimizer.step()
        tokens = max(total["tokens"], 1.0)
        return total | {name: total[name] / tokens for name in ("clip_fraction", "approx_kl", "entropy")} | {"grad_norm": norm}

    def probe(self, path: str) -> None:
        """Has every engine prove that it serves these weights."""
        if self.prober:
            self.prober.write(path, self.model)

    def updates(self) -> int:
        """How many batches the weights have learned from, as the optimizer counts them."""
        return max((int(state["step"]) for state in self.optimizer.state.values()), default=0)

    def save(self) -> None:
        """All that the next process needs to go on after the last step, put in place at once."""
        if not self.args.checkpoint:
            return
        state = {
            "trained": (self.trained, self.path, self.figures),
            "adapter": get_peft_model_state_dict(self.model),
            "optimizer": self.optimizer.state_dict(),
            "random": (random.getstate(), torch.get_rng_state()),
        }
        self.args.checkpoint.mkdir(parents=True, exist_ok=True)
        torch.save(state, self.args.checkpoint / "state.pt.part")
        os.replace(self.args.checkpoint / "state.pt.part", self.args.checkpoint / "state.pt")

    def restore(self) -> None:
        """Goes back to the checkpoint, if there is one."""
        path = self.args.checkpoint and self.args.checkpoint / "state.pt"
        known = path and path.exists()
        state = tell(torch.load(path, "cpu", weights_only=False) if known else None)  # written by this program
        if state is None:
            return
        self.trained, self.path, self.figures = state["trained"]
        set_peft_model_state_dict(self.model, state["adapter"])
        self.optimizer.load_state_dict(state["optimizer"])
        random.setstate(state["random"][0])
        torch.set_rng_state(state["random"][1])

    def attach(self, run: millrace.Run) -> None:
        """Attaches. If the run has recorded more than the checkpoint knows, it goes back: the batches are given again."""
        run.attach()
        if 0 <= self.trained < run.next_step - 1:
            run.attach(resume_from=self.trained + 1)

    def learn(self, s: millrace.Step, version: int) -> None:
        """Trains on the step's batch, and publishes. A batch that the checkpoint has learned from is only published."""
        if s.number > self.trained:
            with s.phase("load"):
                batches = self.batches(s, version)
            with s.phase("train"):
                self.figures = self.train(batches, s.number, version) | s.metrics
            with s.phase("publish"):
                self.path = s.adapter_dir()
                self.model.save_pretrained(self.path)
                self.probe(self.path)
            self.trained = s.number
            with s.phase("checkpoint"):
                self.save()
        s.metrics.update(self.figures)
        s.publish(self.path, s.number + 1)

    def follow(self) -> None:
        """What ranks other than 0 do: train on their shares of its batches, until it says that there are no more."""
        with contextlib.suppress(FloatingPointError):  # rank 0 has the same, and says so before torchrun ends it
            while (told := tell()) is not None:
                rows, step, version = told
                self.train(self.tensors(rows), step, version)


def shuffle(rows: list[dict[str, Any]]) -> None:
    """Gives each trajectory the advantage of another."""
    ids = sorted({row["trajectory_id"] for row in rows})
    of = {row["trajectory_id"]: row["advantage"] for row in rows}
    dealt = dict(zip(ids, random.sample([of[i] for i in ids], len(ids)), strict=True))
    for row in rows:
        row["advantage"] = dealt[row["trajectory_id"]]


def line(step: millrace.Step) -> dict[str, Any]:
    """What --log keeps of a step: its groups, the games by the version that played them, phases, figures."""
    groups = [group["ref"]["seq"] for group in step.batch["groups"]]
    trajectories = [one for group in step.batch["groups"] for one in group["trajectories"] if one["turns"]]
    games = [(min(turn["policy_version"] for turn in one["turns"]), one["reward"]) for one in trajectories]
    return {"step": step.number, "groups": groups, "trajectories": [one["trajectory_id"] for one in trajectories],
            "games": games, "phases": step.phases, "metrics": dict(step.metrics)}  # fmt: skip


def main() -> None:
    args = options()
    run = millrace.Client(args.url).run(args.run)
    first = join() == 0
    spec = tell(run.status()["spec"] if first else None)
    trainer = Trainer(args, spec["adapters"]["rank"])
    trainer.restore()
    if not first:
        trainer.follow()
        return
    trainer.attach(run)
    for step in run.steps():
        with step as s:
            try:
                trainer.learn(s, run.policy_version)
            except ArithmeticError as fault:  # the loss, its gradient, or what the new weights answer is no number
                sys.exit(f"train: step {s.number} is not published nor recorded: {fault}. Lower --lr, or look at the "
                         "batch; the next process gets the same one")
            run.prune_adapters(args.keep_adapters)
            if args.log:  # before the step is recorded: of a trainer killed between, it is there twice rather than never
                with args.log.open("a") as log:
                    log.write(json.dumps(line(s) | {"updates": trainer.updates()}) + "\n")
        print(f"step {s.number + 1} of {spec['steps']}: loss {s.metrics['loss']:.4f}, wait {s.phases['wait']:.1f} s, "
              f"train {s.phases['train']:.1f} s", flush=True)
    tell(None)


if __name__ == "__main__":
    try:
        main()
    except millrace.Error as refusal:
        sys.exit(f"train: {refusal}")
