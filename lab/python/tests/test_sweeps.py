"""Sweeps: the same rows whatever happens on the way."""

from __future__ import annotations

import json
import os
import pathlib
import signal
from typing import Any, Iterator

import pyarrow as pa
import pytest
from distributed import Client, LocalCluster

import warmswap_lab as lab
from warmswap_lab.sweeps import _worker, command
from warmswap_lab.sweeps._progress import Tally, show
from warmswap_lab.sweeps._spec import read_spec


def quiet(tally: Tally) -> None:
    """No progress."""


@pytest.fixture(scope="module")
def one() -> Iterator[Client]:
    """One worker, in this process."""
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as client:
        yield client


@pytest.fixture(scope="module")
def two() -> Iterator[Client]:
    """Two workers, each a process."""
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        with Client(cluster) as client:
            yield client


@pytest.fixture
def spec(small: lab.Trace, other: lab.Trace) -> "dict[str, Any]":
    return {
        "traces": [small, other],
        "schemes": ["zram", "ariadne", "ezswap+eviction=lottery:seed={seed}"],
        "budget": {"from": 30, "to": 50, "step": 10, "unit": "%"},
        "set": {"prefetch": ["default", "none"]},
        "seeds": [1, 2],
        "no_contents": True,
        "exclude": [{"scheme": "zram*", "seed": 2}, {"scheme": "ariadne*", "seed": 2}],
    }


TASKS = 2 * 4 * 3 * 2
"""Traces, schemes and seeds, budgets, slots of `spec`."""


def test_a_spec_is_every_combination_but_what_is_excluded(spec: "dict[str, Any]") -> None:
    tasks = read_spec(spec).tasks
    assert len(tasks) == TASKS == len({str(task) for task in tasks})
    budgets = {dict(task.options)["budget"] for task in tasks}
    assert budgets == {"30%", "40%", "50%"}
    assert {task.seed for task in tasks if task.scheme.startswith("zram")} == {1}
    assert "ezswap+eviction=lottery:seed=2+prefetch=none" in {task.scheme for task in tasks}
    only = {**spec, "only": {"budget": ["30%", "50%"], "scheme": "ariadne*", "set.prefetch": "none"}}
    assert len(read_spec(only).tasks) == 2 * 2


def test_a_spec_is_read_from_toml(small: lab.Trace, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(
        f"traces = ['{small.path.parent}/*.wst']\nschemes = ['zram']\nbudget = ['30%', '64M']\n"
        "[set]\ncodec = ['lz4', 'zstd']\n"
    )
    tasks = read_spec(path).tasks
    assert [task.scheme for task in tasks] == ["zram+codec=lz4", "zram+codec=zstd"] * 2
    path.write_text("traces = [")
    with pytest.raises(lab.BadInput, match="sweep.toml: "):
        read_spec(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"traces": []}, "names no traces"),
        ({"schemes": []}, "names no schemes"),
        ({"traces": ["/nowhere/*.wst"]}, "no trace matches /nowhere"),
        ({"budget": {"from": 1, "til": 2}}, "a range has from, to"),
        ({"budget": {"from": 1, "to": 2, "step": 0}}, "more than 0"),
        ({"exclude": {"colour": "red"}}, "asks for 'colour', and tasks have trace, scheme"),
        ({"only": {"scheme": "none"}}, "no tasks"),
    ],
)
def test_what_is_no_spec_is_named(spec: "dict[str, Any]", change: "dict[str, Any]", words: str) -> None:
    with pytest.raises(lab.BadInput, match=words):
        read_spec({**spec, **change})
    with pytest.raises(lab.BadInput, match="no place for results"):
        lab.sweep(spec, progress=quiet)


def test_rows_are_the_same_where_a_worker_is_killed(
    spec: "dict[str, Any]", one: Client, two: Client, tmp_path: pathlib.Path
) -> None:
    alone = lab.sweep(spec, one, out=tmp_path / "one", progress=quiet).to_arrow()
    victims = list(two.run(os.getpid).values())[:1]

    def kill(tally: Tally) -> None:
        if tally.done >= TASKS // 4 and victims:
            os.kill(victims.pop(), signal.SIGKILL)

    cluster = lab.sweep(spec, two, out=tmp_path / "two", progress=kill).to_arrow()
    assert not victims
    assert alone.equals(cluster)
    assert alone.num_rows == TASKS and set(alone.column("status").to_pylist()) == {"done"}
    row = alone.to_pylist()[0]
    result = lab.compare(row_trace(spec, row), schemes=[row["scheme"]], budget=row["budget"], no_contents=True, no_optima=True)
    assert row["window_faults"] == result.data["schemes"][0]["window_faults"]
    assert row["latency.mean.modelled_ns"] == result.data["schemes"][0]["latency"]["mean"]["modelled_ns"]


def row_trace(spec: "dict[str, Any]", row: "dict[str, Any]") -> Any:
    return next(trace for trace in spec["traces"] if trace.path.name == row["trace"])


