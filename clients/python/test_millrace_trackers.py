"""Tests of trackers.py and metrics.py with light fakes, by unittest or pytest; nothing to install."""

import contextlib
import io
import json
import math
import os
import struct
import sys
import tempfile
import threading
import types
import unittest
from unittest import mock

import millrace
from millrace import metrics as millrace_metrics
from millrace import trackers as millrace_trackers
from millrace.metrics import STEP, values_of


def group(rewards, prompt=(10, 4, 6), completion=(5, 2, 3), sequences=2):
    """A group with the rewards of its trajectories; tokens are their sum, the least and the greatest."""
    mean = sum(rewards) / len(rewards)
    std = math.sqrt(sum((r - mean) ** 2 for r in rewards) / len(rewards))
    tokens = [dict(zip(("sum", "min", "max"), of, strict=True)) for of in (prompt, completion)]
    return {
        "trained": {
            "trajectories": len(rewards),
            "sequences": sequences,
            "reward": {"mean": mean, "std": std, "min": min(rewards), "max": max(rewards)},
            "prompt_tokens": tokens[0],
            "completion_tokens": tokens[1],
        }
    }


def record(step, generation=1, wall=10.0, phases=None, groups=None, **service):
    groups = [group([0.0, 1.0]), group([1.0, 2.0, 3.0, 6.0])] if groups is None else groups
    return {
        "step": step,
        "generation": generation,
        "done": True,
        "trainer": {"wall_seconds": wall, "phases": phases or {"wait": 4.0, "train": 5.0}, "metrics": {"loss": 0.5}},
        "service": {"trainer_version": step, "zero_variance_groups": 1, "groups": groups, "trajectories": 6, **service},
    }


class Metrics(unittest.TestCase):
    def test_values(self):
        fleet = {"input_tps": 300.0, "output_tps": 20.0, "slot_share": 0.5}
        values = values_of(record(3, fleet=fleet, staleness_mean=1.5), gpus=2)
        for name, want in {
            STEP: 3,
            "time/step": 10,
            "timing_s/step": 10,
            "timing_s/gen": 4,
            "millrace/time/other": 1,
            "millrace/starved_share": 0.4,
            "fully_async/trainer/idle_ratio": 0.4,
            "critic/rewards/mean": 13 / 6,  # of six trajectories
            "reward/all/mean": (0.5 + 3) / 2,  # of two groups
            "millrace/reward/std": math.sqrt(51 / 6 - (13 / 6) ** 2),
            "critic/rewards/max": 6,
            "reward/all/max": 3,
            "millrace/zero_variance_share": 0.5,
            "perf/total_num_tokens": 30,
            "perf/throughput": 30 / 10 / 2,
            "response_length/mean": 10 / 4,
            "prompt_length/max": 6,
            "num_turns/all/mean": (2 / 2 + 2 / 4) / 2,
            "inference/agg/throughput": 320,
            "millrace/staleness/mean": 1.5,
            "loss": 0.5,
        }.items():
            self.assertAlmostEqual(values[name], want, places=9, msg=name)

    def test_filling_the_buffer_belongs_to_no_step_but_is_in_the_others_names(self):
        values = values_of(record(0, wall=100.0, phases={"wait": 90.0, "train": 10.0}))
        for name, want in {
            "millrace/time/prefill": 90,
            "millrace/time/step": 10,
            "millrace/time/wait": 0,
            "millrace/starved_share": 0,
            "time/step": 100,
            "time/wait_for_batch": 90,
        }.items():
            self.assertAlmostEqual(values[name], want, places=9, msg=name)
        self.assertNotIn("millrace/time/prefill", values_of(record(1)))

    def test_what_is_not_known_is_left_out(self):
        old = record(2, groups=[group([1.0]), {}])  # one group was played by a server that did not count
        values = values_of(old)
        self.assertNotIn("critic/rewards/mean", values)
        self.assertNotIn("perf/throughput", values_of(record(2)))  # the number of GPUs is the trainer's
        self.assertAlmostEqual(values["time/step"], 10)

    def test_names(self):
        self.assertEqual(
            {n for n in values_of(record(1), names=("verl",)) if n.startswith(("millrace/", "time/"))}, {STEP}
        )
        names = [n for m in millrace_metrics.METRICS for n in millrace_metrics.names_of(m, millrace_metrics.NAMES)]
        self.assertEqual(len(names), len(set(names)), "a name has two meanings")

    def test_a_trainers_figure_never_replaces_one_of_these(self):
        mine = record(1)
        mine["trainer"]["metrics"] = {"time/step": 7.0}
        values = values_of(mine)
        self.assertAlmostEqual(values["time/step"], 10)
        self.assertAlmostEqual(values["trainer/time/step"], 7)

    def test_failures(self):
        status = {
            "attempts": {"failed": 3},
            "departures": [{"code": "trained", "groups": 9}, {"code": "stale", "groups": 2}],
        }
        values = values_of(record(1), status)
        self.assertEqual([values["millrace/failed_attempts"], values["millrace/dropped/stale"]], [3, 2])
        self.assertNotIn("millrace/dropped/trained", values)


