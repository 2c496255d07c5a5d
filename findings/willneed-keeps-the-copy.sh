#!/usr/bin/env bash
# software: Linux 6.18 with zram and MADV_WILLNEED
# expected: a page that came back from zram is held once, whichever way it came: its compressed copy is freed when it is used
# seen: after MADV_WILLNEED and a read, nearly every page is held twice, uncompressed and in zram; after a plain fault none is
set -euo pipefail
source "$(dirname "$0")/common"

need python3
swap_on_zram 256
[ -r /proc/kpageflags ] || missing "needs /proc/kpageflags (CONFIG_PROC_PAGE_MONITOR)"

cat >"$work/twice.py" <<'END'
import mmap, os, platform, sys, time
import memory
from memory import MIB, PAGE

SWAP_CACHE = 1 << 13  # KPF_SWAPCACHE: the page has a place in swap, which stays taken
LENGTH = 64 * MIB


def held_twice(way):
    area = mmap.mmap(-1, LENGTH, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, LENGTH, PAGE):
        area[at:at + 2048] = os.urandom(2048)
    first = memory.address(area)
    entries = lambda: memory.page_map(first, LENGTH)
    for _ in range(20):
        area.madvise(memory.PAGEOUT)
        away = sum(entry >> 62 & 1 for entry in entries())
        if away > 0.95 * LENGTH / PAGE:
            break
    if away < LENGTH / PAGE / 2:
        print(f"skipped: this machine swaps nothing out now ({away} pages)")
        sys.exit(77)
    way(area)
    for at in range(0, LENGTH, PAGE):
        area[at]
    flags = memory.page_flags(entries())
    return sum(bool(each & SWAP_CACHE) for each in flags) / away


def willneed(area):
    area.madvise(memory.WILLNEED)
    time.sleep(1)


print(f"Linux {platform.release()}, {LENGTH // MIB} MiB paged out to zram, then read")
print("expected: no page keeps its compressed copy once it was read")
ahead, direct = held_twice(willneed), held_twice(lambda area: None)
print(f"seen: held twice after MADV_WILLNEED and a read {ahead:.0%} of the pages, after a read alone {direct:.0%}")
open(sys.argv[1], "w").write(f"{ahead:.3f} {direct:.3f}\n")
END

python "$work/twice.py" "$work/shares"
read -r ahead direct <"$work/shares"
verdict "what MADV_WILLNEED brought back is held twice, what a fault brought back once" "$ahead > 0.8 and $direct < 0.2"
