"""Sweeps: many replays, as tasks of Dask, into a Parquet data set that a later run goes on with."""

from __future__ import annotations

from ._run import sweep
from ._store import Sweep

__all__ = ["Sweep", "sweep"]
