#!/usr/bin/env bash
# software: Linux 6.18, zram's algorithm_params with lz4 and lzo-rle
# expected: a higher level means fewer bytes, as it does for zstd, lz4hc and deflate in the same file, or is refused
# seen: for lz4 the level is its acceleration: level=9 gives clearly more bytes than level=1, and level=-3 the same as none;
# seen: lzo-rle takes any level and ignores it
set -euo pipefail
source "$(dirname "$0")/common"

need python3
zram
device="/sys/block/zram${zrams[0]}"
[ -w "$device/algorithm_params" ] || missing "this zram has no parameters (Linux 6.12)"
grep -q lz4 "$device/comp_algorithm" || missing "this zram has no lz4"

cat >"$work/pages.py" <<'END'
import sys
import heaps

open(sys.argv[1], "wb").write(b"".join(heaps.cpython()))
END
python "$work/pages.py" "$work/pages"

# Bytes that the pages take with algorithm $1 and level $2, or none.
compressed() {
    echo 1 >"$device/reset"
    echo "$1" >"$device/comp_algorithm"
    [ -z "$2" ] || echo "algo=$1 level=$2" >"$device/algorithm_params"
    echo 64M >"$device/disksize"
    dd if="$work/pages" of="/dev/zram${zrams[0]}" bs=1M oflag=direct conv=fsync status=none
    awk '{print $2}' "$device/mm_stat"
}

echo "Linux $(uname -r), 6,000 pages of CPython's heap; expected: fewer bytes at a higher level"
declare -A bytes
for choice in "lz4 " "lz4 -3" "lz4 1" "lz4 3" "lz4 9" "lz4 12" "lzo-rle " "lzo-rle 9"; do
    level=${choice#* }
    bytes[$choice]=$(compressed "${choice% *}" "$level")
    echo "seen: ${choice% *}, ${level:+level=}${level:-no level}: ${bytes[$choice]} bytes"
done
verdict "a higher level gives lz4 more bytes and lzo-rle the same" \
    "${bytes[lz4 9]} > 1.03 * ${bytes[lz4 1]} and ${bytes[lz4 12]} > ${bytes[lz4 9]} and ${bytes[lz4 -3]} == ${bytes[lz4 ]} == ${bytes[lz4 1]}
and ${bytes[lzo-rle 9]} == ${bytes[lzo-rle ]}"
