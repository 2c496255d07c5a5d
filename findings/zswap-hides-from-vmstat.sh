#!/usr/bin/env bash
# software: Linux 6.18 with zswap; vmstat of procps, psutil 7.2.2 (pip)
# expected: pages swapped in and out are in pswpin and pswpout of /proc/vmstat, so in vmstat's si and so and in psutil's sin and sout
# seen: what zswap takes and gives back is in neither: a program can be swapped out and in whole while all of them read 0, and
# seen: VmSwap has its size between; zswpin and zswpout of /proc/vmstat, which they do not read, have the pages
set -euo pipefail
source "$(dirname "$0")/common"

need python3 vmstat
from_pip psutil==7.2.2
swap_on_zram 256
zswap=/sys/module/zswap/parameters/enabled
[ -w "$zswap" ] || missing "needs zswap"
set_for_now "$zswap" Y
[ "$(cat "$zswap")" = Y ] || missing "zswap cannot be enabled"

cat >"$work/hides.py" <<'END'
import platform, re, subprocess, sys
import memory, psutil
from memory import MIB, PAGE

LENGTH = 32 * MIB


def counted():
    """Bytes by each count so far, out and in."""
    text = subprocess.run(["vmstat", "-s"], capture_output=True, text=True, check=True, env={"LC_ALL": "C"}).stdout
    of_vmstat = lambda way: int(re.search(rf"(\d+) pages swapped {way}", text)[1]) * PAGE
    swap, kernel = psutil.swap_memory(), memory.vmstat()
    return {"vmstat -s": (of_vmstat("out"), of_vmstat("in")), "psutil": (swap.sout, swap.sin),
            "zswpout, zswpin": (kernel["zswpout"] * PAGE, kernel["zswpin"] * PAGE)}


def attempt():
    """Bytes out and in by each count, bytes of swap that the process had between, its major faults."""
    area = memory.private(LENGTH)
    before, swap, faults = counted(), memory.status("VmSwap"), memory.major_faults()
    memory.page_out(area)
    swap = memory.status("VmSwap") - swap
    memory.read(area)
    after, faults = counted(), memory.major_faults() - faults
    return {name: [b - a for a, b in zip(before[name], after[name])] for name in before}, swap, faults


HIDING = "vmstat -s", "psutil"
# The counts are of the whole machine: of some attempts the one in which other programs moved least.
moved, used, faults = min((attempt() for _ in range(8)), key=lambda one: sum(sum(one[0][name]) for name in HIDING))
print(f"Linux {platform.release()}, {LENGTH // MIB} MiB paged out to zswap and read again: VmSwap {used / MIB:.1f} MiB between, "
      f"{faults} major faults")
print(f"expected: each counts {LENGTH / MIB:.1f} MiB out and as much in")
print("seen: " + "; ".join(f"{name} {out / MIB:.1f} out, {in_ / MIB:.1f} in" for name, (out, in_) in moved.items()))
shares = {name: [bytes_ / LENGTH for bytes_ in way] for name, way in moved.items()}
hidden = max(share for name in HIDING for share in shares[name])
open(sys.argv[1], "w").write(f"{hidden:.3f} {min(shares['zswpout, zswpin']):.3f} {used / LENGTH:.3f}\n")
END

python "$work/hides.py" "$work/shares"
read -r hidden zswap_share used <"$work/shares"
verdict "vmstat and psutil count nothing of what zswap takes and gives" "$hidden < 0.2 and $zswap_share > 0.9 and $used > 0.9"
