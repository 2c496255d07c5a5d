"""What a sweep is of: lists and ranges, and the tasks that follow.

A task is named by what it is, not by its place: the trace's content, the scheme, the options and the build. So a sweep that
grew repeats nothing that an earlier one did.
"""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import itertools
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from .. import _engine

SpecLike = Union[Mapping[str, Any], str, "os.PathLike[str]"]

SEED = "{seed}"
OWN = "default"
"""In place of a policy: the scheme's own."""

_RANGE = {"from", "to", "step", "unit"}
_NO_OPTIONS = {"traces", "schemes", "set", "seeds", "exclude", "only", "out"}


@dataclass(frozen=True)
class Task:
    """One replay."""

    trace: str
    """The path of the trace, as the spec gives it."""
    scheme: str
    """With its slots: ``ariadne+prefetch=none``."""
    seed: Optional[int]
    options: tuple[tuple[str, Any], ...]
    slots: tuple[tuple[str, str], ...] = ()

    def axes(self) -> dict[str, str]:
        """What it is, as columns and as filters see it."""
        texts = {name: _text(value) for name, value in self.options}
        slots = {f"set.{slot}": policy for slot, policy in self.slots}
        seed = {} if self.seed is None else {"seed": str(self.seed)}
        return {"trace": self.trace, "scheme": self.scheme, **texts, **slots, **seed}

    def name(self, trace_hash: str, build: str) -> str:
        """The same for the same work, wherever its trace lies."""
        what = {**self.axes(), "trace": trace_hash, "build": build}
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Spec:
    """A sweep, as it was written."""

    written: dict[str, Any]
    traces: tuple[str, ...]
    tasks: tuple[Task, ...] = field(repr=False)

    @property
    def out(self) -> Optional[str]:
        """Where results go."""
        return self.written.get("out")


def read_spec(spec: SpecLike) -> Spec:
    """Reads a spec: a mapping, or a TOML file."""
    written = dict(spec) if isinstance(spec, Mapping) else _toml(os.fspath(spec))
    traces = tuple(_traces(_list(written.get("traces", []))))
    for needed in ("traces", "schemes"):
        if not _list(written.get(needed, [])):
            raise _engine.BadInput(f"the sweep names no {needed}")
    tasks = tuple(_tasks(written, traces))
    if not tasks:
        raise _engine.BadInput("the sweep has no tasks: what `only` asks for is excluded, or nothing matches it")
    return Spec(written, traces, tasks)


def _toml(path: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise _engine.BadInput(f"{path}: cannot open: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise _engine.BadInput(f"{path}: {error}") from None


def _list(value: Any) -> list[Any]:
    """The values of an axis: one, several, or a range."""
    if isinstance(value, Mapping):
        if not {"from", "to"} <= value.keys() <= _RANGE:
            keys = ", ".join(map(str, value))
            raise _engine.BadInput(f"a range has from, to, and perhaps step and unit; this has {keys}")
        return list(_range(value["from"], value["to"], value.get("step", 1), value.get("unit", "")))
    return list(value) if isinstance(value, (list, tuple, range)) else [value]


def _range(first: float, last: float, step: float, unit: str) -> Iterator[Any]:
    """Both ends are in it."""
    if step <= 0:
        raise _engine.BadInput(f"the step of a range is more than 0, not {step}")
    for place in itertools.count():
        value = first + place * step
        if value > last + step * 1e-9:
            return
        yield f"{round(value, 9):g}{unit}" if unit else value


def _traces(patterns: list[Any]) -> Iterator[str]:
    """Paths: a pattern stands for what it matches, in order; an address stays as it is."""
    seen = set()
    for pattern in map(os.fspath, patterns):
        is_pattern = glob.has_magic(pattern) and "://" not in pattern
        found = sorted(glob.glob(pattern, recursive=True)) if is_pattern else [pattern]
        if not found:
            raise _engine.BadInput(f"no trace matches {pattern}")
        for path in found:
            if path not in seen:
                seen.add(path)
                yield path


def _tasks(spec: Mapping[str, Any], traces: tuple[str, ...]) -> Iterator[Task]:
    slots = {slot: _list(policies) for slot, policies in spec.get("set", {}).items()}
    options = {name: _list(value) for name, value in spec.items() if name not in _NO_OPTIONS}
    seeds: list[Optional[int]] = list(_list(spec["seeds"])) if "seeds" in spec else [None]
    only, exclude = _filters(spec, "only"), _filters(spec, "exclude")
    axes = [traces, _list(spec["schemes"]), seeds, *options.values(), *slots.values()]
    for trace, scheme, seed, *rest in itertools.product(*axes):
        values = tuple(zip(options, rest[: len(options)]))
        policies = tuple((slot, str(policy)) for slot, policy in zip(slots, rest[len(options) :]))
        task = _task(trace, scheme, seed, values, policies)
        if (not only or _matches(task, only)) and not _matches(task, exclude):
            yield task


def _task(
    trace: str,
    scheme: str,
    seed: Optional[int],
    options: tuple[tuple[str, Any], ...],
    slots: tuple[tuple[str, str], ...],
) -> Task:
    changes = [f"{slot}={policy}" for slot, policy in slots if policy != OWN]
    named = "+".join([scheme, *changes]).replace(SEED, str(seed))
    return Task(trace, named, seed, options, slots)


def _filters(spec: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    filters = spec.get(name, [])
    return [filters] if isinstance(filters, Mapping) else list(filters)


def _matches(task: Task, filters: list[Mapping[str, Any]]) -> bool:
    """Whether all of any filter holds. A value is a pattern, or a list of them."""
    axes = task.axes()
    for one in filters:
        if unknown := one.keys() - axes.keys():
            known = ", ".join(axes)
            raise _engine.BadInput(f"a filter asks for '{min(unknown)}', and tasks have {known}")
    return any(
        all(any(fnmatch.fnmatchcase(axes[key], _text(v)) for v in _list(value)) for key, value in one.items())
        for one in filters
    )


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)
