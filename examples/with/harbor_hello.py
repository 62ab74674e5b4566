"""A task of Harbor's, played by its own agent terminus-2: what `make with PEER=harbor` runs.

Harbor's environments are containers. Here one is a folder of this machine and its commands are shells in it, given to
Harbor by import_path; all else is Harbor's own.
"""

import asyncio
import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it looks for prices in the network otherwise

import litellm  # noqa: E402,F401  # now: it takes seconds, for which the first game would block the others
from harbor.environments.base import BaseEnvironment, ExecResult  # noqa: E402

from millrace.env.tasksets import harbor  # noqa: E402


class Folder(BaseEnvironment):
    """An environment whose /app, /logs, /tests and /solution are below a folder."""

    @staticmethod
    def type() -> str:
        return "folder"

    def _validate_definition(self) -> None: ...

    def here(self, text: str) -> str:
        """The text with the environment's paths as they are on this machine."""
        return re.sub(r"(?<![\w./-])/(app|logs|tests|solution)\b", rf"{self.root}/\1", text)

    async def start(self, force_build: bool) -> None:
        self.root = tempfile.mkdtemp(prefix="mr-")
        for part in ("app", "logs/agent", "logs/verifier", "logs/artifacts", "tests"):
            os.makedirs(f"{self.root}/{part}")

    async def stop(self, delete: bool) -> None:
        await self.exec("tmux kill-server")
        shutil.rmtree(self.root, ignore_errors=True)

    async def upload_file(self, source_path: Any, target_path: str) -> None:
        Path(self.here(target_path)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source_path, self.here(target_path))

    async def upload_dir(self, source_dir: Any, target_dir: str) -> None:
        shutil.copytree(source_dir, self.here(target_dir), dirs_exist_ok=True)

    async def download_file(self, source_path: str, target_path: Any) -> None:
        shutil.copy(self.here(source_path), target_path)

    async def download_dir(self, source_dir: str, target_dir: Any) -> None:
        shutil.copytree(self.here(source_dir), target_dir, dirs_exist_ok=True)

    async def exec(self, command: str, cwd: str | None = None, env: dict[str, str] | None = None,
                   timeout_sec: int | None = None, user: str | int | None = None) -> ExecResult:
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", self.here(command), cwd=self.here(cwd or "/app"), stdout=-1, stderr=-1,
            env={**os.environ, "TMUX_TMPDIR": self.root, **(env or {})})
        out, err = await asyncio.wait_for(process.communicate(), timeout_sec)
        return ExecResult(stdout=out.decode(), stderr=err.decode(), return_code=process.returncode or 0)


# Of this process, and of millrace-env, which it starts.
TRIALS = os.environ.setdefault("HELLO_TRIALS", tempfile.mkdtemp(prefix="millrace-with-"))

hello = harbor(
    [Path(__file__).parent / "hello_task"],
    agent={"name": "terminus-2", "kwargs": {"max_turns": 2, "record_terminal_session": False, "enable_summarize": False}},
    environment={"import_path": "harbor_hello:Folder"},
    trials=TRIALS,
)


compared = 0


def check(trajectory: dict[str, Any]) -> None:
    """Each captured turn is a step of Harbor's own record, but those that max_tokens cut off: terminus-2 asks again."""
    global compared
    game = "-".join(trajectory["trajectory_id"].split("/")[1:3])
    turns = [(turn.get("text", ""), len(turn["prompt_token_ids"]), len(turn["token_ids"])) for turn in trajectory["turns"]
             if turn["finish_reason"] != "length"]
    records = []
    for record in Path(TRIALS).glob(f"{game}-*/agent/trajectory.json"):
        steps = [step for step in json.loads(record.read_text())["steps"] if step["source"] == "agent"]
        told = [(step["metrics"]["prompt_tokens"], step["metrics"]["completion_tokens"]) for step in steps]
        records.append([(step["message"], *counts) for step, counts in zip(steps, told, strict=True)])
    if turns not in records:
        raise SystemExit(f"game {game}: captured {turns}, and Harbor has {records}")
    compared += len(turns)


if __name__ == "__main__":
    import stand

    print(stand.versions("harbor"))
    stand.play("hello", "harbor_hello:hello", check=check, steps=3, samples=2, groups=2, slots=4, max_tokens=32)
    print(f"{compared} turns, in text, prompt tokens and completion tokens, are Harbor's own")
