#!/usr/bin/env bash
# software: Linux 6.18, zram as swap with a mem_limit
# expected: once the limit is reached a page cannot leave: MADV_PAGEOUT, the page map, VmSwap or pswpout tell that it stayed
# seen: all four count it as swapped out and it takes a slot of swap, though it is in memory still, in the swap cache: seven
# seen: eighths of 64 MiB here. Only SwapCached, mincore(), failed_writes of the device and the kernel's log tell
set -euo pipefail
source "$(dirname "$0")/common"

need python3
swap_on_zram 256
echo 8M >"/sys/block/zram${zrams[0]}/mem_limit"

cat >"$work/limit.py" <<'END'
import platform, sys
import memory
from memory import LIBC, MIB, PAGE

LENGTH = 64 * MIB
area = memory.private(LENGTH, PAGE)
before, out = (memory.status("VmSwap"), memory.meminfo("SwapFree"), memory.meminfo("SwapCached")), memory.vmstat()["pswpout"]
answers = {LIBC.madvise(memory.address(area), LENGTH, memory.PAGEOUT) for _ in range(4)}
counted = {
    "page map": memory.swapped(area) * PAGE,
    "VmSwap": memory.status("VmSwap") - before[0],
    "pswpout": (memory.vmstat()["pswpout"] - out) * PAGE,
    "SwapFree, less": before[1] - memory.meminfo("SwapFree"),
}
kept = {"SwapCached, more": memory.meminfo("SwapCached") - before[2], "mincore": memory.in_core(area) * PAGE}
stored = int(open(f"/sys/block/zram{sys.argv[2]}/mm_stat").read().split()[0])
failed = int(open(f"/sys/block/zram{sys.argv[2]}/io_stat").read().split()[1])
print(f"Linux {platform.release()}, {LENGTH // MIB} MiB of random bytes paged out to zram with a limit of 8 MiB; MiB")
print("expected: some 8 MiB are swapped, 56 stay, and what counts swapped pages says 8")
print(f"seen: MADV_PAGEOUT returns {answers}, " + ", ".join(f"{name} {bytes_ / MIB:.1f}" for name, bytes_ in counted.items()))
print(f"seen: zram holds {stored / MIB:.1f} and refused {failed} pages; in memory by "
      + ", ".join(f"{name} {bytes_ / MIB:.1f}" for name, bytes_ in kept.items()))
open(sys.argv[1], "w").write(f"{min(counted.values()) / LENGTH:.3f} {min(kept.values()) / LENGTH:.3f} {answers == {0}}\n")
END

python "$work/limit.py" "$work/shares" "${zrams[0]}"
read -r counted kept is_success <"$work/shares"
verdict "pages that zram refused count as swapped out, and are in memory" "$counted > 0.9 and $kept > 0.7 and $is_success"
