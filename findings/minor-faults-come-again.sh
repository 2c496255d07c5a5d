#!/usr/bin/env bash
# software: Linux 6.18, userfaultfd on shared memory, minor and missing mode, with zram
# expected: a page that the handler resolved and that was swapped out later comes back by the kernel alone, in each mode
# seen: so it does in missing mode. In minor mode each swapped page is an event for the handler again, and the program waits for it
set -euo pipefail
source "$(dirname "$0")/common"

need python3
swap_on_zram 256

cat >"$work/minor.py" <<'END'
import ctypes, fcntl, mmap, os, platform, select, struct, sys, threading
import memory
from memory import LIBC, MIB, PAGE

USERFAULTFD = {"x86_64": 323, "aarch64": 282}
API, REGISTER, COPY, CONTINUE = 0xC018AA3F, 0xC020AA00, 0xC028AA03, 0xC020AA07
FEATURE_MISSING_SHMEM, FEATURE_MINOR_SHMEM, MISSING, MINOR = 1 << 5, 1 << 10, 1, 4
LENGTH = 8 * MIB
LIBC.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
if platform.machine() not in USERFAULTFD:
    print("skipped: knows no number of userfaultfd for this machine")
    sys.exit(77)
content = ctypes.create_string_buffer(os.urandom(PAGE), PAGE)


def register(first, mode, feature):
    descriptor = LIBC.syscall(USERFAULTFD[platform.machine()], os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        fcntl.ioctl(descriptor, API, bytearray(struct.pack("QQQ", 0xAA, feature, 0)))
        fcntl.ioctl(descriptor, REGISTER, bytearray(struct.pack("QQQQ", first, LENGTH, mode, 0)))
    except OSError as error:
        print("skipped: userfaultfd is not allowed here for shared memory:", error)
        sys.exit(77)
    return descriptor


def events(mode, feature):
    """Events of all pages when they are touched first, touched again, and touched after they were swapped out."""
    memfd = os.memfd_create("minor")
    os.ftruncate(memfd, LENGTH)
    if mode == MINOR:
        for at in range(0, LENGTH, PAGE):
            os.pwrite(memfd, os.urandom(1024), at)
    area = mmap.mmap(memfd, LENGTH)
    first, served = memory.address(area), []
    descriptor = register(first, mode, feature)

    def handle():
        while True:
            select.select([descriptor], [], [])
            address = struct.unpack_from("Q", os.read(descriptor, 32), 16)[0] & -PAGE
            served.append(address)
            if mode == MISSING:
                fcntl.ioctl(descriptor, COPY, bytearray(struct.pack("QQQQq", address, ctypes.addressof(content), PAGE, 0, 0)))
            else:
                fcntl.ioctl(descriptor, CONTINUE, bytearray(struct.pack("QQQq", address, PAGE, 0, 0)))

    def touch():
        before = len(served)
        for at in range(0, LENGTH, PAGE):
            LIBC.memcmp(first + at, content, 1)
        return len(served) - before

    threading.Thread(target=handle, daemon=True).start()
    seen = [touch(), touch()]
    swapped = lambda: next(fields["Swap"] for at, _, fields in memory.smaps() if at <= first < at + fields["Size"])
    for _ in range(20):
        area.madvise(memory.PAGEOUT)
    if swapped() < 0.9 * LENGTH:
        print("skipped: this machine swaps nothing out now")
        sys.exit(77)
    return *seen, touch()


pages = LENGTH // PAGE
missing, minor = events(MISSING, FEATURE_MISSING_SHMEM), events(MINOR, FEATURE_MINOR_SHMEM)
print(f"Linux {platform.release()}, {pages} pages of a memfd; events for the handler")
print(f"expected: {pages} at the first touch, 0 at the next one, and 0 after a page-out to zram")
for name, seen in ("missing", missing), ("minor", minor):
    print(f"seen: {name + ' mode':<13}" + ", ".join(map(str, seen)))
is_so = missing[:2] == minor[:2] == (pages, 0) and missing[2] < 0.05 * pages and minor[2] > 0.9 * pages
open(sys.argv[1], "w").write(f"{is_so}\n")
END

python "$work/minor.py" "$work/is-so"
verdict "swapped pages are minor faults for the handler again, and no missing ones" "$(cat "$work/is-so")"
