"""First steps with an installed wheel, out of a folder without sources: `python -I wheel.py TRACE`.

What it has besides the library, a replay, and a sweep that is interrupted and goes on."""

from __future__ import annotations

import contextlib
import importlib.metadata
import pathlib
import sys
import tempfile

import warmswap_lab as lab
from warmswap_lab.sweeps._progress import Tally


def check_files() -> None:
    """The package is the installed one, for any CPython from 3.9 on, with stubs and licences."""
    assert pathlib.Path(lab.__file__).is_relative_to(sys.prefix), lab.__file__
    wheel = importlib.metadata.distribution("warmswap-lab")
    tags = [line for line in (wheel.read_text("WHEEL") or "").splitlines() if line.startswith("Tag: ")]
    assert tags and all(tag.startswith("Tag: cp39-abi3-") and "linux" in tag for tag in tags), tags
    files = {str(file) for file in wheel.files or ()}
    missing = {f"warmswap_lab/{name}" for name in ("_engine.abi3.so", "_engine.pyi", "py.typed")} - files
    assert not missing, f"the wheel lacks {missing}"
    licences = {pathlib.Path(file).name for file in files if "/licenses/" in file}
    assert licences == {"LICENSE-APACHE", "LICENSE-MIT"}, licences
    assert wheel.metadata["License-Expression"] == "MIT OR Apache-2.0"


def check_sweep(trace: lab.Trace, out: pathlib.Path) -> None:
    """An interrupted sweep keeps its rows, and the same call does what is left."""
    spec = {"traces": [trace], "schemes": ["zram", "ariadne", "lru"], "budget": ["40%", "60%"], "no_contents": True}
    before = 0

    def interrupt(tally: Tally) -> None:
        if tally.done >= 2:
            raise KeyboardInterrupt

    def note(tally: Tally) -> None:
        nonlocal before
        before = tally.before

    with contextlib.suppress(KeyboardInterrupt):
        lab.sweep(spec, out=out, progress=interrupt)
    rows = lab.sweep(spec, out=out, workers=1, progress=note).to_pandas()
    assert len(rows) == 6 and set(rows.status) == {"done"} and 2 <= before < 6


def main() -> None:
    check_files()
    trace = lab.open(sys.argv[1])
    result = lab.replay(trace, scheme="ariadne", budget="40%", no_contents=True)
    assert len(result.to_pandas()) and result.data["counters"]["pool_faults"]
    with tempfile.TemporaryDirectory(prefix="warmswap-wheel-") as folder:
        check_sweep(trace, pathlib.Path(folder) / "sweep")


if __name__ == "__main__":
    main()
