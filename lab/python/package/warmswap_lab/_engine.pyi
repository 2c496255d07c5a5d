"""The native half. Use the package; this module may change."""

from os import PathLike
from typing import Any, Callable, Optional, Sequence, Union, final

__all__ = [
    "BadInput",
    "Contents",
    "Error",
    "Events",
    "Kept",
    "Trace",
    "Writer",
    "help",
    "names",
    "profiles",
    "run",
    "synthesize",
]

class Error(Exception): ...
class BadInput(Error): ...

@final
class Kept:
    """A result: what ``--json`` writes, and its tables as JSON and as text."""

    schema: str
    json: str
    tables: list[str]
    text: list[str]

@final
class Events:
    """A range of events."""

    def count(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...
    def __arrow_c_schema__(self) -> Any: ...

@final
class Contents:
    """A range of page contents."""

    def count(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...
    def __arrow_c_schema__(self) -> Any: ...

@final
class Trace:
    """An open trace."""

    def __new__(cls, path: Union[str, PathLike[str]]) -> Trace: ...
    @property
    def path(self) -> PathLike[str]: ...
    def about(self) -> str: ...
    def events(self, first: int, end: int) -> Events: ...
    def events_between(self, first_ns: int, end_ns: int) -> Events: ...
    def contents(self, first: int, end: int) -> Contents: ...

@final
class Writer:
    """A trace that is being written."""

    def __new__(
        cls, path: Union[str, PathLike[str]], method: str, extra: dict[str, str]
    ) -> Writer: ...
    def add_app(self, name: str, description: str) -> None: ...
    def add_file(self, path: str, device: int, inode: int, size_bytes: int) -> int: ...
    def add_contents(self, stream: Any) -> None: ...
    def add_events(self, stream: Any) -> None: ...
    def finish(self) -> None: ...

def run(
    words: Sequence[str],
    traces: Sequence[Trace],
    progress: Optional[Callable[[int, int], object]] = None,
    threads: Optional[int] = None,
    reclaim: Optional[Any] = None,
) -> list[Kept]: ...
def names(words: Sequence[str]) -> list[str]: ...
def help(words: Sequence[str]) -> str: ...
def profiles() -> list[str]: ...
def synthesize(
    path: Union[str, PathLike[str]], apps: Sequence[str], seed: int, scale: float, relaunches: int
) -> None: ...
