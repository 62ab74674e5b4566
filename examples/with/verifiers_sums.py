"""A taskset of verifiers', played by a run through its own harness: what `make with PEER=verifiers` runs."""

import json
import os
import pathlib
import tempfile
import urllib.request
from typing import Any

import stand
from millrace.env import Scenario
from millrace.env.tasksets import verifiers

RECORD = pathlib.Path(os.environ.setdefault("VERIFIERS_RECORD", tempfile.mkdtemp(prefix="millrace-with-"))) / "episodes"


def keep(scenario: Scenario, episode: Any) -> None:
    """verifiers' own record of a game: what each call has said and cost."""
    (trace,) = episode.traces
    said = [{"text": trace.nodes[call.node].message.content or "", "prompt": call.usage.prompt_tokens,
             "tokens": call.usage.completion_tokens} for call in trace.calls]
    with RECORD.open("a", encoding="utf-8") as file:
        print(json.dumps([scenario.episode, said]), file=file)


sums = verifiers(
    {"taskset": {"id": "sums-v1"}, "agent": {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}}}, keep
)


def text_of(tokens: list[int]) -> str:
    """As the engine has it, without the token that ends a turn."""
    body = json.dumps({"model": stand.MODEL, "tokens": tokens}).encode()
    request = urllib.request.Request(os.environ["MILLRACE_ENGINE"] + "/detokenize", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return str(json.load(answer)["prompt"]).removesuffix("<|im_end|>")


if __name__ == "__main__":
    print(stand.versions("verifiers", "openai"))
    captured: dict[str, list[dict[str, Any]]] = {}

    def take(trajectory: dict[str, Any]) -> None:
        game = "-".join(trajectory["trajectory_id"].split("/")[1:3])
        captured[game] = [{"text": text_of(turn["token_ids"]), "prompt": len(turn["prompt_token_ids"]),
                           "tokens": len(turn["token_ids"])} for turn in trajectory["turns"]]

    stand.play("sums", "verifiers_sums:sums", check=take, samples=4, groups=2, slots=8)
    recorded = dict(json.loads(line) for line in RECORD.read_text().splitlines())
    wrong = {game: (turns, recorded.get(game)) for game, turns in captured.items() if recorded.get(game) != turns}
    if wrong:
        raise SystemExit(f"verifiers' record differs in {len(wrong)} games, such as {next(iter(wrong.items()))}")
    print(f"captured text and token counts are verifiers' own, call by call, in {len(captured)} games")
