"""Checks millrace.py against a running server, which holds a run "demo" of 4 steps with groups enough for all of them.

Usage: millrace_check.py URL, where URL may lose requests and answers. Started by the Go tests of the API.
"""

import contextlib
import math
import struct
import sys
import time

import millrace


def check(ok, what):
    if not ok:
        raise AssertionError(what)


def refused(kind, call):
    try:
        call()
    except kind as err:
        check(str(err), "a refusal without text")
        return err
    raise AssertionError("not refused as %s" % kind.__name__)


class Leave(Exception):
    """Leaves a step without recording it."""


def single(value):
    """The same with numbers of 32 bits, which logprobs are."""
    if isinstance(value, dict):
        return {key: single(of) for key, of in value.items()}
    if isinstance(value, list):
        return [single(of) for of in value]
    return struct.unpack("f", struct.pack("f", value))[0] if isinstance(value, float) else value


def enter(step):
    with step:
        pass


class NoEngine(millrace.Client):
    """A client whose server answers for 20 minutes of its own clock that no engine can load the adapter."""

    def __init__(self):
        self.now = 0.0
        super().__init__("http://127.0.0.1:9", retry_for=600.0, clock=lambda: self.now, sleep=self.pass_time)

    def pass_time(self, seconds):
        self.now += seconds

    def _send(self, method, path, body, timeout, answered=lambda: None):
        if self.now < 1200.0:
            raise millrace._Lost("version 1 does not serve yet")
        return 200, {"state": "serving", "version": 1}


def main(url):
    # An outage of the engines is waited for longer than one of the server: the weights are good.
    waiting = NoEngine()
    check(waiting.run("demo").publish("/adapters/1")["state"] == "serving", "not published after the outage")
    check(waiting.now >= 1200.0, "published at %.0f s" % waiting.now)
    refused(millrace.Unavailable, lambda: NoEngine().call("GET", "/v1/runs/demo"))

    client = millrace.Client(url, retry_for=60.0, sleep=lambda seconds: time.sleep(seconds / 20))
    refused(millrace.NoSuchRun, lambda: client.run("nobody").attach())
    refused(millrace.Unavailable, lambda: millrace.Client("http://127.0.0.1:9", retry_for=0.2).run("demo").attach())

    first = client.run("demo").attach()
    check(first.spec["steps"] == 4 and first.next_step == 0 and first.policy_version == 0, "attached to %r" % vars(first))

    with first.step(0) as s:
        mine, others = s.adapter_dir(), millrace.Client(url).run("demo", first.generation).step(0).adapter_dir()
        check(mine.startswith("/adapters/demo/step000000-generation%d-" % first.generation), mine)
        check(mine == s.adapter_dir("/adapters/") != others, "two processes write to %s" % mine)
        batch = s.batch
        rows = list(s.sequences())
        try:
            compact = millrace.Client(url, retry_for=60.0, compact=True)
        except ImportError:
            compact = None  # numpy and zstandard are not there
        if compact:
            with contextlib.suppress(Leave), compact.run("demo", first.generation).step(0) as same:
                import numpy as np

                from millrace.tensors import collate

                made = same.arrays()  # before the batch is unpacked
                same.run.spec = first.spec
                for name, value in collate(list(same.sequences())).items():
                    check(np.array_equal(value, made[name]), "%s from the compact encoding: %r" % (name, made[name]))
                check(single(same.batch) == single(batch), "compact: %r\njson: %r" % (same.batch, batch))
                raise Leave
        check(len(rows) == 16, "%d sequences" % len(rows))
        for row in rows:
            n = len(row["token_ids"])
            check(n == len(row["loss_mask"]) == len(row["logprobs"]) == row["input_tokens"] + row["output_tokens"], "lengths of %r" % row)
            check(row["text"] == ("" if row["sequence_index"] else 'a"b'), "text of %r" % row)
            check(sum(row["loss_mask"]) == row["output_tokens"] > 0, "mask of %r" % row)
            held = None if row["sequence_index"] else {"kind": "choice", "choices": ["a", "b"]}
            check(row["constraint"] == held and row["temperature"] == 1, "distribution of %r" % row)
            check(row["policy_version"] == 0 and row["sequences_in_trajectory"] == 2, "row %r" % row)
        with s.phase("train"):
            time.sleep(0.02)
            refused(RuntimeError, lambda: s.phase("load").__enter__())
        s.metrics["loss"] = 0.5
        s.metrics["broken"] = math.nan
        refused(TypeError, lambda: s.metrics.update(epoch="first"))
        s.publish("/adapters/demo-v1")
    check(first.policy_version == 1 and first.next_step == 1, "after step 0: %r" % vars(first))
    record = client.call("GET", "/v1/runs/demo/steps/0")
    trainer = record["trainer"]
    check(record["done"] and set(trainer["phases"]) == {"wait", "load", "train", "publish"}, "record %r" % record)
    check(trainer["phases"]["train"] >= 0.02 and trainer["metrics"] == {"loss": 0.5}, "record %r" % record)
    check(sum(trainer["phases"].values()) <= trainer["wall_seconds"] + 1e-6, "phases of %r" % trainer)

    # An exception leaves the step unrecorded, and its batch is given again.
    seen = []

    class Broken(Exception):
        pass

    def broken():
        with first.step(1) as s:
            seen.append(s.batch)
            raise Broken("the trainer broke")

    refused(Broken, broken)
    check(not client.call("GET", "/v1/runs/demo/steps/1")["done"], "a broken step was recorded")

    # A second process takes over; the first is told.
    second = client.run("demo").attach()
    check(second.next_step == 1 and second.policy_version == 1, "attached to %r" % vars(second))
    refused(millrace.Fenced, lambda: enter(first.step(1)))
    with second.step(1) as s:
        check(s.batch == seen[0], "another batch for the same step")

    # Back to the checkpoint before step 0.
    third = client.run("demo").attach(resume_from=0)
    steps = []
    for s in third.steps(prefetch=True):
        with s:
            if s.number:
                check(set(s.phases) == {"wait"} and s.batch["step"] == s.number, "prefetched: %r" % s.phases)
            steps.append(s.number)
            if s.number == 0:
                check(s.batch == batch, "another batch after going back")
            refused(millrace.Conflict, lambda: third.publish("/elsewhere", version=1))
    check(steps == [0, 1, 2, 3], "steps %r" % steps)
    refused(millrace.RunOver, lambda: enter(third.step(4)))
    print("checked")


if __name__ == "__main__":
    main(sys.argv[1])
