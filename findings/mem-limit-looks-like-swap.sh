#!/usr/bin/env bash
# software: Linux 6.18, zram as swap with a mem_limit
# expected: once the limit is reached a page cannot leave: MADV_PAGEOUT, the page map, VmSwap or pswpout tell that it stayed
# seen: all four count it as swapped out though it is in memory still, in the swap cache: seven eighths of 64 MiB here. Only
# seen: SwapCached, mincore(), failed_writes of the device and the kernel's log tell
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
swap, cached, out = memory.status("VmSwap"), memory.meminfo("SwapCached"), memory.vmstat()["pswpout"]
answers = {LIBC.madvise(memory.address(area), LENGTH, memory.PAGEOUT) for _ in range(4)}
counted = {
    "page map": memory.swapped(area) * PAGE,
    "VmSwap": memory.status("VmSwap") - swap,
    "pswpout": (memory.vmstat()["pswpout"] - out) * PAGE,
}
kept, cached = memory.in_core(area) * PAGE, memory.meminfo("SwapCached") - cached
stored = int(open(f"/sys/block/zram{sys.argv[2]}/mm_stat").read().split()[0])
failed = int(open(f"/sys/block/zram{sys.argv[2]}/io_stat").read().split()[1])
print(f"Linux {platform.release()}, {LENGTH // MIB} MiB of random bytes paged out to zram with a limit of 8 MiB; MiB")
print("expected: some 8 MiB are swapped, 56 stay, and what counts swapped pages says 8")
print(f"seen: MADV_PAGEOUT returns {answers}, " + ", ".join(f"{name} {bytes_ / MIB:.1f}" for name, bytes_ in counted.items()))
print(f"seen: zram holds {stored / MIB:.1f} and refused {failed} pages; {kept / MIB:.1f} are in memory by mincore(), and SwapCached "
      f"grew by {cached / MIB:.1f}")
open(sys.argv[1], "w").write(f"{min(counted.values()) / LENGTH:.3f} {kept / LENGTH:.3f} {answers == {0}}\n")
END

python "$work/limit.py" "$work/shares" "${zrams[0]}"
read -r counted kept is_success <"$work/shares"
verdict "pages that zram refused count as swapped out, and are in memory" "$counted > 0.9 and $kept > 0.7 and $is_success"
