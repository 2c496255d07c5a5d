"""Takes memory as other programs do: hog.py anonymous|files|compiler BYTES ROUNDS FOLDER

It says "full" once it has taken all that it wants, does ROUNDS more rounds of its work, and ends: as much work however
long that takes. With ROUNDS below 0 it stays until it is ended.
"""
import os
import shutil
import subprocess
import sys
import time

kind, wanted, rounds, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]


def real_files():
    """Regular files of this machine, in an order that is always the same."""
    for top in ("/usr/lib", "/usr/share", "/usr/bin"):
        for place, folders, names in os.walk(top):
            folders.sort()
            for name in sorted(names):
                path = os.path.join(place, name)
                if os.path.isfile(path) and not os.path.islink(path):
                    yield path


def contents(size):
    """That many bytes of real files."""
    found = bytearray()
    for path in real_files():
        try:
            with open(path, "rb") as file:
                found += file.read(1 << 20)
        except OSError:
            continue
        if len(found) >= size:
            break
    return bytes(found[:size])


def anonymous():
    """Holds memory with real contents, and touches every page of it again and again."""
    block = 4 << 20
    source = memoryview(contents(max(block, min(32 << 20, wanted // 4))))
    held = []
    while len(held) * block < wanted - len(source):
        # Each block begins elsewhere in the source, so that no two are the same.
        at = len(held) * 1_234_577 % len(source)
        data = bytearray(block)
        end = min(block, len(source) - at)
        data[:end] = source[at : at + end]
        data[end:] = source[: block - end]
        data[:8] = len(held).to_bytes(8, "little")
        held.append(data)
    yield
    while True:
        for data in held:
            pages = len(range(0, len(data), 4096))
            data[1::4096] = bytes(pages)
        time.sleep(0.5)
        yield


def files():
    """Copies files until the copies take so many bytes, again and again."""
    while True:
        target = os.path.join(folder, "copies")
        shutil.rmtree(target, ignore_errors=True)
        os.makedirs(target)
        copied, number = 0, 0
        while copied < wanted:
            for path in real_files():
                try:
                    shutil.copyfile(path, os.path.join(target, str(number)))
                    copied += os.path.getsize(path)
                except OSError:
                    continue
                number += 1
                if copied >= wanted:
                    break
        yield


def compiler():
    """Compiles C files with many functions, as many at a time as take so many bytes, again and again."""
    # One compilation takes about 100 MiB.
    jobs = max(1, wanted // (100 << 20))
    source = os.path.join(folder, "unit.c")
    with open(source, "w") as file:
        for number in range(800):
            file.write(
                f"int f{number}(int a, int *b) {{ int s = {number};"
                f" for (int i = 0; i < a; i++) {{ s += b[i] * {number % 97}; if (s & {number % 13}) b[i] ^= s >> 3; }}"
                f" switch (s % 5) {{ case 0: return a; case 1: return s; case 2: return b[a]; }} return s * a; }}\n"
            )
    while True:
        running = [
            subprocess.Popen(["cc", "-O1", "-c", source, "-o", os.path.join(folder, f"{job}.o")])
            for job in range(jobs)
        ]
        if any([job.wait() for job in running]):
            sys.exit("the compiler failed")
        yield


work = {"anonymous": anonymous, "files": files, "compiler": compiler}[kind]()
next(work)
print("full", flush=True)
while rounds != 0:
    next(work)
    rounds -= 1
