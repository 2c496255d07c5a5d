"""``%load_ext warmswap``: a kernel that is idle goes to the background by itself."""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
import weakref
from collections import deque
from types import CodeType
from typing import Any, Callable, Optional

from . import _core, _native
from ._data import data_named, data_ranges, words
from ._errors import Error
from ._results import duration

IDLE_S = 60.0
"""Time without a cell after which a kernel goes to the background (Fleet's T_B, for a person)."""

CELLS = 3
"""Cells that are searched for the last one with data. What data it names stays, as far as there is room, until
returns have shown what they touch."""

HELP = """\
%warmswap status     how this kernel stands
%warmswap idle 30    go to the background after 30 s without a cell
%warmswap now        go to the background when this cell is done
%warmswap off        stay in the foreground
%warmswap on         go to the background again when idle
%warmswap quiet      say nothing at the next cell
%warmswap verbose    say what was given back at the next cell"""

_watch: Optional[Watch] = None


class Watch:
    """Watches one shell.

    ``lock`` guards all of it: cells begin and end on one thread, or on several with subshells, and the timer may be
    a thread too. The page-out itself runs on the pager's thread.
    """

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.lock = threading.RLock()
        self.idle_s = IDLE_S
        self.is_on = True
        self.is_quiet = False
        self.goes_now = False
        self.codes = cell_codes(shell)
        self.away_s: Optional[float] = None
        self.cancel: Optional[Callable[[], None]] = None
        self.told_problem = ""
        self.loop: Optional[asyncio.AbstractEventLoop] = None
        self.loop_thread = 0
        # All loops that ran cells: those of subshells too.
        self.loops: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()
        # What the last cells name, the newest first.
        self.cells: deque[frozenset[str]] = deque(maxlen=CELLS)

    def start(self) -> None:
        """Registers for the shell's events. The extension is loaded by a cell, or by the configuration."""
        events = self.shell.events
        events.register("pre_execute", self.pre_execute)
        events.register("pre_run_cell", self.pre_run_cell)
        events.register("post_execute", self.post_execute)
        self.shell.register_magic_function(self.magic, "line", "warmswap")
        with self.lock:
            self.find_loop()
            if not self.is_executing():
                self.arm(self.idle_s)

    def find_loop(self) -> None:
        """Notes the loop that runs code. A shell in a terminal has none: a thread counts the time."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self.loops.add(loop)
        # Configuration is read before there is one; a subshell's is not the kernel's.
        if self.loop is None and threading.current_thread() is threading.main_thread():
            self.loop, self.loop_thread = loop, threading.get_ident()

    def is_executing(self) -> bool:
        """Whether the shell runs code now: on some thread, or in a cell that awaits something."""
        return _native.is_running(self.codes) or any(
            code in self.codes for loop in list(self.loops) for code in awaiting(loop)
        )

    def end(self) -> None:
        """Takes all of it back."""
        events = self.shell.events
        for name in ("pre_execute", "pre_run_cell", "post_execute"):
            try:
                events.unregister(name, getattr(self, name))
            except ValueError:
                pass
        with self.lock:
            self.is_on = False
            self.disarm()
        _core.foreground()

    def pre_execute(self) -> None:
        """Code is about to run: a cell, or something that a front end asks for."""
        with self.lock:
            self.find_loop()
            self.disarm()
            try:
                back = _core.foreground(keep_frozen=True)
            except Error as error:
                self.give_up(error)
                return
            if back.was_background:
                self.away_s = back.away_s

    def pre_run_cell(self, info: Any) -> None:
        """A cell is about to run: it is told what the kernel gave."""
        with self.lock:
            self.cells.appendleft(words(getattr(info, "raw_cell", "")))
            away_s, self.away_s = self.away_s, None
        if away_s is not None and not self.is_quiet:
            line = self.line(away_s)
            if line:
                print(line, flush=True)

    def line(self, away_s: float) -> str:
        """What the kernel gave while it was away; empty if there is nothing new to say."""
        result = _core.status().background
        if result is None:
            # The page-out had just begun, and was stopped.
            return ""
        if result.given_back_bytes == 0:
            problem = "; ".join(result.warnings)
            if not problem or problem == self.told_problem:
                return ""
            self.told_problem = problem
            return f"warmswap: {problem}"
        return f"warmswap: idle for {duration(away_s)}, this kernel {result}"

    def post_execute(self) -> None:
        """Code has run."""
        with self.lock:
            try:
                _core.launch_done()
            except Error as error:
                self.give_up(error)
            if not self.is_executing() and (self.is_on or self.goes_now):
                self.arm(0.0 if self.goes_now else self.idle_s)
            self.goes_now = False

    def arm(self, seconds: float) -> None:
        """Goes to the background after this time, unless code runs before."""
        self.disarm()
        loop = self.loop
        if loop is not None and not loop.is_closed():
            if threading.get_ident() == self.loop_thread:
                self.cancel = loop.call_later(seconds, self.go).cancel
            else:
                # From a subshell's thread. What is armed meanwhile is disarmed by the check in go().
                loop.call_soon_threadsafe(self.arm_again, seconds)
            return
        timer = threading.Timer(seconds, self.go)
        timer.daemon = True
        timer.start()
        self.cancel = timer.cancel

    def arm_again(self, seconds: float) -> None:
        """On the loop's thread."""
        with self.lock:
            if self.is_on and not self.is_executing():
                self.arm(seconds)

    def disarm(self) -> None:
        """Nothing goes to the background."""
        if self.cancel is not None:
            self.cancel()
            self.cancel = None

    def go(self) -> None:
        """The kernel is idle."""
        with self.lock:
            if self.cancel is None or self.is_executing():
                return
            self.cancel = None
            try:
                ranges = data_ranges(data_named(self.shell.user_ns, self.cells))
                _core.background_but(ranges, wait=False)
            except Exception as error:  # Objects of the user are looked at; no defect of theirs may end the loop.
                self.give_up(error)

    def give_up(self, error: Exception) -> None:
        """Says what is wrong, once, and leaves the kernel alone."""
        self.is_on = False
        self.disarm()
        print(f"warmswap: {error}; `%warmswap on` tries again", file=sys.stderr)

    def magic(self, line: str) -> None:
        """``%warmswap``: status, idle SECONDS, now, off, on, quiet, verbose."""
        words = line.split()
        command = words[0] if words else "status"
        with self.lock:
            if command == "status" and len(words) <= 1:
                mode = f"after {duration(self.idle_s)} without a cell" if self.is_on else "off"
                print(f"warmswap: {_core.status()}\ngoes to the background: {mode}")
            elif command == "idle" and len(words) == 2:
                self.set_idle(words[1])
            elif command == "now" and len(words) == 1:
                self.goes_now = True
            elif command in ("on", "off") and len(words) == 1:
                self.is_on = command == "on"
            elif command in ("quiet", "verbose") and len(words) == 1:
                self.is_quiet = command == "quiet"
            else:
                print(HELP)

    def set_idle(self, text: str) -> None:
        """``%warmswap idle``."""
        try:
            seconds = float(text)
        except ValueError:
            seconds = -1.0
        # Not a number is not above 0 either.
        if not 0 < seconds < threading.TIMEOUT_MAX:
            print(f"warmswap: {text!r} is no number of seconds above 0")
            return
        self.idle_s, self.is_on = seconds, True


def cell_codes(shell: Any) -> list[CodeType]:
    """What runs while a cell does, and not when it is done."""
    functions = (getattr(shell, name, None) for name in ("run_cell_async", "run_code"))
    found = (getattr(inspect.unwrap(one), "__code__", None) for one in functions if one is not None)
    return [code for code in found if code is not None]


def awaiting(loop: asyncio.AbstractEventLoop) -> list[CodeType]:
    """The code of all coroutines that tasks of a loop are in."""
    codes = []
    for task in asyncio.all_tasks(loop):
        at: Any = task.get_coro()
        while at is not None:
            code = getattr(at, "cr_code", None) or getattr(at, "gi_code", None)
            if code is not None:
                codes.append(code)
            at = getattr(at, "cr_await", None) or getattr(at, "gi_yieldfrom", None)
    return codes


def load_ipython_extension(shell: Any) -> None:
    """For ``%load_ext warmswap``."""
    global _watch
    unload_ipython_extension(shell)
    _watch = Watch(shell)
    _watch.start()


def unload_ipython_extension(shell: Any) -> None:
    """For ``%unload_ext warmswap``."""
    global _watch
    if _watch is not None:
        _watch.end()
        _watch = None
