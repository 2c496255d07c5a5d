"""The results of a sweep: a folder of Parquet files for each trace, at any path that fsspec knows.

A file is written whole, under a name that no reader looks at, and renamed. A row is there once its task has ended.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import re
import uuid
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Union

from .. import _engine
from .._commands import schemes

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

ABOUT = "_sweep.json"
INDEX = "_finished.json"
"""In each folder, what became of the tasks of each file: a file of rows never changes, and so is opened for that once."""
FIRST = ["task", "trace", "trace_hash", "scheme", "seed", "status", "error", "build"]
"""The columns of every row, before those of its axes and of its result."""


def build() -> str:
    """The build that computes: its version is in every result."""
    version: str = schemes().envelope["warmswap"]
    return version


class Sweep:
    """A data set of results."""

    def __init__(self, path: Union[str, os.PathLike[str]]) -> None:
        from fsspec.core import url_to_fs

        self.path = os.fspath(path)
        self._fs, self._root = url_to_fs(self.path)

    def __repr__(self) -> str:
        return f"<Sweep {self.path}>"

    def begin(self, spec: Mapping[str, Any], traces: Mapping[str, str]) -> None:
        """Notes spec, versions and the content hash of each trace."""
        versions = {"warmswap": build(), "python": platform.python_version()}
        # Their versions without importing them: a run that has nothing left to do needs neither.
        versions.update((name, version(name)) for name in ("dask", "pyarrow"))
        about = {"spec": spec, "versions": versions, "traces": dict(traces)}
        self._fs.makedirs(self._root, exist_ok=True)
        text = json.dumps(about, indent=2, default=_plain) + "\n"
        self._replace(f"{self._root}/{ABOUT}", lambda file: file.write(text.encode()))

    def about(self) -> dict[str, Any]:
        """The spec of the last run, its versions, and the content hash of each trace."""
        about: dict[str, Any] = json.loads(self._fs.cat_file(f"{self._root}/{ABOUT}"))
        return about

    def finished(self, with_failed: bool = True) -> set[str]:
        """The tasks that have a row, by name."""
        return {task for task, status in self.statuses().items() if with_failed or status == "done"}

    def statuses(self) -> dict[str, str]:
        """What became of each task that has a row, by its name: ``failed``, or ``done`` where a row says so."""
        statuses: dict[str, str] = {}
        for folder, files in itertools.groupby(self._files(), lambda file: file.rpartition("/")[0]):
            for tasks in self._index(folder, list(files)).values():
                _add(statuses, tasks.items())
        return statuses

    def _index(self, folder: str, files: list[str]) -> dict[str, dict[str, str]]:
        """What became of the tasks of each file in a folder, by its name. What had to be read for that is noted there."""
        place = f"{folder}/{INDEX}"
        noted = self._noted(place)
        named = {file.rpartition("/")[2]: file for file in files}
        index = {name: noted[name] if name in noted else self._tasks(file) for name, file in named.items()}
        if index != noted:
            text = json.dumps(index)
            self._replace(place, lambda file: file.write(text.encode()))
        return index

    def _noted(self, place: str) -> dict[str, dict[str, str]]:
        """An index as it was noted; empty where there is none, or it is damaged."""
        try:
            noted = json.loads(self._fs.cat_file(place))
        except (OSError, ValueError):
            return {}
        return noted if isinstance(noted, dict) else {}

    def _tasks(self, file: str) -> dict[str, str]:
        tasks: dict[str, str] = {}
        columns = self._read(file, ["task", "status"]).columns
        _add(tasks, zip(*(column.to_pylist() for column in columns)))
        return tasks

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        """Adds rows: a file for each trace that they are of."""
        by_trace: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            by_trace.setdefault(_folder(row), []).append(row)
        for folder, group in by_trace.items():
            self._write(f"{self._root}/{folder}", group)

    def _write(self, folder: str, rows: list[dict[str, Any]]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        names = [*FIRST, *sorted({name for row in rows for name in row} - {*FIRST})]
        columns = {name: [row.get(name) for row in rows] for name in names}
        typed = {n: pa.array(v, _type(n)) for n, v in columns.items() if n in FIRST or any(x is not None for x in v)}
        self._fs.makedirs(folder, exist_ok=True)
        path = f"{folder}/part-{rows[0]['task']}-{uuid.uuid4().hex[:8]}.parquet"
        self._replace(path, lambda file: pq.write_table(pa.table(typed), file, compression="zstd"))

    def _replace(self, path: str, write: Any) -> None:
        folder, _, name = path.rpartition("/")
        part = f"{folder}/.{name}.{os.getpid()}.tmp"
        with self._fs.open(part, "wb") as file:
            write(file)
        self._fs.mv(part, path)

    def _files(self) -> list[str]:
        found: list[str] = sorted(self._fs.glob(f"{self._root}/*/part-*.parquet"))
        return found

    def _read(self, file: str, columns: Any = None) -> pyarrow.Table:
        import pyarrow.parquet as pq

        with self._fs.open(file, "rb") as source:
            # Files are small: threads take longer to start than to read.
            return pq.ParquetFile(source).read(columns, use_threads=False)

    def to_arrow(self) -> pyarrow.Table:
        """All rows, one for each task, in an order that does not depend on the run."""
        import pyarrow as pa
        import pyarrow.compute as pc

        parts = [self._read(file) for file in self._files()]
        if not parts:
            raise _engine.BadInput(f"{self.path}: there are no results of a sweep")
        table = pa.concat_tables(parts, promote_options="permissive")
        axes = sorted(name for name in table.column_names if name not in FIRST)
        table = table.select([*FIRST, *axes])
        # Of a task that failed and was repeated, the row that is done.
        order = [(name, "ascending") for name in ("trace", "scheme", "seed", "task", "status")]
        table = table.take(pc.sort_indices(table, sort_keys=order))
        names = table.column("task").to_pylist()
        return table.filter([name != before for name, before in zip(names, [None, *names])])

    def to_pandas(self) -> pandas.DataFrame:
        """All rows as a data frame."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """All rows as a data frame of Polars."""
        import polars as pl

        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame)
        return frame


def _add(statuses: dict[str, str], more: Iterable[tuple[str, str]]) -> None:
    for task, status in more:
        if statuses.get(task) != "done":
            statuses[task] = status


def _folder(row: Mapping[str, Any]) -> str:
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", os.path.basename(row["trace"])) or "trace"
    return f"{name}-{(row['trace_hash'] or 'unread')[:8]}"


def _plain(value: Any) -> str:
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _type(name: str) -> Any:
    import pyarrow as pa

    if name == "seed":
        return pa.int64()
    return pa.string() if name in FIRST else None
