"""Pages of the heaps of idle programs; the scripts on compression use it."""

import random
import signal
import subprocess
import sys

import memory
from memory import PAGE

NODE = """const keep = new Map();
for (let i = 0; i < 300000; i++) keep.set("key " + i, { i, name: "value " + i, list: [i, i + 1] });
console.log("ready"); setInterval(() => keep.size, 1 << 30)"""
CPYTHON = """keep = {f"key {i}": [i, str(i), (i, i + 1)] for i in range(300_000)}
import time; print("ready", flush=True); time.sleep(1 << 20)"""


def node(program):
    return pages([program, "-e", NODE])


def cpython():
    return pages([sys.executable, "-c", CPYTHON])


def pages(command):
    """6,000 pages of the program's private memory without files, drawn by a seed; none is all zeros."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        try:
            program.stdout.readline()
            # Its other threads change the mappings otherwise.
            program.send_signal(signal.SIGSTOP)
            found = []
            with open(f"/proc/{program.pid}/mem", "rb") as file:
                for first, inode, fields in memory.smaps(program.pid):
                    if not inode and fields["Anonymous"] and fields["Size"] < 1 << 30 and first < 1 << 47:
                        file.seek(first)
                        bytes_ = file.read(fields["Size"])
                        found += [bytes_[at:at + PAGE] for at in range(0, len(bytes_), PAGE)]
        finally:
            program.kill()
    return random.Random(1).sample([page for page in found if page.strip(b"\0")], 6000)
