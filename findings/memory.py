"""What the kernel says about the memory of a process; the scripts of this folder use it."""

import ctypes
import mmap
import os
import re
import struct
import sys

MIB = 1 << 20
PAGE = mmap.PAGESIZE
WILLNEED, COLD, PAGEOUT = 3, 20, 21
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
LIBC.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]


def address(area):
    return ctypes.addressof(ctypes.c_char.from_buffer(area))


def smaps(pid="self"):
    """Of each mapping: (first address, inode, {field: bytes})."""
    found = []
    with open(f"/proc/{pid}/smaps") as file:
        for line in file:
            if head := re.match(r"([0-9a-f]+)-[0-9a-f]+ \S+ \S+ \S+ (\d+)", line):
                found.append((int(head[1], 16), int(head[2]), {}))
            elif field := re.match(r"(\w+):\s+(\d+) kB", line):
                found[-1][2][field[1]] = int(field[2]) << 10
    return found


def status(name, pid="self"):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(name + ":"))


def page_map(first, bytes_long, pid="self"):
    with open(f"/proc/{pid}/pagemap", "rb") as file:
        file.seek(first // PAGE * 8)
        return struct.unpack(f"{bytes_long // PAGE}Q", file.read(bytes_long // PAGE * 8))


def page_flags(entries):
    """/proc/kpageflags of the pages that are present."""
    with open("/proc/kpageflags", "rb") as file:
        return [struct.unpack("Q", os.pread(file.fileno(), 8, (e & (1 << 55) - 1) * 8))[0] for e in entries if e >> 63]


def major_faults():
    with open("/proc/self/stat") as file:
        return int(file.read().rpartition(")")[2].split()[9])


def vmstat():
    with open("/proc/vmstat") as file:
        return {name: int(number) for name, number in map(str.split, file)}


def meminfo(name):
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(name + ":"))


def private(length, random_bytes=1024):
    """Private anonymous memory, each page beginning with so many random bytes."""
    area = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, length, PAGE):
        area[at:at + random_bytes] = os.urandom(random_bytes)
    return area


def read(area):
    for at in range(0, len(area), PAGE):
        area[at]


def swapped(area):
    return sum(entry >> 62 & 1 for entry in page_map(address(area), len(area)))


def in_core(area):
    """Pages in memory, in the swap cache too."""
    pages = ctypes.create_string_buffer(len(area) // PAGE)
    LIBC.mincore(address(area), len(area), pages)
    return sum(page & 1 for page in pages.raw)


def page_out(area):
    """Pages all of a private area out; ends the script where this machine does not."""
    for _ in range(20):
        area.madvise(PAGEOUT)
        if swapped(area) > 0.99 * len(area) // PAGE:
            return
    print("skipped: this machine swaps nothing out now")
    sys.exit(77)
