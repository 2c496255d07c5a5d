"""What an idle Jupyter kernel with a data set gives back, and how long its next cell takes.

Two kernels hold the same data set. One stays as it is; the other loads warmswap and goes to the background before
each cell. The same cells run in both, in turn. Times are those that a person sees: from sending the cell to its
last output. Memory is what the kernel counts for the process (`smaps_rollup`).

    python bench/idle_kernel.py --rounds 9 --json idle_kernel.json

Needs root for a zram swap device of its own, which is removed afterwards, or `--swap existing`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import platform
import statistics
import sys
import time
from typing import Any, Iterator, Optional

import nbformat
from nbclient import NotebookClient

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

import zram_swap  # noqa: E402

DATA = """
import numpy as np, pandas as pd
rng = np.random.default_rng(7)
rows = int({mib} * 2**20 / 100)
orders = pd.DataFrame({{
    "order": np.arange(rows),
    "time": 1_700_000_000 + np.sort(rng.integers(0, 365 * 86_400, rows)),
    "customer": rng.zipf(1.3, rows) % 200_000,
    "city": rng.integers(0, 300, rows),
    "article": rng.integers(0, 20_000, rows),
    "amount": rng.integers(1, 50, rows),
    "price": rng.gamma(2, 20, rows).round(2),
    "weight": rng.normal(2, 0.5, rows).round(3),
    "discount": rng.choice([0, 0, 0, 0.05, 0.1], rows),
    "returned": (rng.random(rows) < 0.03).astype("int64"),
    "rating": rng.integers(0, 6, rows).astype("float64"),
    "delay": rng.exponential(3, rows).round(1),
}})
orders["channel"] = pd.Categorical.from_codes(rng.integers(0, 4, rows), ["web", "app", "shop", "phone"])
orders.memory_usage().sum()
"""

PARTS = [
    ("city", "price"),
    ("article", "amount"),
    ("returned", "weight"),
    ("rating", "delay"),
    ("customer", "discount"),
]

CELLS = {
    "same": "the same analysis again: a groupby over 2 of 13 columns",
    "other": "another analysis each time: a groupby over 2 other columns",
    "small": "a glance: head() of the table",
    "all": "everything: the sum of all columns",
}


def code(kind: str, round_number: int) -> str:
    """The cell of one round."""
    if kind == "all":
        return "orders.sum(numeric_only=True).to_dict()"
    if kind == "small":
        return "orders.head().to_string()"
    by, value = PARTS[0 if kind == "same" else round_number % len(PARTS)]
    return f"orders.groupby('{by}').{value}.agg(['mean', 'median', 'max']).describe()"


class Kernel:
    """A kernel with the data set."""

    def __init__(self, mib: int, background: bool, keep_share: Optional[float]) -> None:
        notebook = nbformat.v4.new_notebook()
        self.client = NotebookClient(notebook, kernel_name="python3", timeout=None)
        self.stack = contextlib.ExitStack()
        self.stack.enter_context(self.client.setup_kernel())
        self.pid: int = self.client.km.provisioner.pid
        self.background = background
        if background:
            self.run("%load_ext warmswap\n%warmswap off")
            if keep_share is not None:
                self.run(f"import warmswap._core as c; c.background.__kwdefaults__['keep_share'] = {keep_share}")
        self.run(DATA.format(mib=mib))

    def run(self, source: str) -> tuple[float, float]:
        """Runs a cell; the time that it took for the client, and the CPU time of the thread that runs cells."""
        notebook = self.client.nb
        notebook.cells.append(nbformat.v4.new_code_cell(source))
        index = len(notebook.cells) - 1
        start, cpu = time.perf_counter(), self.cpu_s()
        self.client.execute_cell(notebook.cells[index], index)
        return time.perf_counter() - start, self.cpu_s() - cpu

    def cpu_s(self) -> float:
        """CPU time of the main thread so far."""
        text = pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/schedstat").read_text()
        return int(text.split()[0]) / 1e9

    def output(self) -> str:
        """What the last cell printed."""
        outputs = self.client.nb.cells[-1].outputs
        return "".join(output.get("text", "") for output in outputs)

    def go_to_background(self) -> None:
        """As when idle, and waits until all is out."""
        self.run("%warmswap now")
        before = -1
        while (now := self.memory()["SwapPss"]) == 0 or now != before:
            before = now
            time.sleep(0.4)

    def memory(self) -> dict[str, int]:
        """What the kernel counts for the process, in bytes."""
        lines = pathlib.Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines()[1:]
        return {line.split(":")[0]: int(line.split()[1]) << 10 for line in lines}

    def end(self) -> None:
        self.stack.close()


def measure(kind: str, options: argparse.Namespace, device: Optional[zram_swap.Device]) -> dict[str, Any]:
    """One kind of cell, in both kernels in turn."""
    plain = Kernel(options.mib, False, None)
    ours = Kernel(options.mib, True, options.keep_share)
    try:
        for kernel in (plain, ours):
            kernel.run(code(kind, 0))
        rows = []
        for number in range(1, options.rounds + 1):
            before = ours.memory()
            pool = device.pool_bytes() if device else 0
            ours.go_to_background()
            after = ours.memory()
            row = {
                "footprint_bytes": before["Rss"] + before["SwapPss"],
                "resident_bytes": after["Rss"],
                "pool_bytes": device.pool_bytes() if device else None,
                "pool_grew_bytes": device.pool_bytes() - pool if device else None,
            }
            # The order changes, so that neither arm has the warmer machine.
            arms = [("resident", plain), ("returned", ours)]
            for name, kernel in arms if number % 2 else reversed(arms):
                time.sleep(options.pause)
                row[f"{name}_s"], row[f"{name}_cpu_s"] = kernel.run(code(kind, number))
            row["said"] = ours.output().strip()
            rows.append(row)
        return {"kind": kind, "rounds": rows}
    finally:
        plain.end()
        ours.end()


def summary(result: dict[str, Any]) -> dict[str, float]:
    """Medians; the first return is by itself, since nothing was learned before it."""
    rows = result["rounds"]
    later = rows[1:] or rows
    resident = statistics.median(row["resident_s"] for row in rows)
    footprint = statistics.median(row["footprint_bytes"] for row in rows)
    left = statistics.median(row["resident_bytes"] for row in later)
    returned = statistics.median(row["returned_s"] for row in later)
    return {
        "footprint_mib": footprint / 2**20,
        "first_gave_back_share": 1 - rows[0]["resident_bytes"] / rows[0]["footprint_bytes"],
        "gave_back_share": 1 - left / footprint,
        "pool_mib": (later[-1]["pool_bytes"] or 0) / 2**20,
        "resident_ms": resident * 1e3,
        "first_return_ms": rows[0]["returned_s"] * 1e3,
        "return_ms": returned * 1e3,
        "first_ratio": rows[0]["returned_s"] / resident,
        "ratio": returned / resident,
        "cpu_ratio": statistics.median(row["returned_cpu_s"] for row in later)
        / statistics.median(row["resident_cpu_s"] for row in rows),
    }


def machine() -> dict[str, Any]:
    """Where this was measured."""
    return {
        "system": platform.platform(),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
    }


@contextlib.contextmanager
def swap(choice: str) -> Iterator[Optional[zram_swap.Device]]:
    if choice == "existing":
        yield None
    else:
        reason = zram_swap.why_not()
        if reason:
            raise SystemExit(f"{reason}; --swap existing uses what there is")
        with zram_swap.zram_swap(4 << 30, choice) as device:
            yield device


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=300, help="size of the data set")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--pause", type=float, default=0.5, help="seconds before each cell")
    parser.add_argument("--kinds", nargs="+", choices=CELLS, default=list(CELLS))
    parser.add_argument("--keep-share", type=float, help="in place of the default")
    parser.add_argument("--swap", default="lz4", help="compressor of the zram device, or `existing`")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    found = machine()
    with swap(options.swap) as device:
        results = [measure(kind, options, device) for kind in options.kinds]
    print("{system}, Python {python}, {cpus} CPUs, load {load:.1f}".format(**found))
    print(f"data set {options.mib} MiB, {options.rounds} rounds, swap {options.swap}; medians of rounds 2 and later")
    print(
        f"{'cell':<8}{'had MiB':>9}{'gave back':>11}{'zram MiB':>10}{'in place ms':>13}"
        f"{'1st return ms':>15}{'later ms':>10}{'1st ratio':>11}{'later ratio':>13}{'CPU':>6}"
    )
    for result in results:
        result["summary"] = made = summary(result)
        print(
            f"{result['kind']:<8}{made['footprint_mib']:>9.0f}{made['gave_back_share']:>10.0%} "
            f"{made['pool_mib']:>10.0f}{made['resident_ms']:>13.0f}{made['first_return_ms']:>15.0f}"
            f"{made['return_ms']:>10.0f}{made['first_ratio']:>11.2f}{made['ratio']:>13.2f}{made['cpu_ratio']:>6.2f}"
        )
    for kind in options.kinds:
        print(f"{kind:<8}{CELLS[kind]}")
    if options.json:
        document = {"machine": found, "command": sys.argv, "results": results}
        options.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
