"""Client of Millrace for trainers: this file needs the standard library only, Python 3.10 or newer.

    import millrace

    run = millrace.Client("http://127.0.0.1:8700", token=None).run("diplomacy-qwen7b")
    for s in run.steps(resume_from=checkpoint_step):    # or None for a fresh trainer
        with s:                                         # claims the batch; the time waited is phase "wait"
            with s.phase("load"):
                rows = list(s.sequences())              # token_ids, loss_mask, logprobs, advantage, ...
            with s.phase("ref_logprobs"):
                ...
            with s.phase("train"):
                s.metrics["loss"] = train(rows)
            s.publish(save(s.adapter_dir()))                # writes the adapter, and publishes it: phase "publish"
        # leaving the block records the step; leaving it by an exception does not

Or one step at a time, after run.attach():

    with run.step(run.next_step) as s:
        batch = s.batch

What a trainer makes of the rows is in the modules beside this one: `rows` (advantages, merged turns, weights, token
budgets), `compact` and `arrays` (the compact encoding), `tensors` and `constraints` (numpy, torch), `losses` (torch).
`pip install './clients/python[torch]'` brings what they need.

run.log_to("wandb"), or "tensorboard", "mlflow", or an object with log(values, step), writes each step there, too. That
needs the package as a whole.

Promises, and what they ask of you:

* A step's batch is a function of the step's number. Claiming again after a crash gives the same trajectories.
* Announcing a trainer (attach) fences off every process that was announced before: those get millrace.Fenced.
* To go back to a checkpoint, attach with resume_from=K: steps from K on are given again while they are kept.
* Each turn is one sequence. Token ids come from the engine; never make them again from the text.
* Logprobs are of the distribution that was sampled from: after the row's temperature, and, where the row has a
  `constraint`, renormalised over what that allows. A ratio of anything else is wrong; `tensors` refuses to make one.
* A trajectory's advantage is (reward - mean) / std over the group's episodes of the same agent, std of the population;
  0 where all rewards are equal. `rows.advantages` has others.
* Should the service's Redis come back older than it was, all trainers are refused once (millrace.Fenced) and attach
  again; a step whose batch went with it is millrace.BatchLost until a trainer goes back behind that step.
* Connection errors and 503s are tried again for `retry_for` seconds; then millrace.Unavailable is raised.
* A published version never changes its weights, and engines may read its directory again at any time: write each attempt at a
  step to a directory of its own (Step.adapter_dir names one) and leave it alone. Other weights under a version, or from a
  directory that serves, are millrace.Conflict.
* While no engine can load a version, publish waits for `publish_for` seconds: that is never the adapter's fault.
* Metrics are numbers: anything else is refused as it is set. One that is not finite is left out of the record.
* The phases of a step run one after the other; what they leave of the step's time is reported as "other".

Objects are not safe for use by several threads. With several ranks, let rank 0 attach, record and publish, tell
the others its generation and next step, and make theirs with Client(...).run(name, generation=G, rank=R, world=N, next_step=K),
rank 0 with run.rank, run.world = 0, N: each gets its own share of each batch, and only rank 0 records.
"""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import logging
import math
import os
import random
import shutil
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

__all__ = [
    "Client", "Run", "Step", "Error", "Fenced", "Unavailable", "RunOver", "OutOfOrder", "NotRetained", "BatchLost", "NoSuchRun",
    "Conflict", "Invalid", "sequences",
]

__version__ = "0.1.0"

_log = logging.getLogger("millrace")
_SAY_EVERY = 30.0  # seconds between two lines of the log about a server that does not answer
_URN = "urn:millrace:problem:"
_COMPACT = "application/x-millrace-batch"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_RETRY_STATUS = (408, 429, 502, 503, 504)


class Error(Exception):
    """A request that was answered with no. `code` is stable; the text says what to do."""

    def __init__(self, detail: str, code: str = "", status: int = 0, request_id: str = "") -> None:
        super().__init__(detail)
        self.code, self.status, self.request_id = code, status, request_id


