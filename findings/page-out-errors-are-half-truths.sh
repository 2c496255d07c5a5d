#!/usr/bin/env bash
# software: Linux 6.18, madvise(MADV_PAGEOUT) and process_madvise over ranges with a hole or a locked page
# expected: a call that fails changed nothing, or all before the place that is named in the error
# seen: over a hole it fails with ENOMEM and has moved all on both sides of it; over a locked page it fails with EINVAL, and only
# seen: what is before it moved. process_madvise stops behind the first range with a hole: the next range stays whole
set -euo pipefail
source "$(dirname "$0")/common"

need python3
swap_on_zram 256

cat >"$work/errors.py" <<'END'
import ctypes, errno, os, platform, struct, sys
import memory
from memory import LIBC, MIB, PAGE

LENGTH, PROCESS_MADVISE = 32 * MIB, 440
for name in "munmap", "mlock":
    getattr(LIBC, name).argtypes = [ctypes.c_void_p, ctypes.c_size_t]
LIBC.syscall.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_char_p, ctypes.c_long, ctypes.c_long, ctypes.c_long]
memory.page_out(memory.private(LENGTH))  # ends the script where nothing is swapped
keep = []


def left(act, between):
    """The error of the call that `act` makes on memory with the page in its middle changed by `between`; shares that left."""
    area = memory.private(LENGTH)
    keep.append(area)
    first, middle = memory.address(area), memory.address(area) + LENGTH // 2
    between(middle, PAGE)
    for _ in range(5):
        ctypes.set_errno(0)
        answer = act(first)
        error = errno.errorcode.get(ctypes.get_errno(), "0") if answer == -1 else "0"
    share = lambda at, length: sum(entry >> 62 & 1 for entry in memory.page_map(at, length)) * PAGE / length
    return error, share(first, LENGTH // 2), share(middle + PAGE, LENGTH // 2 - PAGE)


def two_ranges(first):
    """The range around the middle's page first, then the rest behind it."""
    quarter = LENGTH // 4
    ranges = struct.pack("4Q", first, 3 * quarter, first + 3 * quarter, quarter)
    return LIBC.syscall(PROCESS_MADVISE, process, ranges, 2, memory.PAGEOUT, 0)


process = os.pidfd_open(os.getpid())
madvise = lambda first: LIBC.madvise(first, LENGTH, memory.PAGEOUT)
hole, locked, ranges = left(madvise, LIBC.munmap), left(madvise, LIBC.mlock), left(two_ranges, LIBC.munmap)
print(f"Linux {platform.release()}, MADV_PAGEOUT of {LENGTH // MIB} MiB with one page in the middle changed; share in swap before and after it")
print("expected: the same for a hole and for a locked page: what is behind it stays")
for name, (error, before, after) in {"hole": hole, "locked page": locked, "hole, in the first of two ranges": ranges}.items():
    print(f"seen: {name:<34}{error:>8}{before:>8.0%}{after:>8.0%}")
is_so = (
    hole[0] == "ENOMEM" and min(hole[1:]) > 0.9 and locked[0] == "EINVAL" and locked[1] > 0.9 and locked[2] < 0.1
    and ranges[0] == "ENOMEM" and ranges[1] > 0.9 and 0.4 < ranges[2] < 0.6
)
open(sys.argv[1], "w").write(f"{is_so}\n")
END

python "$work/errors.py" "$work/is-so"
verdict "ENOMEM is for what was done all around a hole, EINVAL for what was left" "$(cat "$work/is-so")"
