#!/usr/bin/env bash
# software: Linux 6.18, memory controller of control groups (version 1)
# expected: a page that a process brings back from swap is charged to the group that the process is in, and held to its limit
# seen: it is charged to the group that the process was in when the page left: one with a limit of 16 MiB has 64 in memory then,
# seen: and its own group shows nothing, while the group that it left long ago pays
set -euo pipefail
source "$(dirname "$0")/common"

need python3 awk
swap_on_zram 256
memory_group
memory_group

cat >"$work/charge.py" <<'END'
import os, platform, sys
import memory
from memory import MIB, PAGE

LENGTH, LIMIT = 64 * MIB, 16 * MIB
groups = dict(zip(("first", "second"), sys.argv[2:]))
use = lambda: {name: int(open(group + "/memory.usage_in_bytes").read()) for name, group in groups.items()}
enter = lambda name: open(groups[name] + "/cgroup.procs", "w").write(str(os.getpid()))

open(groups["second"] + "/memory.limit_in_bytes", "w").write(str(LIMIT))
enter("first")
area = memory.private(LENGTH)
memory.page_out(area)
enter("second")
before = use()
for at in range(0, LENGTH, PAGE):
    area[at] = 1
after, here = use(), memory.in_core(area) * PAGE
fresh = memory.private(4 * MIB)
fresh_charge = use()["second"] - after["second"]
grown = {name: (after[name] - before[name]) / MIB for name in groups}
print(f"Linux {platform.release()}: a process pages {LENGTH // MIB} MiB out, moves from a first group to a second one with a limit of"
      f" {LIMIT // MIB} MiB, and writes to all of it")
print(f"expected: the second group has at most {LIMIT // MIB} MiB in memory, and the first none")
print(f"seen: {here / MIB:.1f} MiB are in memory; charged to the second group {grown['second']:.1f}, to the first {grown['first']:.1f}; "
      f"of 4 MiB of new memory {fresh_charge / MIB:.1f} to the second")
open(sys.argv[1], "w").write(f"{here / LENGTH:.3f} {grown['first'] * MIB / LENGTH:.3f} {grown['second'] * MIB / LENGTH:.3f}\n")
END

python "$work/charge.py" "$work/shares" "${groups[@]}"
read -r here first second <"$work/shares"
verdict "swapped-in pages are charged to the group that the process has left" "$here > 0.9 and $first > 0.9 and $second < 0.1"
