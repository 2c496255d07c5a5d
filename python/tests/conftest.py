"""What the tests share: swap of their own, scripts in processes of their own, and a note of each result."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any, Callable, Iterator

import pytest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))

import zram_swap  # noqa: E402

RESULTS_LOG = "WARMSWAP_PYTEST_LOG"

EXCUSED = "excused: "
"""Begins the reason of a skip that nothing on the machine can prevent."""


def pytest_runtest_logreport(report: Any) -> None:
    """Notes each result in the file that `scripts/test-python` reads: `passed: NAME`, `failed: NAME`,
    `skipped: NAME: REASON` or `excused: NAME: REASON`."""
    path = os.environ.get(RESULTS_LOG)
    if not path or (report.when != "call" and report.passed):
        return
    outcome, reason = report.outcome, ""
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].replace("Skipped: ", "").replace("\n", " ")
        if reason.startswith(EXCUSED):
            outcome, reason = "excused", reason[len(EXCUSED) :]
    line = f"{outcome}: {report.nodeid}" + (f": {reason}" if reason else "")
    with open(path, "a") as log:
        log.write(line + "\n")


@pytest.fixture(scope="session")
def swap() -> Iterator[None]:
    """Swap: a device of our own, or what the machine has where none can be made."""
    reason = zram_swap.why_not()
    if reason is None:
        with zram_swap.zram_swap(1 << 30):
            yield
    elif zram_swap.swap_total_bytes() > 0:
        yield
    else:
        pytest.skip(f"no swap, and {reason}")


@pytest.fixture
def script(tmp_path: pathlib.Path) -> Callable[..., str]:
    """Runs Python code in a process of its own and gives what it printed; it must end with success."""

    def run(code: str, *before: str, **environment: str) -> str:
        path = tmp_path / "script.py"
        path.write_text(code)
        done = subprocess.run(
            [*before, sys.executable, str(path)],
            cwd=tmp_path,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
