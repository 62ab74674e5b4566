"""Sums that are easy to check: pip install ./clients/python; millrace-env serve maths:maths --run maths."""

import random
import re

from millrace.env import Agents, Scenario, environment

TRIES = 3


@environment
async def maths(scenario: Scenario, agents: Agents) -> float:
    """The reward is 1 for the right number at once, less for each further try, and 0 for none."""
    draw = random.Random(scenario.seed)  # all games of a group ask the same
    a, b, c = draw.randint(2, 9), draw.randint(2, 9), draw.randint(2, 9)
    chat = [{"role": "user", "content": f"What is {a} + {b} * {c}? Answer with one number."}]
    for left in range(TRIES, 0, -1):
        answer = await agents.only.ask(chat, max_tokens=16)
        numbers = re.findall(r"-?\d+", answer.text)
        if numbers and int(numbers[-1]) == a + b * c:
            return left / TRIES
        hint = "That is no number." if not numbers else "That is too " + ("high." if int(numbers[-1]) > a + b * c else "low.")
        chat += [answer.message, {"role": "user", "content": hint}]
    return 0.0
