"""What the kernel says about the memory of a process; the scripts of this folder use it."""

import ctypes
import mmap
import os
import re
import struct

MIB = 1 << 20
PAGE = mmap.PAGESIZE
PAGEOUT, WILLNEED = 21, 3
LIBC = ctypes.CDLL(None, use_errno=True)


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
