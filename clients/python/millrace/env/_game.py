"""What an environment sees of a game, and how one is played."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import math
import queue
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Union

Ask = Union[str, list[dict[str, Any]], dict[str, Any]]
"""A prompt: text to complete, a chat's messages, or the whole body of a call, with "prompt" or "messages" and options."""

Prompts = Union[Ask, Mapping[str, Ask]]
"""Who is asked what: {agent: prompt}, answered all at once; a prompt alone in a game of one agent."""


class Fault(Exception):
    """Why a game failed, by the environment's fault. `code` is stable."""

    code = "environment_error"


class Hung(BaseException):
    """The environment did nothing for too long. Not an Exception, so that it does not catch this by mistake."""

    code = "environment_hung"


class BadReward(Fault):
    """A reward that is no finite number, or an agent without one."""

    code = "bad_reward"


class BadPrompt(Fault):
    """A prompt that cannot be sent."""

    code = "bad_prompt"


class CallRefused(Fault):
    """The service refuses a call and would refuse it again, such as a prompt that no engine has room for."""

    code = "call_refused"


class UnknownAgent(Fault, KeyError):
    """An agent that the game does not have."""

    code = "unknown_agent"
    __str__ = Exception.__str__


@dataclass(frozen=True)
class Scenario:
    """How a game begins: the same for all games of a group."""

    seed: int  # from 0, below 2**53
    row: dict[str, Any] = field(default_factory=dict)  # of the run's dataset
    agents: tuple[str, ...] = ("agent",)
    episode: str = ""  # the game's name in its run


@dataclass(frozen=True)
class Answer:
    """What the model said."""

    text: str
    finish_reason: str = "stop"
    tool_calls: list[dict[str, Any]] = field(default_factory=list)  # as OpenAI has them
    prompt_tokens: int = 0
    tokens: int = 0

    @property
    def message(self) -> dict[str, Any]:
        """The answer as a message of the chat that goes on."""
        if self.tool_calls:
            return {"role": "assistant", "content": self.text or None, "tool_calls": self.tool_calls}
        return {"role": "assistant", "content": self.text}


@dataclass(frozen=True)
class Done:
    """The game is over. `rewards` is one number for all agents alike, or {agent: number}."""

    rewards: Any
    truncated: bool = False  # it was cut off, and not decided


Call = Callable[["Agent", dict[str, Any]], Awaitable[Answer]]


class Agent:
    """One learner of a game. OpenAI's and Anthropic's clients reach it, too: by base_url, api_key and model."""

    def __init__(self, name: str, call: Call, base_url: str = "", api_key: str = "", model: str = "") -> None:
        self.name, self.api_key, self.model = name, api_key, model
        self.elsewhere = False  # calls are made by another client, unseen
        self._base_url, self._call, self._asked = base_url, call, 0

    @property
    def base_url(self) -> str:
        """OpenAI's; without its /v1, Anthropic's. Who reads it makes calls that are not seen here, and so a game of its
        may be silent for as long as games may last."""
        self.elsewhere = True
        return self._base_url

    async def ask(self, prompt: Ask, **options: Any) -> Answer:
        """One turn. Options are those of OpenAI's calls: max_tokens, stop, tools, tool_choice, model (a fixed policy).

        Sampling is the run's. Each call is a new turn, even one that asks the same as an earlier one did.
        """
        body = {"prompt": prompt} if isinstance(prompt, str) else {"messages": prompt}
        if isinstance(prompt, Mapping):
            body = dict(prompt)
        if not body.get("prompt") and not body.get("messages"):
            raise BadPrompt(f"agent {self.name}: a prompt is a text, a list of messages or the body of a call, "
                            f"and not empty; got {prompt!r:.80}")
        # The service takes the same body for the same call, sent again; the number makes it another one. It is no seed
        # of the sampling, which is the run's.
        body = {"model": self.model, "seed": self._asked, **body, **options}
        self._asked += 1
        return await self._call(self, body)