class Fenced(Error):
    """A newer trainer process took over; this one must end."""


class Unavailable(Error):
    """The service did not answer within the time given to it."""


class RunOver(Error):
    """The run is completed, stopped or failed; there are no more batches."""


class OutOfOrder(Error):
    """A step or a version that is not the next one."""


class NotRetained(Error):
    """The batch was trained on and is no longer kept."""


class BatchLost(Error):
    """The batch was granted, and the service's Redis came back without it. It is never replaced by another one unasked.

    Restore weights from before the step (or keep yours, if they have not learned from it) and attach(resume_from=step),
    or an earlier step: the batch is then formed of other groups.
    """


class NoSuchRun(Error):
    """There is no run of this name."""


class Conflict(Error):
    """It contradicts what was said before, such as another record for a completed step."""


class Invalid(Error):
    """It can never be accepted as it is."""


_BY_CODE = {
    "fenced": Fenced, "unavailable": Unavailable, "run-over": RunOver, "out-of-order": OutOfOrder, "conflict": Conflict,
    "not-retained": NotRetained, "batch-lost": BatchLost, "no-such-run": NoSuchRun, "invalid": Invalid, "malformed": Invalid,
}


class _Lost(Exception):
    """No answer, or a part of one: the request may be sent again."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The API does not redirect, and a token must not follow where somebody else points."""

    def redirect_request(self, *_args: Any) -> None:
        return None


class Client:
    """One Millrace server. `token` defaults to the environment's MILLRACE_TOKEN; MILLRACE_CA_FILE names authorities for https.

    `compact` asks for batches in compact form, a fifth of the bytes; it needs numpy and zstandard.
    """

    def __init__(
        self,
        url: str,
        token: Optional[str] = None,
        retry_for: float = 600.0,
        timeout: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        publish_for: float = 3600.0,
        compact: bool = False,
    ) -> None:
        if compact:
            from . import compact as _needed  # noqa: F401  # what is missing is said now, not at the first batch
        self.url = url.rstrip("/")
        self.token = token if token is not None else os.environ.get("MILLRACE_TOKEN")
        self.retry_for, self.timeout, self.publish_for = retry_for, timeout, publish_for
        self.clock, self.sleep, self.compact = clock, sleep, compact
        handlers: List[urllib.request.BaseHandler] = [_NoRedirect()]
        if urllib.parse.urlsplit(self.url).hostname in _LOOPBACK:
            handlers.append(urllib.request.ProxyHandler({}))
        authorities = os.environ.get("MILLRACE_CA_FILE")
        if authorities:
            context = ssl.create_default_context()
            context.load_verify_locations(authorities)  # besides the system's own
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)

    def run(self, name: str, generation: Optional[int] = None, rank: int = 0, world: int = 1, next_step: int = 0) -> "Run":
        """A training run, not yet attached unless rank 0's generation is given."""
        return Run(self, name, generation, rank, world, next_step)

    def call(
        self, method: str, path: str, body: Any = None, timeout: Optional[float] = None, retry_for: Optional[float] = None
    ) -> Any:
        """Sends one request, again while the service is away, and answers the JSON that came back (None for 204)."""
        return self._again(lambda: self._send(method, path, body, timeout or self.timeout)[1], retry_for)

    def _again(self, attempt: Callable[[], Any], retry_for: Optional[float] = None) -> Any:
        retry_for = self.retry_for if retry_for is None else retry_for
        began = said = self.clock()
        deadline = began + retry_for
        pause = 0.1
        while True:
            try:
                return attempt()
            except _Lost as lost:
                if self.clock() + pause > deadline:
                    raise Unavailable("%s: no answer for %.0f seconds: %s" % (self.url, retry_for, lost)) from lost
                if pause == 0.1 or self.clock() - said >= _SAY_EVERY:
                    said = self.clock()
                    _log.warning(
                        "%s does not answer since %.0f s (%s); trying for %.0f s more. Is the URL right, and the server up?",
                        self.url, said - began, lost, deadline - said,
                    )
            self.sleep(pause * random.uniform(0.75, 1.25))
            pause = min(2 * pause, 5.0)

    def _send(
        self, method: str, path: str, body: Any, timeout: float, answered: Callable[[], None] = lambda: None
    ) -> Any:
        """One try: (status, decoded body). `answered` is called when the answer begins, before its body is read."""
        headers = {"Accept": "application/json", "Accept-Encoding": "gzip"}
        if self.compact and "/claim" in path:
            headers["Accept"] = _COMPACT
        data = b"" if method == "POST" else None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        if self.token:
            headers["Authorization"] = "Bearer " + self.token
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        try:
            with self._opener.open(request, timeout=timeout) as answer:
                answered()
                return answer.status, self._decode(answer)
        except urllib.error.HTTPError as err:
            with err:
                raise self._refusal(err) from None
        except (OSError, http.client.HTTPException, EOFError, ValueError) as err:
            # A timeout, a refused or cut connection, or JSON that stops in the middle.
            raise _Lost("%s: %s" % (type(err).__name__, err)) from err

    @staticmethod
    def _decode(answer: Any) -> Any:
        if answer.status == 204:
            return None
        if answer.headers.get("Content-Type") == _COMPACT:
            return answer.read()
        if answer.headers.get("Content-Encoding") == "gzip":
            with gzip.GzipFile(fileobj=answer) as unzipped:
                return json.load(unzipped)
        return json.load(answer)

    @staticmethod
    def _refusal(err: urllib.error.HTTPError) -> Exception:
        try:
            problem = json.loads(err.read())
            detail, urn = str(problem.get("detail", "")), str(problem.get("type", ""))
            request_id = str(problem.get("request_id", ""))
        except (OSError, http.client.HTTPException, ValueError, AttributeError):
            detail, urn, request_id = "HTTP %d" % err.code, "", ""
        if err.code in _RETRY_STATUS:
            return _Lost(detail)
        if err.code == 401:
            detail += " (set MILLRACE_TOKEN, or give Client a token)"
        code = urn[len(_URN):] if urn.startswith(_URN) else ""
        return _BY_CODE.get(code, Error)(detail, code, err.code, request_id)


