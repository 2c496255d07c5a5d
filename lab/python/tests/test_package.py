"""The package itself: its types, and its examples."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import nbformat
import pytest
from nbclient import NotebookClient

HERE = pathlib.Path(__file__).resolve().parents[1]


def test_types_are_those_of_the_module(tmp_path: pathlib.Path) -> None:
    configured = ["--mypy-config-file", "pyproject.toml"]
    for words in (["mypy", "-p", "warmswap_lab"], ["mypy.stubtest", *configured, "warmswap_lab._engine"]):
        environment = {**os.environ, "MYPY_CACHE_DIR": os.fspath(tmp_path)}
        ran = subprocess.run([sys.executable, "-m", *words], cwd=HERE, capture_output=True, text=True, env=environment)
        assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("name", ["tour", "research"])
def test_a_notebook_runs(name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", os.fspath(tmp_path))
    monkeypatch.setenv("WARMSWAP_EXAMPLE_OUT", os.fspath(tmp_path / "sweep"))
    notebook = nbformat.read(HERE / f"examples/{name}.ipynb", as_version=4)
    folder = os.fspath(HERE / "examples")
    ended = NotebookClient(notebook, timeout=None, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    outputs = [cell["outputs"] for cell in ended.cells if cell.cell_type == "code"]
    assert all(outputs)
