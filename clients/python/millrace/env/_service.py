"""Leases games of a run, has an environment play them, and reports how they ended.

Everything is in one thread's event loop but the code of environments that are not async. One long poll leases for all
slots, and one look a second keeps all leases alive and finds games that hang.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import logging
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any, TextIO
from urllib.parse import quote

from .. import _BY_CODE, _RETRY_STATUS, _URN, Error, RunOver, Unavailable
from ._game import Agent, Agents, Answer, BadPrompt, CallRefused, Environment, Fault, Hung, Scenario
from .wire import Lost, Wire, encoded

_log = logging.getLogger("millrace.env")
_CALL = 150.0  # seconds to wait for an answer before the same call is sent again; the service goes on with it meanwhile
_ABSENT = 100.0  # a server that says 503 after so many seconds has waited for a worker that plays the game, and none did
_POLL = 5.0  # seconds of one long poll for a game
_REASON = 300  # characters of a reason that the service keeps
_SAY_EVERY = 30.0


class _Gone(Exception):
    """The game is no more this program's: its lease or its group has ended."""


class _Game:
    """One leased game."""

    def __init__(self, lease: dict[str, Any]) -> None:
        self.lease, self.url, self.key = lease, str(lease["base_url"]), str(lease["api_key"])
        self.name = str(lease["episode"])
        self.calls = 0  # that wait for an answer
        self.worked = self.heard = time.monotonic()  # since when the environment has had its turn; the last sign of life
        self.task: asyncio.Task[None] | None = None
        self.agents: Agents = Agents([])
        self.why: BaseException | None = None  # its task was cancelled


