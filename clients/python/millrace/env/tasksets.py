"""verifiers' environments (0.4, its v1 stack), unchanged: their tasksets, harnesses and rewards play a run's games. And
Harbor's tasks and agents (0.26).

    from millrace.env.tasksets import verifiers

    sums = verifiers({"taskset": {"id": "my-taskset"},
                      "agent": {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}}})

The config is verifiers' own [env] block. Each of its roles that is named as one of the run's agents calls the model at
the game's address, in any dialect that its harness speaks; other roles keep the client that they are given. So the
tokens are captured by the service, and verifiers' eval client, which sees none, is enough.

verifiers keeps an HTTP client, of 0.8 MiB, for each address that it has called, and each game has its own: start the
program anew after some thousand games.
"""

from __future__ import annotations

import asyncio
import copy
import os
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from ._game import Agents, Done, Environment, Scenario

PINNED = "0.4.0"  # of which one private field is used


def _check_version(package: str, version: str, tried: str) -> None:
    if version.rpartition(".")[0] != tried.rpartition(".")[0]:
        raise RuntimeError(f"{package} {version} is installed; this bridge was tried with {tried}: "
                           f"pip install {package}=={tried}")


class _Loaded:
    """An environment of verifiers', with its servers, which all games share."""

    def __init__(self, config: dict[str, Any]) -> None:
        from verifiers import __version__ as version

        _check_version("verifiers", version, PINNED)
        from verifiers.v1.utils.loaders import load_environment, resolve_env_config

        self.env = load_environment(resolve_env_config(config))
        if not self.env.taskset.bounded:
            raise RuntimeError(f"the taskset {config['taskset']} is infinite: bound it")
        self.tasks = list(self.env.taskset)
        self.serving, self.serves = self.env.serving(), False


def verifiers(config: dict[str, Any], keep: Callable[[Scenario, Any], None] = lambda scenario, episode: None) -> Environment:
    """An environment of the [env] block; a group's task follows from its seed.

    `keep` is given each verifiers.v1.Episode that has ended, for its traces and metrics.
    """
    shared, serves = _Loaded(config), asyncio.Lock()

    async def play(scenario: Scenario, agents: Agents) -> Done:
        async with serves:
            if not shared.serves:
                await shared.serving.__aenter__()
                shared.serves = True
        episode = await _episode(shared.env, shared.tasks[scenario.seed % len(shared.tasks)], scenario, agents)
        keep(scenario, episode)
        return _done(episode, agents)

    async def close() -> None:
        if shared.serves:
            await shared.serving.__aexit__(None, None, None)

    return Environment(str(config["taskset"]["id"]), play, close)


async def _episode(shared: Any, task: Any, scenario: Scenario, agents: Agents) -> Any:
    import verifiers.v1 as vf

    keys = {f"MILLRACE_KEY_{scenario.episode}_{name}": agent.api_key for name, agent in agents.items()}
    os.environ.update(keys)  # the only way by which verifiers takes one
    try:
        env, clients = copy.copy(shared), {}
        for variable, agent in zip(keys, agents.values(), strict=True):
            clients[agent.name] = vf.EvalClientConfig(base_url=agent.base_url, api_key_var=variable)
        env._agent_specs = {
            name: spec.model_copy(update={"client": clients[name]}) if name in clients and spec.client is None else spec
            for name, spec in shared._agent_specs.items()
        }
        first = next(iter(agents.values()))
        return await env.run_episode(task, vf.ModelContext(model=first.model, client=clients[first.name]))
    finally:
        for variable in keys:
            os.environ.pop(variable, None)


def _done(episode: Any, agents: Agents) -> Done:
    if not episode.ok:
        errors = [error for trace in episode.traces for error in trace.errors] + list(episode.errors)
        raise RuntimeError("; ".join(f"{error.type}: {error.message}" for error in errors)[:250] or "no error was given")
    rewards: dict[str, float] = {}
    for trace in episode.traces:
        name = getattr(trace.agent, "name", None) or next(iter(agents))
        if name in agents:
            rewards[name] = rewards.get(name, 0.0) + trace.reward
    return Done(rewards, truncated=any(trace.is_timeout for trace in episode.traces))


def harbor(
    tasks: Sequence[str | os.PathLike[str]],
    agent: dict[str, Any],
    environment: dict[str, Any] | None = None,
    trials: str | os.PathLike[str] = "trials",
    reward: str = "reward",
    keep: Callable[[Scenario, Any], None] = lambda scenario, result: None,
) -> Environment:
    """An environment of Harbor's tasks (0.26), a folder each, played by one of its agents; a group's task follows from
    its seed.

    `agent` is an AgentConfig without model and address, which are the game's: containers must reach the server by it.
    `environment` is an EnvironmentConfig, Docker unless it says another. Each game is a trial below `trials`, its reward
    the one of that name of the task's verifier. `keep` is given each TrialResult.
    """
    import harbor as package
    from harbor.models.trial.config import AgentConfig, EnvironmentConfig, TaskConfig, TrialConfig
    from harbor.trial.trial import Trial

    _check_version("harbor", package.__version__, "0.26.0")

    async def play(scenario: Scenario, agents: Agents) -> Done:
        model, name = agents.only, f"{scenario.episode}-{uuid.uuid4().hex[:8]}"
        env = {**agent.get("env", {}), "OPENAI_API_KEY": model.api_key}
        trial = await Trial.create(TrialConfig(
            task=TaskConfig(path=tasks[scenario.seed % len(tasks)]), trial_name=name, trials_dir=trials,
            agent=AgentConfig(**{**agent, "model_name": f"openai/{model.model}", "base_url": model.base_url, "env": env}),
            environment=EnvironmentConfig(**environment or {}),
        ))
        result = await trial.run()
        keep(scenario, result)
        for failed in result.recorded_exceptions():
            raise RuntimeError(f"{failed.exception_type}: {failed.exception_message}"[:250])
        return Done(float(result.verifier_result.rewards[reward]))

    return Environment("harbor", play)