class Run:
    """One training run, as one trainer process sees it."""

    def __init__(self, client: Client, name: str, generation: Optional[int], rank: int, world: int, next_step: int) -> None:
        self.client, self.name, self.generation, self.rank, self.world = client, name, generation, rank, world
        self.next_step = next_step
        self.policy_version = 0
        self.spec: Dict[str, Any] = {}
        self._logs: List[Any] = []
        self._process = uuid.uuid4().hex[:8]  # of this process alone, whatever run, service or Redis comes back
        self._path = "/v1/runs/" + urllib.parse.quote(name, safe="")

    def attach(self, resume_from: Optional[int] = None) -> "Run":
        """Announces this process as the run's trainer. With resume_from, steps from there on are given again."""
        body = {} if resume_from is None else {"resume_from": resume_from}
        answer = self.client.call("POST", self._path + "/trainer", body)
        self.generation, self.next_step = answer["generation"], answer["next_step"]
        self.policy_version, self.spec = answer["policy_version"], answer["spec"]
        return self

    def sampling(self) -> Dict[str, Any]:
        """How the run's tokens are sampled: temperature, top_p, top_k, max_tokens. It never changes in a run."""
        if not self.spec:  # a rank that was told its generation
            self.spec = self.status()["spec"]
        return dict(self.spec.get("sampling") or {})

    def status(self) -> Dict[str, Any]:
        """The run as the service sees it: state, buffer by state, engines, waits."""
        status: Dict[str, Any] = self.client.call("GET", self._path)
        return status

    def log_to(
        self,
        tracker: Any,
        names: Sequence[str] = ("millrace", "prime-rl", "verl"),
        gpus: Optional[int] = None,
        **options: Any,
    ) -> "Run":
        """Writes each step of this trainer to "wandb", "tensorboard", "mlflow", or an object with log(values, step).

        A trainer that resumes goes on in the same W&B run, folder or MLflow run. `names` are those to write under, and
        `gpus` the trainer's, for verl's tokens per second and GPU. Options are the tracker's: W&B's are wandb.init's,
        TensorBoard's `logdir`, MLflow's `experiment` and `tracking_uri`. Rank 0 alone writes. A tracker that fails
        never fails a step.
        """
        from . import trackers  # here, so that this file works alone

        if self.rank != 0:
            return self
        identity = trackers.identity_of(self._started())
        # A client of its own: it must not share this one between threads, nor wait as long as a trainer does.
        reader = Client(self.client.url, self.client.token, retry_for=5.0, timeout=10.0)
        path = self._path
        log = trackers.open_log(
            tracker, identity, lambda what: reader.call("GET", path + what), names, gpus, **options
        )
        self._logs.append(log)
        return self

    def _started(self) -> Dict[str, Any]:
        """The run's status, once its workflow has said when it began."""
        give_up = self.client.clock() + self.client.retry_for
        while True:
            status = self.status()
            if status["state"] != "starting":
                return status
            if self.client.clock() >= give_up:
                raise Unavailable("run %s does not start: no worker is alive, or Temporal is away" % self.name)
            self.client.sleep(0.5)

    def step(self, number: int, timeout: Optional[float] = None) -> "Step":
        """The step as a context: entering claims its batch, leaving records it. `timeout` bounds the wait for the batch."""
        if self.generation is None:
            self.attach()
        return Step(self, number, timeout)

    def steps(self, resume_from: Optional[int] = None, prefetch: bool = False, progress: bool = False) -> Iterator["Step"]:
        """Attaches and gives one step after the other, its batch claimed, until the run is over. Enter each with `with`.

        With `prefetch`, a thread claims and reads the next batch while the step trains. Its groups are then claimed one
        version earlier, so the run needs a max_staleness of 1 more for the same games. What the trainer waits in spite
        of it is the phase "wait".

        With `progress`, rank 0 tells of each step on stderr: seconds waited and trained, reward, time left. On a terminal
        it is one line that is rewritten. That needs the package as a whole.
        """
        if self.generation is None:
            self.attach(resume_from)
        if progress and self.rank == 0:
            from .progress import Progress  # here, so that this file works alone

            with contextlib.closing(Progress(self.spec.get("steps", 0))) as line:
                self._logs.append(line)
                try:
                    yield from self.steps(None, prefetch)
                finally:
                    self._logs.remove(line)
            return
        if self.next_step >= self.spec.get("steps", self.next_step + 1):
            _log.warning("run %s has all of its %d steps: there is nothing to train on", self.name, self.next_step)
        ahead: Optional[_Ahead] = None
        while self.next_step < self.spec.get("steps", self.next_step + 1):
            step = ahead.step() if ahead else self.step(self.next_step)
            try:
                step._begin()
            except RunOver:
                return
            ahead = _Ahead(self, step.number + 1) if prefetch and step.number + 1 < self.spec.get("steps", 0) else None
            yield step
            if not step.done:
                raise RuntimeError("step %d was not completed: use `with s:` for every step" % step.number)

    def publish(self, path: str, version: Optional[int] = None, timeout: float = 300.0) -> Dict[str, Any]:
        """Publishes the adapter at `path` (as the engines see it) and waits until it serves. The next version, if none is given.

        The same weights again change nothing. Conflict: the version, or the directory, has other weights already.
        Invalid: engines cannot serve the adapter as it is. Unavailable: no engine could load it for `publish_for` seconds.
        """
        if version is None:
            version = self.policy_version + 1
        body: Dict[str, Any] = {"path": path}
        if self.generation is not None:
            body["generation"] = self.generation
        path_of = "%s/policies/%d" % (self._path, version)
        policy: Dict[str, Any] = self.client.call("PUT", path_of, body, timeout, max(self.client.publish_for, self.client.retry_for))
        if policy["state"] == "rejected":
            raise Invalid("version %d was not published: %s" % (version, policy.get("reason", "no reason given")), "invalid")
        self.policy_version = max(self.policy_version, version)
        return policy


    def prune_adapters(self, keep: int = 2) -> List[str]:
        """Deletes the directories of retired versions below the run's prefix, the newest `keep` of them excepted.

        Answers what was deleted. A version is retired once no engine may need its weights again; those that an
        evaluation plays with stay until it is over. The best versions in evaluations stay, too, as many as the spec's
        `evaluate.keep` says.
        """
        listed = self.client.call("GET", self._path + "/policies")
        policies = sorted(listed["policies"], key=lambda policy: policy["version"])
        retired = [policy["path"] for policy in policies if policy["state"] == "retired"]
        used = {policy["path"] for policy in policies if policy["state"] != "retired"}
        for one in self.client.call("GET", self._path + "/evaluations")["evaluations"]:
            if one.get("kept") or one["state"] in ("starting", "running", "paused"):
                used.update([one.get("path"), *one.get("opponent_paths", [])])
        prefix = os.path.join(self._prefix(), "")
        old = retired[: max(0, len(retired) - keep)]
        gone = [path for path in old if path.startswith(prefix) and path not in used and os.path.isdir(path)]
        for path in gone:
            shutil.rmtree(path)
        return gone

    def _prefix(self) -> str:
        if not self.spec:
            self.spec = self.status()["spec"]
        return str(self.spec["adapters"]["path_prefix"])


