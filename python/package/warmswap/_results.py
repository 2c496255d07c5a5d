"""What the calls give back. Sizes are in bytes, times in seconds, and counts are the kernel's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional


def size(count: int) -> str:
    """A size for people, in MiB, or in KiB below that."""
    if count < 1 << 20:
        return f"{count / (1 << 10):.0f} KiB"
    return f"{count / (1 << 20):.0f} MiB"


def duration(seconds: float) -> str:
    """A time for people."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


@dataclass(frozen=True)
class Background:
    """What going to the background did."""

    paged_out_bytes: int
    """Memory that went to swap, by the page table."""
    asked_bytes: int
    """Memory that was to go there. That less went is no error; see ``warnings``."""
    freed_bytes: int
    """Memory that the C library held for reuse and gave back."""
    resident_before_bytes: int
    """Resident before: anonymous memory, and files such as libraries."""
    swapped_before_bytes: int
    """In swap before, from earlier backgrounds."""
    resident_after_bytes: int
    """Resident afterwards."""
    swapped_bytes: int
    """In swap afterwards, before compression."""
    kept_learned_bytes: int
    """Kept because earlier returns touched it."""
    kept_young_bytes: int
    """Kept because young objects lie there (FYO)."""
    kept_near_bytes: int
    """Kept because objects near roots lie there (NRO)."""
    kept_data_bytes: int
    """Kept because data lies there that was used shortly before."""
    kept_stacks_bytes: int
    """Kept because threads stand there."""
    over_budget_bytes: int
    """Had a reason to stay, and left because ``keep_share`` was used up."""
    young_objects: int
    """Objects noted as young."""
    near_objects: int
    """Objects noted as near roots, without those that are young."""
    collected: str
    """Which collection ran: "all", "young", or "none"."""
    is_frozen: bool
    """Whether this call froze the objects (``gc.freeze``)."""
    returns: int
    """Returns that were learned from so far."""
    held_s: float
    """Time in which other Python threads had to wait: collection and notes."""
    page_out_s: float
    """Time of the page-out, beside other threads."""
    was_stopped: bool
    """Ended early because the process was wanted again."""
    daemon: str
    """What the daemon said: "told", "not running", or why it was not told."""
    warnings: tuple[str, ...]
    """What did not go as it should, one line each."""

    @property
    def given_back_bytes(self) -> int:
        """Memory that the process does without now: in swap, or freed for good."""
        return self.swapped_bytes + self.freed_bytes

    @property
    def footprint_bytes(self) -> int:
        """Memory that it had before, resident or in swap."""
        return self.resident_before_bytes + self.swapped_before_bytes

    @property
    def given_back_share(self) -> float:
        """Memory that it does without, as a part of what it had."""
        return self.given_back_bytes / max(1, self.footprint_bytes)

    def __str__(self) -> str:
        line = (
            f"gave back {size(self.given_back_bytes)} of {size(self.footprint_bytes)}"
            f" ({self.given_back_share:.0%})"
        )
        return "; ".join((line, *self.warnings))


@dataclass(frozen=True)
class Foreground:
    """What coming back found."""

    was_background: bool
    """False if there was nothing to come back from."""
    away_s: float
    """Time since ``background()``."""
    is_unfrozen: bool
    """Whether objects were given back to the collector by this call."""
    held_s: float
    """Time that the call took. Pages come back beside it and after it."""


@dataclass(frozen=True)
class Return:
    """The last return, as far as it is known."""

    out_bytes: int
    """In swap when it began."""
    ahead_bytes: int
    """Of it, brought back ahead of use."""
    ahead_s: float
    """Time that this took, on another thread."""
    touched_bytes: Optional[int]
    """Of the rest, touched within the launch window; None while that is open."""
    daemon: str
    """What the daemon said."""


@dataclass(frozen=True)
class Status:
    """How the process stands."""

    phase: str
    """"foreground" or "background"."""
    resident_bytes: int
    """Resident: anonymous memory, and files such as libraries."""
    swapped_bytes: int
    """In swap, before compression."""
    background: Optional[Background]
    """The last one; None before it is done."""
    last_return: Optional[Return]
    """The last one; None before there is one."""

    def __str__(self) -> str:
        text = (
            f"{self.phase}: {size(self.resident_bytes)} resident,"
            f" {size(self.swapped_bytes)} in swap"
        )
        if self.background is not None:
            text += f"; last background {self.background}"
        if self.last_return is not None and self.last_return.touched_bytes is not None:
            touched, ahead = self.last_return.touched_bytes, self.last_return.ahead_bytes
            text += f"; last return touched {size(touched)}, {size(ahead)} came ahead of use"
        return text
