#!/usr/bin/env bash
# software: glibc 2.36 (Debian 12) or the C library of this machine, Linux from 5.4 on
# expected: mallinfo2() reports counters that the allocator keeps, and costs a few pages
# seen: on a heap with every other block freed it faults most of the heap in from swap: it walks the lists of free blocks
set -euo pipefail
source "$(dirname "$0")/common"

need python3
swap_on_zram 512

cat >"$work/heap.py" <<'END'
import ctypes, platform, sys
import memory
from memory import LIBC, MIB, PAGE

if platform.libc_ver()[0] != "glibc" or not hasattr(LIBC, "mallinfo2"):
    print("skipped: needs glibc from 2.33 on")
    sys.exit(77)


class Mallinfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]


LIBC.malloc.restype, LIBC.mallinfo2.restype = ctypes.c_void_p, Mallinfo2
LIBC.malloc.argtypes, LIBC.free.argtypes = [ctypes.c_size_t], [ctypes.c_void_p]
LIBC.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
LIBC.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

blocks = [LIBC.malloc(1500 + i % 7 * 100) for i in range(90_000)]
for i, block in enumerate(blocks):
    LIBC.memset(block, i & 255, 1500)
for block in blocks[::2]:
    LIBC.free(block)
first = min(blocks) // PAGE * PAGE
length = max(blocks) // PAGE * PAGE - first


def swapped():
    return sum(entry >> 62 & 1 for entry in memory.page_map(first, length)) * PAGE


for _ in range(20):  # Pages that another processor is just adding to a list stay at the first attempt.
    LIBC.madvise(first, length, memory.PAGEOUT)
    if swapped() > 0.95 * length:
        break
before, faults = swapped(), memory.major_faults()
LIBC.mallinfo2()
share = (before - swapped()) / before
print(f"glibc {platform.libc_ver()[1]}, Linux {platform.release()}")
print("expected: one call of mallinfo2() reads some counters")
print(f"seen: heap {length / MIB:.0f} MiB, {before / MIB:.0f} MiB of it in zram; the call took {share:.0%} back, "
      f"{memory.major_faults() - faults:,} major faults")
open(sys.argv[1], "w").write(f"{before / length:.3f} {share:.3f}\n")
END

python "$work/heap.py" "$work/shares"
read -r away share <"$work/shares"
python3 -c "import sys; sys.exit($away < 0.5)" || missing "this machine swaps nothing out now ($away of the heap)"
verdict "mallinfo2 reads more than half of a fragmented heap" "$share > 0.5"
