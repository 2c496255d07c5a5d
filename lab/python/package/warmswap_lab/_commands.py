"""Calls as lines of the command."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Callable, Iterable, Iterator, Optional, Union

from . import _engine
from ._policy import Reclaim
from ._results import Result
from ._traces import Trace

TraceLike = Union[Trace, str, "os.PathLike[str]"]
Progress = Callable[[int, int], object]

STUDIES: tuple[str, ...] = tuple(name for name in _engine.names(["study"]) if name != "all")
"""What :func:`study` knows."""


def replay(
    trace: TraceLike,
    *,
    progress: Optional[Progress] = None,
    threads: Optional[int] = None,
    reclaim: Optional[Reclaim] = None,
    **options: Any,
) -> Result:
    """Replays a trace under one scheme, as ``warmswap-lab replay`` does.

    Options are those of the command by name: ``scheme="ariadne"``, ``budget="256MiB"``, ``set={"prefetch": "none"}``,
    ``no_contents=True``; :func:`help` has all of them. ``progress(done, total)`` is called now and then on this thread; an
    exception of it ends the replay, and so does Ctrl-C. The GIL is free meanwhile.

    ``reclaim`` is a policy in Python, which takes the place of the scheme's: :class:`Reclaim`.
    """
    return call(["replay"], [trace], options, progress, threads, reclaim)


def compare(
    traces: Union[TraceLike, Iterable[TraceLike]],
    *,
    progress: Optional[Progress] = None,
    threads: Optional[int] = None,
    **options: Any,
) -> Result:
    """Replays traces under several schemes (``schemes=["zram", "warmswap"]``) on all processors, and compares."""
    return call(["compare"], _all(traces), options, progress, threads)


def study(
    name: str,
    traces: Union[TraceLike, Iterable[TraceLike]],
    *,
    progress: Optional[Progress] = None,
    threads: Optional[int] = None,
    **options: Any,
) -> Result:
    """Computes a figure or table of the papers: one of :data:`STUDIES`, by its name in the command."""
    command = ["study", name.replace("_", "-")]
    if command[1] not in STUDIES:
        known = ", ".join(STUDIES)
        raise _engine.BadInput(f"there is no study '{name}': it is one of {known}")
    return call(command, _all(traces), options, progress, threads)


def schemes() -> Result:
    """Schemes, the policies of each slot, and presets of devices."""
    return call(["schemes"], [], {})


def help(*command: str) -> str:
    """What ``warmswap-lab COMMAND --help`` says: ``help("study", "misses")``."""
    return _engine.help(list(command))


def call(
    command: list[str],
    traces: Iterable[TraceLike],
    options: Mapping[str, Any],
    progress: Optional[Progress] = None,
    threads: Optional[int] = None,
    reclaim: Optional[Reclaim] = None,
) -> Result:
    """Runs a line of the command."""
    traces = list(traces)
    paths = [os.fspath(trace) for trace in traces]
    words = [text for name, value in options.items() for text in _option(name, value)]
    line = ["warmswap-lab", *command, *words, *(["--", *paths] if paths else [])]
    opened = [trace._native for trace in traces if isinstance(trace, Trace)]
    kept = _engine.run(line, opened, progress, threads, reclaim)
    return Result(kept[-1])


def _all(traces: Union[TraceLike, Iterable[TraceLike]]) -> list[TraceLike]:
    if isinstance(traces, (Trace, str, os.PathLike)):
        return [traces]
    return list(traces)


def _option(name: str, value: Any) -> Iterator[str]:
    """An option as words: a switch, a value, or several."""
    option = "--" + name.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return
    if value is True:
        yield option
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield f"{option}={key}={_text(part)}"
    elif isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        for part in value:
            yield f"{option}={_text(part)}"
    else:
        yield f"{option}={_text(value)}"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
