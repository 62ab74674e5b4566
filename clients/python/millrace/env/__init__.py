"""Environments in Python that play the games of a run of `kind: external`; the standard library only.

    from millrace.env import Agents, Scenario, environment

    @environment
    async def guess(scenario: Scenario, agents: Agents) -> float:
        number = scenario.seed % 100
        answer = await agents.only.ask(f"A number from 0 to 99, {number % 2 and 'odd' or 'even'}:", max_tokens=4)
        return float(answer.text.strip() == str(number))

or a class, whose methods may be async or not; those that are not run in a thread of their game's own:

    @environment
    class Guess:
        def reset(self, scenario): ...      # returns prompts: see Prompts
        def step(self, answers): ...        # {agent: Answer}; returns prompts, or Done(rewards)
        def close(self): ...                # may be left out

`millrace-env serve module:guess --run RUN --slots 64` plays. `rehearse` plays a game without any server, for tests.
`millrace.env.adapters` makes environments of Gymnasium's, PettingZoo's and TextArena's.

A game is played by one program at a time. If that program dies, another one begins it anew, and is answered as the
first one was for as long as it asks the same: an environment whose game follows from `scenario.seed` and the answers
loses nothing.
"""

from __future__ import annotations

from ._game import (
    Agent,
    Agents,
    Answer,
    CallRefused,
    Done,
    Environment,
    Fault,
    Prompts,
    Scenario,
    UnknownAgent,
    environment,
    rehearse,
)

__all__ = [
    "Agent", "Agents", "Answer", "CallRefused", "Done", "Environment", "Fault", "Prompts", "Scenario", "UnknownAgent",
    "environment", "rehearse",
]
