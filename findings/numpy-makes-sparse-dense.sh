#!/usr/bin/env bash
# software: numpy 2.3.4 (pip), on a machine whose transparent huge pages are on `madvise`
# expected: with madvise only programs that ask have huge pages, so an array of zeros of which one byte in 2 MiB is written takes
# expected: one page of 4 KiB for each
# seen: numpy asks by itself, for each array of 4 MiB and more: all of the array is in memory; NUMPY_MADVISE_HUGEPAGE=0 stops it
set -euo pipefail
source "$(dirname "$0")/common"

need python3
grep -q '\[madvise\]' /sys/kernel/mm/transparent_hugepage/enabled || missing "needs transparent huge pages on madvise"
from_pip numpy==2.3.4

cat >"$work/sparse.py" <<'END'
import sys
import memory, numpy
from memory import MIB

LENGTH = 128 * MIB
before = memory.status("VmRSS")
array = numpy.zeros(LENGTH, numpy.uint8)
array[::2 * MIB] = 1
print(f"{(memory.status('VmRSS') - before) / MIB:.1f}")
END

plain=$(NUMPY_MADVISE_HUGEPAGE=0 python "$work/sparse.py")
usual=$(python "$work/sparse.py")
echo "numpy 2.3.4, zeros(128 MiB), of which 64 bytes are written, 2 MiB apart; expected: 0.3 MiB in memory"
echo "seen: $usual MiB in memory, and $plain with NUMPY_MADVISE_HUGEPAGE=0"
verdict "a sparse array of numpy fills memory" "$usual > 64 and $plain < 4"
