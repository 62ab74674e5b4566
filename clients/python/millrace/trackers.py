"""Writes each step of a run to W&B, TensorBoard, MLflow, or an object of yours. Standard library only, until one is asked for.

    run = millrace.Client("http://127.0.0.1:8700").run("diplomacy-qwen7b")
    run.log_to("wandb")                     # "tensorboard", "mlflow", or an object with log(values, step)

metrics.py says what is written: the service's step records, so that it equals what `millrace run steps` shows.

Promises:

* Nothing here delays or fails a step. The trainer's thread only appends to a list; a thread of its own writes.
* Steps are written once and in order. Those that a killed trainer did not come to write are read from the service.
* A tracker that fails is warned of once, and gets the steps that it missed when it answers again.
* A step that is trained again, because the trainer went back, is written again where the tracker can take back what it
  has (TensorBoard); elsewhere the first stays, and a warning says so.
"""

from __future__ import annotations

import atexit
import glob
import json
import logging
import os
import struct
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set

from .metrics import NAMES, STEP, Record, values_of

_log = logging.getLogger("millrace")


class Identity(NamedTuple):
    """The run as trackers know it: the same for each trainer process of it, and for no other run of its name."""

    name: str
    key: str
    spec: Dict[str, Any]


def identity_of(status: Dict[str, Any]) -> Identity:
    name = status["spec"]["name"]
    began = "".join(c for c in status["started_at"].partition(".")[0] if c in "0123456789T")
    return Identity(name, "%s-%s" % (status.get("id") or name, began), status["spec"])


class WandB:
    """A W&B run: the one that is under way in this process, or one that goes on from trainer to trainer."""

    def __init__(self, run: Identity, project: Optional[str] = None, **options: Any) -> None:
        import wandb

        self._shared = wandb.run is not None
        self._last: Optional[int] = None
        self._defined: Set[str] = set()
        if wandb.run is not None:
            self._run: Any = wandb.run
        else:
            options.setdefault("id", run.key)
            options.setdefault("name", run.name)
            options.setdefault("config", run.spec)
            options.setdefault("resume", "allow")
            self._run = wandb.init(project=project or os.environ.get("WANDB_PROJECT") or "millrace", **options)
        if self._run.settings.mode == "offline":
            # Each process has a folder of its own until they are synced. One that was killed leaves less than it logged.
            folder = os.path.dirname(os.path.dirname(self._run.dir))
            files = glob.glob(
                os.path.join(glob.escape(folder), "offline-run-*-%s" % glob.escape(self._run.id), "*.wandb")
            )
            self._last = max((step for file in files for step in _steps_in(file)), default=None)
        elif STEP in self._run.summary:
            self._last = int(self._run.summary[STEP])

    def last_step(self) -> Optional[int]:
        return self._last

    def log(self, values: Dict[str, float], step: int) -> None:
        for name in values:
            if name not in self._defined:
                self._defined.add(name)
                self._run.define_metric(name, **({} if name == STEP else {"step_metric": STEP}))
        if self._shared:
            self._run.log(values)  # its steps are counted by whoever began it
        else:
            self._run.log(values, step=step, commit=True)  # not held back until the next step comes

    def close(self) -> None:
        if not self._shared:
            self._run.finish()


def _steps_in(path: str) -> Iterator[int]:
    """The steps that an offline run of W&B has on its disk."""
    from wandb.proto import wandb_internal_pb2

    proto: Any = wandb_internal_pb2
    for data in offline_records(path):
        record = proto.Record()
        record.ParseFromString(data)
        for item in record.history.item:
            if STEP in (item.key, "/".join(item.nested_key)):
                yield int(json.loads(item.value_json))


def offline_records(path: str) -> Iterator[bytes]:
    """The records of a .wandb file: LevelDB's log, in blocks of 32 KiB, behind seven bytes that say what it is."""
    with open(path, "rb") as file:
        data = file.read()
    at, record = 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:  # no header fits: the rest of the block is empty
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        chunk, at = data[at + 7 : at + 7 + length], at + 7 + length
        record = chunk if kind in (1, 2) else record + chunk  # 1: all of it; 2, 3, 4: its beginning, middle and end
        if kind in (1, 4) and len(chunk) == length:
            yield record


