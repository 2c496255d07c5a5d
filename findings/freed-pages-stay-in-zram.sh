#!/usr/bin/env bash
# software: Linux 6.18 with zram and zsmalloc
# expected: when half of the pages in zram are freed, zram gives about half of its memory back
# seen: it gives next to nothing back: pages freed at random leave the blocks of its allocator half full; writing to the
# seen: device's `compact` gives the half back
set -euo pipefail
source "$(dirname "$0")/common"

need python3
swap_on_zram 512

cat >"$work/free.py" <<'END'
import mmap, os, platform, random, sys
import memory
from memory import MIB, PAGE

LENGTH = 128 * MIB
DONTNEED = 4
device, draw = f"/sys/block/zram{sys.argv[2]}/", random.Random(1)
area = mmap.mmap(-1, LENGTH, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, LENGTH, PAGE):
    length = draw.randrange(500, 3000)
    area[at:at + length] = os.urandom(length)


def used():
    """zram's orig_data_size and mem_used_total."""
    fields = open(device + "mm_stat").read().split()
    return int(fields[0]), int(fields[2])


empty = used()
for _ in range(20):
    area.madvise(memory.PAGEOUT)
    if used()[0] - empty[0] > 0.95 * LENGTH:
        break
full = used()
if full[0] - empty[0] < LENGTH / 2:
    print("skipped: this machine swaps nothing out now")
    sys.exit(77)
for at in draw.sample(range(0, LENGTH, PAGE), LENGTH // PAGE // 2):
    area.madvise(DONTNEED, at, PAGE)
half = used()
open(device + "compact", "w").write("1")
compacted = used()
back = [(full[1] - now[1]) / (full[1] - empty[1]) for now in (half, compacted)]
print(f"Linux {platform.release()}, {LENGTH // MIB} MiB paged out to zram, then half of the pages freed, drawn at random")
print("expected: about half of zram's memory is free again")
print(f"seen: pages {full[0] / MIB:.0f} and then {half[0] / MIB:.0f} MiB; zram's memory {full[1] / MIB:.1f}, then {half[1] / MIB:.1f} "
      f"({back[0]:.0%} back), after `compact` {compacted[1] / MIB:.1f} ({back[1]:.0%} back)")
open(sys.argv[1], "w").write(f"{back[0]:.3f} {back[1]:.3f}\n")
END

python "$work/free.py" "$work/shares" "${zrams[0]}"
read -r back compacted <"$work/shares"
verdict "half of the pages freed gives below a tenth of zram's memory back, until it is compacted" "$back < 0.1 and $compacted > 0.3"
