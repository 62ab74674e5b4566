"""A trainer says that it lives while a step is open, and not longer."""

import io
import threading
import unittest
import urllib.error
from email.message import Message
from typing import Any, List, Tuple

import millrace


class Heartbeats(unittest.TestCase):
    def test_while_a_step_is_open(self) -> None:
        sent: List[Tuple[str, Any]] = []
        twice = threading.Event()

        class Fake(millrace.Client):
            def _send(self, method: str, path: str, body: Any, timeout: float, answered: Any = lambda: None) -> Any:
                sent.append((path, body))
                if path.endswith("/heartbeat"):
                    if len(sent) > 2:
                        twice.set()
                    raise millrace.Fenced("another trainer took over", "fenced", 409)
                return 200, {"groups": []}

        run = Fake("http://127.0.0.1:1").run("demo", generation=7)
        step = run.step(3)
        step.heartbeat = 0.001
        with step:
            self.assertTrue(twice.wait(30))
        self.assertEqual(sent[1], ("/v1/runs/demo/heartbeat", {"generation": 7}))
        self.assertTrue(step._over.is_set())

    def test_last_word(self) -> None:
        """A step that ends in an error is not recorded, and the run hears why."""
        sent: List[Tuple[str, Any]] = []

        class Fake(millrace.Client):
            def _send(self, method: str, path: str, body: Any, timeout: float, answered: Any = lambda: None) -> Any:
                sent.append((path, body))
                return 200, {"groups": []}

        with self.assertRaises(FloatingPointError), Fake("http://127.0.0.1:1").run("demo", generation=7).step(3):
            raise FloatingPointError("loss nan, gradient norm nan")
        word = {"generation": 7, "ended": "FloatingPointError: loss nan, gradient norm nan"}
        self.assertEqual(sent[1:], [("/v1/runs/demo/heartbeat", word)])

    def test_a_run_that_is_over_says_so(self) -> None:
        answer = {"generation": 1, "next_step": 5, "policy_version": 5, "spec": {"steps": 5}}

        class Fake(millrace.Client):
            def _send(self, method: str, path: str, body: Any, timeout: float, answered: Any = lambda: None) -> Any:
                return 200, answer

        with self.assertLogs("millrace", "WARNING") as told:
            self.assertEqual(list(Fake("http://127.0.0.1:1").run("demo").steps()), [])
        self.assertIn("run demo has all of its 5 steps", told.output[0])

    def test_a_refused_token_says_where_it_is_set(self) -> None:
        body = io.BytesIO(b'{"detail": "the token is none of the server\'s"}')
        refusal = millrace.Client._refusal(urllib.error.HTTPError("http://x", 401, "", Message(), body))
        self.assertEqual(str(refusal), "the token is none of the server's (set MILLRACE_TOKEN, or give Client a token)")


if __name__ == "__main__":
    unittest.main()
