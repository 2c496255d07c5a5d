"""The package itself: its types."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parents[1]


def test_types_are_those_of_the_module(tmp_path: pathlib.Path) -> None:
    configured = ["--mypy-config-file", "pyproject.toml"]
    for words in (["mypy", "-p", "warmswap_lab"], ["mypy.stubtest", *configured, "warmswap_lab._engine"]):
        environment = {**os.environ, "MYPY_CACHE_DIR": os.fspath(tmp_path)}
        ran = subprocess.run([sys.executable, "-m", *words], cwd=HERE, capture_output=True, text=True, env=environment)
        assert ran.returncode == 0, ran.stdout + ran.stderr
