#!/usr/bin/env bash
# software: Linux 6.18, userfaultfd without UFFD_FEATURE_EVENT_REMAP, and mremap()
# expected: a registration is of the range that was registered: it goes with memory that mremap() moves, and does not grow
# seen: it is the other way round. Moved memory is registered no more, so pages that the handler keeps read as zeros, silently;
# seen: memory grown in place is registered all along, and faults of it reach a handler that never registered those addresses
set -euo pipefail
source "$(dirname "$0")/common"

need python3

cat >"$work/remap.py" <<'END'
import ctypes, fcntl, mmap, os, platform, select, struct, sys, threading
import memory
from memory import LIBC, MIB, PAGE

USERFAULTFD = {"x86_64": 323, "aarch64": 282}
API, REGISTER, COPY = 0xC018AA3F, 0xC020AA00, 0xC028AA03
LENGTH = 2 * MIB
LIBC.mmap.restype = LIBC.mremap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
LIBC.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
LIBC.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
if platform.machine() not in USERFAULTFD:
    print("skipped: knows no number of userfaultfd for this machine")
    sys.exit(77)
descriptor = LIBC.syscall(USERFAULTFD[platform.machine()], os.O_CLOEXEC | os.O_NONBLOCK | 1)  # UFFD_USER_MODE_ONLY
if descriptor < 0:
    print("skipped: userfaultfd is not allowed here")
    sys.exit(77)
fcntl.ioctl(descriptor, API, bytearray(struct.pack("QQQ", 0xAA, 0, 0)))
content = ctypes.create_string_buffer(b"kept" * (PAGE // 4), PAGE)
served = []


def handle():
    while True:
        select.select([descriptor], [], [])
        address = struct.unpack_from("Q", os.read(descriptor, 32), 16)[0] & -PAGE
        served.append(address)
        fcntl.ioctl(descriptor, COPY, bytearray(struct.pack("QQQQq", address, ctypes.addressof(content), PAGE, 0, 0)))


threading.Thread(target=handle, daemon=True).start()
# Addresses for all, then memory at their begin with room behind it.
room = LIBC.mmap(None, 32 * MIB, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
LIBC.munmap(room, 32 * MIB)
MAP_FIXED, MAYMOVE, FIXED = 0x10, 1, 2
first = LIBC.mmap(room, LENGTH, mmap.PROT_READ | mmap.PROT_WRITE, MAP_FIXED | mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
fcntl.ioctl(descriptor, REGISTER, bytearray(struct.pack("QQQQ", first, LENGTH, 1, 0)))


def read(address):
    """Whether the handler served the page, and whether it has what the handler keeps."""
    before = len(served)
    kept = LIBC.memcmp(address, content, PAGE) == 0
    return len(served) > before, kept


registered = read(first)
grown_to = LIBC.mremap(first, LENGTH, 2 * LENGTH, 0, None)
grown = read(first + LENGTH)
moved_to = LIBC.mremap(first, LENGTH, LENGTH, MAYMOVE | FIXED, room + 16 * MIB)
moved = read(moved_to + PAGE)
if grown_to != first or moved_to != room + 16 * MIB:
    print("skipped: mremap finds no room here")
    sys.exit(77)
print(f"Linux {platform.release()}: {LENGTH // MIB} MiB registered for missing pages; the handler gives each page the same content")
print("expected: it serves pages of that memory, moved or not, and none of what it grew by")
for name, (was_served, kept) in {"as registered": registered, "grown in place": grown, "moved": moved}.items():
    print(f"seen: {name:<16}{'served' if was_served else 'not served':<12}{'content of the handler' if kept else 'zeros'}")
open(sys.argv[1], "w").write(f"{registered == grown == (True, True) and moved == (False, False)}\n")
END

python "$work/remap.py" "$work/is-so"
verdict "a registration grows with memory in place, and is lost where memory moves" "$(cat "$work/is-so")"
