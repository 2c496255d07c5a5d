"""Traces: opened, looked into, cut, written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _engine

if TYPE_CHECKING:
    import numpy
    import pandas
    import polars
    import pyarrow

    from ._results import Result

PAGE_BYTES = 4096
END = 2**64 - 1


class _Stream:
    """What can be read as a stream of Arrow record batches, any number of times."""

    _native: Union[_engine.Events, _engine.Contents]

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._native.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        return self._native.__arrow_c_schema__()

    def __len__(self) -> int:
        return self._native.count()

    def batches(self) -> pyarrow.RecordBatchReader:
        """Batch by batch, in memory that does not grow with the trace."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_stream(self)

    def to_arrow(self) -> pyarrow.Table:
        """All of it as a table of Arrow."""
        return self.batches().read_all()

    def to_pandas(self) -> pandas.DataFrame:
        """All of it as a data frame; names are categories, numbers that may be missing are nullable."""
        import pandas as pd
        import pyarrow as pa

        nullable = {
            pa.uint32(): pd.UInt32Dtype(),
            pa.uint64(): pd.UInt64Dtype(),
            pa.bool_(): pd.BooleanDtype(),
        }
        table = self.to_arrow()
        missing = {table.schema.field(i).type for i in range(table.num_columns) if table.column(i).null_count}
        return table.to_pandas(types_mapper=lambda kind: nullable.get(kind) if kind in missing else None)

    def to_polars(self) -> polars.DataFrame:
        """All of it as a data frame of Polars."""
        import polars as pl

        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame)
        return frame


class Events(_Stream):
    """A range of events: see :meth:`Trace.events`.

    Columns: ``time_ns``, ``app``, ``app_name``, ``kind`` (access, content, launch, relaunch, launch_end, background, free,
    exit), ``space`` (anon, file), ``file``, ``page``, ``write``, ``content``, ``pages``; what an event does not have is null.
    """

    def __init__(self, native: _engine.Events) -> None:
        self._native = native

    def __repr__(self) -> str:
        return f"<Events: {len(self)}>"

    def to_numpy(self) -> dict[str, numpy.ma.MaskedArray[Any, Any]]:
        """The columns by name. What an event does not have is masked; names are objects."""
        import numpy as np
        import pyarrow as pa

        arrays = {}
        table = self.to_arrow()
        for name in table.column_names:
            column = table.column(name)
            mask = column.is_null().to_numpy() if column.null_count else np.ma.nomask
            filled = column.fill_null(pa.scalar(0).cast(column.type)) if name in _NUMBERS else column
            arrays[name] = np.ma.MaskedArray(filled.to_numpy(), mask=mask)
        return arrays


_NUMBERS = ("file", "page", "write", "content", "pages")


class Contents(_Stream):
    """A range of page contents: see :meth:`Trace.contents`. Columns: ``content``, its number, and ``bytes``."""

    def __init__(self, native: _engine.Contents) -> None:
        self._native = native

    def __repr__(self) -> str:
        return f"<Contents: {len(self)} of {PAGE_BYTES} bytes>"

    def to_numpy(self) -> numpy.ndarray[Any, Any]:
        """The bytes: a row for each page."""
        import numpy as np

        pages = self.to_arrow().column("bytes")
        parts = [np.frombuffer(chunk.buffers()[1], np.uint8) for chunk in pages.chunks]
        joined = np.concatenate(parts) if parts else np.empty(0, np.uint8)
        return joined.reshape(-1, PAGE_BYTES)


class Trace:
    """A trace, opened for reading. It is opened, counted and loaded once, whatever is computed from it."""

    def __init__(self, path: Union[str, os.PathLike[str]]) -> None:
        self._native = _engine.Trace(path)
        about = json.loads(self._native.about())
        self.path = Path(os.fspath(path))
        self.apps: list[dict[str, str]] = about["apps"]
        """The applications: ``name`` and ``description``; events name them by place."""
        self.files: list[dict[str, Any]] = about["files"]
        """The files: ``path``, ``device``, ``inode``, ``size_bytes``; events name them by place."""
        self.description: dict[str, Any] = about["description"]
        """Where it comes from: tool, machine, kernel, method, and more."""
        self.summary: dict[str, int] = about["summary"]
        """Its size: events, contents, times of the first and the last event, bytes of the file."""

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def __reduce__(self) -> Any:
        return Trace, (os.fspath(self.path.absolute()),)

    def __len__(self) -> int:
        return self.summary["events"]

    def __repr__(self) -> str:
        apps = ", ".join(app["name"] for app in self.apps)
        return f"<Trace {os.fspath(self)}: {len(self)} events of {apps}>"

    def __getitem__(self, events: slice) -> Events:
        first, end, step = events.indices(len(self))
        if step != 1:
            raise IndexError("events are cut without a step")
        return self.events(first, end)

    def events(self, first: int = 0, end: Optional[int] = None) -> Events:
        """Events by number, from 0; all without arguments."""
        return Events(self._native.events(first, END if end is None else end))

    def between(self, first_s: float, end_s: float) -> Events:
        """Events from a time on until before another, in seconds since the trace began."""
        return Events(self._native.events_between(_nanoseconds(first_s), _nanoseconds(end_s)))

    def contents(self, first: int = 0, end: Optional[int] = None) -> Contents:
        """Page contents by number, from 0; all without arguments."""
        return Contents(self._native.contents(first, END if end is None else end))

    def info(self, verify: bool = False, **options: Any) -> Result:
        """What it holds, as ``warmswap-lab trace info`` says; ``verify`` checks every block, too."""
        from ._commands import call

        return call(["trace", "info"], [self], {"verify": verify, **options})

    def sample(self, out: Union[str, os.PathLike[str]], **options: Any) -> Trace:
        """A smaller trace, as ``warmswap-lab trace sample`` makes it: ``share=0.1``, ``apps=["redis"]``, ``seed=1``."""
        from ._commands import call

        call(["trace", "sample"], [self], {"out": out, **options})
        return Trace(out)

    def export(self, out: Union[str, os.PathLike[str]], **options: Any) -> Path:
        """Writes the accesses as libCacheSim reads them. A table of all events is :meth:`events`, and its file
        ``pyarrow.parquet.write_table(trace.events().to_arrow(), path)``."""
        from ._commands import call

        call(["trace", "export"], [self], {"out": out, **options})
        return Path(out)