class Memory:
    """A tracker that keeps its calls, and knows what it has."""

    def __init__(self, last=None):
        self.calls, self.last, self.down = [], last, 0

    def last_step(self):
        return self.last

    def log(self, values, step):
        if self.down:
            self.down -= 1
            raise OSError("no route to host")
        self.calls.append(step)
        self.last = step


class Rewinding(Memory):
    def rewind(self, step):
        self.calls.append("rewind %d" % step)


class Service:
    """The records of completed steps, read as a tracker's log reads them."""

    def __init__(self, steps=0):
        self.records, self.reads = [record(k) for k in range(steps)], []

    def __call__(self, path):
        self.reads.append(path)
        if not path.startswith("/steps?from="):
            return {"attempts": {"failed": 0}}
        first, limit = (int(part.partition("=")[2]) for part in path.partition("?")[2].split("&"))
        page = self.records[first : first + min(limit, 2)]  # pages may be shorter than asked for
        following = first + len(page)
        return {"steps": page, "next": following if following < len(self.records) else None}


def log_of(tracker, service=None):
    return millrace_trackers.TrackerLog("fake", lambda: tracker, service or Service())


def put(log, *records):
    for one in records:
        log.put(one)
        assert log.flush(30)


class Logs(unittest.TestCase):
    def test_each_step_once_and_in_order(self):
        for name, tracker, service, steps, want in [
            ("from the start", Memory(), Service(), [0, 1, 2], [0, 1, 2]),
            ("killed before the last step was written", Memory(3), Service(8), [6, 7], [4, 5, 6, 7]),
            ("a new tracker for an old run", Memory(), Service(4), [4], [0, 1, 2, 3, 4]),
            ("back to a checkpoint: the first stays", Memory(5), Service(9), [4, 5, 6], [6]),
            ("back to a checkpoint: taken back", Rewinding(5), Service(9), [4, 5, 6], ["rewind 4", 4, 5, 6]),
        ]:
            with self.subTest(name), self.assertLogs("millrace", "WARNING") as said:
                millrace_trackers._log.warning("-")
                put(log_of(tracker, service), *[record(k) for k in steps])
                self.assertEqual(tracker.calls, want)
                self.assertEqual(len(said.records) - 1, int("first stays" in name))

    def test_an_object_that_has_only_log_begins_where_the_trainer_is(self):
        seen = []
        tracker = types.SimpleNamespace(log=lambda values, step: seen.append((step, values[STEP])))
        put(log_of(tracker, Service(9)), record(7), record(8))
        self.assertEqual(seen, [(7, 7.0), (8, 8.0)])

    def test_lost_records_are_left_out(self):
        service = Service(3)
        service.records[1]["lost_record"] = True
        tracker = Memory()
        put(log_of(tracker, service), record(3))
        self.assertEqual(tracker.calls, [0, 2, 3])

    def test_a_tracker_that_fails_is_warned_of_once_and_misses_nothing(self):
        tracker, service = Memory(), Service(6)
        log = log_of(tracker, service)
        with self.assertLogs("millrace", "WARNING") as said:
            tracker.down = 3
            put(log, *[record(k) for k in range(6)])
        self.assertEqual(tracker.calls, [0, 1, 2, 3, 4, 5])
        self.assertEqual(len(said.records), 1)
        self.assertIn("no route to host", said.output[0])

    def test_the_last_step_is_tried_again_at_the_end(self):
        tracker = Memory()
        log = log_of(tracker)
        with self.assertLogs("millrace", "WARNING"):
            tracker.down = 1
            put(log, record(0))
        log.close()
        self.assertEqual(tracker.calls, [0])

    def test_a_tracker_that_cannot_be_opened_is_opened_later(self):
        tracker, down = Memory(), [True, True]

        def opened():
            if down.pop() if down else False:
                raise ConnectionError("503")
            return tracker

        with self.assertLogs("millrace", "WARNING") as said:
            log = millrace_trackers.TrackerLog("fake", opened, Service(3))
            put(log, record(0), record(1), record(2))
        self.assertEqual(tracker.calls, [0, 1, 2])
        self.assertEqual(len(said.records), 1)

    def test_a_tracker_that_hangs_delays_nobody(self):
        go = threading.Event()
        seen = []

        def hang(values, step):
            go.wait(60)
            seen.append(step)

        service = Service(200)
        log = log_of(types.SimpleNamespace(log=hang), service)
        for k in range(200):  # none of these waits
            log.put(record(k))
        self.assertLessEqual(len(log._waiting), 64)
        go.set()
        self.assertTrue(log.flush(60))
        self.assertEqual(seen, list(range(200)))  # what did not fit was read again

    def test_the_process_ends_although_a_tracker_hangs(self):
        go = threading.Event()
        log = millrace_trackers.TrackerLog(
            "fake", lambda: types.SimpleNamespace(log=lambda values, step: go.wait(60)), Service(), flush_for=0.01
        )
        log.put(record(0))
        with self.assertLogs("millrace", "WARNING") as said:
            log.close()
        self.assertIn("does not answer", said.output[0])
        go.set()


