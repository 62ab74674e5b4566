"""What `millrace-env init` writes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

_FUNCTION = '''"""{name}: guess a number that the model is told more of with each try."""

import re

from millrace.env import Agents, Scenario, environment

TRIES = 7


@environment
async def {name}(scenario: Scenario, agents: Agents) -> float:
    """The reward is 1 for a guess at once, less for each further try, and 0 for none."""
    number = scenario.seed % 100 + 1
    chat = [{{"role": "user", "content": "I have a number from 1 to 100. Guess it."}}]
    for left in range(TRIES, 0, -1):
        answer = await agents.only.ask(chat, max_tokens=16)
        guess = int((re.findall(r"\\d{{1,3}}", answer.text) or ["0"])[-1])
        if guess == number:
            return left / TRIES
        chat += [answer.message, {{"role": "user", "content": "Higher." if guess < number else "Lower."}}]
    return 0.0
'''

_CLASS = '''"""{name}: guess a number that the model is told more of with each try."""

import re

from millrace.env import Answer, Done, Scenario, environment

TRIES = 7


@environment
class {name}:
    """The reward is 1 for a guess at once, less for each further try, and 0 for none."""

    def reset(self, scenario: Scenario):
        self.number, self.left = scenario.seed % 100 + 1, TRIES
        self.chat = [{{"role": "user", "content": "I have a number from 1 to 100. Guess it."}}]
        return self.chat

    def step(self, answers: dict[str, Answer]):
        answer = answers["agent"]
        guess = int((re.findall(r"\\d{{1,3}}", answer.text) or ["0"])[-1])
        if guess == self.number:
            return Done(self.left / TRIES)
        self.left -= 1
        if not self.left:
            return Done(0.0)
        self.chat += [answer.message, {{"role": "user", "content": "Higher." if guess < self.number else "Lower."}}]
        return self.chat
'''

_GYMNASIUM = '''"""{name}: Gymnasium's frozen lake in words: pip install gymnasium"""

import re

from millrace.env.adapters import gymnasium

RULES = "A frozen lake of 4 by 4 fields, S top left, the goal bottom right, with holes. You stand on field {{0}} of 0 to 15.\\n"
ACTIONS = {{"left": 0, "down": 1, "right": 2, "up": 3}}


def prompt(observation: int, info: dict) -> str:
    return RULES.format(observation) + "Answer left, down, right or up: "


def action(text: str) -> int:
    """ValueError or KeyError: no move; the game ends with invalid_reward."""
    return ACTIONS[re.findall("left|down|right|up", text)[0]] if re.search("left|down|right|up", text) else ACTIONS[text]


{name} = gymnasium("FrozenLake-v1", prompt, action, max_tokens=4, is_slippery=False)
'''

STYLES = {"function": _FUNCTION, "class": _CLASS, "gymnasium": _GYMNASIUM}

_TEST = '''"""Plays games without any server: python -m unittest"""

import unittest

from millrace.env import rehearse
from {name} import {name}


class Rehearsal(unittest.TestCase):
    def test_right_answer_is_rewarded(self) -> None:
        self.assertEqual(rehearse({name}, lambda agent, body: "43", seed=42).rewards, {{"agent": 1.0}})

    def test_wrong_answers_are_not(self) -> None:
        self.assertEqual(rehearse({name}, lambda agent, body: "none", seed=42).rewards, {{"agent": 0.0}})
'''

_GYMNASIUM_TEST = '''"""Plays games without any server: python -m unittest"""

import unittest

from millrace.env import rehearse
from {name} import {name}


class Rehearsal(unittest.TestCase):
    def test_way_to_the_goal(self) -> None:
        way = iter(["down", "down", "right", "right", "down", "right"])
        self.assertEqual(rehearse({name}, lambda agent, body: next(way)).rewards, {{"agent": 1.0}})

    def test_no_move_ends_the_game(self) -> None:
        self.assertEqual(rehearse({name}, lambda agent, body: "no").rewards, {{"agent": 0.0}})
'''

_SPEC = '''name: {run}
model: Qwen/Qwen2.5-7B-Instruct    # as your engines serve it
steps: 3
environment: {{kind: external}}
group: {{samples: 4}}
buffer: {{depth: 2, groups_per_step: 4}}
sampling: {{temperature: 1.0, max_tokens: 32}}
'''

_README = '''# {name}

```
python -m unittest                                # plays without a server
millrace dev &                                    # or your own service; MILLRACE_SERVER and MILLRACE_TOKEN name it
millrace run start -f {run}.yaml
millrace-env serve {name}:{name} --run {run} &    # any number of these, here and elsewhere
millrace trainer demo {run}                       # stands for your trainer
millrace run games {run}
```
'''


def write_project(name: str, style: str) -> int:
    """Writes a folder NAME; nothing that exists is written over."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,50}", name):
        print(f"millrace-env: {name}: want a name of a-z, 0-9 and _ that begins with a letter", file=sys.stderr)
        return 2
    folder, run = Path(name), name.replace("_", "-")
    if folder.exists():
        print(f"millrace-env: {folder} exists already", file=sys.stderr)
        return 1
    folder.mkdir()
    test = _GYMNASIUM_TEST if style == "gymnasium" else _TEST
    for file, text in ((f"{name}.py", STYLES[style]), (f"test_{name}.py", test), (f"{run}.yaml", _SPEC),
                       ("README.md", _README)):
        (folder / file).write_text(text.format(name=name, run=run))
        print(folder / file)
    return 0
