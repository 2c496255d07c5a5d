#!/usr/bin/env bash
# software: Linux 6.18, MADV_PAGEOUT (process_madvise alike)
# expected: MADV_PAGEOUT of memory that a sleeping child of fork() shares swaps it out for both, or returns an error
# seen: it returns success and moves nothing while the child lives, as in servers that load, then fork, and in zygotes
set -euo pipefail
source "$(dirname "$0")/common"

need python3
swap_on_zram 256

cat >"$work/fork.py" <<'END'
import ctypes, mmap, os, platform, signal, sys
import memory
from memory import LIBC, MIB, PAGE

LENGTH = 64 * MIB
LIBC.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
area = mmap.mmap(-1, LENGTH, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, LENGTH, PAGE):
    area[at:at + 2048] = os.urandom(2048)
first = memory.address(area)


def page_out():
    answers = {LIBC.madvise(first, LENGTH, memory.PAGEOUT) for _ in range(5)}
    return answers, sum(entry >> 62 & 1 for entry in memory.page_map(first, LENGTH)) * PAGE / LENGTH


child = os.fork()
if not child:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    signal.pause()
answers, shared = page_out()
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
_, alone = page_out()
print(f"Linux {platform.release()}, {LENGTH // MIB} MiB of private memory")
print("expected: MADV_PAGEOUT swaps it out, whether a sleeping child shares it or not")
print(f"seen: with a child {shared:.0%} in swap after five calls that returned {answers}, once it is gone {alone:.0%}")
if alone < 0.5:
    print("skipped: this machine swaps nothing out now")
    sys.exit(77)
open(sys.argv[1], "w").write(f"{shared:.3f} {alone:.3f} {answers == {0}}\n")
END

python "$work/fork.py" "$work/shares"
read -r shared alone is_success <"$work/shares"
verdict "MADV_PAGEOUT reports success and moves nothing that a child shares" "$shared < 0.1 and $alone > 0.5 and $is_success"
