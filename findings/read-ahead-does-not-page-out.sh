#!/usr/bin/env bash
# software: Linux 6.18, MADV_WILLNEED, MADV_PAGEOUT and MADV_COLD of private memory in zram
# expected: MADV_PAGEOUT takes back what MADV_WILLNEED brought in vain: it is the same range of the same process
# seen: it returns success and takes none: it goes by the page table, where pages that wait in the swap cache count as swapped.
# seen: mincore() sees them, the page map does not. Once they were touched it takes them
set -euo pipefail
source "$(dirname "$0")/common"

need python3
swap_on_zram 256

cat >"$work/vain.py" <<'END'
import platform, sys, time
import memory
from memory import LIBC, MIB, PAGE

LENGTH = 64 * MIB
area = memory.private(LENGTH)
memory.page_out(area)
area.madvise(memory.WILLNEED)
deadline = time.monotonic() + 20
while memory.in_core(area) < 0.95 * LENGTH / PAGE and time.monotonic() < deadline:
    time.sleep(0.1)
brought, mapped_as_swapped = memory.in_core(area), memory.swapped(area)
if brought < LENGTH / PAGE / 2:
    print("skipped: MADV_WILLNEED brings nothing back now")
    sys.exit(77)
first = memory.address(area)
answers = {LIBC.madvise(first, LENGTH, advice) for advice in 5 * (memory.COLD, memory.PAGEOUT)}
left = memory.in_core(area)
memory.read(area)
memory.page_out(area)
touched = memory.in_core(area)
print(f"Linux {platform.release()}, {LENGTH // MIB} MiB in zram, MiB in memory by mincore()")
print("expected: all after MADV_WILLNEED, none after MADV_PAGEOUT")
mib = lambda pages: f"{pages * PAGE / MIB:.1f}"
print(f"seen: {mib(brought)} after MADV_WILLNEED ({mib(mapped_as_swapped)} in swap by the page map), {mib(left)} after five of"
      f" MADV_COLD and MADV_PAGEOUT that returned {answers}; {mib(touched)} when they were touched before")
pages = LENGTH // PAGE
open(sys.argv[1], "w").write(f"{left / brought:.3f} {mapped_as_swapped / pages:.3f} {touched / pages:.3f} {answers == {0}}\n")
END

python "$work/vain.py" "$work/shares"
read -r left as_swapped touched is_success <"$work/shares"
verdict "MADV_PAGEOUT reports success and leaves what MADV_WILLNEED brought" \
    "$left > 0.9 and $as_swapped > 0.9 and $touched < 0.1 and $is_success"
