#!/usr/bin/env bash
# software: Linux 6.18, the perf events page-faults and major-faults
# expected: they count, and sample with its address, each fault that getrusage() counts for the thread
# seen: they miss each fault that the kernel takes for the thread: of MADV_POPULATE_READ, mlock() and reads of /proc/PID/mem they
# seen: count 0 major faults of 8,192 that ru_majflt has. What a system call copies from or to is counted
set -euo pipefail
source "$(dirname "$0")/common"

need python3
swap_on_zram 256

cat >"$work/faults.py" <<'END'
import ctypes, os, platform, resource, struct, sys
import memory
from memory import LIBC, MIB, PAGE

LENGTH, POPULATE_READ, PERF_EVENT_OPEN = 32 * MIB, 22, {"x86_64": 298, "aarch64": 241}
LIBC.mlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
if platform.machine() not in PERF_EVENT_OPEN:
    print("skipped: knows no number of perf_event_open for this machine")
    sys.exit(77)


def software_event(config):
    attributes = struct.pack("IIQ", 1, 128, config) + bytes(112)  # PERF_TYPE_SOFTWARE, counting
    event = LIBC.syscall(PERF_EVENT_OPEN[platform.machine()], attributes, 0, -1, -1, 0)
    if event < 0:
        print("skipped: perf events are not allowed here:", os.strerror(ctypes.get_errno()))
        sys.exit(77)
    return event


major = software_event(6)  # PERF_COUNT_SW_PAGE_FAULTS_MAJ
perf = lambda: struct.unpack("Q", os.read(major, 8))[0]
usage = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_majflt


def counted(act):
    """Major faults that the act on a swapped area costs, by getrusage and by perf."""
    area = memory.private(LENGTH)
    memory.page_out(area)
    before = usage(), perf()
    act(area)
    return usage() - before[0], perf() - before[1]


def read_own_memory(area):
    with open("/proc/self/mem", "rb", 0) as file:
        os.pread(file.fileno(), LENGTH, memory.address(area))


ACTS = {
    "touch": memory.read,
    "write() of it": lambda area: os.write(os.memfd_create("copy"), area),
    "MADV_POPULATE_READ": lambda area: area.madvise(POPULATE_READ),
    "mlock()": lambda area: LIBC.mlock(memory.address(area), LENGTH),
    "read /proc/self/mem": read_own_memory,
}
print(f"Linux {platform.release()}, {LENGTH // MIB} MiB in zram, {LENGTH // PAGE} pages; expected: the same number twice")
print(f"seen: major faults by {'getrusage':>20}{'perf':>8}")
found = {name: counted(act) for name, act in ACTS.items()}
for name, (by_usage, by_perf) in found.items():
    print(f"{name:<22}{by_usage:>20}{by_perf:>8}")
pages = LENGTH // PAGE
seen = min(count for name in ("touch", "write() of it") for count in found[name]) / pages
missed = [found[name] for name in list(ACTS)[2:]]
open(sys.argv[1], "w").write(f"{seen:.3f} {min(u for u, _ in missed) / pages:.3f} {max(p for _, p in missed) / pages:.3f}\n")
END

python "$work/faults.py" "$work/shares"
read -r seen by_usage by_perf <"$work/shares"
verdict "perf misses the faults that the kernel takes for a thread" "$seen > 0.9 and $by_usage > 0.9 and $by_perf < 0.05"