class _Ahead:
    """A step whose batch a thread claims before its turn has come, through a client of its own."""

    def __init__(self, run: Run, number: int) -> None:
        of = run.client
        client = Client(of.url, of.token, of.retry_for, of.timeout, of.clock, of.sleep, of.publish_for, of.compact)
        theirs = Run(client, run.name, run.generation, run.rank, run.world, number)
        self._run, self._step = run, Step(theirs, number)
        self._fault: Optional[Exception] = None
        self._thread = threading.Thread(target=self._claim, name="millrace-prefetch", daemon=True)
        self._thread.start()

    def _claim(self) -> None:
        try:
            self._step._begin()
        except Exception as fault:  # raised in the trainer's own thread, when the step's turn comes
            self._fault = fault

    def step(self) -> "Step":
        """The step, as the trainer's own; only what it waits for here is its wait."""
        began = self._run.client.clock()
        self._thread.join()
        step = Step(self._run, self._step.number)
        if self._fault is None:
            step._batch, step._started = self._step._batch, began
            step._add("wait", self._run.client.clock() - began)
        elif not isinstance(self._fault, RunOver):
            raise self._fault
        return step


class _Metrics(Dict[str, float]):
    """A step's figures; each is a number, or is refused as it is set."""

    def __setitem__(self, name: str, value: Any) -> None:
        try:
            number = float(value)  # a tensor of one element is a number, too
        except (TypeError, ValueError):
            raise TypeError("metric %r is %r; metrics are numbers" % (name, value)) from None
        super().__setitem__(str(name), number)

    def update(self, *others: Any, **more: Any) -> None:
        for name, value in dict(*others, **more).items():
            self[name] = value