class TensorBoard:
    """Event files in a folder of the run's own, below `logdir`."""

    def __init__(self, run: Identity, logdir: str = "runs") -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._folder = os.path.join(logdir, run.key)
        self._last = self._read_last()
        self._writer = EventFileWriter(self._folder)

    def _read_last(self) -> Optional[int]:
        from tensorboard.backend.event_processing import event_accumulator

        if not os.path.isdir(self._folder):
            return None
        # Of each series the newest value: the reader knows of steps that were taken back.
        events = event_accumulator.EventAccumulator(self._folder, size_guidance={event_accumulator.TENSORS: 1})
        events.Reload()
        if STEP in events.Tags()["scalars"]:
            return int(events.Scalars(STEP)[-1].step)
        return None

    def last_step(self) -> Optional[int]:
        return self._last

    def rewind(self, step: int) -> None:
        """Readers forget what was written from this step on."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        start = SessionLog(status=SessionLog.START)
        self._writer.add_event(Event(wall_time=time.time(), step=step, session_log=start))

    def log(self, values: Dict[str, float], step: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        summary = Summary(value=[Summary.Value(tag=name, simple_value=value) for name, value in values.items()])
        self._writer.add_event(Event(wall_time=time.time(), step=step, summary=summary))
        self._writer.flush()  # a step is one event: a reader has all of it or nothing

    def close(self) -> None:
        self._writer.close()


class MLflow:
    """A run of MLflow's, found again by its tag: the active one of this process, or one of the experiment."""

    tag = "millrace.run"

    def __init__(self, run: Identity, experiment: Optional[str] = None, tracking_uri: Optional[str] = None) -> None:
        import mlflow
        from mlflow.tracking import MlflowClient

        self._client = MlflowClient(tracking_uri=tracking_uri)
        active = mlflow.active_run()
        self._shared = active is not None
        self._id: str = active.info.run_id if active is not None else self._find(run, experiment)

    def _find(self, run: Identity, experiment: Optional[str]) -> str:
        of = experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME") or "millrace"
        known = self._client.get_experiment_by_name(of)
        where = known.experiment_id if known is not None else self._client.create_experiment(of)
        found = self._client.search_runs([where], "tags.`%s` = '%s'" % (self.tag, run.key), max_results=1)
        if found:
            self._client.update_run(found[0].info.run_id, status="RUNNING")
            return str(found[0].info.run_id)
        made = self._client.create_run(where, run_name=run.name, tags={self.tag: run.key})
        spec = json.dumps(run.spec, sort_keys=True)
        self._client.set_tag(made.info.run_id, "millrace.spec", spec[:5000])
        return str(made.info.run_id)

    def last_step(self) -> Optional[int]:
        last = self._client.get_run(self._id).data.metrics.get(STEP)
        return None if last is None else int(last)

    def log(self, values: Dict[str, float], step: int) -> None:
        from mlflow.entities import Metric as Point

        now = int(time.time() * 1000)
        # The step itself first: should this process die on the way, the step is short, and not there twice.
        names = sorted(values, key=lambda name: name != STEP)
        self._client.log_batch(self._id, metrics=[Point(name, values[name], now, step) for name in names])

    def close(self) -> None:
        if not self._shared:
            self._client.set_terminated(self._id)


TRACKERS: Dict[str, Any] = {"wandb": WandB, "tensorboard": TensorBoard, "mlflow": MLflow}


