"""Tests of the line that run.steps(progress=True) writes."""

import contextlib
import io
import unittest

import millrace
from millrace.progress import Progress, duration


class Terminal(io.StringIO):
    def isatty(self):
        return True


def record(step, wall, phases, reward=None):
    trained = {"trajectories": 4, "reward": {"mean": reward, "std": 0.0}}
    groups = [] if reward is None else [{"trained": trained}]
    return {"step": step, "trainer": {"wall_seconds": wall, "phases": phases}, "service": {"groups": groups}}


STEPS = (
    # the wait for the first batch is no part of what a step takes: 20 s, then 30 s a step
    (record(0, 120.0, {"wait": 100.0, "train": 12.0}, 0.4), "step 1 of 12: waited 100.0 s, trained 12.0 s, reward 0.400, 4 min left"),
    (record(1, 40.0, {"wait": 10.0}), "step 2 of 12: waited 10.0 s, trained 30.0 s, 5 min left"),
    (record(11, 30.0, {"train": 30.0}, -1.0), "step 12 of 12: waited 0.0 s, trained 30.0 s, reward -1.000"),
)  # fmt: skip


class Line(unittest.TestCase):
    def shown(self, out):
        line = Progress(12, out)
        for one, _ in STEPS:
            line.put(one)
        line.close()
        return out.getvalue()

    def test_a_line_for_each_step(self):
        self.assertEqual(self.shown(io.StringIO()).splitlines(), [said for _, said in STEPS])

    def test_a_terminals_line_is_rewritten(self):
        self.assertEqual(self.shown(Terminal()), "".join("\r\x1b[K" + said for _, said in STEPS) + "\n")

    def test_a_stderr_that_is_gone_fails_no_step(self):
        gone = io.StringIO()
        line = Progress(12, gone)
        gone.close()
        line.put(STEPS[0][0])
        line.close()

    def test_durations(self):
        for seconds, said in ((0.4, "0 s"), (89, "89 s"), (90, "2 min"), (5300, "88 min"), (5400, "1 h 30 min")):
            self.assertEqual(duration(seconds), said)


class Steps(unittest.TestCase):
    class Fake(millrace.Client):
        """A run of two steps."""

        def _send(self, method, path, body, timeout, answered=lambda: None):
            if method == "PUT":
                return 200, record(int(path.split("/")[-1]), body["wall_seconds"], body["phases"])
            return 200, {"generation": 1, "next_step": 0, "policy_version": 0, "spec": {"steps": 2}, "groups": []}

    def told(self, rank=0, **asked):
        run = self.Fake("http://127.0.0.1:1").run("demo")
        run.rank, run.world = rank, 2
        with contextlib.redirect_stderr(Terminal()) as told:
            for step in run.steps(**asked):
                with step:
                    pass
        return told.getvalue()

    def test_rank_0_tells_if_it_is_asked_to(self):
        self.assertRegex(self.told(progress=True), "\r.*step 1 of 2: waited .*\r.*step 2 of 2: .*\n")
        self.assertEqual(self.told() + self.told(rank=1, progress=True), "")


if __name__ == "__main__":
    unittest.main()
