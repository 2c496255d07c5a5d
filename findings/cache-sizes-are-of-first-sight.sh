#!/usr/bin/env bash
# software: libCacheSim 0.3.5 (pip)
# expected: a hit whose object has another size now changes the bytes in use, or evicts others when it does not fit any more
# seen: each of its policies counts the size of the first request for as long as the object is in: an object that grew from 1 byte
# seen: to ten times the cache is a hit, and 1 byte. Compressed sizes change with each write, so their byte ratios are not what
# seen: the trace says
set -euo pipefail
source "$(dirname "$0")/common"

need python3
from_pip libcachesim==0.3.5 numpy==2.3.4

cat >"$work/sizes.py" <<'END'
import sys
import libcachesim

CACHE, FIRST, LATER = 10_000, 1, 100_000
POLICIES = ("LRU", "FIFO", "LFU", "Clock", "SLRU", "ARC", "LIRS", "TwoQ", "Sieve", "S3FIFO", "WTinyLFU", "GDSF", "Hyperbolic", "LeCaR")


def request(cache, number, size):
    request = libcachesim.Request()
    request.obj_id, request.obj_size = number, size
    return cache.get(request)


def grown(policy):
    """Hits of an object while it grows, bytes in use then; and whether a new object of the later size is let in."""
    cache = getattr(libcachesim, policy)(CACHE)
    request(cache, 1, FIRST)
    hits = [request(cache, 1, size) for size in (LATER // 100, LATER // 10, LATER)]
    used = cache.get_occupied_byte()
    request(cache, 2, LATER)
    return hits, used, request(cache, 2, LATER)


found = {policy: grown(policy) for policy in POLICIES}
print(f"libCacheSim 0.3.5, cache of {CACHE} bytes, an object of {FIRST} byte that grows to {LATER}")
print("expected: its last request is a miss, as it is for a new object of that size")
for policy, (hits, used, is_let_in) in found.items():
    print(f"seen: {policy:<12}{sum(hits)} hits of {len(hits)}, {used} bytes in use; a new object of {LATER} is a "
          f"{'hit' if is_let_in else 'miss'}")
is_so = all(all(hits) and used == FIRST and not is_let_in for hits, used, is_let_in in found.values())
open(sys.argv[1], "w").write(f"{is_so}\n")
END

python "$work/sizes.py" "$work/is-so" 2>"$work/warnings"
verdict "a cached object has the size of its first request" "$(cat "$work/is-so")"
