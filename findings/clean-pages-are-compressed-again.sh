#!/usr/bin/env bash
# software: Linux 6.18 with zram, and with a swap file
# expected: a page that was swapped in and only read has its copy in swap still, so to page it out again writes nothing
# seen: so it is with a swap file; from zram a fault takes the page and drops the copy, so each round compresses all of it anew
set -euo pipefail
source "$(dirname "$0")/common"

need python3
swap_on_zram 256

cat >"$work/again.py" <<'END'
import platform, sys
import memory
from memory import MIB, PAGE

LENGTH = 32 * MIB


def written_again():
    """Pages of a private area that were written to swap when it left for the second time."""
    area = memory.private(LENGTH)
    memory.page_out(area)
    memory.read(area)
    before = memory.vmstat()["pswpout"]
    memory.page_out(area)
    return memory.vmstat()["pswpout"] - before


# The count is of the whole machine: of some attempts the one in which other programs moved least.
pages, written = LENGTH // PAGE, min(written_again() for _ in range(5))
print(f"{sys.argv[2]}: of {pages} pages that came back, were read and left again, {written} were written")
open(sys.argv[1], "w").write(f"{written / pages:.3f}\n")
END

echo "Linux $(uname -r), private memory; expected: next to none is written, as nothing changed"
python "$work/again.py" "$work/zram" zram
swapoff "/dev/zram${zrams[0]}"
dd if=/dev/zero of="$work/file" bs=1M count=256 status=none
chmod 600 "$work/file"
mkswap "$work/file" >"$work/mkswap" 2>&1
swapon --priority 32767 "$work/file" 2>"$work/swapon" || missing "the temporary folder takes no swap file"
swap_files+=("$work/file")
python "$work/again.py" "$work/disk" "swap file"
verdict "zram compresses unchanged pages again, and a swap file writes none" "$(cat "$work/zram") > 0.9 and $(cat "$work/disk") < 0.1"