def test_each_process_opens_each_trace_once(
    spec: "dict[str, Any]", two: Client, tmp_path: pathlib.Path
) -> None:
    for name, send in [("seen", None), ("sent", True)]:
        two.run(_forget)
        lab.sweep(spec, two, out=tmp_path / name, send_traces=send, progress=quiet)
        opened = two.run(_opened)
        counts = [count for of_worker in opened.values() for count in of_worker.values()]
        assert counts and set(counts) == {1}
    first, second = (lab.sweep(spec, two, out=tmp_path / name, progress=quiet).to_arrow() for name in ("seen", "sent"))
    assert first.equals(second)


def _forget() -> None:
    _worker._traces.clear()
    _worker.opened.clear()


def _opened() -> "dict[str, int]":
    return dict(_worker.opened)


def test_a_sweep_goes_on_where_it_was_interrupted(
    spec: "dict[str, Any]", one: Client, tmp_path: pathlib.Path
) -> None:
    def interrupt(tally: Tally) -> None:
        if tally.done == TASKS // 3:
            raise KeyboardInterrupt

    out = tmp_path / "sweep"
    with pytest.raises(KeyboardInterrupt):
        lab.sweep(spec, one, out=out, progress=interrupt)
    before = lab.sweeps.Sweep(out).to_arrow()
    assert before.num_rows == TASKS // 3
    last: list[Tally] = []
    whole = lab.sweep(spec, one, out=out, progress=last.append).to_arrow()
    assert (last[-1].before, last[-1].done) == (TASKS // 3, TASKS - TASKS // 3)
    assert whole.equals(lab.sweep(spec, one, out=tmp_path / "at once", progress=quiet).to_arrow())
    # Nothing is left, so that no cluster is needed.
    assert lab.sweep(spec, out=out, progress=last.append).to_arrow().equals(whole)
    assert (last[-1].before, last[-1].done) == (TASKS, 0)
    grown = {**spec, "budget": ["30%", "40%", "50%", "60%"]}
    assert lab.sweep(grown, one, out=out, progress=last.append).to_arrow().num_rows == TASKS * 4 // 3
    assert (last[-1].before, last[-1].done) == (TASKS, TASKS // 3)


def test_what_became_of_tasks_is_read_once_from_each_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def row(task: str, trace: str, status: str) -> "dict[str, Any]":
        return {"task": task, "trace": trace, "trace_hash": "0123456789", "status": status}

    read: list[str] = []
    whole = lab.sweeps.Sweep._read

    def noting(self: lab.sweeps.Sweep, file: str, columns: Any = None) -> pa.Table:
        read.append(file)
        return whole(self, file, columns)

    monkeypatch.setattr(lab.sweeps.Sweep, "_read", noting)
    results = lab.sweeps.Sweep(tmp_path / "sweep")
    assert results.statuses() == {}
    results.add([row("a", "one", "failed"), row("b", "two", "failed")])
    assert results.statuses() == {"a": "failed", "b": "failed"}
    results.add([row("a", "one", "done")])
    assert results.finished(with_failed=False) == {"a"}
    results.add([row("b", "two", "done")])
    results.add([row("b", "two", "failed")])
    assert results.statuses() == {"a": "done", "b": "done"}
    assert len(read) == len(set(read)) == 5
    # An index that cannot be used is made anew, and a file that went takes its tasks along.
    one, two = sorted((tmp_path / "sweep").iterdir())
    (one / "_finished.json").write_text("{")
    for part in two.glob("part-*"):
        part.unlink()
    assert results.statuses() == {"a": "done"}
    assert len(read) == 7


def test_hundreds_of_tasks_on_the_shipped_trace_go_on_after_an_interrupt(
    mixed: lab.Trace, two: Client, tmp_path: pathlib.Path
) -> None:
    spec = {
        "traces": [mixed],
        "schemes": ["zram", "lru", "warmswap", "ariadne", "asap"],
        "budget": {"from": 30, "to": 79, "step": 1, "unit": "%"},
        "set": {"prefetch": ["default", "none"]},
        "no_contents": True,
    }

    def interrupt(tally: Tally) -> None:
        if tally.done >= 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.sweep(spec, two, out=tmp_path, progress=interrupt)
    last: list[Tally] = []
    rows = lab.sweep(spec, two, out=tmp_path, progress=last.append).to_pandas()
    assert last[-1].before >= 100 and last[-1].before + last[-1].done == len(rows) == 500
    assert rows.error.isna().all()
    # More memory never costs exact LRU a fault.
    # With more memory exact LRU has no more faults.
    lru = rows[(rows.scheme == "lru") & (rows["set.prefetch"] == "default")].sort_values("budget")
    assert len(lru) == 50 and list(lru.faults) == sorted(lru.faults, reverse=True)


def test_a_cluster_that_goes_fails_no_task(spec: "dict[str, Any]", one: Client, tmp_path: pathlib.Path) -> None:
    out = tmp_path / "sweep"
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster:
        with Client(cluster) as client:

            def close(tally: Tally) -> None:
                if tally.done == 5:
                    cluster.close()

            with pytest.raises(lab.Error, match="the same call goes on"):
                lab.sweep(spec, client, out=out, progress=close)
    before = lab.sweeps.Sweep(out).to_arrow().column("status").to_pylist()
    assert 5 <= len(before) < TASKS and set(before) == {"done"}
    assert lab.sweep(spec, one, out=out, progress=quiet).to_arrow().num_rows == TASKS


def test_a_damaged_trace_is_a_row_that_says_why(
    spec: "dict[str, Any]", one: Client, damaged: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    missing = tmp_path / "missing.wst"
    traces = [*spec["traces"], damaged, missing]
    with pytest.raises(lab.BadInput) as error:
        lab.open(damaged)
    rows = lab.sweep({**spec, "traces": traces}, one, out=tmp_path / "out", progress=quiet).to_arrow()
    failed = {row["trace"]: row["error"] for row in rows.to_pylist() if row["status"] == "failed"}
    assert failed["damaged.wst"] == str(error.value)
    assert failed["missing.wst"] == f"{missing}: cannot open: No such file or directory"
    assert len(failed) == 2
    done = rows.filter(pa.compute.equal(rows.column("status"), "done"))
    assert done.num_rows == TASKS and rows.num_rows == 2 * TASKS


def test_a_task_that_fails_is_tried_again_and_then_a_row(
    spec: "dict[str, Any]", one: Client, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[str] = []
    compare = _worker.compare

    def fails(trace: Any, **options: Any) -> Any:
        tries.append(options["schemes"][0])
        if options["schemes"][0] == "ariadne":
            raise RuntimeError("no luck")
        return compare(trace, **options)

    monkeypatch.setattr(_worker, "compare", fails)
    few = {**spec, "schemes": ["zram", "ariadne"], "budget": "40%", "seeds": 0, "set": {}, "exclude": []}
    out = tmp_path / "out"
    rows = lab.sweep(few, one, out=out, retries=2, progress=quiet).to_arrow().to_pylist()
    assert [row["error"] for row in rows if row["scheme"] == "ariadne"] == ["RuntimeError: no luck"] * 2
    assert (tries.count("ariadne"), tries.count("zram")) == (6, 2)
    monkeypatch.undo()
    assert lab.sweep(few, one, out=out, progress=quiet).to_arrow().to_pylist() == rows
    again = lab.sweep(few, one, out=out, retry_failed=True, progress=quiet).to_arrow().to_pylist()
    assert [row["status"] for row in again] == ["done"] * 4


def test_a_data_set_says_where_it_comes_from(
    spec: "dict[str, Any]", one: Client, tmp_path: pathlib.Path
) -> None:
    few = {**spec, "schemes": ["zram"], "budget": "40%", "exclude": []}
    lab.sweep(few, one, out=f"memory://{tmp_path}/far", progress=quiet)
    results = lab.sweep(few, one, out=f"memory://{tmp_path}/far", progress=quiet)
    about = results.about()
    assert about["spec"]["traces"] == [os.fspath(trace) for trace in few["traces"]]
    assert about["spec"]["schemes"] == ["zram"] and "dask" in about["versions"]
    small = spec["traces"][0]
    assert about["traces"][os.fspath(small)] == _worker.content_hash(os.fspath(small))
    frame, polars = results.to_pandas(), results.to_polars()
    assert list(frame) == polars.columns and len(frame) == len(polars) == 8
    assert set(frame.build) == {about["versions"]["warmswap"]}


def test_progress_says_how_long_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally(total=10, before=2)
    assert tally.left_s is None
    tally.began -= 60
    tally.add("done")
    tally.add("failed")
    assert tally.left_s is not None and 175 < tally.left_s < 190
    show(tally)
    assert capsys.readouterr().err == ""
    for _ in range(6):
        tally.add("done")
    show(tally)
    assert capsys.readouterr().err == "sweep: 10 of 10 tasks, 2 of an earlier run, 1 failed\n"


def test_the_command(
    spec: "dict[str, Any]", damaged: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], two: Client
) -> None:
    path = tmp_path / "sweep.toml"
    small = json.dumps(os.fspath(spec["traces"][0]))
    path.write_text(f"traces = [{small}]\nschemes = ['zram', 'dram']\nbudget = '40%'\nno_contents = true\nout = '{tmp_path}/out'\n")
    assert command.main([os.fspath(path), "--list"]) == 0
    assert capsys.readouterr().out.count("scheme=") == 2
    scheduler = ["--scheduler", two.scheduler.address]
    assert command.main([os.fspath(path), *scheduler]) == 0
    assert capsys.readouterr().out == f"2 rows in {tmp_path}/out\n"
    path.write_text(path.read_text().replace(small, f"'{damaged}'"))
    assert command.main([os.fspath(path), *scheduler, "--out", os.fspath(tmp_path / "bad")]) == 1
    assert command.main([os.fspath(tmp_path / "none.toml")]) == 2
    assert capsys.readouterr().err.endswith("none.toml: cannot open: No such file or directory\n")