class Step:
    """One optimizer step: its batch, and where its time goes."""

    poll = 30.0  # seconds that the server is asked to hold a claim
    heartbeat = 10.0  # seconds between signs of life while the step trains; a minute without one is reported

    def __init__(self, run: Run, number: int, timeout: Optional[float] = None) -> None:
        self.run, self.number, self.timeout = run, number, timeout
        self._batch: Any = {}  # or bytes, in compact form, until somebody asks for what is in it
        self._packed = b""
        self.phases: Dict[str, float] = {}
        self.metrics: Dict[str, float] = _Metrics()
        self.record: Optional[Dict[str, Any]] = None  # the service's own record, once the step is recorded
        self.done = False
        self._started = 0.0
        self._open: Optional[str] = None
        self._over = threading.Event()

    def __enter__(self) -> "Step":
        self._begin()
        if self.run.rank == 0:
            threading.Thread(target=self._beat, name="millrace-heartbeat", daemon=True).start()
        return self

    def __exit__(self, kind: Any, value: Any, _trace: Any) -> None:
        self._over.set()
        if kind is None:
            self._complete()
        elif self.run.rank == 0 and not self.done:
            self._say_why(kind, value)

    def _beat(self) -> None:
        """Says that the trainer lives until the step is over. A heartbeat that is lost is made up for by the next."""
        while not self._over.wait(self.heartbeat):
            self._send_heartbeat({})

    def _say_why(self, kind: Any, value: Any) -> None:
        """Says why the step was not trained to its end, so that the run tells it instead of a silent trainer."""
        self._send_heartbeat({"ended": f"{kind.__name__}: {value}".rstrip(": ")[:500]})

    def _send_heartbeat(self, more: Dict[str, Any]) -> None:
        client, run = self.run.client, self.run
        try:
            client._send("POST", run._path + "/heartbeat", {"generation": run.generation, **more}, client.timeout)
        except (Error, _Lost) as err:
            _log.debug("heartbeat of step %d: %s", self.number, err)

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measures a part of the step. Phases do not overlap; the same name again adds up."""
        if self._open is not None:
            raise RuntimeError("phase %r begins inside of phase %r; phases run one after the other" % (name, self._open))
        self._open, began = name, self.run.client.clock()
        try:
            yield
        finally:
            self._open = None
            self._add(name, self.run.client.clock() - began)

    def publish(self, path: str, version: Optional[int] = None, timeout: float = 300.0) -> Dict[str, Any]:
        """Run.publish, measured as phase "publish"."""
        with self.phase("publish"):
            return self.run.publish(path, version, timeout)

    def adapter_dir(self, prefix: Optional[str] = None) -> str:
        """A directory below the run's adapters.path_prefix (or `prefix`) that nobody else ever writes to.

        Its name has the step, the generation, and a part that this process drew: a run of the same name in another
        service, or after its Redis was emptied, has other directories.
        """
        return "%s/%s/step%06d-generation%d-%s" % (
            (prefix or self.run._prefix()).rstrip("/"), self.run.name, self.number, self.run.generation or 0, self.run._process
        )

    @property
    def batch(self) -> Dict[str, Any]:
        """The batch as the server's JSON has it; from a batch in compact form it is made when it is first asked for."""
        if isinstance(self._batch, bytes):
            from .compact import decode

            began = self.run.client.clock()
            self._packed, self._batch = self._batch, decode(self._batch)
            if self._open is None:
                self._add("load", self.run.client.clock() - began)
        batch: Dict[str, Any] = self._batch
        return batch

    @batch.setter
    def batch(self, batch: Dict[str, Any]) -> None:
        self._batch, self._packed = batch, b""

    def arrays(self, pad_id: int = 0, multiple_of: int = 1, allowed: Any = None) -> Dict[str, Any]:
        """tensors.collate of the batch's sequences. From a batch in compact form, ten times as fast as from JSON."""
        packed = self._batch if isinstance(self._batch, bytes) else self._packed
        if packed:
            from .arrays import collate_compact

            return collate_compact(packed, pad_id, multiple_of, self.run.sampling(), allowed)
        from .tensors import collate

        return collate(list(self.sequences()), pad_id, multiple_of, allowed=allowed)

    def sequences(self) -> Iterator[Dict[str, Any]]:
        """The batch as flat sequences; see the function of the same name."""
        return sequences(self.batch, self.run.sampling())

    def _add(self, name: str, seconds: float) -> None:
        self.phases[name] = self.phases.get(name, 0.0) + seconds

    def _begin(self) -> None:
        """Claims the batch, once. What passes until the answer begins is the wait; reading it is "load"."""
        if self._batch:
            return
        client = self.run.client
        self._started = client.clock()
        give_up = None if self.timeout is None else self._started + self.timeout
        while not client._again(lambda: self._claim(give_up)):
            if self.timeout is not None and client.clock() >= self._started + self.timeout:
                raise Unavailable("step %d: no batch within %.1f seconds" % (self.number, self.timeout))

    def _claim(self, give_up: Optional[float]) -> bool:
        """One long poll; reports whether the batch came."""
        client, run = self.run.client, self.run
        wait = self.poll if give_up is None else max(0.0, min(self.poll, give_up - client.clock()))
        query = {"generation": run.generation, "wait": "%.3f" % wait}
        if run.world > 1:
            query.update(rank=run.rank, world=run.world)
        path = "%s/steps/%d/claim?%s" % (run._path, self.number, urllib.parse.urlencode(query))
        began = [self._started]

        def answered() -> None:
            began[0] = client.clock()

        status, batch = client._send("POST", path, None, wait + client.timeout, answered)
        if status != 200:
            client.sleep(0.02)  # A server that stops answers at once.
            return False
        self._batch = batch
        self._add("wait", began[0] - self._started)
        self._add("load", client.clock() - began[0])
        return True

    def _complete(self) -> None:
        run = self.run
        if run.rank == 0:
            body: Dict[str, Any] = {
                "generation": run.generation, "wall_seconds": run.client.clock() - self._started, "phases": self.phases,
                # JSON has no infinities; a loss that is none must not lose the step's record.
                "metrics": {name: float(value) for name, value in self.metrics.items() if math.isfinite(value)},
            }
            self.record = run.client.call("PUT", "%s/steps/%d" % (run._path, self.number), body)
            for log in run._logs:
                log.put(self.record)
        self.done = True
        run.next_step = max(run.next_step, self.number + 1)


