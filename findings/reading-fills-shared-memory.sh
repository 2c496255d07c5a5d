#!/usr/bin/env bash
# software: Linux 6.18, shared anonymous memory and memfd
# expected: to read memory that was never written maps the one page of zeros, of which there is one, and takes no memory
# seen: so it is for private memory. Of shared memory each page that is read is allocated, for good: reading 64 MiB takes 64 MiB,
# seen: also when another process reads it by /proc/PID/mem or process_vm_readv, as dumpers and profilers of heaps do
set -euo pipefail
source "$(dirname "$0")/common"

[ "$(id -u)" = 0 ] || missing "needs root, to read another process"
need python3

cat >"$work/fills.py" <<'END'
import mmap, os, platform, subprocess, sys
import memory
from memory import MIB

LENGTH = 64 * MIB
DUMPER = "import sys; f = open(f'/proc/{sys.argv[1]}/mem', 'rb', 0); f.seek(int(sys.argv[2])); f.read(int(sys.argv[3]))"


def resident(area):
    first = memory.address(area)
    return next(fields["Rss"] for at, _, fields in memory.smaps() if at <= first < at + fields["Size"])


def dump(area):
    subprocess.run([sys.executable, "-c", DUMPER, str(os.getpid()), str(memory.address(area)), str(LENGTH)], check=True)


def memfd():
    descriptor = os.memfd_create("fills")
    os.ftruncate(descriptor, LENGTH)
    return descriptor, mmap.mmap(descriptor, LENGTH)


found = {"private": [], "memfd": []}
for read in memory.read, dump:
    private = mmap.mmap(-1, LENGTH, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    read(private)
    found["private"].append(resident(private))
    descriptor, shared = memfd()
    read(shared)
    found["memfd"].append(os.fstat(descriptor).st_blocks * 512)
print(f"Linux {platform.release()}, {LENGTH // MIB} MiB that no process wrote; expected: reading them takes no memory")
for name, (own, other) in found.items():
    print(f"seen: {name} memory: read by its process it takes {own / MIB:.1f} MiB, by another one {other / MIB:.1f}")
open(sys.argv[1], "w").write(f"{max(found['private']) / LENGTH:.3f} {min(found['memfd']) / LENGTH:.3f}\n")
END

python "$work/fills.py" "$work/shares"
read -r private shared <"$work/shares"
verdict "shared memory is allocated by reading it, private memory is not" "$private < 0.05 and $shared > 0.95"