class Trainer(unittest.TestCase):
    """Run.log_to, with a service of a few lines."""

    def run_of(self, rank=0):
        client = millrace.Client("http://127.0.0.1:9")
        status = {"id": "demo@2", "spec": {"name": "demo"}, "state": "running", "started_at": "2026-11-23T05:06:33.87Z"}
        with mock.patch.object(millrace.Client, "call", lambda *_args, **_more: dict(status)):
            run = client.run("demo", generation=1, rank=rank, world=2)
            self.seen = []
            run.log_to(types.SimpleNamespace(log=lambda values, step: self.seen.append(step)))
        return run

    def test_a_recorded_step_is_written(self):
        run = self.run_of()
        with mock.patch.object(
            millrace.Client, "call", lambda _self, *what, **_more: record(4) if "PUT" in what else {}
        ):
            step = run.step(4)
            step.batch = {"groups": []}
            with step:
                pass
            self.assertTrue(run._logs[0].flush(30))
        self.assertEqual(self.seen, [4])

    def test_rank_0_alone_writes(self):
        self.assertEqual(self.run_of(rank=1)._logs, [])

    def test_what_cannot_be_is_said_at_once(self):
        identity = millrace_trackers.Identity("demo", "demo-1", {})
        for to, options, kind, text in [
            ("comet", {}, ValueError, "mlflow, tensorboard, wandb"),
            (object(), {}, TypeError, "log(values, step)"),
            (Memory(), {"project": "x"}, TypeError, "project"),
            (Memory(), {"names": ("trl",)}, ValueError, "prime-rl"),
        ]:
            with self.subTest(to), self.assertRaises(kind) as refused:
                millrace_trackers.open_log(to, identity, Service(), **options)
            self.assertIn(text, str(refused.exception))
        with mock.patch.dict(sys.modules, {"wandb": None}), self.assertRaises(ImportError) as missing:
            millrace_trackers.open_log("wandb", identity, Service())
        self.assertIn("pip install './clients/python[wandb]'", str(missing.exception))

    def test_identity(self):
        status = {"id": "demo@2", "spec": {"name": "demo"}, "started_at": "2026-11-23T05:06:33.871791924Z"}
        self.assertEqual(millrace_trackers.identity_of(status).key, "demo@2-20261123T050633")


