"""Results equal the command's to the last digit, and errors have its words."""

from __future__ import annotations

import csv
import io
import json
import multiprocessing
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
from typing import Any, Callable

import pytest

import warmswap_lab as lab

BUDGET = {"budget": "40%"}
# What is measured differs from run to run; all else is the same.
MEASURED = re.compile(r"measured|cpu|(compress|estimate|codec)\w*_(ns|s)$|per_s|_ns$|verdict|vs_(base|first|zram|dram)|share$|gain")


def counted(data: Any) -> Any:
    """The data without what a clock said."""
    if isinstance(data, dict):
        return {name: counted(value) for name, value in data.items() if not MEASURED.search(name)}
    return [counted(value) for value in data] if isinstance(data, list) else data


def test_a_replay_equals_the_commands(small: lab.Trace, data: Callable[..., Any]) -> None:
    result = lab.replay(
        small, scheme="ariadne", budget="256KiB", set={"prefetch": "none", "keep-copies": True}, no_contents=True
    )
    words = "--scheme ariadne --budget 256KiB --set prefetch=none --set keep-copies=on --no-contents"
    assert result.data == data("replay", *words.split(), small)
    assert result.schema == "warmswap.replay" and result.envelope["schema_version"] == 2


def test_a_comparison_equals_the_commands(
    small: lab.Trace, other: lab.Trace, data: Callable[..., Any]
) -> None:
    schemes = ["dram", "zram", "zswap", "warmswap"]
    result = lab.compare([small, other], schemes=schemes, no_contents=True, **BUDGET)
    words = ["--schemes", ",".join(schemes), "--no-contents", "--budget", "40%"]
    assert result.data == data("compare", small, other, *words)


def test_contents_are_compressed_as_by_the_command(small: lab.Trace, data: Callable[..., Any]) -> None:
    result = lab.replay(small, scheme="zram", **BUDGET)
    assert result.data["with_contents"] and result.data["totals"]["compressed_bytes"] > 0
    assert counted(result.data) == counted(data("replay", small, "--scheme", "zram", "--budget", "40%"))


@pytest.mark.parametrize("name", [name for name in lab.STUDIES if name != "heap"])
def test_a_study_equals_the_commands(
    name: str, small: lab.Trace, data: Callable[..., Any]
) -> None:
    options: dict[str, Any] = {}
    if name == "chunk-size":
        options = {"passes": 1, "sample_mib": 1}
    elif name == "entropy":
        options = {"pages": 500}
    elif name in ("ezswap", "parts"):
        # A tenth of so little memory is less than a pool needs.
        options = {"pool": 40}
    result = lab.study(name.replace("-", "_"), small, **options)
    words = [f"--{option.replace('_', '-')}={value}" for option, value in options.items()]
    found = data("study", name, small, *words)
    assert counted(result.data) == counted(found) and result.tables
    assert result.schema == f"warmswap.study.{name.replace('-', '_')}"


def test_what_can_be_named_equals_the_commands(data: Callable[..., Any]) -> None:
    assert lab.schemes().data == data("schemes")


def test_a_trace_is_described_as_by_the_command(small: lab.Trace, data: Callable[..., Any]) -> None:
    assert small.info().data == data("trace", "info", small)


def test_frames_have_the_columns_of_the_csv(
    small: lab.Trace, command: Callable[..., Any]
) -> None:
    options = {"schemes": ["zram", "warmswap"], "no_contents": True, **BUDGET}
    result = lab.compare(small, **options)
    words = "--schemes zram,warmswap --no-contents --budget 40% --csv -"
    printed = command("compare", small, *words.split()).stdout
    blocks = printed.split("\n\n")
    assert len(blocks) == len(result.tables) > 3
    for block, table in zip(blocks, result.tables):
        header, *rows = csv.reader(io.StringIO(block))
        assert header == [column.key for column in table.columns]
        frame, arrow, polars = table.to_pandas(), table.to_arrow(), table.to_polars()
        assert list(frame) == header == arrow.column_names == polars.columns
        assert len(frame) == len(rows) == arrow.num_rows == len(polars)
    frame = result.to_pandas("Memory and flash")
    assert frame.attrs["units"]["flash_read_bytes"] == "bytes"
    assert list(frame.swap_out_pages) == [row["swap_out_pages"] for row in result.data["schemes"]]
    with pytest.raises(KeyError, match="no table begins with 'Nothing'"):
        result.table("Nothing")


def test_nested_lists_are_rows(small: lab.Trace) -> None:
    result = lab.replay(small, scheme="zram", no_contents=True, **BUDGET)
    rows = result.rows("apps.relaunches")
    apps = result.data["apps"]
    assert len(rows) == sum(len(app["relaunches"]) for app in apps) > 0
    first = next(app for app in apps if app["relaunches"])
    assert rows[0]["apps.name"] == first["name"]
    assert rows[0]["latency.modelled_ns"] == first["relaunches"][0]["latency"]["modelled_ns"]
    assert result.rows()[0]["totals.events"] == len(small)


