"""Carries a sweep out: tasks to Dask, rows to the data set."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import threading
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Callable, Optional, Union

from .. import _engine
from . import _worker
from ._progress import Tally, show
from ._spec import Spec, SpecLike, Task, read_spec
from ._store import Sweep, build

IN_FLIGHT = 1000
"""Tasks that the scheduler knows of at once."""

AT_ONCE = 100
"""Tasks that it gets in one message: each message costs some milliseconds."""

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
    check_installed()
    read = read_spec(spec)
    store = Sweep(place(out if out is not None else read.out, "sweep"))
    sources = {path: _source(path) for path in read.traces}
    left = _left(read, sources, store, retry_failed)
    store.begin(read.written, {path: source.hash for path, source in sources.items()})
    tally = Tally(total=len(read.tasks), before=len(read.tasks) - len(left))

    def work(cluster: Any) -> Iterator[Work]:
        used = {task.trace: sources[task.trace] for _, task in left}
        sent = _send(cluster, used, send_traces)
        version = build()
        return (_work(name, task, sources[task.trace], sent.get(task.trace), version) for name, task in left)

    carry_out(store, work, tally, client=client, workers=workers, retries=retries, progress=progress)
    return store


def check_installed() -> None:
    """Says what to install where what a sweep needs is not there."""
    for name in ("dask", "distributed", "fsspec", "pyarrow"):
        if importlib.util.find_spec(name) is None:
            raise _engine.Error(f"sweeps need {name}: pip install 'warmswap-lab[sweep]'")


def place(out: Union[str, "os.PathLike[str]", None], of: str) -> Union[str, "os.PathLike[str]"]:
    """Where results go, which has to be said."""
    if out is None:
        raise _engine.BadInput(f"the {of} has no place for results: give out")
    return out


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


@dataclass(frozen=True)
class Work:
    """What a worker does at once, and the rows that come of it."""

    name: str
    call: Callable[..., list[dict[str, Any]]]
    """Gives what came of each row, in their order. It is the same one for all work of a run."""
    arguments: tuple[Any, ...]
    rows: list[dict[str, Any]]
    """What each row says in any case."""
    error: Optional[str] = None
    """Why no worker need try."""


_Running = dict[tuple[str, str], tuple[Work, Any]]
"""Work and its future, by the key of that."""


def _work(name: str, task: Task, source: Source, sent: Any, version: str) -> Work:
    axes = {k: v for k, v in task.axes().items() if k not in ("trace", "scheme", "seed")}
    row = {
        "task": name,
        "trace": os.path.basename(task.trace),
        "trace_hash": source.hash or None,
        "scheme": task.scheme,
        "seed": task.seed,
        "build": version,
        **axes,
    }
    arguments = (source.path, source.hash, sent, task.scheme, dict(task.options))
    return Work(name, _worker.run, arguments, [row], source.error)


def _send(client: Any, sources: dict[str, Source], send_traces: Optional[bool]) -> dict[str, Any]:
    """Has workers that do not see the traces get them: each once, when it has a task on one."""
    sent = {}
    for path, source in sources.items():
        if source.error is not None or "://" in path:
            continue
        where = (source.path, source.size, source.mtime_ns)
        if send_traces is None:
            is_seen = all(client.run(_worker.sees, *where).values())
        else:
            is_seen = not send_traces
        if not is_seen:
            with open(source.path, "rb") as file:
                sent[path] = client.scatter(file.read(), hash=False)
    return sent


def carry_out(
    store: Sweep,
    work: Callable[[Any], Iterator[Work]],
    tally: Tally,
    *,
    client: Any,
    workers: Optional[int],
    retries: int,
    progress: Callable[[Tally], object],
) -> None:
    """Has a cluster do what is left, and writes rows as they come. ``work`` gives it for a client."""
    is_left = tally.before < tally.total
    with _Writer(store) as writer, _client(client, workers, is_left) as cluster:
        if is_left:
            _Run(cluster, writer.note, tally, retries, progress).all(work(cluster))
        progress(tally)


class _Run:
    """Work on its way through a cluster."""

    def __init__(
        self,
        client: Any,
        note: Callable[[dict[str, Any]], None],
        tally: Tally,
        retries: int,
        progress: Callable[[Tally], object],
    ) -> None:
        self.client, self.note = client, note
        self.tally, self.retries, self.progress = tally, retries, progress
        # A cluster may remember tasks of earlier runs, failed ones too. Keys are pairs, whose first half is a group of the
        # scheduler's: it has one for each key that is a word, and is the slower the more there are.
        self.group = f"warmswap-{uuid.uuid4().hex[:8]}"

    def all(self, waiting: Iterator[Work]) -> None:
        """Does all work; rows are noted as they come."""
        from distributed import as_completed

        running: _Running = {}
        completed = as_completed()
        try:
            while len(running) <= IN_FLIGHT - AT_ONCE and self.next(waiting, running, completed):
                pass
            for batch in completed.batches():
                futures = list(batch)
                for future, outcomes in zip(futures, self.outcomes(futures, running)):
                    self.end(running.pop(future.key)[0], outcomes)
                    self.progress(self.tally)
                while len(running) <= IN_FLIGHT - AT_ONCE and self.next(waiting, running, completed):
                    pass
        finally:
            completed.clear()
            # A cluster that is gone has nothing to cancel.
            with contextlib.suppress(Exception):
                self.client.cancel([future for _, future in running.values()])

    def next(self, waiting: Iterator[Work], running: _Running, completed: Any) -> bool:
        """Hands the scheduler more work; whether there was any."""
        taken = list(itertools.islice(waiting, AT_ONCE))
        for work in taken:
            if work.error is not None:
                self.end(work, _failed(work, work.error))
        works = [work for work in taken if work.error is None]
        if works:
            keys = [(self.group, work.name) for work in works]
            columns = zip(*(work.arguments for work in works))
            futures = self.client.map(works[0].call, *columns, key=keys, retries=self.retries, pure=False)
            running.update((future.key, (work, future)) for work, future in zip(works, futures))
            completed.update(futures)
        return bool(taken)

    def outcomes(self, futures: list[Any], running: _Running) -> Iterable[list[dict[str, Any]]]:
        """What came of work that ended: fetched together, or one by one where some failed."""
        try:
            fetched: list[list[dict[str, Any]]] = self.client.gather(futures)
        except Exception:
            return (_outcomes(future, running[future.key][0]) for future in futures)
        return fetched

    def end(self, work: Work, outcomes: list[dict[str, Any]]) -> None:
        """Notes the rows of work that ended."""
        for row, outcome in zip(work.rows, outcomes):
            self.tally.add(outcome["status"])
            self.note({**row, **outcome})


def _failed(work: Work, error: str) -> list[dict[str, Any]]:
    return [{"status": "failed", "error": error}] * len(work.rows)


def _outcomes(future: Any, work: Work) -> list[dict[str, Any]]:
    """What came of work. A result that was lost with its worker is waited for: the scheduler has it computed again."""
    try:
        outcomes: list[dict[str, Any]] = future.result()
    except Exception as error:
        if future.status == "error":
            return _failed(work, f"{type(error).__name__}: {error}")
        raise _engine.Error(f"the cluster is gone, or gave the sweep up: {error}; the same call goes on") from error
    return outcomes
