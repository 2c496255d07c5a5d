"""Shells: a real Jupyter kernel with a data set, and a shell without an event loop."""

from __future__ import annotations

import pathlib
import time

import pytest

pytest.importorskip("nbclient", reason="nbclient is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")
pytest.importorskip("pandas", reason="pandas is not installed")

import nbformat  # noqa: E402
from nbclient import NotebookClient  # noqa: E402

LOAD = "%load_ext warmswap\n%warmswap idle 0.2"

CELLS = [
    """
import numpy as np, pandas as pd
rng = np.random.default_rng(7)
rows = 600_000
frame = pd.DataFrame({
    "city": rng.integers(0, 200, rows), "price": rng.gamma(2, 20, rows).round(2),
    "amount": rng.integers(1, 50, rows), "day": np.sort(rng.integers(0, 365, rows)),
    "note": rng.choice(["paid", "open", "late"], rows),
})
names = {number: f"city {number}" for number in range(200)}
len(frame)
""",
    "frame.groupby('city').price.mean().round(6).to_dict()",
    """
class Loop:
    pass
loop = Loop(); loop.itself = loop; del loop
frame['total'] = frame.price * frame.amount
frame.total.sum().round(4), sorted(names.items())[:3]
""",
    "frame.groupby(['note', 'day']).total.agg(['min', 'max', 'count']).describe().round(6).to_dict()",
    "frame.groupby('city').price.mean().round(6).to_dict()",
    "frame.memory_usage().sum(), frame.note.value_counts().to_dict()",
]


def swapped_bytes(pid: int) -> int:
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmSwap:")[1].split()[0]) << 10


def wait_until_out(pid: int) -> None:
    """Until a good part is in swap, and no more goes there."""
    before = -1
    while (now := swapped_bytes(pid)) < 20 << 20 or now != before:
        before = now
        time.sleep(0.3)


def run(cells: list[str], idle: bool) -> list[list[dict]]:
    """The outputs of the cells; the kernel is in the background before each of them if ``idle``."""
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    client = NotebookClient(notebook, kernel_name="python3", timeout=None)
    with client.setup_kernel():
        pid = client.km.provisioner.pid
        for index, cell in enumerate(notebook.cells):
            client.execute_cell(cell, index)
            if idle and index > 0:
                wait_until_out(pid)
    return [cell.outputs for cell in notebook.cells]


def told(outputs: list[dict]) -> list[str]:
    """The lines of this package among the outputs."""
    texts = [output["text"] for output in outputs if output["output_type"] == "stream"]
    return [line for text in texts for line in text.splitlines() if line.startswith("warmswap: ")]


def test_a_kernel_that_goes_to_the_background_computes_the_same(swap):
    plain = run(["0", *CELLS], idle=False)
    ours = run([LOAD, *CELLS], idle=True)
    lines = []
    for expected, outputs in zip(plain[1:], ours[1:]):
        lines += told(outputs)
        results = [output["data"] for output in outputs if output["output_type"] == "execute_result"]
        assert [output["data"] for output in expected] == results
    gave = [line for line in lines if "this kernel gave back" in line]
    print(*gave, sep="\n")
    assert len(gave) >= 4, lines


def test_what_a_cell_drops_after_a_background_is_gone(swap):
    first = """
import numpy as np, weakref
a = np.ones(8_000_000); w = weakref.ref(a); total = a.sum()
"""
    outputs = run([LOAD, first, "del a\nw() is None"], idle=True)
    results = [output for output in outputs[2] if output["output_type"] == "execute_result"]
    assert results[0]["data"]["text/plain"] == "True"


def test_a_kernel_that_loads_it_by_configuration_goes_to_the_background(swap, tmp_path, monkeypatch):
    profile = tmp_path / "profile_default"
    profile.mkdir()
    line = "c = get_config()\nc.InteractiveShellApp.extensions = ['warmswap']\n"
    (profile / "ipython_kernel_config.py").write_text(line)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    # The second cell is told what the first gave back.
    cells = ["0", "%warmswap idle 0.2\nx = bytearray(b'x') * (64 << 20)", "x.count(b'x')"]
    outputs = run(cells, idle=True)
    assert any("this kernel gave back" in line for line in told(outputs[2])), outputs


@pytest.fixture
def shell(swap):
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    yield shell
    shell.run_line_magic("unload_ext", "warmswap")


def test_what_the_shell_does_says_whether_it_is_idle(shell):
    """It is loaded outside of a cell, and a cell runs others within."""
    import warmswap

    shell.extension_manager.load_extension("warmswap")
    shell.run_line_magic("warmswap", "idle 0.05")
    shell.push({"shell": shell, "warmswap": warmswap, "time": time})
    shell.run_cell("0")
    while warmswap.status().phase == "foreground":
        time.sleep(0.01)
    # The cell within is done, this one is not; nor is it idle when an empty one ends.
    shell.run_cell(
        "shell.run_cell('1'); shell.run_cell(' '); time.sleep(0.5); seen = warmswap.status().phase"
    )
    assert shell.user_ns["seen"] == "foreground"
    while warmswap.status().phase == "foreground":
        time.sleep(0.01)


def test_a_shell_without_a_loop(shell, capsys):
    import warmswap

    def wait_until_idle() -> None:
        while warmswap.status().phase == "foreground":
            time.sleep(0.01)
        warmswap.settle()

    shell.run_cell("%load_ext warmswap\n%warmswap idle 0.05\nblock = bytearray(b'x') * (64 << 20)")
    wait_until_idle()
    shell.run_cell("print(block.count(b'x'))")
    out = capsys.readouterr().out
    assert "this kernel gave back" in out and str(64 << 20) in out
    # Quiet, and off.
    shell.run_cell("%warmswap quiet")
    wait_until_idle()
    capsys.readouterr()
    shell.run_cell("%warmswap off")
    assert capsys.readouterr().out == ""
    # Now means now, even when it is off.
    shell.run_cell("%warmswap now")
    wait_until_idle()
    shell.run_cell("%warmswap status")
    out = capsys.readouterr().out
    assert "warmswap: foreground" in out and "goes to the background: off" in out
    for bad in ("idle", "idle nan", "idle -1", "idle x", "dance", "status now"):
        shell.run_cell(f"%warmswap {bad}")
        out = capsys.readouterr().out
        assert "%warmswap idle 30" in out or "no number of seconds" in out, bad