class Service:
    """Plays games of one run with one environment."""

    def __init__(
        self,
        environment: Environment,
        server: str,
        run: str,
        token: str | None = None,
        slots: int = 64,
        deadline: float = 60.0,
        grace: float = 30.0,
        journal: TextIO | None = None,
    ) -> None:
        self.environment, self.server, self.run = environment, server.rstrip("/"), run
        self.token, self.slots, self.deadline, self.grace, self.journal = token, slots, deadline, grace, journal
        self.ended: collections.Counter[str] = collections.Counter()  # by "played", "lost", or a failure's code
        self.most = 0  # games in play at a time
        self.absent = _ABSENT
        self._wire = Wire()
        self._games: dict[asyncio.Task[None], _Game] = {}
        self._stopping = asyncio.Event()
        self._failures = 0  # since a game was played
        self._seen: set[str] = set()  # failures whose traceback was shown
        self._looked = time.monotonic()
        self._suspect: Any = None
        self._away = False

    async def serve(self) -> None:
        """Plays until the run is over, or `stop` was called and the games in play have ended, or `grace` is over."""
        looks = asyncio.create_task(self._look())
        try:
            with _interrupted(self):
                await self._lease_games()
                if self._games:
                    await asyncio.wait(self._games, timeout=self.grace)
                for task in list(self._games):
                    task.cancel()  # whoever leases such a game next goes on with it
                if self._games:
                    await asyncio.wait(self._games, timeout=1)
        finally:
            await self.environment.close()
            looks.cancel()
            self._wire.close()
            self._say("ended")

    def stop(self) -> None:
        """Leases no more games."""
        self._stopping.set()

    async def _lease_games(self) -> None:
        free = asyncio.Semaphore(self.slots)
        path = f"{self.server}/v1/runs/{quote(self.run, safe='')}/episodes/lease?wait={_POLL:.0f}s"
        while not self._stopping.is_set():
            if free.locked():
                await self._or_stop(free.acquire())
            else:
                await free.acquire()
            if self._failures >= 10:  # what fails each time shall not burn through the run's games
                await self._or_stop(asyncio.sleep(min(30.0, 0.1 * 2.0 ** (self._failures - 10))))
            if self._stopping.is_set():
                return
            try:
                lease = await self._lease(path)
            except RunOver as over:
                _log.info("%s", over)
                return
            if lease is None:
                free.release()
                continue
            game = _Game(lease)
            task = game.task = asyncio.create_task(self._play(game))
            self._games[task] = game
            self.most = max(self.most, len(self._games))

            def ended(task: asyncio.Task[None]) -> None:
                del self._games[task]
                free.release()

            task.add_done_callback(ended)

    async def _or_stop(self, what: Any) -> None:
        """Waits for one or the other."""
        waits = [asyncio.ensure_future(what), asyncio.ensure_future(self._stopping.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _lease(self, path: str) -> dict[str, Any] | None:
        """A game; None: no one is open, or the service is stopping."""
        pause = 0.1
        while not self._stopping.is_set():
            try:
                answer = await self._wire.post(path, b"{}", self.token, _POLL + 30)
                if answer.status == 200:
                    self._back()
                    return answer.json()
                if answer.status == 204:
                    self._back()
                    return None
                problem = answer.json()
                detail = str(problem.get("detail", f"HTTP {answer.status}"))
                if answer.status not in _RETRY_STATUS:
                    code = str(problem.get("type", "")).removeprefix(_URN)
                    raise _BY_CODE.get(code, Error)(detail, code, answer.status)
                raise Lost(detail)
            except Lost as lost:
                if not self._away:
                    self._away = True
                    _log.warning("no games: %s; trying until it answers", lost)
            await self._or_stop(asyncio.sleep(pause * random.uniform(0.75, 1.25)))
            pause = min(2 * pause, 5.0)
        return None

    def _back(self) -> None:
        if self._away:
            self._away = False
            _log.warning("%s answers again", self.server)

    async def _play(self, game: _Game) -> None:
        """Plays one game and reports it. Whatever goes wrong is this game's."""
        lease = game.lease
        told = lease["scenario"]
        names = tuple(lease["agents"])
        scenario = Scenario(int(told["seed"]), told.get("row") or {}, names, game.name)
        agents = game.agents = Agents([self._agent(game, name, len(names)) for name in names])
        try:
            done = await self.environment.play(scenario, agents)
            await self._post(game, "/done", {"rewards": done.rewards, "truncated": done.truncated})
            self._failures = 0
            self._note(game, "played", rewards=done.rewards)
        except _Gone as gone:
            self._note(game, "lost", reason=str(gone))
        except asyncio.CancelledError:
            if game.why is None:
                self._note(game, "left")
            elif isinstance(game.why, _Gone):
                self._note(game, "lost", reason=str(game.why))
            else:
                await self._fail(game, game.why)
        except (Exception, Hung, SystemExit, KeyboardInterrupt) as err:
            await self._fail(game, err)

    def _agent(self, game: _Game, name: str, of: int) -> Agent:
        url = game.url if of == 1 else f"{game.url}/agents/{name}"

        async def call(agent: Agent, body: dict[str, Any]) -> Answer:
            chat = "messages" in body
            said = await self._post(game, ("/v1/chat/completions" if chat else "/v1/completions"), body, url)
            (choice,), usage = said["choices"], said["usage"]
            message = choice["message"] if chat else {"content": choice["text"]}
            return Answer(message["content"] or "", choice["finish_reason"], message.get("tool_calls") or [],
                          usage["prompt_tokens"], usage["completion_tokens"])

        return Agent(name, call, url + "/v1", game.key, str(game.lease["model"]))

    async def _post(self, game: _Game, path: str, body: dict[str, Any], url: str = "") -> dict[str, Any]:
        """Sends a call of a game until it is answered. The same call again is the same call."""
        try:
            text = encoded(body)
        except (TypeError, ValueError, AttributeError) as err:
            raise BadPrompt(f"what is asked is no JSON: {err}") from err
        pause = 0.05
        game.calls += 1
        try:
            while True:
                began = time.monotonic()
                try:
                    answer = await self._wire.post((url or game.url) + path, text, game.key, _CALL)
                except Lost:
                    await asyncio.sleep(pause * random.uniform(0.75, 1.25))
                    pause = min(2 * pause, 5.0)
                    continue
                if answer.status == 200:
                    game.heard = time.monotonic()
                    return answer.json()
                if answer.status == 503 and time.monotonic() - began > self.absent:
                    raise _Gone("no worker plays the game any more; its group may be over")
                if answer.status not in _RETRY_STATUS and answer.status < 500:
                    error = answer.json().get("error")
                    said = str(error.get("message", "")) if isinstance(error, dict) else f"HTTP {answer.status}"
                    raise _Gone(said) if answer.status == 410 else CallRefused(said)
                await asyncio.sleep(max(pause, answer.retry_after) * random.uniform(0.75, 1.25))
                pause = min(2 * pause, 5.0)
        finally:
            game.calls -= 1
            game.worked = time.monotonic()

    async def _fail(self, game: _Game, err: BaseException) -> None:
        code = getattr(err, "code", "") if isinstance(err, (Fault, Hung)) else Fault.code
        said = str(err) if isinstance(err, (Fault, Hung)) else f"{type(err).__name__}: {err}{_place(err)}"
        reason = f"{code}: {said}"[:_REASON]
        if (kind := f"{type(err).__name__} {_place(err)}") not in self._seen and len(self._seen) < 1000:
            self._seen.add(kind)
            _log.warning("game %s failed, of %d in play; others that fail so are counted:\n%s", game.name,
                         len(self._games), "".join(traceback.format_exception(type(err), err, err.__traceback__)).rstrip())
        self._failures += 1
        try:
            await self._post(game, "/fail", {"reason": reason})
            self._note(game, str(code), reason=reason)
        except (_Gone, Fault, asyncio.CancelledError) as gone:
            self._note(game, "lost", reason=str(gone))

    def _note(self, game: _Game, ended: str, **what: Any) -> None:
        self.ended[ended] += 1
        if self.journal is not None and ended != "left":
            json.dump({"episode": game.name, "leased": game.lease["leased"], "ended": ended, **what}, self.journal)
            self.journal.write("\n")
            self.journal.flush()

    async def _look(self) -> None:
        """Keeps leases alive and ends games that hang, once a second."""
        said, before = time.monotonic(), 0
        beats: set[asyncio.Task[None]] = set()
        while True:
            now = self._looked = time.monotonic()
            for game in list(self._games.values()):
                if game.calls:
                    continue  # the service counts that as life
                deadline = self.deadline
                if any(agent.elsewhere for agent in game.agents.values()):
                    deadline = max(deadline, float(game.lease["episode_seconds"]))
                if now - game.worked > deadline and game.task is not None and game.why is None:
                    game.why = Hung(f"the environment {self.environment.name} has done nothing for {deadline:g} s")
                    game.task.cancel()
                elif now - game.heard > float(game.lease["lease_seconds"]) / 3:
                    game.heard = now
                    beat = asyncio.create_task(self._heartbeat(game))
                    beats.add(beat)
                    beat.add_done_callback(beats.discard)
            if now - said > _SAY_EVERY and (total := sum(self.ended.values())) != before:
                said, before = now, total
                self._say("so far")
            await asyncio.sleep(1.0)

    async def _heartbeat(self, game: _Game) -> None:
        with contextlib.suppress(Lost):  # the next one may get through
            answer = await self._wire.post(game.url + "/heartbeat", b"{}", game.key, 10.0)
            if answer.status == 410 and game.task is not None and game.why is None:
                game.why = _Gone("the lease has ended")
                game.task.cancel()

    def _say(self, when: str) -> None:
        counts = ", ".join(f"{n} {what}" for what, n in self.ended.most_common()) or "no game"
        _log.info("%s: %s; %d in play, at most %d of %d slots", when, counts, len(self._games), self.most, self.slots)

    def blocked(self) -> BaseException | None:
        """What to raise in the game that keeps the event loop from going on; None: none does."""
        task = asyncio.current_task()
        since = time.monotonic() - self._looked
        suspect, self._suspect = self._suspect, (task, self._looked)
        if since < self.patience or task not in self._games or suspect != self._suspect:
            return None  # the second time in a row: the first may have come just after another game's block
        return Hung(f"the environment {self.environment.name} has blocked the event loop for {since:.0f} s: await what "
                    "waits, or write a class with reset and step, which has a thread")

    @property
    def patience(self) -> float:
        """How long the loop may be blocked: shorter than leases last, for the other games' sake."""
        shortest = min((float(game.lease["lease_seconds"]) for game in list(self._games.values())), default=60.0)
        return max(2.0, min(self.deadline, shortest / 2))


def _place(err: BaseException) -> str:
    """Where the environment's code raised it."""
    frames = traceback.extract_tb(err.__traceback__)
    return f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""


@contextlib.contextmanager
def _interrupted(service: Service) -> Iterator[None]:
    """Has SIGTERM and SIGINT stop the service, and a signal of its own end a game that blocks its event loop."""
    loop, main = asyncio.get_running_loop(), threading.main_thread()
    if threading.current_thread() is not main or not hasattr(signal, "SIGUSR2"):
        yield
        return
    over = threading.Event()

    def stop() -> None:
        if service._stopping.is_set():
            service.grace = 0.0
            for task in list(service._games):
                task.cancel()
        else:
            _log.info("stopping: %d games in play may go on for %g s", len(service._games), service.grace)
        service.stop()

    def blocked(*_: Any) -> None:
        if (why := service.blocked()) is not None:
            raise why

    def watch() -> None:
        while not over.wait(1.0):
            if time.monotonic() - service._looked > service.patience and main.ident is not None:
                signal.pthread_kill(main.ident, signal.SIGUSR2)  # breaks off time.sleep and most that waits

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    before = signal.signal(signal.SIGUSR2, blocked)
    threading.Thread(target=watch, daemon=True, name="millrace-env-watch").start()
    try:
        yield
    finally:
        over.set()
        signal.signal(signal.SIGUSR2, before)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def serve(service: Service) -> int:
    """Runs it to its end. The exit code is one of Millrace's: 0, 1 for a refusal, 3 for no such run, 4, 5."""
    try:
        asyncio.run(service.serve())
    except Error as err:
        print(f"millrace-env: {err}", file=sys.stderr)
        return {401: 4, 403: 4, 404: 3}.get(err.status, 5 if isinstance(err, Unavailable) else 1)
    return 0
