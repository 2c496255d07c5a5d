"""Where the data of arrays and tables lies. Neither NumPy nor pandas is imported here: what is not loaded has no data."""

from __future__ import annotations

import ast
import sys
from typing import Any, Iterable, Iterator, Mapping, Sequence

MAX_NAMED = 256
"""Objects that are looked up at most."""


def words(source: str) -> frozenset[str]:
    """Names, attributes and strings of a cell; lines that are magics are left out."""
    lines = [line for line in source.splitlines() if not line.lstrip().startswith(("%", "!", "?"))]
    try:
        tree = ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return frozenset(found)


def data_named(namespace: Mapping[str, Any], cells: Iterable[frozenset[str]]) -> list[Any]:
    """Arrays and Series that a cell names, and of each DataFrame the columns that it names: of the first of
    ``cells`` that names any such object."""
    pandas = sys.modules.get("pandas")
    numpy = sys.modules.get("numpy")
    for named in cells:
        found: list[Any] = []
        has_data = False
        for name in named & namespace.keys():
            value = namespace[name]
            # By the type, since an object may say that it is of another class.
            if pandas is not None and issubclass(type(value), pandas.DataFrame):
                has_data = True
                columns = [column for column in value.columns if column in named]
                found.extend(value[column] for column in columns[:MAX_NAMED])
            elif pandas is not None and issubclass(type(value), pandas.Series):
                found.append(value)
            elif numpy is not None and issubclass(type(value), numpy.ndarray):
                found.append(value)
        if found or has_data:
            return found[:MAX_NAMED]
    return []


def data_ranges(objects: Sequence[Any]) -> list[tuple[int, int]]:
    """Addresses and lengths of the data. What is no array and no table, or hides its data, is left out."""
    ranges = []
    for array in _arrays(objects):
        address, _ = array.__array_interface__["data"]
        strides = [stride * (size - 1) for stride, size in zip(array.strides, array.shape)]
        if array.size:
            start = address + sum(step for step in strides if step < 0)
            ranges.append((start, sum(map(abs, strides)) + array.itemsize))
    return ranges


def _arrays(objects: Iterable[Any]) -> Iterator[Any]:
    """The arrays of NumPy within."""
    numpy = sys.modules.get("numpy")
    pandas = sys.modules.get("pandas")
    for value in objects:
        if numpy is None:
            return
        if issubclass(type(value), numpy.ndarray):
            yield value
        elif pandas is not None and issubclass(type(value), pandas.DataFrame):
            for index in range(min(value.shape[1], MAX_NAMED)):
                yield from _arrays([value.iloc[:, index]])
        elif pandas is not None and issubclass(type(value), pandas.Series):
            # One array for most types, codes for categories, values and mask for what may be missing.
            parts = value.array
            for name in ("_ndarray", "_data", "_mask"):
                part = getattr(parts, name, None)
                if issubclass(type(part), numpy.ndarray):
                    yield part
