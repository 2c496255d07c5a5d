"""Carries a sweep out: tasks to Dask, rows to the data set."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Callable, Optional, Union

from .. import _engine
from . import _worker
from ._progress import Tally, show
from ._spec import Spec, SpecLike, Task, read_spec
from ._store import Sweep, build

IN_FLIGHT = 1000
"""Tasks that the scheduler knows of at once."""

WRITE_EVERY_S = 2.0
"""Rows wait so long at most before they are written: a run that is killed repeats what ended in that time."""


@dataclass(frozen=True)
class Source:
    """A trace of a sweep."""

    path: str
    hash: str
    size: int
    mtime_ns: int
    error: Optional[str] = None


def sweep(
    spec: SpecLike,
    client: Any = None,
    *,
    out: Union[str, "os.PathLike[str]", None] = None,
    workers: Optional[int] = None,
    retries: int = 2,
    retry_failed: bool = False,
    send_traces: Optional[bool] = None,
    progress: Callable[[Tally], object] = show,
) -> Sweep:
    """Replays each combination that a spec (a mapping, or a TOML file) asks for, and gives the data set of all rows.

    ``client`` is one of Dask distributed; without one, a cluster on this machine has ``workers`` processes, by default as
    many as there are processors. Tasks that have a row in ``out`` (or the spec's ``out``) are not repeated; with
    ``retry_failed`` those that failed are. A task that fails is tried ``retries`` times more, and then a row that says why.

    Workers read traces at the paths of the spec where they see the same files, and get them sent, each worker once, where
    they do not; ``send_traces`` says which, where workers come and go.
    """
    _check_installed()
    read = read_spec(spec)
    target = out if out is not None else read.out
    if target is None:
        raise _engine.BadInput("the sweep has no place for results: give out")
    store = Sweep(target)
    sources = {path: _source(path) for path in read.traces}
    left = _left(read, sources, store, retry_failed)
    store.begin(read.written, {path: source.hash for path, source in sources.items()})
    tally = Tally(total=len(read.tasks), before=len(read.tasks) - len(left))
    with _Writer(store) as writer, _client(client, workers, bool(left)) as cluster:
        run = _Run(cluster, sources, writer.note, tally, retries, progress)
        run.all(left, send_traces)
    return store


def _check_installed() -> None:
    for name in ("dask", "distributed", "fsspec", "pyarrow"):
        if importlib.util.find_spec(name) is None:
            raise _engine.Error(f"sweeps need {name}: pip install 'warmswap-lab[sweep]'")


def _source(path: str) -> Source:
    """The trace as it is now; one that cannot be read has an error in place of a hash."""
    try:
        found = os.stat(path) if "://" not in path else None
        size, mtime = (found.st_size, found.st_mtime_ns) if found else (0, 0)
        return Source(os.path.abspath(path) if found else path, _worker.content_hash(path), size, mtime)
    except OSError as error:
        return Source(path, "", 0, 0, f"{path}: cannot open: {error.strerror or error}")


def _left(
    spec: Spec, sources: dict[str, Source], store: Sweep, retry_failed: bool
) -> list[tuple[str, Task]]:
    """The tasks without a row, by name."""
    version = build()
    done = store.finished(with_failed=not retry_failed)
    named: dict[str, Task] = {}
    for task in spec.tasks:
        named.setdefault(task.name(sources[task.trace].hash or task.trace, version), task)
    return [(name, task) for name, task in named.items() if name not in done]


class _Writer:
    """Writes rows now and then, on a thread of its own, and what is left at the end, an interrupt's too."""

    def __init__(self, store: Sweep) -> None:
        self.store = store
        self.rows: list[dict[str, Any]] = []
        self.lock, self.ended = threading.Lock(), threading.Event()
        self.error: Optional[Exception] = None
        self.thread = threading.Thread(target=self._now_and_then, name="sweep rows", daemon=True)

    def __enter__(self) -> _Writer:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join()
        self._write()

    def note(self, row: dict[str, Any]) -> None:
        """Adds a row. What the thread could not write is raised here, and its rows are kept for the end."""
        if self.error is not None:
            raise self.error
        with self.lock:
            self.rows.append(row)

    def _now_and_then(self) -> None:
        while self.error is None and not self.ended.wait(WRITE_EVERY_S):
            try:
                self._write()
            except Exception as error:
                self.error = error

    def _write(self) -> None:
        with self.lock:
            rows = list(self.rows)
        self.store.add(rows)
        with self.lock:
            del self.rows[: len(rows)]


@contextlib.contextmanager
def _client(given: Any, workers: Optional[int], is_needed: bool) -> Iterator[Any]:
    """The client; one of a cluster on this machine where none is given."""
    if given is not None or not is_needed:
        yield given
        return
    from distributed import Client, LocalCluster

    count = workers or len(os.sched_getaffinity(0))
    with LocalCluster(
        n_workers=count, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster, Client(cluster) as client:
        yield client


_Running = tuple[str, Task, Any]
"""The name of a task, the task, and its future."""


class _Run:
    """The tasks of a sweep on their way through a cluster."""

    def __init__(
        self,
        client: Any,
        sources: dict[str, Source],
        note: Callable[[dict[str, Any]], None],
        tally: Tally,
        retries: int,
        progress: Callable[[Tally], object],
    ) -> None:
        self.client, self.sources, self.note = client, sources, note
        self.tally, self.retries, self.progress = tally, retries, progress
        self.version = build()
        # A cluster may remember tasks of earlier runs, failed ones too.
        self.number = uuid.uuid4().hex[:8]
        self.sent: dict[str, Any] = {}

    def all(self, tasks: list[tuple[str, Task]], send_traces: Optional[bool]) -> None:
        """Runs all tasks; rows are noted as they come."""
        readable = []
        for name, task in tasks:
            error = self.sources[task.trace].error
            if error is None:
                readable.append((name, task))
            else:
                self.end(name, task, {"status": "failed", "error": error})
        if readable:
            self.send(readable, send_traces)
            self.submit(readable)
        self.progress(self.tally)

    def send(self, tasks: list[tuple[str, Task]], send_traces: Optional[bool]) -> None:
        """Has workers that do not see the traces get them: each once, when it has a task on one."""
        local = {task.trace: self.sources[task.trace] for _, task in tasks if "://" not in task.trace}
        for path, source in local.items():
            where = (source.path, source.size, source.mtime_ns)
            if send_traces is None:
                is_seen = all(self.client.run(_worker.sees, *where).values())
            else:
                is_seen = not send_traces
            if not is_seen:
                with open(source.path, "rb") as file:
                    self.sent[path] = self.client.scatter(file.read(), hash=False)

    def submit(self, tasks: list[tuple[str, Task]]) -> None:
        from distributed import as_completed

        waiting = iter(tasks)
        running: dict[str, _Running] = {}
        completed = as_completed()
        try:
            for _ in range(IN_FLIGHT):
                self.next(waiting, running, completed)
            for future in completed:
                name, task, _ = running.pop(future.key)
                self.end(name, task, _outcome(future))
                self.next(waiting, running, completed)
                self.progress(self.tally)
        finally:
            completed.clear()
            # A cluster that is gone has nothing to cancel.
            with contextlib.suppress(Exception):
                self.client.cancel([future for _, _, future in running.values()])

    def next(self, waiting: Iterator[tuple[str, Task]], running: dict[str, _Running], completed: Any) -> None:
        """Hands the scheduler one more task, if there is one."""
        for name, task in waiting:
            source = self.sources[task.trace]
            future = self.client.submit(
                _worker.run,
                source.path,
                source.hash,
                self.sent.get(task.trace),
                task.scheme,
                dict(task.options),
                key=f"warmswap-{name}-{self.number}",
                retries=self.retries,
                pure=False,
            )
            running[future.key] = (name, task, future)
            completed.add(future)
            return

    def end(self, name: str, task: Task, outcome: dict[str, Any]) -> None:
        """Notes the row of a task that ended."""
        self.tally.add(outcome["status"])
        axes = {k: v for k, v in task.axes().items() if k not in ("trace", "scheme", "seed")}
        self.note(
            {
                "task": name,
                "trace": os.path.basename(task.trace),
                "trace_hash": self.sources[task.trace].hash or None,
                "scheme": task.scheme,
                "seed": task.seed,
                "build": self.version,
                **axes,
                **outcome,
            }
        )


def _outcome(future: Any) -> dict[str, Any]:
    """What came of a task. A result that was lost with its worker is waited for: the scheduler has it computed again."""
    try:
        outcome: dict[str, Any] = future.result()
    except Exception as error:
        if future.status == "error":
            return {"status": "failed", "error": f"{type(error).__name__}: {error}"}
        raise _engine.Error(f"the cluster is gone, or gave the sweep up: {error}; the same call goes on") from error
    return outcome
