#!/usr/bin/env bash
# software: Linux 6.18, /proc and mincore()
# expected: VmSwap of /proc/PID/status, or at least bit 62 of /proc/PID/pagemap, shows all that a process has in swap
# seen: swapped pages of a memfd are in neither, nor in smaps' SwapPss: only in smaps' Swap, and as holes in mincore()
set -euo pipefail
source "$(dirname "$0")/common"

need python3
swap_on_zram 256

cat >"$work/hides.py" <<'END'
import ctypes, mmap, os, platform, sys
import memory
from memory import LIBC, MIB, PAGE

LENGTH = 64 * MIB
LIBC.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]


def views(area):
    for at in range(0, LENGTH, PAGE):
        area[at:at + 2048] = os.urandom(2048)
    first, before = memory.address(area), memory.status("VmSwap")
    of_area = lambda: next(fields for start, _, fields in memory.smaps() if start <= first < start + fields["Size"])
    for _ in range(20):
        area.madvise(memory.PAGEOUT)
        fields = of_area()
        if fields["Swap"] > 0.95 * LENGTH:
            break
    in_core = ctypes.create_string_buffer(LENGTH // PAGE)
    LIBC.mincore(first, LENGTH, in_core)
    return {
        "VmSwap": memory.status("VmSwap") - before,
        "pagemap": sum(entry >> 62 & 1 for entry in memory.page_map(first, LENGTH)) * PAGE,
        "SwapPss": fields["SwapPss"],
        "smaps": fields["Swap"],
        "mincore": sum(not byte & 1 for byte in in_core.raw) * PAGE,
    }


private = views(mmap.mmap(-1, LENGTH, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
descriptor = os.memfd_create("hides")
os.ftruncate(descriptor, LENGTH)
shared = views(mmap.mmap(descriptor, LENGTH))
print(f"Linux {platform.release()}, {LENGTH // MIB} MiB, paged out; MiB in swap as seen by")
print("expected: all agree, for anonymous memory and for a memfd")
print("seen:      " + "".join(f"{name:>9}" for name in private))
for name, seen in ("anonymous", private), ("memfd", shared):
    print(f"{name:<11}" + "".join(f"{bytes_ / MIB:>9.1f}" for bytes_ in seen.values()))
if private["smaps"] < LENGTH / 2 or shared["smaps"] < LENGTH / 2:
    print("skipped: this machine swaps nothing out now")
    sys.exit(77)
hidden = max(shared[name] for name in ("VmSwap", "pagemap", "SwapPss")) / LENGTH
seen = min([*private.values(), shared["smaps"], shared["mincore"]]) / LENGTH
open(sys.argv[1], "w").write(f"{hidden:.3f} {seen:.3f}\n")
END

python "$work/hides.py" "$work/shares"
read -r hidden seen <"$work/shares"
verdict "swap of a memfd is in no VmSwap, page map or SwapPss, and smaps and mincore show it" "$hidden < 0.05 and $seen > 0.5"