def sequences(batch: Dict[str, Any], sampling: Optional[Dict[str, Any]] = None) -> Iterator[Dict[str, Any]]:
    """Flattens a batch: one dict per turn, the sequences of a trajectory one after the other.

    token_ids is the whole sequence, prompt and completion; loss_mask and logprobs have its length, with 0 and 0.0
    on the prompt. sequences_in_trajectory tells how many siblings a sequence has, so that a loss can be averaged within
    a trajectory and long games do not count for more. `sampling` is the run's (Run.sampling): rows carry its
    temperature, top_p and top_k, None where it is not given. `constraint` is what the completion was held to,
    {"kind": "regex" | "grammar", "pattern"} or {"kind": "choice", "choices"}; None: it was free.
    """
    sampling = sampling or {}
    drawn = {key: sampling.get(key, default) for key, default in (("temperature", None), ("top_p", None), ("top_k", 0))}
    for group in batch["groups"]:
        group_id = "%s/%d" % (group["ref"]["run"], group["ref"]["seq"])
        constraints = group.get("constraints") or []
        for trajectory in group["trajectories"]:
            turns = trajectory["turns"] or []
            for index, turn in enumerate(turns):
                prompt, completion = turn["prompt_token_ids"], turn["token_ids"]
                held = turn.get("constraint_index")
                yield {
                    "sequence_id": "%s/%d" % (trajectory["trajectory_id"], index),
                    "sequence_index": index,
                    "sequences_in_trajectory": len(turns),
                    "group_id": group_id,
                    "trajectory_id": trajectory["trajectory_id"],
                    "run_id": batch["run"],
                    "agent": trajectory["agent"],
                    "token_ids": prompt + completion,
                    "loss_mask": [0] * len(prompt) + list(turn["loss_mask"]),
                    "logprobs": [0.0] * len(prompt) + list(turn["logprobs"]),
                    "input_tokens": len(prompt),
                    "output_tokens": len(completion),
                    "reward": trajectory["reward"],
                    "turn_reward": turn["reward"],
                    "advantage": trajectory["advantage"],
                    "policy_version": turn["policy_version"],
                    "constraint": None if held is None else constraints[held],
                    **drawn,
                    "stop_reason": turn["finish_reason"],
                    "truncated": trajectory["truncated"],
                    "text": turn.get("text", ""),  # of the completion
                    "metadata": {"phase": turn["phase"], "engine": turn["engine"], "timing": turn.get("timing")},
                }
