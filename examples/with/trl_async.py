"""Real steps of TRL's asynchronous trainer on a run of games by millrace.env: what `make with PEER=trl` runs second. Its
attention is patched (trl_tiny.py), since FlashAttention-3 needs a GPU."""

import tempfile
import threading
from typing import Any

import numpy as np

STEPS, SAMPLES, GROUPS = 4, 4, 2


def main() -> None:
    from datasets import Dataset
    from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer

    import stand
    import trl_tiny
    from millrace.rows import merge_turns
    from millrace.trl import RolloutWorker

    trl_tiny.without_gpu()
    folder = tempfile.mkdtemp(prefix="millrace-with-")
    trl_tiny.model().save_pretrained(folder + "/model")
    run = stand.start("async", steps=STEPS, samples=SAMPLES, groups=GROUPS, adapters={"rank": 8, "path_prefix": folder})
    process, journal = stand.serve("trl_vowels:vowels", "async")
    worker = RolloutWorker(run)
    got: dict[str, dict[str, float]] = {}
    compared = 0

    class Recorded(AsyncGRPOTrainer):
        """TRL, whose own tensors are compared with the batch: tokens, logprobs and advantages."""

        def compute_loss(self, model: Any, inputs: dict[str, Any], *more: Any, **how: Any) -> Any:
            nonlocal compared
            step, _ = worker._hand.queue[0]
            rows = merge_turns(step.sequences())
            for row in rows:
                game = "-".join(row["trajectory_id"].split("/")[1:3])
                assert game not in got, f"game {game} came twice"
                got[game] = {"agent": row["reward"]}
            theirs = sorted(trained(inputs))
            assert theirs == sorted(map(said, rows)), f"TRL trains on other tokens in step {step.number}"
            compared += sum(len(tokens) for tokens, _, _ in theirs)
            if step.number == 1:
                threading.Thread(target=stand.kill_server_and_worker).start()
            return super().compute_loss(model, inputs, *more, **how)

    trainer = Recorded(
        model=folder + "/model",
        rollout_worker=worker,
        weight_transfer=worker,
        callbacks=[worker.callback()],
        args=AsyncGRPOConfig(output_dir=folder + "/trl", per_device_train_batch_size=SAMPLES * GROUPS + 2, max_steps=STEPS,
                             token_budget=0, max_staleness=9, learning_rate=1e-2, logging_steps=1, save_strategy="no",
                             report_to=[], disable_tqdm=True, use_cpu=True, bf16=False),
        train_dataset=Dataset.from_dict({"prompt": ["the run asks"]}),
        processing_class=trl_tiny.tokenizer(),
        peft_config=trl_tiny.lora(),
    )
    before = trl_tiny.trained(trainer.model)
    try:
        trainer.train()
        if code := process.wait(60):
            raise SystemExit(f"millrace-env has ended with {code}")
    finally:
        process.terminate()
    moved = trl_tiny.moved(trainer.model, before)
    stale = [row["sample/staleness_max"] for row in trainer.state.log_history if "sample/staleness_max" in row]
    status = run.status()
    print(f"TRL trained {STEPS} steps asynchronously on {len(got)} games; its {compared} tokens are the engine's; LoRA moved "
          f"by {moved:.3f}; staleness at most {max(stale):g}")
    print(f"the run is {status['state']}, at policy version {status['policy_version']}")
    assert moved > 0 and status["policy_version"] == STEPS and len(got) == STEPS * SAMPLES * GROUPS
    stand.compare(got, journal)


def said(row: dict[str, Any]) -> Any:
    """A row's tokens, logprobs and advantage, in TRL's 32 bits."""
    logprobs = [logprob for logprob, mask in zip(row["logprobs"], row["loss_mask"], strict=True) if mask]
    return row["token_ids"], np.float32(logprobs).tolist(), float(np.float32(row["advantage"]))


def trained(inputs: dict[str, Any]) -> list[Any]:
    """The samples with a loss that TRL has packed: tokens, logprobs and advantage of each, read back from its tree."""
    tokens, labels = inputs["input_ids"][0].tolist(), inputs["shift_labels"][0].tolist()
    ends_q, ends_k = inputs["tree_cu_seqlens_q"][0].tolist(), inputs["tree_cu_seqlens_k"][0].tolist()
    paths = inputs["tree_kv_index"][0].tolist()
    out: dict[int, Any] = {}
    columns = [inputs[name][0].tolist() for name in ("segment_id", "token_index", "old_log_probs", "advantages")]
    for sample, at, logprob, advantage in zip(*columns, strict=True):
        segment = next(n for n, end in enumerate(ends_q[1:]) if at < end)
        path = [place for place in paths[ends_k[segment]:ends_k[segment + 1]] if place <= at]
        before = out.get(sample, ([], [], 0.0))
        out[sample] = [tokens[place] for place in path] + [labels[at]], [*before[1], logprob], advantage
    return list(out.values())


if __name__ == "__main__":
    main()
