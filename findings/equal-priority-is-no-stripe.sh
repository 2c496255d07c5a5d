#!/usr/bin/env bash
# software: Linux 6.18, two swap areas of one priority
# expected: pages go to the two areas in turn, "on a round-robin basis" as swapon(8) says, so that neighbours load both
# seen: 512 neighbours go to one area, and the next 512 to the other: a fault's read-ahead, or a MiB, is read from one alone
set -euo pipefail
source "$(dirname "$0")/common"

need python3
swap_on_zram 256
swap_on_zram 256

cat >"$work/areas.py" <<'END'
import collections, itertools, mmap, os, platform, sys
import memory
from memory import MIB, PAGE

LENGTH = 64 * MIB
area = mmap.mmap(-1, LENGTH, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, LENGTH, PAGE):
    area[at:at + 1024] = os.urandom(1024)
for _ in range(20):
    area.madvise(memory.PAGEOUT)
    # The page map has the number of the swap area in its lowest five bits.
    areas = [entry & 31 for entry in memory.page_map(memory.address(area), LENGTH) if entry >> 62 & 1]
    if len(areas) > 0.95 * LENGTH / PAGE:
        break
if len(areas) < LENGTH / PAGE / 2:
    print("skipped: this machine swaps nothing out now")
    sys.exit(77)
runs = sorted(len(list(run)) for _, run in itertools.groupby(areas))
typical = runs[len(runs) // 2]
least = min(collections.Counter(areas).values()) / len(areas) if len(set(areas)) > 1 else 0
print(f"Linux {platform.release()}, {LENGTH // MIB} MiB paged out to two zram devices of one priority")
print("expected: a page to one, the next page to the other")
print(f"seen: {typical} neighbours in one area, then as many in another (median of {len(runs)} runs); the areas' shares are "
      + ", ".join(f"{count / len(areas):.0%}" for count in collections.Counter(areas).values()))
open(sys.argv[1], "w").write(f"{typical} {least:.3f}\n")
END

python "$work/areas.py" "$work/shares"
read -r typical least <"$work/shares"
verdict "hundreds of neighbours go to one area before the other has its turn" "$typical >= 128 and $least > 0.1"
