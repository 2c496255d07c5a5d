"""Going to the background and coming back."""

from __future__ import annotations

import gc
import os
import select
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Iterator, Optional, Sequence

from . import _native
from ._data import data_ranges
from ._errors import BusyError, Error, PagerError
from ._results import Background, Foreground, Return, Status

DEPTH = 2
"""Distance from modules and frames within which objects are near (Fleet's D)."""

KEEP_SHARE = 0.23
"""Most of the anonymous memory that stays. With it, at least 70 % leaves of a process if less than a tenth of it is
libraries, which stay too."""

MAX_NOTED = 200_000
"""Objects of each kind that are noted at most, which holds the GIL for about 0.1 s."""

MAX_YOUNG = 100_000
"""With more young objects than this the collector is off or slow, and "young" says nothing."""

MAX_COLLECTED_BLOCKS = 10_000_000
"""With more allocated blocks than this (about a second of collecting), old generations are left alone."""

MAX_FROZEN_AT_START = 1000
"""Objects that the interpreter itself may freeze when it starts: 3.12 does so with 375. A program that calls
``gc.freeze()`` freezes thousands."""

MAX_SWAPPED_SHARE = 0.1
"""With more than this in swap, old generations are left alone: to collect them would bring it back."""

ASKED_MOSTLY_STAYED = 0.5
"""Less than this part of what was to leave did: worth a warning."""

LOOK_FOR_DAEMON_S = 1.0
"""Between two looks for a daemon to follow."""


@dataclass
class _Noted:
    """What was found out with the GIL held, for the report."""

    young_objects: int = 0
    near_objects: int = 0
    collected: str = "none"
    is_frozen: bool = False
    held_s: float = 0.0
    warnings: tuple[str, ...] = ()


