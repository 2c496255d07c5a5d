"""Traces: the same events and contents by every way."""

from __future__ import annotations

import json
import pathlib
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import warmswap_lab as lab


def test_arrow_has_the_events_that_the_command_shows(small: lab.Trace, command: Callable[..., Any]) -> None:
    ran = command("trace", "head", small, "-n", str(len(small)), "--json", "-")
    shown = json.loads(ran.stdout)["data"]
    rows = small.events().to_arrow().to_pylist()
    assert len(rows) == len(shown) == len(small) == small.summary["events"]
    first_words = {"content": "holds", "launch_end": "has", "background": "to", "free": "frees", "exit": "exits"}
    for row, event in zip(rows, shown):
        assert (row["time_ns"], row["app_name"]) == (event["time_ns"], event["app"])
        kind, what = row["kind"], event["what"]
        first = ("write" if row["write"] else "read") if kind == "access" else first_words.get(kind, kind)
        assert what.split()[0] == first
        if row["content"] is not None:
            assert what.endswith(f"  content {row['content']}")
        if kind == "free":
            assert f" {row['pages']} pages at " in what
        if row["space"] == "anon":
            assert f"{row['page'] * 4096:#x}" in what
        elif row["space"] == "file":
            assert f" page {row['page']}" in what


def test_slices_are_parts_of_the_whole(small: lab.Trace) -> None:
    whole = small.events().to_arrow()
    count = len(small)
    for first, end in [(0, 10), (5, 70_000), (count - 3, count), (count, count + 5), (7, 7)]:
        part = small[first:end]
        assert len(part) == len(range(*slice(first, end).indices(count)))
        assert part.to_arrow().equals(whole.slice(first, max(end - first, 0)))
    assert small[-5:].to_arrow().equals(whole.slice(count - 5))
    with pytest.raises(IndexError, match="step"):
        small[::2]


def test_a_stretch_of_time_has_its_events_and_no_others(small: lab.Trace) -> None:
    times = small.events().to_arrow().column("time_ns").to_numpy()
    first, end = int(times[len(times) // 3]), int(times[len(times) // 2])
    wanted = times[(times >= first) & (times < end)]
    part = small.between(first / 1e9, end / 1e9)
    assert np.array_equal(part.to_arrow().column("time_ns").to_numpy(), wanted)
    assert len(part) == len(wanted) > 0
    assert len(small.between(0, 1e9)) == len(times)


def test_pandas_polars_and_numpy_agree(small: lab.Trace) -> None:
    events = small[:5000]
    arrow, pandas, polars = events.to_arrow(), events.to_pandas(), events.to_polars()
    numpy = events.to_numpy()
    assert isinstance(pandas, pd.DataFrame) and isinstance(polars, pl.DataFrame)
    assert list(pandas) == polars.columns == list(numpy) == arrow.column_names
    for name in ("time_ns", "page", "content", "write", "kind", "app_name"):
        wanted = arrow.column(name).to_pylist()
        assert [None if value is pd.NA or value != value else value for value in pandas[name]] == wanted
        assert polars[name].to_list() == wanted
        assert numpy[name].tolist() == wanted
    assert pandas.kind.dtype == "category" and pandas.page.dtype == "UInt64"


def test_other_tools_read_the_stream_without_pyarrow_in_between(small: lab.Trace) -> None:
    frame = pl.DataFrame(small[:1000])
    assert frame["time_ns"].to_list() == small[:1000].to_arrow().column("time_ns").to_pylist()


def test_a_written_trace_has_the_same_events_and_contents(small: lab.Trace, tmp_path: pathlib.Path) -> None:
    events = small.events()
    for name, given in [("stream", events), ("arrow", events.to_arrow()), ("pandas", events.to_pandas())]:
        written = lab.write(tmp_path / f"{name}.wst", given, like=small)
        assert written.events().to_arrow().equals(events.to_arrow()), name
        assert np.array_equal(written.contents().to_numpy(), small.contents().to_numpy())
        assert (written.apps, written.files) == (small.apps, small.files)
        assert written.info(verify=True).schema == "warmswap.trace_info"


def test_events_of_ones_own(tmp_path: pathlib.Path) -> None:
    frame = pd.DataFrame(
        {
            "time_ns": [0, 10, 10, 20, 30],
            "app_name": ["b", "b", "a", "b", "a"],
            "kind": ["launch", "access", "free", "launch_end", "exit"],
            "page": pd.array([None, 7, 9, None, None], "Int64"),
            "file": pd.array([None, 0, None, None, None], "Int64"),
            "content": pd.array([None, 1, None, None, None], "Int64"),
            "pages": pd.array([None, None, 3, None, None], "Int64"),
        }
    )
    pages = np.zeros((2, 4096), np.uint8)
    pages[1, 0] = 5
    contents = pa.table({"bytes": pa.array([page.tobytes() for page in pages], pa.binary(4096))})
    trace = lab.write(tmp_path / "own.wst", frame, apps=["a", "b"], files=[{"path": "/lib"}], contents=contents)
    rows = trace.events().to_arrow().to_pylist()
    assert [row["app_name"] for row in rows] == list(frame.app_name)
    access = rows[1]
    assert (access["space"], access["file"], access["page"], access["write"]) == ("file", 0, 7, False)
    assert (rows[2]["space"], rows[2]["pages"]) == ("anon", 3)
    assert np.array_equal(trace.contents().to_numpy(), pages)


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("kind", ["access", "touch"], "event 1: kind 'touch' is none of access"),
        ("time_ns", [5, 4], "event 1 is at 4 ns, expected at least 5 ns"),
        ("page", [1, None], "event 1: it has no page"),
        ("app", [0, 3], "event 1: application is 3, expected less than 1"),
        ("content", [None, 0], "event 1: content 0 is none of 0"),
    ],
)
def test_what_is_no_event_is_named(
    tmp_path: pathlib.Path, column: str, values: "list[object]", words: str
) -> None:
    table = {"time_ns": [0, 1], "app": [0, 0], "kind": ["access"] * 2, "page": [1, 2], column: values}
    path = tmp_path / "bad.wst"
    with pytest.raises(lab.BadInput, match=words):
        lab.write(path, pa.table(table), apps=["a"])
    assert not list(tmp_path.iterdir())


def test_a_trace_goes_to_another_process_by_its_path(small: lab.Trace) -> None:
    again = pickle.loads(pickle.dumps(small))
    assert again.summary == small.summary and again.path.is_absolute()


def test_a_file_that_is_no_trace_is_refused_in_the_commands_words(
    tmp_path: pathlib.Path, damaged: pathlib.Path, command: "object"
) -> None:
    text = tmp_path / "text.wst"
    text.write_text("no trace")
    for path in (text, damaged, tmp_path / "missing.wst"):
        ran = command("trace", "info", path)  # type: ignore[operator]
        assert ran.returncode == 2
        with pytest.raises(lab.BadInput) as error:
            lab.open(path)
        assert ran.stderr == f"warmswap-lab: {error.value}\n"
