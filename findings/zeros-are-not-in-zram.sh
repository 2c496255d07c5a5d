#!/usr/bin/env bash
# software: Linux 6.18 with zram
# expected: zram counts a page of zeros as a same-filled page, so mm_stat accounts for every swapped page
# seen: the kernel keeps swapped zeros in a bitmap of its own: they fill slots of the device and VmSwap, and zram never hears
# seen: of them; pages filled with any other word are in same_pages. Ratios of mm_stat and swap in use are of other pages
set -euo pipefail
source "$(dirname "$0")/common"

need python3
swap_on_zram 256

cat >"$work/zeros.py" <<'END'
import mmap, platform, sys
import memory
from memory import MIB, PAGE

LENGTH = 64 * MIB
device = f"/sys/block/zram{sys.argv[2]}/mm_stat"


def stored(word):
    """Bytes in VmSwap, and what they add to zram's orig_data_size and same_pages."""
    statistics = lambda: [int(field) for field in open(device).read().split()]
    area = mmap.mmap(-1, LENGTH, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    before, swap = statistics(), memory.status("VmSwap")
    for at in range(0, LENGTH, PAGE):
        area[at:at + PAGE] = word * (PAGE // len(word))
    for _ in range(20):
        area.madvise(memory.PAGEOUT)
        if memory.status("VmSwap") - swap > 0.95 * LENGTH:
            break
    after = statistics()
    return memory.status("VmSwap") - swap, after[0] - before[0], (after[5] - before[5]) * PAGE


zeros, ones = stored(bytes(8)), stored(b"\1" * 8)
print(f"Linux {platform.release()}, {LENGTH // MIB} MiB paged out to zram, MiB")
print("expected: the same three numbers for pages of zeros and for pages of another word")
print(f"seen:       {'VmSwap':>8}{'orig_data_size':>16}{'same_pages':>12}")
for name, seen in ("zeros", zeros), ("0x01…", ones):
    print(f"{name:<12}{seen[0] / MIB:>8.1f}{seen[1] / MIB:>16.1f}{seen[2] / MIB:>12.1f}")
if min(zeros[0], ones[0]) < LENGTH / 2:
    print("skipped: this machine swaps nothing out now")
    sys.exit(77)
open(sys.argv[1], "w").write(f"{zeros[2] / zeros[0]:.3f} {ones[2] / ones[0]:.3f}\n")
END

python "$work/zeros.py" "$work/shares" "${zrams[0]}"
read -r zeros ones <"$work/shares"
verdict "zram knows of no swapped page of zeros, and of all pages of another word" "$zeros < 0.1 and $ones > 0.8"