class _State:
    """The one state of the process. All of it belongs to the thread that holds ``lock``."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.is_inside = False
        self.is_background = False
        self.went_at = 0.0
        self.noted: Optional[_Noted] = None
        # Whether background() froze objects that are not thawed yet.
        self.is_frozen = False
        # The program froze objects itself. That is asked once: to count frozen objects touches each of them.
        self.is_program_freezing = False


_state = _State()


@contextmanager
def _alone() -> Iterator[_State]:
    """The state, for one call at a time. A finalizer that runs within a call is refused."""
    with _state.lock:
        if _state.is_inside:
            raise BusyError("warmswap is called from code that runs within its own call")
        _state.is_inside = True
        try:
            yield _state
        except OSError as error:
            raise PagerError(str(error)) from error
        finally:
            _state.is_inside = False


def configure(
    *,
    app: Optional[str] = None,
    socket: Optional[str] = None,
    launch_window_s: float = 10.0,
) -> None:
    """Sets the name under which the daemon knows this process, the daemon's socket, and the time after which a
    return counts as complete when :func:`launch_done` is not called. It must come before the first background.
    """
    with _alone():
        _native.configure(app, socket, launch_window_s)


def background(
    *,
    depth: int = DEPTH,
    keep_share: float = KEEP_SHARE,
    collect: bool = True,
    keep: Sequence[Any] = (),
    wait: bool = True,
) -> Background:
    """Pages out what a return will not need, and freezes the collector's generations.

    What stays: what earlier returns touched, pages with young objects, pages with objects within ``depth`` of
    modules and frames, and the data of ``keep`` (arrays of NumPy, Series and DataFrames of pandas), in this order,
    up to ``keep_share`` of the anonymous memory. Other threads may go on; what they touch comes back. Without
    ``wait`` the page-out goes on after the call, and the report is of now.

    Old generations are collected only where that touches little; nothing is collected with ``collect=False``, or
    where the program disabled the collector.
    """
    _check(depth, keep_share)
    return background_but(data_ranges(keep), depth, keep_share, collect, wait)


def _check(depth: int, keep_share: float) -> None:
    if depth < 0:
        raise ValueError("depth must be 0 or more")
    if not 0 <= keep_share <= 1:
        raise ValueError("keep_share must be between 0 and 1")


def background_but(
    ranges: list[tuple[int, int]],
    depth: int = DEPTH,
    keep_share: float = KEEP_SHARE,
    collect: bool = True,
    wait: bool = True,
) -> Background:
    """The same, with the addresses and lengths of data that stays. No object of the program is held meanwhile."""
    with _alone() as state:
        pages = _native.Keep()
        state.noted = _note(state, pages, depth, collect)
        pages.add_data(ranges)
        state.is_background = True
        state.went_at = time.monotonic()
        try:
            # Free memory is given back in any case: what is paged out instead is read from swap when it is reused.
            report = _native.page_out(pages, keep_share, True, wait)
        except BaseException:
            _come_back(state)
            raise
        return _result(state.noted, report)


def _note(state: _State, keep: _native.Keep, depth: int, collect: bool) -> _Noted:
    """What needs the GIL: notes, collection, freeze."""
    start = time.monotonic()
    noted = _Noted()
    noted.young_objects = _note_young(keep)
    if collect and gc.isenabled():
        noted.collected = _collect(state)
    noted.near_objects = keep.add_near_roots(depth, MAX_NOTED)
    if not state.is_frozen and not state.is_program_freezing:
        state.is_program_freezing = gc.get_freeze_count() > MAX_FROZEN_AT_START
    if state.is_program_freezing:
        # To thaw later would thaw what the program froze too.
        noted.warnings += ("the program froze objects itself, so none were frozen here",)
    else:
        gc.freeze()
        state.is_frozen = noted.is_frozen = True
    noted.held_s = time.monotonic() - start
    return noted


def _note_young(keep: _native.Keep) -> int:
    """Notes the young generations, before a collection makes all survivors old."""
    if gc.get_count()[0] > MAX_YOUNG:
        return 0
    # The increments of 3.14 make of generation 1 all that is old.
    generations = (0,) if sys.version_info >= (3, 14) else (0, 1)
    return keep.add_young(generations, MAX_NOTED)


def _collect(state: _State) -> str:
    """Collects all generations where that touches little that is paged out, and does not take long."""
    anon, _, swapped = _native.counters()
    if state.is_frozen:
        # What is frozen is not touched.
        gc.collect()
        return "young"
    # The blocks are counted where little is in swap only: to count them touches each pool of the allocator.
    is_out = swapped > MAX_SWAPPED_SHARE * (anon + swapped)
    if is_out or sys.getallocatedblocks() > MAX_COLLECTED_BLOCKS:
        gc.collect(1)
        return "young"
    gc.collect()
    return "all"


def foreground(*, keep_frozen: bool = False) -> Foreground:
    """Brings back what earlier returns touched, on another thread, and gives the frozen objects back to the
    collector. With ``keep_frozen`` they stay frozen until :func:`launch_done`, so that no collection touches
    everything during the launch. Harmless in the foreground.
    """
    with _alone() as state:
        start = time.monotonic()
        if not state.is_background:
            thawed = False if keep_frozen else _unfreeze(state)
            return Foreground(False, 0.0, thawed, time.monotonic() - start)
        away_s = start - state.went_at
        _native.bring_back()
        state.is_background = False
        thawed = False if keep_frozen else _unfreeze(state)
        return Foreground(True, away_s, thawed, time.monotonic() - start)


def _come_back(state: _State) -> None:
    """After a page-out that failed or was interrupted."""
    state.is_background = False
    _native.stop()
    _unfreeze(state)


def _unfreeze(state: _State) -> bool:
    """Gives back to the collector what background() froze; whether there was anything."""
    was_frozen, state.is_frozen = state.is_frozen, False
    if was_frozen:
        gc.unfreeze()
    return was_frozen


def follow(
    *, depth: int = DEPTH, keep_share: float = KEEP_SHARE, collect: bool = True
) -> None:
    """Has the daemon say when the process comes and goes, as its user switches between applications: a thread calls
    :func:`background` with these options, and :func:`foreground`. It must come before the first background.

    Nothing is heard until a daemon runs whose socket this user may use; when it ends, the process is in the foreground.
    A child of a fork follows nothing unless it calls this itself.
    """
    _check(depth, keep_share)
    follower = _native.Follower()
    options = {"depth": depth, "keep_share": keep_share, "collect": collect}
    thread = threading.Thread(
        target=_follow, args=(follower, options), name="warmswap-follow", daemon=True
    )
    thread.start()


def _follow(follower: _native.Follower, options: dict[str, Any]) -> None:
    """Waits in Python's own calls: a thread that waits elsewhere when the interpreter ends would end badly."""
    while True:
        phase = follower.look()
        try:
            if phase == "background":
                background(wait=False, **options)
            elif phase == "foreground":
                foreground()
        except Error as error:
            print(f"warmswap: {error}", file=sys.stderr)
        watch = follower.fileno()
        if watch is None:
            time.sleep(LOOK_FOR_DAEMON_S)
        else:
            # select(2) takes no descriptor from 1024 on.
            waiting = select.poll()
            waiting.register(watch, select.POLLIN)
            waiting.poll()


