"""What `millrace-env serve` does with games: against a server of these tests' own, which counts, cuts and refuses."""

import asyncio
import collections
import contextlib
import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Any, Callable, Iterator
from unittest import mock

from millrace.env import Agents, Done, Environment, Scenario, environment, rehearse
from millrace.env._service import Service
from millrace.env.wire import Lost, Wire

HERE = Path(__file__).parent


class Server:
    """Millrace's side of the games of one run, over HTTP: it leases each game once more until it has ended."""

    def __init__(self, games: int, agents: tuple[str, ...] = ("agent",), lease: float = 60.0) -> None:
        self.games, self.agents, self.lease = games, agents, lease
        self.ended: dict[str, tuple[str, dict[str, Any]]] = {}
        self.calls: dict[str, list[tuple[str, dict[str, Any]]]] = collections.defaultdict(list)
        self.heartbeats: collections.Counter[str] = collections.Counter()
        self.open = [f"{n}-0" for n in range(games)]
        self.polls = self.polling = 0  # at a time, at most
        self.gone: set[str] = set()  # games whose lease has ended
        self.answer: Callable[[str, dict[str, Any]], tuple[int, dict[str, Any]]] = lambda game, body: (200, {})
        self.over: Callable[[], bool] = lambda: len(self.ended) + len(self.gone) == self.games
        self.thinks = 0.0  # seconds before a call is answered
        self.cut: Callable[[str], str] = lambda path: ""  # "before" or "after" the work
        self._writers: list[asyncio.StreamWriter] = []
        self._loop = asyncio.new_event_loop()
        started = threading.Event()
        threading.Thread(target=self._run, args=(started,), daemon=True).start()
        started.wait()

    def _run(self, started: threading.Event) -> None:
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=4096))
        self.url = "http://127.0.0.1:%d" % server.sockets[0].getsockname()[1]
        started.set()
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        server.close()
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                path = head.split(" ")[1]
                (length,) = re.findall(r"Content-Length: (\d+)", head)
                body = json.loads(await reader.readexactly(int(length)))
                where = self.cut(path)
                if where == "before":
                    break
                status, answer = await self._work(path, body)
                if where == "after":
                    break
                text = json.dumps(answer).encode() if status != 204 else b""
                writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(text), text))
        writer.close()

    async def _work(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if "/episodes/lease" in path:
            self.polling += 1
            self.polls = max(self.polls, self.polling)
            try:
                return await self._leased()
            finally:
                self.polling -= 1
        game, _, rest = path.partition("/episodes/")[2].partition("/")
        if game in self.gone or game in self.ended and self.ended[game] != (rest, body):
            return 410, {"error": {"message": "the lease has ended"}}
        if rest == "heartbeat":
            self.heartbeats[game] += 1
            return 200, {}
        if rest in ("done", "fail"):
            self.ended[game] = (rest, body)
            return 200, {}
        await asyncio.sleep(self.thinks)
        status, answer = self.answer(game, body)
        if status != 200 or answer:
            return status, answer
        if (rest, body) not in self.calls[game]:
            self.calls[game].append((rest, body))
        number = self.calls[game].index((rest, body))
        choice = {"text": f"said {number}", "finish_reason": "stop"}
        if "messages" in body:
            choice = {"message": {"role": "assistant", "content": f"said {number}"}, "finish_reason": "stop"}
        return 200, {"choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}

    async def _leased(self) -> tuple[int, dict[str, Any]]:
        if self.open:
            game = self.open.pop(0)
            return 200, {"episode": game, "base_url": f"{self.url}/v1/runs/demo/episodes/{game}", "api_key": "key",
                         "model": "base", "agents": list(self.agents), "scenario": {"seed": int(game.split("-")[0])},
                         "leased": 1, "lease_seconds": self.lease, "episode_seconds": 60}
        if not self.over():
            await asyncio.sleep(0.02)
            return 204, {}
        return 409, {"type": "urn:millrace:problem:run-over", "detail": "the run is completed"}

    def drop(self) -> None:
        """Cuts all connections, as a server does that is killed."""

        def cut() -> None:
            for writer in self._writers:
                writer.transport.abort()

        self._loop.call_soon_threadsafe(cut)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)


@contextlib.contextmanager
def serving(games: int, **how: Any) -> Iterator[Server]:
    server = Server(games, **how)
    try:
        yield server
    finally:
        server.close()


def play(env: Environment, server: Server, **how: Any) -> Service:
    """Plays all games of the server."""
    service = Service(env, server.url, "demo", **how)
    asyncio.run(asyncio.wait_for(service.serve(), 60))
    return service


@environment
async def three_turns(scenario: Scenario, agents: Agents) -> float:
    for _ in range(3):
        await agents.only.ask("the same each time")
    return float(scenario.seed)


@environment
class Duel:
    """Two agents that say something at once, twice."""

    def reset(self, scenario: Scenario) -> Any:
        self.turns, self.thread = 0, threading.current_thread()
        return {"A": "first", "B": [{"role": "user", "content": "first"}]}

    def step(self, answers: Any) -> Any:
        if self.thread is not threading.current_thread():
            raise RuntimeError("another thread")
        self.turns += 1
        if self.turns < 2:
            return {name: {"prompt": answer.text, "max_tokens": 4} for name, answer in answers.items()}
        return Done({"A": 1, "B": -1}, truncated=True)


class Quiet(unittest.TestCase):
    def setUp(self) -> None:
        logging.getLogger("millrace.env").setLevel(logging.CRITICAL)


class Games(Quiet):
    def test_are_played_and_reported(self) -> None:
        with serving(20) as server:
            service = play(three_turns, server, slots=4)
            self.assertEqual(server.ended, {
                f"{n}-0": ("done", {"rewards": {"agent": float(n)}, "truncated": False}) for n in range(20)
            })
            self.assertEqual({len(calls) for calls in server.calls.values()}, {3}, "the same prompt is a new turn")
            self.assertEqual((service.ended, service.most), ({"played": 20}, 4))

    def test_of_several_agents_by_a_class(self) -> None:
        with serving(3, agents=("A", "B")) as server:
            play(Duel, server)
            self.assertEqual(server.ended["2-0"], ("done", {"rewards": {"A": 1.0, "B": -1.0}, "truncated": True}))
            asked = sorted((rest, body.get("prompt"), body.get("max_tokens")) for rest, body in server.calls["2-0"])
            chat, text = "/v1/chat/completions", "/v1/completions"
            self.assertEqual([rest for rest, *_ in asked],
                             ["agents/A" + text] * 2 + ["agents/B" + chat, "agents/B" + text])

    def test_two_thousand_at_a_time_take_one_poll(self) -> None:
        together = asyncio.Event()
        started = []

        @environment
        async def all_at_once(scenario: Scenario, agents: Agents) -> float:
            await agents.only.ask("ready?")
            started.append(scenario.seed)
            if len(started) == 2000:
                together.set()
            await together.wait()
            return 1.0

        with serving(2000) as server:
            service = play(all_at_once, server, slots=2000)
            self.assertEqual((service.most, service.ended["played"], server.polls), (2000, 2000, 1))

    def test_survive_cuts_and_refusals_and_no_call_counts_twice(self) -> None:
        count = iter(range(10**6))
        with serving(10) as server:
            server.cut = lambda path: "" if "lease" in path else {1: "before", 2: "after"}.get(next(count) % 4, "")
            busy = iter(range(10**6))
            server.answer = lambda game, body: (503, {}) if next(busy) % 5 == 0 else (200, {})
            service = play(three_turns, server)
            self.assertEqual(service.ended, {"played": 10})
            self.assertEqual({len(calls) for calls in server.calls.values()}, {3})

    def test_whose_lease_ended_are_left(self) -> None:
        with serving(2) as server:
            server.gone.add("0-0")
            self.assertEqual(play(three_turns, server).ended, {"lost": 1, "played": 1})

    def test_that_no_worker_plays_any_more_are_left(self) -> None:
        with serving(2) as server:
            server.thinks = 0.05  # as long as it waits for a worker
            server.answer = lambda game, body: (503, {}) if game == "0-0" else (200, {})
            service = Service(three_turns, server.url, "demo", slots=1)
            service.absent = 0.01
            server.over = lambda: len(server.ended) == 1
            asyncio.run(asyncio.wait_for(service.serve(), 60))
            self.assertEqual(service.ended, {"lost": 1, "played": 1})

    def test_that_are_silent_say_that_they_live(self) -> None:
        @environment
        async def slow(scenario: Scenario, agents: Agents) -> float:
            while server.heartbeats["0-0"] < 2:
                await asyncio.sleep(0.01)
            return 1.0

        with serving(1, lease=0.3) as server:
            self.assertEqual(play(slow, server).ended, {"played": 1})

    def test_whose_calls_are_made_elsewhere_may_be_silent_for_longer(self) -> None:
        @environment
        async def elsewhere(scenario: Scenario, agents: Agents) -> float:
            self.assertTrue(agents.only.base_url.endswith("/v1"))
            await asyncio.sleep(2.5)
            return 1.0

        with serving(1) as server:
            self.assertEqual(play(elsewhere, server, deadline=0.1).ended, {"played": 1})

    def test_of_a_run_that_is_refused(self) -> None:
        from millrace import NoSuchRun

        with serving(0) as server:
            server._leased = lambda: _soon((404, {"type": "urn:millrace:problem:no-such-run", "detail": "no run"}))  # type: ignore
            with self.assertRaises(NoSuchRun):
                play(three_turns, server)


class Connections(unittest.TestCase):
    def test_that_a_server_left_behind_cost_one_try(self) -> None:
        async def talk(server: Server) -> int:
            wire, lost = Wire(), 0
            url = f"{server.url}/v1/runs/demo/episodes/0-0/heartbeat"
            await asyncio.gather(*(wire.post(url, b"{}", None, 10) for _ in range(20)))
            server.drop()
            for _ in range(5):
                try:
                    await wire.post(url, b"{}", None, 10)
                except Lost:
                    lost += 1
            wire.close()
            return lost

        with serving(1) as server:
            self.assertLessEqual(asyncio.run(talk(server)), 1)


async def _soon(value: Any) -> Any:
    return value


class Scalar:
    """As numpy's are."""

    def __float__(self) -> float:
        return 0.25

    def tolist(self) -> float:
        return 0.25


async def asks_unknown(scenario: Scenario, agents: Agents) -> float:
    return float(bool(await agents["Z"].ask("?")))


async def raises(scenario: Scenario, agents: Agents) -> float:
    raise ZeroDivisionError("one by none")


async def leaves(scenario: Scenario, agents: Agents) -> float:
    sys.exit(3)


async def hangs(scenario: Scenario, agents: Agents) -> float:
    await asyncio.Event().wait()
    return 1.0


async def asks_nothing(scenario: Scenario, agents: Agents) -> float:
    return float(bool(await agents.only.ask("")))


async def asks_no_json(scenario: Scenario, agents: Agents) -> float:
    return float(bool(await agents.only.ask([{"role": "user", "content": object()}])))


async def asks_too_much(scenario: Scenario, agents: Agents) -> float:
    return float(bool(await agents.only.ask("refuse this")))


class HangsInAThread:
    def reset(self, scenario: Scenario) -> str:
        time.sleep(3600)
        return ""

    def step(self, answers: Any) -> Any: ...


class StepsIntoNothing:
    def reset(self, scenario: Scenario) -> Any:
        return None

    def step(self, answers: Any) -> Any: ...


def returns(value: Any) -> Any:
    async def rewarded(scenario: Scenario, agents: Agents) -> Any:
        return value

    return rewarded


BAD = {
    "raises": (raises, "environment_error: ZeroDivisionError: one by none (test_millrace_env.py:"),
    "calls sys.exit": (leaves, "environment_error: SystemExit: 3"),
    "hangs": (hangs, "environment_hung: the environment hangs has done nothing for 0.2 s"),
    "hangs in a thread": (HangsInAThread, "environment_hung: "),
    "asks an agent that is none": (asks_unknown, "unknown_agent: 'Z' is no agent of this run, whose spec has ['agent']"),
    "asks nothing": (asks_nothing, "bad_prompt: agent agent: a prompt is "),
    "asks what is no JSON": (asks_no_json, "bad_prompt: what is asked is no JSON"),
    "asks what is refused": (asks_too_much, "call_refused: too long"),
    "returns neither prompts nor the end": (StepsIntoNothing, "bad_prompt: reset and step return prompts"),
    "NaN for a reward": (returns(float("nan")), "bad_reward: agent agent: nan is no finite number"),
    "infinity": (returns(Done({"agent": float("inf")})), "bad_reward: "),
    "text": (returns("1"), "bad_reward: agent agent: '1' is no finite number"),
    "no reward": (returns(None), "bad_reward: "),
    "an agent without one": (returns({}), "bad_reward: there is none for ['agent']"),
    "a reward of nobody": (returns({"agent": 1, "Z": 1}), "unknown_agent: 'Z'"),
}


class BadEnvironments(Quiet):
    def test_fail_their_game_with_a_reason_and_the_others_go_on(self) -> None:
        for what, (bad, reason) in BAD.items():
            made = environment(bad)

            async def sometimes(scenario: Scenario, agents: Agents, bad: Any = made) -> Any:
                return await bad._play(scenario, agents) if scenario.seed == 1 else 0.5

            with self.subTest(what), serving(3) as server:
                server.answer = lambda game, body: (
                    (400, {"error": {"message": "too long"}}) if body.get("prompt") == "refuse this" else (200, {})
                )
                play(Environment(made.name, sometimes), server, deadline=0.2 if "hangs" in what else 60.0)
                how, said = server.ended.pop("1-0")
                self.assertEqual(how, "fail")
                self.assertTrue(said["reason"].startswith(reason), said)
                self.assertEqual([how for how, _ in server.ended.values()], ["done", "done"])

    def test_are_no_environments(self) -> None:
        for bad in (lambda scenario, agents: 1.0, type("NoStep", (), {"reset": lambda self, scenario: ""}), 7):
            with self.assertRaises(TypeError):
                environment(bad)

    def test_numpys_numbers_are_numbers(self) -> None:
        @environment
        async def scalars(scenario: Scenario, agents: Agents) -> Any:
            await agents.only.ask("?", max_tokens=Scalar())
            return Scalar()

        with serving(1) as server:
            play(scalars, server)
            self.assertEqual(server.ended["0-0"][1]["rewards"], {"agent": 0.25})

    def test_what_they_print_is_no_matter(self) -> None:
        @environment
        async def prints(scenario: Scenario, agents: Agents) -> float:
            print("{}")
            return 1.0

        with serving(1) as server, contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(play(prints, server).ended, {"played": 1})


    def test_of_another_version_of_their_package_are_refused_with_the_one_that_was_tried(self) -> None:
        from millrace.env.tasksets import harbor, verifiers

        names = ("verifiers", "harbor", "harbor.models.trial.config", "harbor.trial.trial")
        for make, tried in ((lambda: verifiers({"taskset": {"id": "sums-v1"}}), "verifiers==0.4.0"),
                            (lambda: harbor(["task"], {"name": "terminus-2"}), "harbor==0.26.0")):
            others = {name: mock.MagicMock(__version__="0.99.1") for name in names}
            with mock.patch.dict(sys.modules, others), self.assertRaisesRegex(RuntimeError, f" 0.99.1 is .*pip install {tried}"):
                make()


PROGRAM = '''
import os, time
from millrace.env import environment

@environment
async def blocks(scenario, agents):
    if scenario.seed == 1:
        time.sleep(3600)
    return 1.0

@environment
async def forks(scenario, agents):
    if os.fork() == 0:
        await agents.only.ask("from the child")  # never sent
    await agents.only.ask("from the parent")
    return 1.0

@environment
async def long(scenario, agents):
    await agents.only.ask("began")
    while not os.path.exists("go on"):
        await __import__("asyncio").sleep(0.01)
    return 1.0
'''


class Program(unittest.TestCase):
    """The command itself, as a process."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "bad.py").write_text(PROGRAM)

    def command(self, *args: str) -> "subprocess.Popen[str]":
        environ = dict(os.environ, PYTHONPATH=str(HERE), PYTHONDONTWRITEBYTECODE="1")
        process = subprocess.Popen([sys.executable, "-m", "millrace.env", *args], cwd=self.folder, env=environ,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.stdout.close)  # type: ignore[union-attr]
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def serve(self, name: str, server: Server, *more: str) -> "subprocess.Popen[str]":
        return self.command("serve", f"bad:{name}", "--run", "demo", "--server", server.url, *more)

    def test_a_game_that_blocks_the_loop_ends_alone(self) -> None:
        with serving(4) as server:
            self.assertEqual(self.serve("blocks", server, "--deadline", "2").wait(60), 0)
            how, said = server.ended.pop("1-0")
            self.assertEqual((how, said["reason"][:18]), ("fail", "environment_hung: "))
            self.assertEqual([how for how, _ in server.ended.values()], ["done"] * 3)

    @unittest.skipUnless(hasattr(os, "fork"), "no fork here")
    def test_a_game_that_forks_is_played_once(self) -> None:
        with serving(4) as server:
            self.assertEqual(self.serve("forks", server).wait(60), 0)
            self.assertEqual({body["prompt"] for calls in server.calls.values() for _, body in calls}, {"from the parent"})
            self.assertEqual(len(server.ended), 4)

    def test_sigterm_lets_games_in_play_end(self) -> None:
        with serving(4) as server:
            process = self.serve("long", server, "--slots", "2")
            until(lambda: len(server.calls) == 2)
            process.send_signal(signal.SIGTERM)
            (self.folder / "go on").touch()
            self.assertEqual(process.wait(60), 0)
            self.assertEqual((len(server.ended), len(server.open)), (2, 2))

    def test_sigterm_twice_leaves_them_to_others(self) -> None:
        with serving(2) as server:
            process = self.serve("long", server)
            until(lambda: len(server.calls) == 2)
            process.send_signal(signal.SIGTERM)
            self.assertIn("stopping: 2 games in play", process.stdout.readline())  # type: ignore[union-attr]
            process.send_signal(signal.SIGTERM)
            self.assertEqual((process.wait(60), server.ended), (0, {}))

    def test_journal_has_each_end(self) -> None:
        with serving(2) as server:
            (self.folder / "go on").touch()
            self.assertEqual(self.serve("long", server, "--journal", "ends").wait(60), 0)
            ends = [json.loads(line) for line in (self.folder / "ends").read_text().splitlines()]
            self.assertEqual(sorted(end["episode"] for end in ends), ["0-0", "1-0"])
            self.assertEqual(ends[0], {**ends[0], "ended": "played", "rewards": {"agent": 1.0}, "leased": 1})

    def test_wrong_words_are_told(self) -> None:
        for args, code, said in (
            (("serve", "bad", "--run", "x"), 1, "want module:name"),
            (("serve", "nowhere:x", "--run", "x"), 1, "there is no module 'nowhere'"),
            (("serve", "bad:nothing", "--run", "x"), 1, "has no 'nothing'"),
            (("serve", "bad:os", "--run", "x"), 1, "put @environment above it"),
            (("serve", "bad:long", "--run", "x", "--slots", "0"), 2, "--slots"),
            (("init", "Not a name"), 2, "want a name"),
        ):
            with self.subTest(args):
                process = self.command(*args)
                self.assertIn(said, process.communicate()[0])
                self.assertEqual(process.returncode, code)

    def test_projects_of_init_pass_their_tests(self) -> None:
        for style in ("function", "class"):
            self.assertEqual(self.command("init", f"my_{style}", "--style", style).wait(60), 0)
            environ = dict(os.environ, PYTHONPATH=str(HERE))
            out = subprocess.run([sys.executable, "-B", "-m", "unittest"], cwd=self.folder / f"my_{style}", env=environ,
                                 capture_output=True, text=True)
            self.assertIn("Ran 2 tests", out.stderr)
            self.assertEqual(out.returncode, 0, out.stderr)
        self.assertEqual(self.command("init", "my_class").wait(60), 1, "nothing is written over")


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        if time.monotonic() > end:
            raise AssertionError("it has not come within a minute")
        time.sleep(0.01)


class Rehearsal(unittest.TestCase):
    def test_needs_no_server(self) -> None:
        asked = []

        def answer(agent: str, body: dict[str, Any]) -> str:
            asked.append((agent, body.get("prompt")))
            return f"of {agent}"

        self.assertEqual(rehearse(Duel, answer, agents=("A", "B")), Done({"A": 1.0, "B": -1.0}, truncated=True))
        self.assertEqual(sorted(asked, key=str), [("A", "first"), ("A", "of A"), ("B", "of B"), ("B", None)])


if __name__ == "__main__":
    unittest.main()