class FakeWandB(types.ModuleType):
    """The calls that are made of W&B, in order."""

    def __init__(self, folder, mode="offline", run=None, summary=None):
        super().__init__("wandb")
        self.calls = []
        inside = types.SimpleNamespace(
            id="demo@2-1",
            dir=os.path.join(folder, "offline-run-1", "files"),
            settings=types.SimpleNamespace(mode=mode),
            summary=summary or {},
            define_metric=lambda *a, **k: self.calls.append(("define", a, k)),
            log=lambda *a, **k: self.calls.append(("log", a, k)),
            finish=lambda: self.calls.append(("finish",)),
        )
        self._inside, self.run = inside, inside if run else None

    def installed(self):
        """The module, and its records, whose JSON is the step alone."""

        class Record:
            def ParseFromString(self, data):
                item = types.SimpleNamespace(key="", nested_key=STEP.split("/"), value_json=data.decode())
                self.history = types.SimpleNamespace(item=[item])

        proto = types.ModuleType("wandb.proto")
        proto.wandb_internal_pb2 = types.SimpleNamespace(Record=Record)
        return mock.patch.dict(sys.modules, {"wandb": self, "wandb.proto": proto})

    def init(self, **options):
        self.calls.append(("init", options))
        return self._inside


class WandB(unittest.TestCase):
    identity = millrace_trackers.Identity("demo", "demo@2-1", {"steps": 9})

    def test_a_run_of_its_own_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            self.leave(folder, [1, 2], "")  # of a trainer that was killed: what reached its disk
            fake = FakeWandB(folder)
            with fake.installed(), mock.patch.dict(os.environ, {}, clear=True):
                tracker = millrace_trackers.WandB(self.identity, entity="us")
                self.assertEqual(tracker.last_step(), 2)
                tracker.log({STEP: 3.0, "loss": 0.5}, 3)
                tracker.close()
        options = {"project": "millrace", "entity": "us", "id": "demo@2-1", "name": "demo", "resume": "allow"}
        self.assertEqual(
            fake.calls,
            [
                ("init", {**options, "config": {"steps": 9}}),
                ("define", (STEP,), {}),
                ("define", ("loss",), {"step_metric": STEP}),
                ("log", ({STEP: 3.0, "loss": 0.5},), {"step": 3, "commit": True}),
                ("finish",),
            ],
        )

    def test_what_is_on_the_disk_of_an_offline_run(self):
        for name, steps, torn, want in [
            ("nothing", [], "", None),
            ("many blocks", list(range(3000)), "", 2999),
            ("half a row at the end", [1, 2], "torn", 2),
        ]:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder, FakeWandB(folder).installed():
                self.leave(folder, steps, torn)
                self.assertEqual(millrace_trackers.WandB(self.identity).last_step(), want)

    def leave(self, folder, steps, torn):
        """An offline run's file: LevelDB's log in blocks of 32 KiB. The fake's records are JSON."""
        out = b":W&B\0\0\0"
        for step in steps:
            record, first = b"%d" % step + b" " * 40, True
            while record or first:
                left = 32768 - len(out) % 32768
                if left < 7:
                    out += b"\0" * left
                    continue
                chunk, record = record[: left - 7], record[left - 7 :]
                kind = {(True, True): 1, (True, False): 2, (False, False): 3, (False, True): 4}[first, not record]
                out, first = out + struct.pack("<IHB", 0, len(chunk), kind) + chunk, False
        if torn:
            out += struct.pack("<IHB", 0, 100, 1) + b"9"
        path = os.path.join(folder, "offline-run-0-demo@2-1")
        os.makedirs(path)
        with open(os.path.join(path, "run-demo@2-1.wandb"), "wb") as file:
            file.write(out)

    def test_online_it_is_asked_what_it_has(self):
        fake = FakeWandB("/nowhere", mode="online", summary={STEP: 41})
        with fake.installed():
            tracker = millrace_trackers.WandB(self.identity)
            tracker.log({STEP: 42.0}, 42)
        self.assertEqual(tracker.last_step(), 41)

    def test_the_trainers_own_run_keeps_its_count_of_steps(self):
        fake = FakeWandB("/nowhere", mode="online", run=True)
        with fake.installed():
            tracker = millrace_trackers.WandB(self.identity)
            tracker.log({STEP: 1.0}, 1)
            tracker.close()
        self.assertEqual(fake.calls, [("define", (STEP,), {}), ("log", ({STEP: 1.0},), {})])


class Page(unittest.TestCase):
    def test_the_table_has_every_name(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            print(millrace_metrics.table())
        for metric in millrace_metrics.METRICS:
            for name in millrace_metrics.names_of(metric, millrace_metrics.NAMES):
                self.assertIn("`%s`" % name, out.getvalue())
        json.dumps(out.getvalue())


if __name__ == "__main__":
    unittest.main()