class TrackerLog:
    """Writes a run's steps to one tracker, in a thread that ends with the process.

    A tracker has log(values, step), and may have last_step(), the last that it has or None; rewind(step), which takes
    back that step and later ones; and close(). All are called by one thread, one after the other.
    """

    page = 50  # records that are read at once

    def __init__(
        self,
        label: str,
        open_tracker: Callable[[], Any],
        read: Callable[[str], Any],
        names: Sequence[str] = NAMES,
        gpus: Optional[int] = None,
        flush_for: float = 10.0,
    ) -> None:
        self.label, self._open, self._read = label, open_tracker, read
        self.names, self.gpus, self.flush_for = names, gpus, flush_for
        self.last: Optional[int] = None  # the last step that the tracker has
        self._tracker: Any = None
        self._told: Set[str] = set()
        self._first: Optional[int] = None  # the first step that was put here
        self._waiting: List[Record] = []
        self._unwritten: Optional[Record] = None  # the latest record, if the tracker failed
        self._busy = self._closed = False
        self._changed = threading.Condition()
        self._thread: Optional[threading.Thread] = None
        try:
            self._opened()
        except ImportError:
            raise
        except Exception as err:
            self._failed(err)

    def put(self, record: Record) -> None:
        """Takes a step's record to be written. Never waits: beyond some, records are read again from the service."""
        with self._changed:
            if self._closed:
                return
            if self._first is None:
                self._first = record["step"]
            if len(self._waiting) >= 64:
                del self._waiting[:-1]
            self._waiting.append(record)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="millrace " + self.label, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, timeout: Optional[float] = None) -> bool:
        """Waits until all is written; reports whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._busy, timeout)

    def close(self) -> None:
        """Writes what waits, for `flush_for` seconds at most, and ends. Called at the process's end as well."""
        if self._unwritten is not None:
            self.put(self._unwritten)  # no later step will come and take it along
        done = self.flush(self.flush_for)
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
        if not done:
            self._warn("late", "does not answer: its last steps are written when a trainer goes on, or not at all")
        elif self._tracker is not None and hasattr(self._tracker, "close"):
            try:
                self._tracker.close()
            except Exception as err:
                self._failed(err)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                record, self._busy = self._waiting.pop(0), True
            try:
                self._write(record)
                self._unwritten = None
            except Exception as err:  # a tracker may fail in any way; the training must not
                self._unwritten = record
                self._failed(err)
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def _failed(self, err: Exception) -> None:
        why = str(err).strip() or "no reason given"
        self._warn(
            "failed",
            "%s: %s. The training goes on; what is missing is written when it answers again"
            % (type(err).__name__, why),
        )

    def _opened(self) -> None:
        tracker = self._open()
        if hasattr(tracker, "last_step"):
            self.last = tracker.last_step()
            if self.last is None:
                self.last = -1
        self._tracker = tracker
        atexit.register(self.close)  # after the tracker's own, and so before it

    def _write(self, record: Record) -> None:
        if self._tracker is None:
            self._opened()
        step = record["step"]
        if self.last is None:  # it cannot say what it has: it begins with this trainer
            self.last = (step if self._first is None else self._first) - 1
        if step <= self.last and not self._go_back(step):
            return
        for missed in self._missed(self.last + 1, step):
            self._log(missed, None)
        self._log(record, self._status())

    def _go_back(self, step: int) -> bool:
        if not hasattr(self._tracker, "rewind"):
            self._warn(
                "again",
                "has step %d already, and cannot take it back: what it has stays, and it goes on at step %d"
                % (step, (self.last or 0) + 1),
            )
            return False
        self._tracker.rewind(step)
        self.last = step - 1
        return True

    def _missed(self, first: int, end: int) -> Iterator[Record]:
        """The records of completed steps that nobody wrote, from the service; it may keep them no longer."""
        while first < end:
            page = self._read("/steps?from=%d&limit=%d" % (first, min(self.page, end - first)))
            for record in page["steps"]:
                if record["step"] >= end:
                    return
                if record["done"] and not record.get("lost_record"):
                    yield record
            following = page.get("next")
            if following is None or following <= first:
                return
            first = following

    def _log(self, record: Record, status: Optional[Dict[str, Any]]) -> None:
        self._tracker.log(values_of(record, status, self.names, self.gpus), record["step"])
        self.last = record["step"]

    def _status(self) -> Optional[Dict[str, Any]]:
        try:
            status: Dict[str, Any] = self._read("")
            return status
        except Exception:  # the step is written without the counts of failures
            return None

    def _warn(self, kind: str, text: str) -> None:
        if kind not in self._told:
            self._told.add(kind)
            _log.warning("%s: %s", self.label, text)


def open_log(
    to: Any,
    identity: Identity,
    read: Callable[[str], Any],
    names: Sequence[str] = NAMES,
    gpus: Optional[int] = None,
    **options: Any,
) -> TrackerLog:
    """A log of the run to a tracker by name, or to an object with log(values, step)."""
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise ValueError("names %r are not known: there are %s" % (unknown, ", ".join(NAMES)))
    if not isinstance(to, str):
        if not callable(getattr(to, "log", None)):
            raise TypeError("%r has no method log(values, step)" % (to,))
        if options:
            raise TypeError("options are for trackers by name: %s" % ", ".join(sorted(options)))
        return TrackerLog(type(to).__name__, lambda: to, read, names, gpus)
    if to not in TRACKERS:
        known = ", ".join(sorted(TRACKERS))
        raise ValueError("%r is not a tracker: there are %s, or an object with log(values, step)" % (to, known))
    try:
        return TrackerLog(to, lambda: TRACKERS[to](identity, **options), read, names, gpus)
    except ImportError as err:
        raise ImportError("%s is not installed (%s): pip install './clients/python[%s]' in Millrace's repository" % (to, err, to)) from err
