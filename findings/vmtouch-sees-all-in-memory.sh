#!/usr/bin/env bash
# software: vmtouch 1.3.1 (Debian 12), over mincore() of Linux 6.18
# expected: it shows how much of a file is in memory to each user who may read it, and after `vmtouch -e` what was evicted
# seen: to a user who neither owns the file nor may write it all of it is in memory, 100 %, when none is: the kernel answers so
# seen: since 5.2. And -e says that it evicted each page when a mapping of another process kept them all
set -euo pipefail
source "$(dirname "$0")/common"

[ "$(id -u)" = 0 ] || missing "needs root, to become another user"
need python3 setpriv
debian vmtouch 1.3.1-2
vmtouch="$work/debian/usr/bin/vmtouch"
file="$work/file"
as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
chmod 755 "$work"
head -c 16M /dev/urandom >"$file"
chmod 644 "$file"
as_nobody "$vmtouch" "$file" >"$work/nobody" 2>&1 || missing "another user cannot reach the temporary folder"
resident() { sed -n 's/.*Resident Pages: \([0-9]*\).*/\1/p'; }

sync "$file"
python - "$file" <<'END'
import os, sys
os.posix_fadvise(os.open(sys.argv[1], os.O_RDONLY), 0, 0, os.POSIX_FADV_DONTNEED)
END
owner=$("$vmtouch" "$file" | resident)
[ "$owner" = 0 ] || missing "the temporary folder's file system keeps pages"
reader=$(as_nobody "$vmtouch" "$file" | resident)

mkfifo "$work/ready"
python3 - "$file" "$work/ready" <<'END' &
import mmap, signal, sys
with open(sys.argv[1], "rb") as file:
    area = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
for at in range(0, len(area), mmap.PAGESIZE):
    area[at]
open(sys.argv[2], "w").close()
signal.pause()
END
children+=($!)
read -r _ <"$work/ready" || true
evicted=$("$vmtouch" -e "$file" | sed -n 's/.*Evicted Pages: \([0-9]*\).*/\1/p')
kept=$("$vmtouch" "$file" | resident)

echo "vmtouch 1.3.1, a file of 4096 pages"
echo "expected: one number for all who may read it; evicted and resident pages add up to 4096"
echo "seen: when none is in memory, $owner resident pages to the owner and $reader to another reader"
echo "seen: while a process maps all of it, -e evicts $evicted by its own account, and $kept are resident after it"
verdict "vmtouch shows all in memory to readers, and evictions that were none" \
    "$owner == 0 and $reader == 4096 and $evicted == 4096 and $kept == 4096"