def launch_done() -> None:
    """The return is complete: what it touched is learned, and objects that are still frozen are given back to the
    collector. Not needed: a return is complete after some seconds anyway.
    """
    with _alone() as state:
        if not state.is_background:
            _native.launch_done()
            _unfreeze(state)


def settle(timeout_s: float = 10.0) -> bool:
    """Waits until what goes on beside the program is done: a page-out, a return, a note to the daemon. Whether it
    is."""
    return _native.settle(timeout_s)


def status() -> Status:
    """How the process stands."""
    with _alone() as state:
        anon, files, swapped = _native.counters()
        report, back = _native.last_out(), _native.last_return()
        result = None
        if report is not None and state.noted is not None:
            result = _result(state.noted, report)
        return Status(
            phase="background" if state.is_background else "foreground",
            resident_bytes=anon + files,
            swapped_bytes=swapped,
            background=result,
            last_return=None if back is None else Return(**back),
        )


def _result(noted: _Noted, report: Optional[dict[str, Any]]) -> Background:
    """The report of the kernel's side, or how it stands where that is not done yet."""
    if report is None:
        anon, files, swapped = _native.counters()
        report = {
            "anon_before_bytes": anon,
            "anon_after_bytes": anon,
            "file_bytes": files,
            "swapped_before_bytes": swapped,
            "swapped_bytes": swapped,
        }
    return Background(
        paged_out_bytes=report.get("paged_out_bytes", 0),
        asked_bytes=report.get("asked_bytes", 0),
        freed_bytes=report.get("freed_bytes", 0),
        resident_before_bytes=report["anon_before_bytes"] + report["file_bytes"],
        swapped_before_bytes=report["swapped_before_bytes"],
        resident_after_bytes=report["anon_after_bytes"] + report["file_bytes"],
        swapped_bytes=report["swapped_bytes"],
        kept_learned_bytes=report.get("kept_learned_bytes", 0),
        kept_young_bytes=report.get("kept_young_bytes", 0),
        kept_near_bytes=report.get("kept_near_bytes", 0),
        kept_data_bytes=report.get("kept_data_bytes", 0),
        kept_stacks_bytes=report.get("kept_stacks_bytes", 0),
        over_budget_bytes=report.get("over_budget_bytes", 0),
        young_objects=noted.young_objects,
        near_objects=noted.near_objects,
        collected=noted.collected,
        is_frozen=noted.is_frozen,
        returns=report.get("returns", 0),
        held_s=noted.held_s,
        page_out_s=report.get("page_out_s", 0.0),
        was_stopped=report.get("was_stopped", False),
        daemon=report.get("daemon", "not told yet"),
        warnings=noted.warnings + _warnings(report),
    )


def _warnings(report: dict[str, Any]) -> tuple[str, ...]:
    """What of a page-out did not go as it should."""
    found = []
    if report.get("problem"):
        found.append(report["problem"])
    elif report.get("asked_bytes", 0) and not report["was_stopped"]:
        stayed = report["asked_bytes"] - report["paged_out_bytes"]
        if stayed > (1 - ASKED_MOSTLY_STAYED) * report["asked_bytes"]:
            if report["swap_free_bytes"] < stayed:
                why = "swap is full"
            else:
                why = "swap may be limited for this control group, or the memory shared or locked"
            found.append(f"{stayed >> 20} MiB that were to leave stayed: {why}")
    if report.get("fallback"):
        found.append(f"slower than it could be: {report['fallback']}")
    return tuple(found)


def _in_child() -> None:
    """The child of a fork is in the foreground, with a thread of its own to come."""
    global _state
    parent, _state = _state, _State()
    _state.is_frozen, _state.is_program_freezing = parent.is_frozen, parent.is_program_freezing
    _unfreeze(_state)
    _native.after_fork()


os.register_at_fork(after_in_child=_in_child)

__all__ = [
    "Error",
    "background",
    "background_but",
    "configure",
    "follow",
    "foreground",
    "launch_done",
    "settle",
    "status",
]
