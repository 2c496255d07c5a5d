"""Populations: what a scheme changes on devices that differ, with intervals.

A device is drawn from (seed, index) alone, each of its properties by itself: more devices leave the first ones as they are, and
another distribution of one property leaves the others. Its applications are synthetic, with the statistics that the Ariadne
paper measured (Table 1: anonymous memory 10 s and 5 min after the launch; Table 3: pages touched one after the other; Figure 5:
what relaunches have in common). All are launched in random order, then relaunched in rounds of random order.

Modelled, as in a replay with ``no_contents``: which pages are where, flash and fault times of a device model, an assumed
ratio and assumed codec times, the same for all pages and chunk sizes. So nothing is measured, and rows are equal wherever
they are computed. Of a device's pages only ``share`` are replayed, with as much less memory; latencies, bytes and CPU time are scaled up by it.

Not modelled: what pages hold, pages of files, other work on the processors, devices of differing processors, habits (each
application is as likely to be next as another within a round), and how long a cold launch takes.

- Relaunch latency is what memory costs within a relaunch, not the whole of it, and is that of relaunches whose application
  had not been killed.
- A kill is the replay's: memory and swap are full, nothing can be dropped, and the application in the background that was
  used least recently loses all its pages. A scheme that is made for a backing file has one of the size of all pages, if
  ``backing`` says nothing else, and so kills nothing; ``zram`` is not. A base that uses the same file is ``zswap``; with
  ``backing="0"`` no scheme has one.
- What a day has is what the whole replay has for each relaunch, first launches included, times the switches of a day.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from . import _engine
from ._commands import compare
from ._devices import Choice, Device, Devices, Distribution, Uniform
from ._traces import Trace
from .sweeps._progress import Tally, show
from .sweeps._run import Work, carry_out, check_installed, place
from .sweeps._store import Sweep, build

if TYPE_CHECKING:
    import pandas
    import pyarrow

__all__ = ["METRICS", "Choice", "Devices", "Distribution", "Population", "Uniform", "population"]

METRICS = (
    "relaunch_mean_ns",
    "relaunch_p90_ns",
    "kills_per_day",
    "flash_written_bytes_per_day",
    "cpu_ns_per_day",
)
"""What is known of a device under each scheme. CPU time is that of compression and decompression."""

BATCH = 10
"""Devices of a task: some tenths of a second, beside which the scheduler's time is little."""

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where the trace of a device is for a moment: on a disk, it would wait to be written."""

LEAST_BYTES = 256 << 10
"""Memory that a replay needs."""

_FIXED = ("schemes", "budget", "device", "no_contents", "no_optima")


@dataclass(frozen=True)
class _Plan:
    """What is done with each device."""

    scheme: str
    base: str
    seed: int
    devices: Devices
    share: float
    relaunches: int
    options: dict[str, Any]

    def name(self) -> str:
        """The same for the same plan and build, wherever it runs."""
        return hashlib.sha256(f"{self!r} {build()}".encode()).hexdigest()[:16]

    def row(self, index: int) -> dict[str, Any]:
        """What came of a device, as columns."""
        device = Device.draw(self.devices, self.seed, index)
        if device.memory_bytes * self.share < LEAST_BYTES:
            mib = device.memory_bytes / 2**20
            raise _engine.BadInput(f"{mib:.0f} MiB are too little for a share of {self.share:g}: replayed are at least 256 KiB")
        with tempfile.TemporaryDirectory(prefix="warmswap-device-", dir=MEMORY) as folder:
            path = os.path.join(folder, "device.wst")
            _engine.synthesize(path, list(device.apps), device.seed, self.share, self.relaunches)
            trace = Trace(path)
            found = {name: self.replay(trace, name, device) for name in {self.base, self.scheme}}
        drawn = {"index": index, "memory_bytes": device.memory_bytes, "flash": device.flash}
        drawn.update(apps=len(device.apps), switches_per_day=float(device.switches_per_day))
        for side, name in (("base", self.base), ("scheme", self.scheme)):
            drawn.update({f"{side}.{metric}": value for metric, value in found[name].items()})
        return drawn

    def replay(self, trace: Trace, scheme: str, device: Device) -> dict[str, Optional[float]]:
        """The metrics of a device under a scheme."""
        budget = f"{int(device.memory_bytes * self.share)}B"
        fixed: dict[str, Any] = {"budget": budget, "device": device.flash, "no_contents": True, "no_optima": True}
        result = compare(trace, threads=1, schemes=[scheme], **fixed, **self.options)
        (row,) = result.data["schemes"]
        latency = row["warm_latency"]
        per_day = device.switches_per_day / row["relaunches"]
        values = (
            latency and sum(latency["mean"].values()) / self.share,
            latency and sum(latency["p90"].values()) / self.share,
            row["kills"] * per_day,
            row["flash_written_bytes"] * per_day / self.share,
            sum(row["cpu"].values()) * per_day / self.share,
        )
        return dict(zip(METRICS, values))


def _run(plan: _Plan, indices: list[int]) -> list[dict[str, Any]]:
    """What came of devices. Input that cannot be used is a result, since another try changes nothing."""
    rows = []
    for index in indices:
        try:
            rows.append({"status": "done", "error": None, **plan.row(index)})
        except _engine.BadInput as error:
            rows.append({"status": "failed", "error": str(error), "index": index})
    return rows


def population(
    n: int,
    scheme: str = "warmswap",
    base: str = "zram",
    *,
    out: Union[str, os.PathLike[str], None] = None,
    seed: int = 0,
    devices: Optional[Devices] = None,
    share: float = 1 / 128,
    relaunches: int = 3,
    client: Any = None,
    workers: Optional[int] = None,
    retries: int = 2,
    retry_failed: bool = False,
    progress: Callable[[Tally], object] = show,
    **options: Any,
) -> Population:
    """Replays ``n`` devices under a scheme and under a base scheme, each alone; the module says what is modelled.

    ``devices`` has the distributions, ``share`` the part of each device's pages that is replayed, ``relaunches`` those of each
    application. Other options are those of ``warmswap-lab compare``: ``set={"prefetch": "none"}``, ``backing="0"``.
    Devices that have a row in ``out`` are not repeated; ``client`` and what follows it are as in :func:`warmswap_lab.sweep`.
    """
    check_installed()
    _check(n, share, relaunches, options)
    plan = _Plan(scheme, base, seed, devices or Devices(), share, relaunches, dict(sorted(options.items())))
    found = Population(place(out, "population"), plan.name(), n)
    names = {index: f"{found.plan}-{index:08}" for index in range(n)}
    finished = found.finished(with_failed=not retry_failed)
    left = [index for index, name in names.items() if name not in finished]
    if left:
        # What cannot be used is said before a cluster starts.
        plan.row(left[0])
    found.begin({"population": repr(plan), "n": n}, {})
    common = {"trace": "population", "trace_hash": found.plan, "scheme": scheme, "seed": seed, "build": build(), "base": base}

    def work(_: Any) -> Iterator[Work]:
        for first in range(0, len(left), BATCH):
            batch = left[first : first + BATCH]
            rows = [{"task": names[index], "index": index, **common} for index in batch]
            yield Work(names[batch[0]], _run, (plan, batch), rows)

    tally = Tally(total=n, before=n - len(left))
    carry_out(found, work, tally, client=client, workers=workers, retries=retries, progress=progress)
    return found


def _check(n: int, share: float, relaunches: int, options: Iterable[str]) -> None:
    if n < 1:
        raise _engine.BadInput(f"a population has at least one device, not {n}")
    if not 0 < share <= 1:
        raise _engine.BadInput(f"the share of pages that is replayed is more than 0 and at most 1, not {share}")
    if relaunches < 1:
        raise _engine.BadInput(f"each application is relaunched at least once, not {relaunches} times")
    if fixed := sorted(set(options) & {*_FIXED}):
        raise _engine.BadInput(f"{', '.join(fixed)}: follows from the devices and is no option of a population")


class Population(Sweep):
    """The rows of a population: a device each, with what it was drawn as, and its metrics under ``base`` and ``scheme``."""

    def __init__(self, path: Union[str, os.PathLike[str]], plan: str, n: int) -> None:
        super().__init__(path)
        self.plan, self.n = plan, n

    def __repr__(self) -> str:
        return f"<Population {self.path}: {self.n} devices>"

    def _files(self) -> list[str]:
        return [file for file in super()._files() if f"/population-{self.plan[:8]}/" in file]

    def to_arrow(self) -> pyarrow.Table:
        """The rows of the first ``n`` devices, in their order."""
        import pyarrow.compute as pc

        table = super().to_arrow()
        return table.filter(pc.less(table.column("index"), self.n))

    def changes(self, confidence: float = 0.95, resamples: int = 1000, seed: int = 0) -> pandas.DataFrame:
        """What the scheme changes, metric by metric, in the mean over devices.

        ``change`` is scheme minus base, ``relative`` that by the base. ``low`` and ``high`` are the ends of its interval:
        percentiles of the bootstrap, which draws devices again, both schemes of a device together. ``devices`` is how many
        there are in it: all, or those where a relaunch was no cold start under either scheme. ``relative`` is NaN where the base
        has none.
        """
        import numpy as np
        import pandas as pd

        rows = self.to_pandas()
        if len(failed := rows[rows.status != "done"]):
            raise _engine.Error(f"{len(failed)} of {self.n} devices failed: {failed.error.iloc[0]}")
        if len(rows) < 2 or not 0 < confidence < 1 or resamples < 1:
            raise _engine.BadInput("an interval needs two devices, a confidence between 0 and 1, and resamples")
        base, scheme = (rows[[f"{side}.{m}" for m in METRICS]].to_numpy(float) for side in ("base", "scheme"))
        known = ~np.isnan(scheme - base)
        base, change = np.where(known, base, 0), np.where(known, scheme - base, 0)

        def means(times: Any) -> Any:
            """Of the base, of the change, and that by the base, each device so many times; NaN where nothing is known."""
            count, base_sum, change_sum = times @ known, times @ base, times @ change
            with np.errstate(invalid="ignore", divide="ignore"):
                return base_sum / count, change_sum / count, np.where(base_sum > 0, change_sum / base_sum, np.nan)

        rng = np.random.default_rng(seed)
        n = len(rows)
        each = (np.bincount(rng.integers(n, size=n), minlength=n) for _ in range(resamples))
        drawn = np.array([means(times.astype(float))[1:] for times in each])
        (low, relative_low), (high, relative_high) = np.quantile(drawn, ((1 - confidence) / 2, (1 + confidence) / 2), axis=0)
        of_base, of_change, relative = means(np.ones(n))
        columns = {"base": of_base, "scheme": of_base + of_change, "change": of_change, "low": low, "high": high}
        columns.update(relative=relative, relative_low=relative_low, relative_high=relative_high, devices=known.sum(0))
        return pd.DataFrame(columns, index=pd.Index(METRICS, name="metric"))
