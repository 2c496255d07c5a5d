"""Results: what ``--json`` writes, and the command's tables as data frames."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _engine

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


@dataclass(frozen=True)
class Column:
    """What a column of a table holds."""

    key: str
    """Its name, with the unit where there is one: ``relaunch_p50_ns``."""
    title: str
    """Its heading."""
    unit: str
    """``bytes``, ``ns``, ``pages``, ``fraction``, or nothing."""
    origin: Optional[str]
    """Where numbers come from: ``measured``, ``modelled``, ``paper``."""


class Table:
    """A table of a result, in base units."""

    def __init__(self, table: dict[str, Any], text: str = "") -> None:
        self.title: str = table["title"]
        self.columns = [Column(**column) for column in table["columns"]]
        self.rows: list[dict[str, Any]] = table["rows"]
        self.footnotes: list[str] = [note["text"] for note in table["footnotes"]]
        self._text = text

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<Table {self.title!r}: {len(self.rows)} rows, {len(self.columns)} columns>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self._text)}</pre>"

    def to_arrow(self) -> pyarrow.Table:
        """As a table of Arrow; each field says title, unit and origin in its metadata."""
        import pyarrow as pa

        arrays, fields = [], []
        for column in self.columns:
            values = [row[column.key] for row in self.rows]
            known = any(value is not None for value in values)
            array = pa.array(values) if known else pa.nulls(len(values), pa.float64())
            about = {"title": column.title, "unit": column.unit, "origin": column.origin or ""}
            arrays.append(array)
            fields.append(pa.field(column.key, array.type, metadata=about))
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata={"title": self.title}))

    def to_pandas(self) -> pandas.DataFrame:
        """As a data frame, whose ``attrs`` have title, units and origins."""
        import pandas as pd

        frame = pd.DataFrame({column.key: _series(self.rows, column.key) for column in self.columns})
        frame.attrs = {
            "title": self.title,
            "units": {column.key: column.unit for column in self.columns if column.unit},
            "origins": {column.key: column.origin for column in self.columns if column.origin},
        }
        return frame

    def to_polars(self) -> polars.DataFrame:
        """As a data frame of Polars."""
        import polars as pl

        return pl.DataFrame({c.key: [row[c.key] for row in self.rows] for c in self.columns})


def _series(rows: list[dict[str, Any]], key: str) -> pandas.Series:
    """Whole numbers stay whole where some are missing."""
    import pandas as pd

    values = [row[key] for row in rows]
    known = [value for value in values if value is not None]
    whole = bool(known) and all(type(value) is int for value in known)
    return pd.Series(values, dtype="Int64" if whole and len(known) < len(values) else None)


class Result:
    """What a command found."""

    def __init__(self, kept: _engine.Kept) -> None:
        self.schema = kept.schema
        """The name of its kind, such as ``warmswap.replay``."""
        self.json = kept.json
        """What ``--json`` writes."""
        self._tables, self._text = kept.tables, kept.text

    @cached_property
    def envelope(self) -> dict[str, Any]:
        """The whole: schema and version, the build, the machine, the command line, and the data."""
        envelope: dict[str, Any] = json.loads(self.json)
        return envelope

    @property
    def data(self) -> Any:
        """The result as the JSON Schema describes it (``docs/lab-results.schema.json``)."""
        return self.envelope["data"]

    @cached_property
    def tables(self) -> list[Table]:
        """The tables that the command prints."""
        return [Table(json.loads(table), text) for table, text in zip(self._tables, self._text)]

    def table(self, which: Union[int, str] = 0) -> Table:
        """A table, by its place or by its title or the beginning of that."""
        if isinstance(which, int):
            return self.tables[which]
        for table in self.tables:
            if table.title.startswith(which):
                return table
        titles = ", ".join(repr(table.title) for table in self.tables)
        raise KeyError(f"no table begins with {which!r}: there are {titles}")

    def to_arrow(self, which: Union[int, str] = 0) -> pyarrow.Table:
        """A table as one of Arrow."""
        return self.table(which).to_arrow()

    def to_pandas(self, which: Union[int, str] = 0) -> pandas.DataFrame:
        """A table as a data frame."""
        return self.table(which).to_pandas()

    def to_polars(self, which: Union[int, str] = 0) -> polars.DataFrame:
        """A table as a data frame of Polars."""
        return self.table(which).to_polars()

    def rows(self, path: str = "") -> list[dict[str, Any]]:
        """The lists of :attr:`data` at a path, flat: ``rows("apps.relaunches")`` has a row for each relaunch.

        Fields within fields are joined by a dot (``latency.measured_ns``); the plain fields of what a list is in come
        along behind its name (``apps.name``). What is a list itself is left out.
        """
        return [dict(row) for row in _rows(self.data, path.split(".") if path else [], {}, "")]

    def save(self, path: Union[str, os.PathLike[str]]) -> Path:
        """Writes what ``--json`` writes, as ``warmswap-lab report`` reads it; whole, or not at all."""
        path = Path(path)
        part = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            part.write_text(self.json)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        return path

    def __str__(self) -> str:
        return "\n".join(self._text)

    def __repr__(self) -> str:
        return f"<Result {self.schema}: {', '.join(repr(table.title) for table in self.tables)}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def flat(fields: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Fields within fields, joined by a dot, without those that are lists."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            found.update(flat(value, f"{prefix}{name}."))
        elif not isinstance(value, list):
            found[prefix + name] = value
    return found


def _rows(
    data: Any, names: list[str], above: dict[str, Any], at: str
) -> Iterator[dict[str, Any]]:
    if isinstance(data, list):
        for part in data:
            yield from _rows(part, names, above, at)
    elif not names:
        yield {**above, **(flat(data) if isinstance(data, dict) else {"value": data})}
    else:
        inner = at + names[0]
        plain = {k: v for k, v in data.items() if not isinstance(v, (dict, list))}
        above = {**above, **{at + name: value for name, value in plain.items()}} if at else above
        yield from _rows(data[names[0]], names[1:], above, inner + ".")