class Agents(Mapping[str, Agent]):
    """The agents of a game, by name."""

    def __init__(self, agents: list[Agent]) -> None:
        self._agents = {agent.name: agent for agent in agents}

    def __getitem__(self, name: str) -> Agent:
        try:
            return self._agents[name]
        except (KeyError, TypeError):
            raise UnknownAgent(f"{name!r} is no agent of this run, whose spec has {list(self._agents)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._agents)

    def __len__(self) -> int:
        return len(self._agents)

    @property
    def only(self) -> Agent:
        """The agent of a game that has one."""
        if len(self._agents) != 1:
            raise UnknownAgent(f"the game has several agents, {list(self._agents)}: name one")
        return next(iter(self._agents.values()))


class Environment:
    """What `environment` makes: plays one game."""

    def __init__(
        self, name: str, play: Callable[[Scenario, Agents], Awaitable[Any]], close: Callable[[], Awaitable[Any]] | None = None
    ) -> None:
        self.name, self._play, self._close = name, play, close

    async def close(self) -> None:
        """Gives back what all games share, after the last one."""
        if self._close is not None:
            await self._close()

    async def play(self, scenario: Scenario, agents: Agents) -> Done:
        """Plays to the end. The rewards are one finite number for each agent; raises Fault, or what the code raised."""
        ended = await self._play(scenario, agents)
        done = ended if isinstance(ended, Done) else Done(ended)
        return Done(_rewards(done.rewards, agents), bool(done.truncated))


def environment(played: Any) -> Environment:
    """Makes an environment of an async function play(scenario, agents), or of a class with reset and step."""
    name = getattr(played, "__name__", "environment")
    if inspect.isclass(played):
        for method in ("reset", "step"):
            if not callable(getattr(played, method, None)):
                raise TypeError(f"{name}: an environment's class has reset(scenario) and step(answers); no {method} here")
        return Environment(name, stepped(played))
    if not inspect.iscoroutinefunction(played):
        raise TypeError(f"{name}: an environment is an async function play(scenario, agents), or a class with reset and step")
    return Environment(name, played)


def stepped(make: Callable[[], Any]) -> Callable[[Scenario, Agents], Awaitable[Done]]:
    """Plays a game with a new object of reset and step."""

    async def play(scenario: Scenario, agents: Agents) -> Done:
        with _Thread.lent() as thread:
            async def run(what: Callable[..., Any], *args: Any) -> Any:
                if inspect.iscoroutinefunction(what):
                    return await what(*args)
                return await thread.run(what, *args)

            game = await run(make)
            try:
                now = await run(game.reset, scenario)
                while not isinstance(now, Done):
                    now = await run(game.step, await ask_all(now, agents))
                return now
            finally:
                if not thread.busy and hasattr(game, "close"):
                    await run(game.close)

    return play


async def ask_all(prompts: Prompts, agents: Agents) -> dict[str, Answer]:
    """Asks all at once."""
    if isinstance(prompts, (str, list)) or isinstance(prompts, Mapping) and {"prompt", "messages"} & set(prompts):
        prompts = {agents.only.name: prompts}
    if not isinstance(prompts, Mapping) or not prompts:
        raise BadPrompt(f"reset and step return prompts, or Done(rewards); got {prompts!r:.80}")
    asked = {agents[name].name: prompt for name, prompt in prompts.items()}
    if len(asked) == 1:
        ((name, prompt),) = asked.items()
        return {name: await agents[name].ask(prompt)}
    calls = [asyncio.ensure_future(agents[name].ask(prompt)) for name, prompt in asked.items()]
    try:
        return dict(zip(asked, await asyncio.gather(*calls), strict=True))
    finally:
        for call in calls:
            call.cancel()


def _rewards(given: Any, agents: Agents) -> dict[str, float]:
    rewards = given if isinstance(given, Mapping) else dict.fromkeys(agents, given)
    for name in rewards:
        agents[name]  # or it is unknown
    if missing := [name for name in agents if name not in rewards]:
        raise BadReward(f"there is none for {missing}; return one number for all alike, or one for each agent")
    return {name: _number(name, rewards[name]) for name in agents}


def _number(name: str, value: Any) -> float:
    try:
        number = math.nan if isinstance(value, (str, bytes)) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise BadReward(f"agent {name}: {value!r:.80} is no finite number")
    return number


class _Thread:
    """A thread that runs one game's code after the other; one that hangs is left behind."""

    _idle: list[_Thread] = []

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.busy = False
        threading.Thread(target=self._loop, daemon=True, name="millrace-env-game").start()

    @classmethod
    @contextlib.contextmanager
    def lent(cls) -> Iterator[_Thread]:
        thread = cls._idle.pop() if cls._idle else cls()
        try:
            yield thread
        finally:
            if not thread.busy:
                cls._idle.append(thread)

    def _loop(self) -> None:
        while True:
            self._work.get()()

    async def run(self, what: Callable[..., Any], *args: Any) -> Any:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Any] = loop.create_future()

        def tell(result: Any, error: BaseException | None) -> None:
            self.busy = False
            if ended.done():  # it hung, and was left behind
                self._idle.append(self)
                return
            if error is None:
                ended.set_result(result)
            else:
                ended.set_exception(error)

        def work() -> None:
            result: Any = None
            error: Exception | None = None
            try:
                result = what(*args)
            except StopIteration as err:  # a future takes none
                error = RuntimeError(f"StopIteration: {err}")
            except BaseException as err:  # SystemExit too: it ends the game, and nothing else
                error = err if isinstance(err, Exception) else RuntimeError(f"{type(err).__name__}: {err}")
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(tell, result, error)

        self.busy = True
        self._work.put(work)
        return await ended


def rehearse(
    played: Environment,
    answer: Callable[[str, dict[str, Any]], str],
    seed: int = 0,
    row: dict[str, Any] | None = None,
    agents: tuple[str, ...] = ("agent",),
) -> Done:
    """Plays one game without any server: `answer(agent, body)` says what the model says to a call's body."""

    async def call(agent: Agent, body: dict[str, Any]) -> Answer:
        return Answer(answer(agent.name, body))

    game = Agents([Agent(name, call, model="rehearsal") for name in agents])
    return asyncio.run(played.play(Scenario(seed, row or {}, agents, "rehearsal"), game))