def _nanoseconds(seconds: float) -> int:
    return min(max(round(seconds * 1e9), 0), END)


def open(path: Union[str, os.PathLike[str]]) -> Trace:
    """Opens a trace. It is checked as far as it is read; :meth:`Trace.info` checks all of it."""
    return Trace(path)


def import_ariadne(
    folder: Union[str, os.PathLike[str]], out: Union[str, os.PathLike[str]]
) -> Trace:
    """A trace from the files of the Ariadne authors' artifact."""
    from ._commands import call

    call(["trace", "import"], [os.fspath(folder)], {"out": out})
    return Trace(out)


def write(
    path: Union[str, os.PathLike[str]],
    events: Any,
    *,
    like: Optional[Trace] = None,
    apps: Optional[Iterable[Union[str, Mapping[str, str]]]] = None,
    files: Optional[Iterable[Mapping[str, Any]]] = None,
    contents: Any = None,
    method: Optional[str] = None,
    extra: Optional[Mapping[str, str]] = None,
) -> Trace:
    """Writes a trace: events in order of time, with the columns of :class:`Events`, as anything that gives Arrow.

    ``time_ns`` and ``kind`` are needed, ``app`` or ``app_name``, and ``page`` where an event has one; ``file`` is the place of
    a file. ``apps`` are names, or have ``name`` and ``description``; ``files`` have a ``path``. ``contents`` has a column
    ``bytes`` of 4096 bytes each, whose places ``content`` names. What is not given is that of the trace ``like``.
    """
    if like is not None:
        apps = like.apps if apps is None else apps
        files = like.files if files is None else files
        contents = like.contents() if contents is None else contents
        method = like.description["method"] if method is None else method
        extra = like.description["extra"] if extra is None else extra
    named = [{"name": app} if isinstance(app, str) else app for app in apps or ()]
    if not named:
        raise _engine.BadInput("a trace needs the names of its applications: give apps, or like")
    writer = _engine.Writer(path, method or "arrow", dict(extra or {}))
    for app in named:
        writer.add_app(app["name"], app.get("description", ""))
    for place, file in enumerate(files or ()):
        number = writer.add_file(
            file["path"], file.get("device", 0), file.get("inode", place + 1), file.get("size_bytes", 0)
        )
        if number != place:
            raise _engine.BadInput(f"file {place}, {file['path']}, is file {number} once more")
    if contents is not None:
        writer.add_contents(_reader(contents).__arrow_c_stream__())
    names = [app["name"] for app in named]
    writer.add_events(_with_types(_reader(events), names).__arrow_c_stream__())
    writer.finish()
    return Trace(path)


def _reader(of: Any) -> pyarrow.RecordBatchReader:
    import pyarrow as pa

    if isinstance(of, pa.Table):
        return of.to_reader()
    if hasattr(of, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(of)
    return pa.Table.from_pandas(of, preserve_index=False).to_reader()


def _with_types(reader: pyarrow.RecordBatchReader, apps: list[str]) -> pyarrow.RecordBatchReader:
    """The columns of events in the types that a trace is written from."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = {
        "time_ns": pa.uint64(),
        "app": pa.uint16(),
        "kind": pa.string(),
        "file": pa.uint32(),
        "page": pa.uint64(),
        "write": pa.bool_(),
        "content": pa.uint32(),
        "pages": pa.uint32(),
    }
    given = set(reader.schema.names)
    named = "app" not in given and "app_name" in given
    fields = [pa.field(name, kind) for name, kind in kinds.items() if name in given or (named and name == "app")]
    schema = pa.schema(fields)

    def column(batch: pyarrow.RecordBatch, field: pyarrow.Field) -> pyarrow.Array:
        if field.name == "app" and named:
            names = batch.column("app_name").cast(pa.string())
            return pc.index_in(names, value_set=pa.array(apps)).cast(field.type)
        return batch.column(field.name).cast(field.type)

    batches = (pa.RecordBatch.from_arrays([column(b, f) for f in fields], schema=schema) for b in reader)
    return pa.RecordBatchReader.from_batches(schema, batches)
