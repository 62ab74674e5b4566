"""Environments of Gymnasium's, PettingZoo's and TextArena's, whose packages are imported when a game begins.

A model reads and writes text, these environments do not: `prompt` makes text, or messages, of what is observed, and
`action` an action of what was said. An `action` that raises ValueError, LookupError or TypeError has found none: the
game ends, and whose answer it was gets `invalid_reward` on top of what it had.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._game import Answer, Ask, Done, Environment, Prompts, Scenario, stepped

_NO_ACTION = (ValueError, LookupError, TypeError)


def gymnasium(
    make: str | Callable[[], Any],
    prompt: Callable[[Any, dict[str, Any]], Ask],
    action: Callable[[str], Any],
    invalid_reward: float = 0.0,
    max_steps: int = 1000,
    max_tokens: int | None = None,
    **options: Any,
) -> Environment:
    """An environment of one agent: a name that gymnasium.make knows, with its options, or what makes one.

    `prompt(observation, info)`; the reward is the sum of all steps'. A game that is truncated counts as such.
    """

    class Game:
        def __init__(self) -> None:
            if callable(make):
                self.env = make()
            else:
                import gymnasium as package

                self.env = package.make(make, **options)

        def reset(self, scenario: Scenario) -> Prompts:
            self.reward, self.steps = 0.0, 0
            return _bounded(prompt(*self.env.reset(seed=_seed(scenario))), max_tokens)

        def step(self, answers: dict[str, Answer]) -> Prompts | Done:
            (answer,) = answers.values()
            try:
                act = action(answer.text)
            except _NO_ACTION:
                return Done(self.reward + invalid_reward)
            seen, reward, terminated, truncated, info = self.env.step(act)
            self.reward += reward
            self.steps += 1
            if terminated or truncated or self.steps >= max_steps:
                return Done(self.reward, truncated=not terminated)
            return _bounded(prompt(seen, info), max_tokens)

        def close(self) -> None:
            self.env.close()

    return Environment(make if isinstance(make, str) else getattr(make, "__name__", "gymnasium"), stepped(Game))


def pettingzoo(
    make: Callable[[], Any],
    prompt: Callable[[str, Any, dict[str, Any]], Ask],
    action: Callable[[str, str, Any], Any],
    invalid_reward: float = -1.0,
    max_steps: int = 1000,
    max_tokens: int | None = None,
) -> Environment:
    """An environment of several agents; `make` is a module's env (AEC) or parallel_env. The run's agents are named alike.

    `prompt(agent, observation, info)` and `action(agent, text, observation)`; where there is an action mask, it is in the
    observation or in info. Rewards are each agent's sum of all steps'.
    """

    class Game:
        def __init__(self) -> None:
            self.env = make()
            self.turns = hasattr(self.env, "agent_iter")

        def reset(self, scenario: Scenario) -> Prompts | Done:
            self.rewards = dict.fromkeys(scenario.agents, 0.0)
            self.steps = 0
            if self.turns:
                self.env.reset(seed=_seed(scenario))
                return self.turn()
            self.seen, infos = self.env.reset(seed=_seed(scenario))
            return self.round(infos)

        def turn(self) -> Prompts | Done:
            """The next agent that may act. Those that are out take a step of None, as PettingZoo wants it."""
            while self.env.agents:
                agent = self.env.agent_selection
                seen, _, terminated, truncated, info = self.env.last()
                if not (terminated or truncated):
                    self.seen = {agent: seen}
                    return {agent: _bounded(prompt(agent, seen, info), max_tokens)}
                self.cut = truncated and not terminated
                self.env.step(None)
            return Done(self.rewards, truncated=getattr(self, "cut", False))

        def round(self, infos: dict[str, Any]) -> Prompts:
            return {a: _bounded(prompt(a, self.seen[a], infos.get(a, {})), max_tokens) for a in self.env.agents}

        def step(self, answers: dict[str, Answer]) -> Prompts | Done:
            acts, wrong = {}, []
            for agent, answer in answers.items():
                try:
                    acts[agent] = action(agent, answer.text, self.seen[agent])
                except _NO_ACTION:
                    wrong.append(agent)
            for agent in wrong:
                self.rewards[agent] += invalid_reward
            if wrong:
                return Done(self.rewards)
            self.steps += 1
            if self.turns:
                self.env.step(next(iter(acts.values())))
                self.add(self.env.rewards)
                return Done(self.rewards, truncated=True) if self.steps >= max_steps else self.turn()
            self.seen, rewards, terminations, truncations, infos = self.env.step(acts)
            self.add(rewards)
            if not self.env.agents or self.steps >= max_steps:
                return Done(self.rewards, truncated=not all(terminations.values()))
            return self.round(infos)

        def add(self, rewards: dict[str, Any]) -> None:
            for agent, reward in rewards.items():
                self.rewards[agent] = self.rewards.get(agent, 0.0) + float(reward)

        def close(self) -> None:
            self.env.close()

    return Environment(getattr(make, "__module__", "pettingzoo").rpartition(".")[2], stepped(Game))


def textarena(make: str | Callable[[], Any], max_tokens: int | None = None, max_steps: int = 1000) -> Environment:
    """A text game of TextArena's, by the name that textarena.make knows, or what makes one.

    Player N is the run's N-th agent; prompts and answers are TextArena's own, invalid moves judged by its rules.
    """

    class Game:
        def __init__(self) -> None:
            if callable(make):
                self.env = make()
            else:
                import textarena as package

                self.env = package.make(make)

        def reset(self, scenario: Scenario) -> Prompts:
            self.agents, self.steps = scenario.agents, 0
            self.env.reset(num_players=len(self.agents), seed=_seed(scenario))
            return self.next()

        def next(self) -> Prompts:
            player, seen = self.env.get_observation()
            text = seen if isinstance(seen, str) else "\n".join(str(part[1]) for part in seen)
            return {self.agents[player]: _bounded([{"role": "user", "content": text}], max_tokens)}

        def step(self, answers: dict[str, Answer]) -> Prompts | Done:
            (answer,) = answers.values()
            over, _ = self.env.step(answer.text)
            self.steps += 1
            if not over and self.steps < max_steps:
                return self.next()
            rewards, _ = self.env.close()
            rewards = rewards or {}
            return Done({agent: rewards.get(n, 0.0) for n, agent in enumerate(self.agents)}, truncated=not over)

    return Environment(make if isinstance(make, str) else getattr(make, "__name__", "textarena"), stepped(Game))


def _seed(scenario: Scenario) -> int:
    return scenario.seed % 2**31  # numpy's old generators and Python's own take that


def _bounded(prompt: Ask, max_tokens: int | None) -> Ask:
    """The prompt as a body with a length, unless it says its own."""
    body = {"prompt": prompt} if isinstance(prompt, str) else {"messages": prompt}
    body = dict(prompt) if isinstance(prompt, dict) else body
    return body if max_tokens is None else {"max_tokens": max_tokens, **body}
