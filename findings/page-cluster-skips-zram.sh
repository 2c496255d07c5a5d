#!/usr/bin/env bash
# software: Linux 6.18 with zram, vm.page-cluster
# expected: with the default of vm.page-cluster, 3, a fault reads up to eight neighbours from zram too, which is why guides
# expected: for zram set it to 0
# seen: a fault brings one page, with the default as well; only where a fork shares the swapped memory is anything read ahead
set -euo pipefail
source "$(dirname "$0")/common"

need python3
swap_on_zram 256
cluster=$(cat /proc/sys/vm/page-cluster)
[ "$cluster" -gt 0 ] || missing "vm.page-cluster is 0 here"

cat >"$work/cluster.py" <<'END'
import ctypes, os, platform, signal, sys
import memory
from memory import MIB, PAGE

LENGTH = 64 * MIB
area = memory.private(LENGTH)


def touch():
    """Touches two neighbours of each MiB; pages in memory then."""
    for at in range(0, LENGTH, MIB):
        area[at], area[at + PAGE]
    return memory.in_core(area)


memory.page_out(area)
alone = touch()
memory.page_out(area)
child = os.fork()
if not child:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    signal.pause()
shared = touch()
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
touched = 2 * LENGTH // MIB
print(f"Linux {platform.release()}, vm.page-cluster {sys.argv[2]}, {LENGTH // MIB} MiB in zram, of which {touched} pages are touched, "
      "two of each MiB")
print("expected: about eight pages of each MiB are in memory then")
print(f"seen: {alone} pages, and {shared} of the same memory while a child of fork shares it")
open(sys.argv[1], "w").write(f"{alone / touched:.3f} {shared / touched:.3f}\n")
END

python "$work/cluster.py" "$work/shares" "$cluster"
read -r alone shared <"$work/shares"
verdict "nothing is read ahead from zram, except of memory that a fork shares" "$alone < 1.05 and $shared > 1.2"
