"""What runs on workers: a task, on a trace that each process opens once."""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from pathlib import Path
from typing import Any, Optional, Union

from .. import _engine
from .._commands import compare
from .._results import flat
from .._traces import Trace

CHUNK_BYTES = 1 << 20

_lock = threading.Lock()
_traces: dict[str, Union[Trace, _engine.BadInput]] = {}
opened: dict[str, int] = {}
"""How often this process opened each trace, by content: once, whatever the number of tasks."""


def content_hash(path: str) -> str:
    """The SHA-256 of a file; a path, or an address that fsspec knows."""
    digest = hashlib.sha256()
    with _open(path) as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _open(path: str) -> Any:
    if "://" not in path:
        return open(path, "rb")
    import fsspec

    return fsspec.open(path, "rb").open()


def sees(path: str, size: int, mtime_ns: int) -> bool:
    """Whether this machine has the same file at a path."""
    try:
        found = os.stat(path)
    except OSError:
        return False
    return (found.st_size, found.st_mtime_ns) == (size, mtime_ns)


def run(
    path: str, trace_hash: str, sent: Optional[bytes], scheme: str, options: dict[str, Any]
) -> list[dict[str, Any]]:
    """Replays; what came of it as the columns of a row. Input that cannot be used is a result, since another try changes nothing."""
    try:
        trace = _trace(path, trace_hash, sent)
        result = compare(trace, threads=1, schemes=[scheme], no_optima=True, **options)
    except _engine.BadInput as error:
        return [{"status": "failed", "error": str(error)}]
    (scheme_row,), (trace_row,) = result.data["schemes"], result.data["traces"]
    of_scheme = {name: value for name, value in flat(scheme_row).items() if name != "scheme"}
    of_trace = {name: value for name, value in flat(trace_row).items() if name != "trace"}
    whole = {"with_contents": result.data["with_contents"], "device_model": result.data["device"]}
    whole["build"] = result.envelope["warmswap"]
    return [{"status": "done", "error": None, **of_trace, **of_scheme, **whole}]


def _trace(path: str, trace_hash: str, sent: Optional[bytes]) -> Trace:
    with _lock:
        if trace_hash not in _traces:
            opened[trace_hash] = opened.get(trace_hash, 0) + 1
            try:
                _traces[trace_hash] = Trace(_local(path, trace_hash, sent))
            except _engine.BadInput as error:
                _traces[trace_hash] = error
        found = _traces[trace_hash]
    if isinstance(found, _engine.BadInput):
        raise found
    return found


def _local(path: str, trace_hash: str, sent: Optional[bytes]) -> str:
    """The trace as a file of this machine."""
    if sent is None and "://" not in path:
        return path
    file = _folder() / trace_hash[:16] / Path(path).name
    if file.exists():
        return os.fspath(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{os.getpid()}.tmp")
    with open(part, "wb") as out:
        if sent is not None:
            out.write(sent)
        else:
            with _open(path) as source:
                while chunk := source.read(CHUNK_BYTES):
                    out.write(chunk)
    part.replace(file)
    return os.fspath(file)


def _folder() -> Path:
    """The worker's own folder, which goes when it ends."""
    try:
        from distributed import get_worker

        return Path(get_worker().local_directory) / "warmswap-traces"
    except (ImportError, ValueError):
        return Path(tempfile.mkdtemp(prefix="warmswap-traces-"))
