#!/usr/bin/env bash
# software: Linux 6.18, process_madvise()
# expected: it advises the whole range or says with an error why not, as madvise() does for a range of any length
# seen: one call goes through 2 GiB less a page, says so in its result and sets no error: who only looks for -1 leaves the rest of
# seen: a big heap where it is. madvise() has no such limit
set -euo pipefail
source "$(dirname "$0")/common"

need python3
[ "$(getconf LONG_BIT)" = 64 ] || missing "needs 64 bits"

cat >"$work/long.py" <<'END'
import ctypes, mmap, os, platform, struct, sys
import memory
from memory import LIBC, PAGE

GIB, PROCESS_MADVISE, MAP_NORESERVE = 1 << 30, 440, 0x4000
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
LIBC.syscall.restype = ctypes.c_long
LIBC.syscall.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_char_p, ctypes.c_long, ctypes.c_long, ctypes.c_long]
# Addresses only: no page of them is touched.
first = LIBC.mmap(None, 4 * GIB, mmap.PROT_READ, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
process = os.pidfd_open(os.getpid())


def through(ranges):
    """Bytes that the call says it went through, or -1."""
    vector = b"".join(struct.pack("QQ", first + at, length) for at, length in ranges)
    return LIBC.syscall(PROCESS_MADVISE, process, vector, len(ranges), memory.PAGEOUT, 0)


one, four = through([(0, 4 * GIB)]), through([(at * GIB, GIB) for at in range(4)])
if one == four == -1:
    print("skipped: process_madvise is not allowed here")
    sys.exit(77)
plain = LIBC.madvise(first, 4 * GIB, memory.PAGEOUT)
print(f"Linux {platform.release()}, MADV_PAGEOUT of 4 GiB; expected: all {4 * GIB} bytes, or an error")
print(f"seen: process_madvise goes through {one} bytes of one range and {four} of four ranges; madvise returns {plain}")
open(sys.argv[1], "w").write(f"{one == four == 2 * GIB - PAGE and plain == 0}\n")
END

python "$work/long.py" "$work/is-so"
verdict "process_madvise ends at 2 GiB less a page without an error" "$(cat "$work/is-so")"
