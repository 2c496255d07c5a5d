#!/usr/bin/env bash
# software: libCacheSim 0.3.5 (pip)
# expected: each policy fills a cache of any size that has at least one place
# seen: ClockPro never holds more than half of its size; W-TinyLFU below 100 objects, S3-FIFO and Clock2Q+ below 20 admit
# seen: nothing at all, so a miss ratio of 1.0 there is the arithmetic of their parts and no property of the trace
set -euo pipefail
source "$(dirname "$0")/common"

need python3
from_pip libcachesim==0.3.5 numpy==2.3.4

cat >"$work/fill.py" <<'END'
import random, sys
import libcachesim

SIZES = (10, 19, 20, 99, 100, 1000)
POLICIES = ("LRU", "FIFO", "ARC", "TwoQ", "Sieve", "ClockPro", "WTinyLFU", "S3FIFO", "Clock2QPlus")


def most_held(policy, size):
    """Objects of size 1 in a cache for `size` of them: most held at a time, and the share of hits."""
    draw, cache, most, hits = random.Random(1), getattr(libcachesim, policy)(size), 0, 0
    for _ in range(40 * size + 2000):
        request = libcachesim.Request()
        request.obj_id, request.obj_size = min(int(draw.paretovariate(0.5)), 20 * size), 1
        hits += bool(cache.get(request))
        most = max(most, cache.get_n_obj())
    return most, hits


held = {policy: {size: most_held(policy, size) for size in SIZES} for policy in POLICIES}
print("expected: in a cache for N objects of size 1, under requests for 20 N objects, each policy comes to hold N")
print("seen: most objects held at a time, for N of")
print(f"{'':<12}" + "".join(f"{size:>7}" for size in SIZES))
for policy, row in held.items():
    print(f"{policy:<12}" + "".join(f"{most:>7}" for most, _ in row.values()))
is_so = (
    all(held[policy][size][0] == size for policy in ("LRU", "FIFO", "ARC", "TwoQ", "Sieve") for size in SIZES)
    and all(held["ClockPro"][size][0] <= (size + 1) // 2 for size in SIZES)
    and all(held["WTinyLFU"][size] == (0, 0) for size in SIZES if size < 100) and held["WTinyLFU"][100][0] > 90
    and all(held[p][size] == (0, 0) for p in ("S3FIFO", "Clock2QPlus") for size in (10, 19)) and held["S3FIFO"][20][0] > 15
)
open(sys.argv[1], "w").write(f"{is_so}\n")
END

python "$work/fill.py" "$work/is-so"
verdict "ClockPro holds half, and three policies admit nothing to small caches" "$(cat "$work/is-so")"
