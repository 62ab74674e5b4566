"""TRL's asynchronous trainer, its own rollout worker and reward function, with a run's address where it expects a vLLM:
what `make with PEER=trl` runs last. Millrace is the engines: no Python of ours takes part but the start of the run."""

import tempfile
import time
import urllib.request
from typing import Any

STEPS, SAMPLES, GROUPS = 4, 4, 2


def even(completion_ids: list[list[int]], **_: Any) -> list[float]:
    """The share of even tokens: most of the engines' have no letters in the tiny model's alphabet."""
    return [sum(1 - token % 2 for token in ids) / max(1, len(ids)) for ids in completion_ids]


def main() -> None:
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer

    import stand
    import trl_tiny

    print(stand.versions("trl", "transformers", "peft", "torch"), "with its attention patched")
    trl_tiny.without_gpu()
    folder = tempfile.mkdtemp(prefix="millrace-with-")
    trl_tiny.model().save_pretrained(folder + "/model")
    run = stand.start("alone", {"kind": "none"}, adapters={"rank": 8, "path_prefix": folder})
    url = f"{stand.SERVER}/v1/runs/alone/vllm"

    def until_ready() -> None:
        while True:
            try:
                urllib.request.urlopen(url + "/health").close()
                return
            except OSError:
                time.sleep(0.5)

    class Kills(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """TRL tries its generations again, and not its calls that give weights over: those come after this one."""
            if state.global_step == 2:
                stand.kill_server_and_worker()
                until_ready()

    until_ready()
    trainer = AsyncGRPOTrainer(
        model=folder + "/model",
        reward_funcs=even,
        args=AsyncGRPOConfig(
            output_dir=folder + "/trl", per_device_train_batch_size=SAMPLES * GROUPS, num_generations=SAMPLES, max_steps=STEPS,
            learning_rate=1e-2, logging_steps=1, save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True,
            max_completion_length=16, bf16=False, vllm_server_base_url=url, token_budget=0, queue_maxsize=16),
        train_dataset=Dataset.from_dict({"prompt": [[{"role": "user", "content": f"Number {n}: "}] for n in range(64)]}),
        processing_class=trl_tiny.tokenizer(),
        peft_config=trl_tiny.lora(),
        callbacks=[Kills()],
    )
    before = trl_tiny.trained(trainer.model)
    trainer.train()
    moved = trl_tiny.moved(trainer.model, before)
    logged = [row for row in trainer.state.log_history if "reward" in row]
    print(f"TRL alone trained {len(logged)} steps on {sum(row['batch/trained_tokens_per_step'] for row in logged):g} tokens; "
          f"LoRA moved by {moved:.3f}; staleness at most {max(row['sample/staleness_max'] for row in logged):g}")
    version = run.status()["policy_version"]
    print(f"the run is at policy version {version}: what TRL began with, and one a step")
    assert moved > 0 and version == STEPS + 1 == len(logged) + 1


if __name__ == "__main__":
    main()
