"""Is examples/environments/tictactoe.py the built-in game? A run of kind: tictactoe is played; then each of its games again,
with the same answers, by the environment in Python: it must ask the same, token by token, and give the same rewards."""

import json
import os
import pathlib
import sys
import urllib.request
from typing import Any

import stand
from millrace.env import rehearse

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "environments"))
from tictactoe import tictactoe  # from the folder beside this one


def engine(path: str, **body: Any) -> dict[str, Any]:
    text = json.dumps({"model": stand.MODEL, **body}).encode()
    request = urllib.request.Request(os.environ["MILLRACE_ENGINE"] + path, text, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return dict(json.load(answer))


def main() -> None:
    games: dict[str, dict[str, Any]] = {}

    def take(trajectory: dict[str, Any]) -> None:
        games.setdefault(trajectory["trajectory_id"].rpartition("/")[0], {})[trajectory["agent"]] = trajectory

    stand.train(stand.start("built-in", {"kind": "tictactoe"}), take)
    asked = 0
    for name, played in games.items():
        left = {agent: iter(trajectory["turns"]) for agent, trajectory in played.items()}

        def answer(agent: str, body: dict[str, Any], left: dict[str, Any] = left, name: str = name) -> str:
            nonlocal asked
            turn = next(left[agent])
            tokens = engine("/tokenize", prompt=body["prompt"], add_special_tokens=False)["tokens"]
            assert tokens == turn["prompt_token_ids"], f"{name}: another prompt of {agent}"
            asked += 1
            return str(engine("/detokenize", tokens=turn["token_ids"])["prompt"]).removesuffix("<|im_end|>")

        done = rehearse(tictactoe, answer, agents=("X", "O"))
        rewards = {agent: trajectory["reward"] for agent, trajectory in played.items()}
        assert done.rewards == rewards, f"{name}: {done.rewards}, and built in {rewards}"
        assert all(next(turns, None) is None for turns in left.values()), f"{name}: fewer turns"
    print(f"{len(games)} games and {asked} prompts are the built-in game's, token by token, and so are the rewards")


if __name__ == "__main__":
    main()