def test_a_saved_result_is_what_the_command_reads(
    small: lab.Trace, command: Callable[..., Any], tmp_path: pathlib.Path
) -> None:
    saved = lab.study("similarity", small).save(tmp_path / "similarity.json")
    assert json.loads(saved.read_text())["command"][:3] == ["warmswap-lab", "study", "similarity"]
    ran = command("report", saved)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scheme": "zrm"}, ["--scheme", "zrm"]),
        ({"set": {"prefetch": "psychic"}}, ["--set", "prefetch=psychic"]),
        ({"device": "floppy"}, ["--device", "floppy"]),
        ({"budget": "1"}, ["--budget", "1"]),
        ({"budget": "4K"}, ["--budget", "4K"]),
    ],
)
def test_errors_have_the_commands_words(
    small: lab.Trace, command: Callable[..., Any], options: "dict[str, Any]", words: "list[str]"
) -> None:
    ran = command("replay", small, *words)
    assert ran.returncode == 2
    with pytest.raises(lab.BadInput) as error:
        lab.replay(small, **options)
    assert ran.stderr == f"warmswap-lab: {error.value}\n"


def test_options_and_studies_that_do_not_exist_are_named(small: lab.Trace) -> None:
    with pytest.raises(lab.BadInput, match="'--budgt'.*'--budget'"):
        lab.replay(small, budgt="40%")
    with pytest.raises(lab.BadInput, match="no study 'unheard-of'.*similarity"):
        lab.study("unheard-of", small)
    with pytest.raises(lab.BadInput, match="no such option|no options here"):
        lab.replay(small, json="x.json")
    with pytest.raises(lab.BadInput, match="no command 'replai'"):
        lab.help("replai")
    assert "--budget" in lab.help("replay") and "--fit" in lab.help("study", "misses")


def test_the_gil_is_free_while_the_engine_runs(mixed: lab.Trace) -> None:
    ticks, ended = 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not ended.is_set():
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    before = ticks
    lab.replay(mixed, scheme="zram", **BUDGET)
    during = ticks - before
    ended.set()
    thread.join()
    assert during > 1000


def test_progress_is_told_and_an_exception_of_it_ends_the_work(mixed: lab.Trace) -> None:
    class Enough(Exception):
        pass

    steps: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        steps.append((done, total))
        if done:
            raise Enough

    schemes = ["zram", "zswap", "ariadne", "warmswap", "zram+codec=zstd", "ariadne+codec=zstd"]
    with pytest.raises(Enough):
        lab.compare(mixed, schemes=schemes, progress=progress, **BUDGET)
    done, total = steps[-1]
    # The two optima are compared, too.
    assert done < total == len(mixed) * (len(schemes) + 3)


INTERRUPTED = """
import sys
import warmswap_lab as lab

def progress(done, total):
    if done:
        print("running", flush=True)

try:
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize(
    "call",
    [
        "lab.compare(sys.argv[1], schemes=['zram+codec=zstd', 'zswap+codec=zstd', 'ariadne+codec=zstd'], progress=progress)",
        "lab.study('chunk_size', sys.argv[1], passes=1000, progress=progress)",
    ],
)
def test_ctrl_c_ends_the_work(mixed: lab.Trace, call: str) -> None:
    code = INTERRUPTED.format(call=call)
    child = subprocess.Popen(
        [sys.executable, "-c", code, os.fspath(mixed)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout
    assert child.stdout.readline() == "running\n"
    child.send_signal(signal.SIGINT)
    lines = child.stdout.read().split()
    assert child.wait() == 0
    assert lines[-1] == "interrupted"


def forked(path: str, queue: "multiprocessing.Queue[int]") -> None:
    queue.put(lab.replay(path, scheme="zram", no_contents=True, **BUDGET).data["totals"]["events"])


def test_a_child_of_a_fork_replays(small: lab.Trace) -> None:
    lab.replay(small, scheme="zram", no_contents=True, **BUDGET)
    context = multiprocessing.get_context("fork")
    queue: "multiprocessing.Queue[int]" = context.Queue()
    child = context.Process(target=forked, args=(os.fspath(small), queue))
    child.start()
    assert queue.get() == len(small)
    child.join()


def test_only_what_is_used_is_imported() -> None:
    code = (
        "import sys, warmswap_lab as lab; lab.schemes().tables\n"
        "print([m for m in ('numpy', 'pandas', 'polars', 'pyarrow', 'dask', 'distributed', 'matplotlib') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout == "[]\n", ran.stderr
