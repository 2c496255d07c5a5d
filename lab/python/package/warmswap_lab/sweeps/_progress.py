"""How far a sweep is."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import Optional

SHOW_EVERY_S = 1.0


@dataclass
class Tally:
    """Tasks by what came of them."""

    total: int
    before: int
    """Those that an earlier run finished."""
    done: int = 0
    failed: int = 0
    began: float = field(default_factory=time.monotonic)
    shown: float = 0.0

    def add(self, status: str) -> None:
        """Counts a task that ended."""
        self.done += status == "done"
        self.failed += status != "done"

    @property
    def ended(self) -> int:
        """Tasks that have a row."""
        return self.before + self.done + self.failed

    @property
    def left_s(self) -> Optional[float]:
        """Seconds to the end, as this run went so far; ``None`` before its first task ended."""
        here = self.done + self.failed
        if here == 0:
            return None
        return (time.monotonic() - self.began) / here * (self.total - self.ended)


def show(tally: Tally) -> None:
    """A line on standard error: rewritten on a terminal, and only the last one elsewhere."""
    is_end = tally.ended == tally.total
    is_terminal = sys.stderr.isatty()
    now = time.monotonic()
    if not is_end and (not is_terminal or now - tally.shown < SHOW_EVERY_S):
        return
    tally.shown = now
    parts = [f"{tally.ended} of {tally.total} tasks"]
    parts += [f"{tally.before} of an earlier run"] if tally.before else []
    parts += [f"{tally.failed} failed"] if tally.failed else []
    left = tally.left_s
    parts += [f"{_time(left)} left"] if left is not None and not is_end else []
    begin, end = ("\r\x1b[K", "\n" if is_end else "") if is_terminal else ("", "\n")
    print(f"{begin}sweep: {', '.join(parts)}", end=end, file=sys.stderr, flush=True)


def _time(seconds: float) -> str:
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"
