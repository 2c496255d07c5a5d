"""Swap schemes on recorded traces: replays, the papers' studies, sweeps and populations, with results as data frames.

    import warmswap_lab as lab

    trace = lab.open("traces/mixed.wst")
    trace.between(1.0, 2.0).to_pandas()                      # events of one second
    result = lab.replay(trace, scheme="ariadne", budget="40%", set={"prefetch": "none"})
    result.to_pandas()                                       # relaunch by relaunch
    lab.study("similarity", trace).to_pandas()
    lab.sweep({"traces": ["traces/*.wst"], "schemes": ["zram", "ariadne"],
               "budget": ["30%", "50%"], "out": "results"}).to_pandas()
    lab.population(100, "warmswap", base="zram", out="devices").changes()

A call is a line of the command ``warmswap-lab``: the same options by the same names, the same results, and errors with the
same words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from ._commands import STUDIES, compare, help, replay, schemes, study
from ._engine import BadInput, Error
from ._policy import Reclaim
from ._results import Column, Result, Table
from ._traces import Contents, Events, Trace, import_ariadne, open, write

if _TYPE_CHECKING:
    from .populations import Choice, Devices, Population, Uniform, population
    from .sweeps import Sweep, sweep

__all__ = [
    "STUDIES",
    "BadInput",
    "Choice",
    "Column",
    "Contents",
    "Devices",
    "Error",
    "Events",
    "Population",
    "Reclaim",
    "Result",
    "Sweep",
    "Table",
    "Trace",
    "Uniform",
    "compare",
    "help",
    "import_ariadne",
    "open",
    "population",
    "replay",
    "schemes",
    "study",
    "sweep",
    "write",
]


def __getattr__(name: str) -> _Any:
    # Sweeps import Dask, which takes longer than all the rest.
    if name in ("Sweep", "sweep"):
        from . import sweeps

        return getattr(sweeps, name)
    if name in ("Choice", "Devices", "Population", "Uniform", "population"):
        from . import populations

        return getattr(populations, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
