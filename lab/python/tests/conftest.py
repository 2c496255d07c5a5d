"""What the tests share: traces, the command, and a note of each result."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from typing import Any, Callable

import pytest

import warmswap_lab as lab

ROOT = pathlib.Path(__file__).resolve().parents[3]
RESULTS_LOG = "WARMSWAP_PYTEST_LOG"
COMMAND = "WARMSWAP_LAB_COMMAND"


def pytest_runtest_logreport(report: Any) -> None:
    """Notes each result in the file that `scripts/test-python` reads: `passed: NAME`, `failed: NAME`, `skipped: NAME: REASON`."""
    path = os.environ.get(RESULTS_LOG)
    if not path or (report.when != "call" and report.passed):
        return
    reason = ""
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = ": " + report.longrepr[2].replace("Skipped: ", "").replace("\n", " ")
    with open(path, "a") as log:
        log.write(f"{report.outcome}: lab: {report.nodeid}{reason}\n")


@pytest.fixture(scope="session")
def mixed() -> lab.Trace:
    """The recorded sample of the repository."""
    return lab.open(ROOT / "traces/mixed.wst")


@pytest.fixture(scope="session")
def small(mixed: lab.Trace, tmp_path_factory: pytest.TempPathFactory) -> lab.Trace:
    """A part of it, small enough to be replayed in a moment."""
    return mixed.sample(tmp_path_factory.mktemp("small") / "small.wst", share=0.3, level=1)


@pytest.fixture(scope="session")
def other(mixed: lab.Trace, tmp_path_factory: pytest.TempPathFactory) -> lab.Trace:
    """Another part."""
    return mixed.sample(tmp_path_factory.mktemp("other") / "other.wst", share=0.2, seed=7, level=1)


@pytest.fixture(scope="session")
def damaged(small: lab.Trace, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The small trace with one byte changed in its middle."""
    path = tmp_path_factory.mktemp("damaged") / "damaged.wst"
    whole = bytearray(pathlib.Path(small).read_bytes())
    whole[200] ^= 0xFF
    path.write_bytes(whole)
    return path


Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def command() -> Command:
    """Runs `warmswap-lab`."""
    program = os.environ.get(COMMAND)
    if not program:
        pytest.skip(f"{COMMAND} does not name the command")

    def run(*words: "str | os.PathLike[str]") -> "subprocess.CompletedProcess[str]":
        return subprocess.run([program, *map(os.fspath, words)], capture_output=True, text=True)

    return run


@pytest.fixture(scope="session")
def data(command: Command) -> Callable[..., Any]:
    """The data of a result of the command."""

    def run(*words: "str | os.PathLike[str]") -> Any:
        ran = command(*words, "--json", "-")
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)["data"]

    return run
