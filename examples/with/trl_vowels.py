"""Real TRL steps on a run of games by millrace.env, with a tiny model on CPUs: what `make with PEER=trl` runs.

The engines are simulated, and speak no language that the tiny model could learn: what is shown is the path, batch in and
adapter out, and that TRL trains on the engine's own tokens.
"""

import tempfile
import threading
from typing import Any

from millrace.env import Agents, Scenario, environment


@environment
async def vowels(scenario: Scenario, agents: Agents) -> float:
    """The share of vowels in what is said."""
    said = await agents.only.ask(f"Write vowels, number {scenario.seed % 1000}: ")
    return sum(letter in "aeiou" for letter in said.text) / max(1, len(said.text))


SAMPLES, GROUPS, STEPS = 4, 2, 3


def main() -> None:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    import stand
    import trl_tiny
    from millrace.trl import Rollouts

    print(stand.versions("trl", "transformers", "peft", "torch"))
    folder = tempfile.mkdtemp(prefix="millrace-with-")
    run = stand.start("vowels", steps=STEPS, samples=SAMPLES, groups=GROUPS, adapters={"rank": 8, "path_prefix": folder})
    process, journal = stand.serve("trl_vowels:vowels", "vowels")
    rollouts = Rollouts(run)
    got: dict[str, dict[str, float]] = {}
    compared = 0

    class Recorded(GRPOTrainer):
        """TRL, whose own tensors are compared with the batch, token by token."""

        def _generate_and_score_completions(self, inputs: list[Any]) -> dict[str, Any]:
            nonlocal compared
            tensors = super()._generate_and_score_completions(inputs)
            step = rollouts._step
            assert step is not None
            for n, row in enumerate(step.sequences()):
                game = "-".join(row["trajectory_id"].split("/")[1:3])
                assert game not in got, f"game {game} came twice"
                got[game] = {"agent": row["reward"]}
                ids = [tensors[f"{part}_ids"][n][tensors[f"{part}_mask"][n].bool()].tolist() for part in ("prompt", "completion")]
                assert ids[0] + ids[1] == row["token_ids"], f"TRL has other tokens of {row['sequence_id']}"
                compared += len(row["token_ids"])
            if step.number == 0:
                threading.Thread(target=stand.kill_server_and_worker).start()
            return tensors

    trainer = Recorded(
        model=trl_tiny.model(),
        reward_funcs=rollouts.reward,
        args=GRPOConfig(
            output_dir=folder + "/trl", per_device_train_batch_size=SAMPLES * GROUPS, num_generations=SAMPLES, max_steps=STEPS,
            learning_rate=1e-2, logging_steps=1, save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True,
            max_completion_length=16, bf16=False),
        train_dataset=Dataset.from_dict({"prompt": ["the run asks"] * 64}),
        processing_class=trl_tiny.tokenizer(),
        peft_config=trl_tiny.lora(),
        rollout_func=rollouts,
        callbacks=[rollouts.callback()],
    )
    before = trl_tiny.trained(trainer.model)
    try:
        trainer.train()
        if code := process.wait(60):
            raise SystemExit(f"millrace-env has ended with {code}")
    finally:
        process.terminate()
    moved = trl_tiny.moved(trainer.model, before)
    status = run.status()
    print(f"TRL trained {STEPS} steps on {len(got)} games; its {compared} tokens are the engine's; LoRA moved by {moved:.3f}")
    print(f"the run is {status['state']}, at policy version {status['policy_version']}")
    assert moved > 0 and status["policy_version"] == STEPS
    stand.compare(got, journal)


if __name__ == "__main__":
    main()
