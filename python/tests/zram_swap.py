"""A zram swap device of one's own, for tests and measurements. Needs root; it is gone afterwards, whatever happens.

A guard process waits for the end of a pipe whose other end is held here. That end comes when the device is no
longer wanted, and when this process dies in any way, SIGKILL included. The guard then swaps off, which brings all
pages back, and removes the device.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import signal
import struct
import subprocess
import sys
import uuid
from contextlib import contextmanager
from typing import Iterator, Optional

CONTROL = pathlib.Path("/sys/class/zram-control")
PAGE = 4096
PREFER = 0x8000
PRIORITY = 100


def why_not() -> Optional[str]:
    """Why no device can be made here; None if one can."""
    if os.geteuid() != 0:
        return "a zram swap device needs root"
    if not CONTROL.is_dir():
        return "this kernel has no zram, or its module is not loaded"
    return None


def swap_total_bytes() -> int:
    """Swap that the machine has now."""
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("SwapTotal:"):
            return int(line.split()[1]) << 10
    return 0


def header(pages: int) -> bytes:
    """The first page of a swap area: the kernel's `union swap_header`."""
    page = bytearray(PAGE)
    struct.pack_into("=III", page, 1024, 1, pages - 1, 0)
    page[1036:1052] = uuid.uuid4().bytes
    page[1052:1060] = b"warmswap"
    page[-10:] = b"SWAPSPACE2"
    return bytes(page)


class Device:
    """The device while it is there."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.sys = pathlib.Path(f"/sys/block/zram{number}")

    def pool_bytes(self) -> int:
        """Memory that the compressed pages take, with all overhead."""
        return int((self.sys / "mm_stat").read_text().split()[2])

    def stored_bytes(self) -> int:
        """What they are without compression."""
        return int((self.sys / "mm_stat").read_text().split()[0])


@contextmanager
def zram_swap(size_bytes: int, algorithm: str = "lz4") -> Iterator[Device]:
    """A device of this size as swap."""
    guard = subprocess.Popen(
        [sys.executable, os.path.abspath(__file__), str(size_bytes), algorithm],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert guard.stdin is not None and guard.stdout is not None
    try:
        answer = guard.stdout.readline().strip()
        if not answer.isdigit():
            raise OSError(answer or "the guard of the zram device ended")
        yield Device(int(answer))
    finally:
        guard.stdin.close()
        guard.wait()
        guard.stdout.close()


def guard(size_bytes: int, algorithm: str) -> None:
    """Makes the device, says its number, and removes it when standard input ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    libc = ctypes.CDLL(None, use_errno=True)
    number = int((CONTROL / "hot_add").read_text())
    path = f"/dev/zram{number}".encode()
    try:
        block = pathlib.Path(f"/sys/block/zram{number}")
        (block / "comp_algorithm").write_text(algorithm)
        (block / "disksize").write_text(str(size_bytes))
        with open(path, "r+b") as device:
            device.write(header(size_bytes // PAGE))
            device.flush()
            os.fsync(device.fileno())
        if libc.swapon(path, PREFER | PRIORITY) != 0:
            raise OSError(ctypes.get_errno(), "swapon " + os.strerror(ctypes.get_errno()))
        print(number, flush=True)
        sys.stdin.read()
    except OSError as error:
        print(error, flush=True)
    finally:
        libc.swapoff(path)
        for _ in range(100):
            try:
                (CONTROL / "hot_remove").write_text(str(number))
                break
            except OSError:
                # Something looks at the device still.
                signal.sigtimedwait([], 0.05)


if __name__ == "__main__":
    guard(int(sys.argv[1]), sys.argv[2])
