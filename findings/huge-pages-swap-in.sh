#!/usr/bin/env bash
# software: Linux 6.18, khugepaged with transparent huge pages on madvise or always
# expected: a page that was paged out stays in swap until a process touches it, asks for it or swap is turned off
# seen: khugepaged brings pages back that no process touched: up to max_ptes_swap, 64, of each 2 MiB of a range under
# seen: MADV_HUGEPAGE of which the rest is in use, in its next pass. It counts as pswpin, and in no fault of the process
set -euo pipefail
source "$(dirname "$0")/common"

need python3
swap_on_zram 256
huge=/sys/kernel/mm/transparent_hugepage
[ -r "$huge/khugepaged/max_ptes_swap" ] || missing "needs transparent huge pages"
! grep -q '\[never\]' "$huge/enabled" || missing "transparent huge pages are off"
[ "$(cat "$huge/khugepaged/max_ptes_swap")" -ge 64 ] || missing "khugepaged's max_ptes_swap is not its default"

cat >"$work/daemon.py" <<'END'
import mmap, platform, sys, time
import memory
from memory import LIBC, MIB, PAGE

HUGE, REGIONS, FEW, MANY = 2 * MIB, 8, 60, 100
MADV_HUGEPAGE, MADV_NOHUGEPAGE = 14, 15


def regions(in_swap):
    """Aligned regions of 2 MiB, `in_swap` pages of each in swap and the others in use; the first address."""
    area = mmap.mmap(-1, (REGIONS + 1) * HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    keep.append(area)
    base = memory.address(area)
    LIBC.madvise(base, len(area), MADV_NOHUGEPAGE)
    for at in range(0, len(area), PAGE):
        area[at:at + 1024] = random[at % (1 << 16):][:1024]
    first = -(-base // HUGE) * HUGE
    for region in range(REGIONS):
        for _ in range(20):
            LIBC.madvise(first + region * HUGE + HUGE // 2, in_swap * PAGE, memory.PAGEOUT)
    return first


def away(first):
    return sum(entry >> 62 & 1 for entry in memory.page_map(first, REGIONS * HUGE))


keep, random = [], open("/dev/urandom", "rb").read(1 << 17)
first = {"few": regions(FEW), "many": regions(MANY), "plain": regions(FEW)}
before, faults = {name: away(at) for name, at in first.items()}, memory.major_faults()
if min(before.values()) < 0.9 * FEW * REGIONS:
    print("skipped: this machine swaps nothing out now")
    sys.exit(77)
for name in "few", "many":
    LIBC.madvise(first[name], REGIONS * HUGE, MADV_HUGEPAGE)
deadline = time.monotonic() + 240
while away(first["few"]) > 0.3 * before["few"] and time.monotonic() < deadline:
    time.sleep(1)
after, faults = {name: away(at) for name, at in first.items()}, memory.major_faults() - faults
print(f"Linux {platform.release()}, {REGIONS} regions of 2 MiB in use each, some pages of them in zram; no process touches any of it")
print("expected: all stay in swap")
print("seen: pages in swap at first and after khugepaged's next passes, which cost the process", faults, "major faults")
for name, text in (("few", f"{FEW} of 512 away, MADV_HUGEPAGE"), ("many", f"{MANY} of 512 away, MADV_HUGEPAGE"),
                   ("plain", f"{FEW} of 512 away, MADV_NOHUGEPAGE")):
    print(f"{text:<40}{before[name]:>6}{after[name]:>6}")
open(sys.argv[1], "w").write(" ".join(f"{after[name] / before[name]:.3f}" for name in before) + f" {faults}\n")
END

python "$work/daemon.py" "$work/shares"
read -r few many plain faults <"$work/shares"
verdict "khugepaged brings back few pages of a huge page's range, untouched" \
    "$few < 0.5 and $many > 0.9 and $plain > 0.9 and $faults < 20"
