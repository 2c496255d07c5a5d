"""What is around the process: the daemon, sandboxes, subinterpreters, type checkers."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import threading

import pytest

SECCOMP = """
import ctypes, struct
# Every process_madvise (440) fails with EPERM; all else is allowed.
code = [(0x20, 0, 0, 0), (0x15, 0, 1, 440), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(program)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, header, 0, 0) == 0, ctypes.get_errno()
"""


class Daemon:
    """Answers like the daemon, and keeps what it hears."""

    def __init__(self, path: str, answers: bool = True) -> None:
        self.heard: list = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        if answers:
            threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            stream, _ = self.listener.accept()
            with stream, stream.makefile("rwb") as lines:
                for line in lines:
                    self.heard.append(json.loads(line)["request"])
                    lines.write(b'{"warmswap":1,"answer":"done"}\n')
                    lines.flush()


TELLING = """
import sys, warmswap
warmswap.configure(app="a notebook", socket={path!r})
print(warmswap.background().daemon)
warmswap.foreground()
warmswap.launch_done()
assert warmswap.settle(60)
"""


def test_the_daemon_is_told(script, tmp_path):
    path = str(tmp_path / "daemon.sock")
    daemon = Daemon(path)
    assert script(TELLING.format(path=path)).strip() == "told"
    assert list(daemon.heard[0]) == ["pages_itself"]
    events = [request["app"]["event"] for request in daemon.heard[1:]]
    assert list(events[0]) == ["launch"], "when it comes to the foreground"
    assert events[1:] == ["switch", "launch_done"]
    assert {request["app"]["name"] for request in daemon.heard[1:]} == {"a notebook"}


FOLLOWING = """
import os, resource, threading, time, warmswap
# A program with many descriptors.
resource.setrlimit(resource.RLIMIT_NOFILE, (2048, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
held = [os.open("/dev/null", os.O_RDONLY) for _ in range(1100)]
warmswap.configure(socket={path!r})
warmswap.follow(depth=1)
folder = os.path.join(os.path.dirname({path!r}), "switches")
start = open("/proc/self/stat").read().rsplit(")", 1)[1].split()[19]

def tell(phase):
    with open(folder + "/next", "w") as file:
        file.write(f"1 1 foreground\\n{{os.getpid()}} {{start}} {{phase}}\\n")
    os.rename(folder + "/next", folder + "/now")

def wait_for(phase):
    while warmswap.status().phase != phase:
        assert any(thread.name == "warmswap-follow" for thread in threading.enumerate())
        time.sleep(0.01)

block = bytes(range(256)) * (64 << 12)
os.mkdir(folder)
for _ in range(2):
    tell("background")
    wait_for("background")
    tell("foreground")
    wait_for("foreground")
assert warmswap.settle(60)
assert block == bytes(range(256)) * (64 << 12)
tell("background")
wait_for("background")
# The daemon ends.
os.unlink(folder + "/now")
os.rmdir(folder)
wait_for("foreground")
try:
    warmswap.follow()
except RuntimeError as error:
    print(error)
"""


def test_a_process_follows_the_daemon(script, swap, tmp_path):
    path = str(tmp_path / "daemon.sock")
    daemon = Daemon(path)
    assert "before the first background" in script(FOLLOWING.format(path=path))
    assert all(list(request) == ["pages_itself"] for request in daemon.heard), daemon.heard


def test_a_daemon_that_hangs_or_is_absent_is_no_obstacle(script, tmp_path):
    path = str(tmp_path / "daemon.sock")
    assert script(TELLING.format(path=path)).strip() == "not running"
    daemon = Daemon(path, answers=False)
    assert "no answer" in script(TELLING.format(path=path))
    daemon.listener.close()


def test_a_sandbox_without_process_madvise(swap, script):
    out = script(
        SECCOMP
        + """
import warmswap
block = bytearray(b"x") * (64 << 20)
result = warmswap.background()
print(result)
assert result.paged_out_bytes > 60 << 20
warmswap.foreground()
assert block.count(b"x") == len(block)
"""
    )
    assert "slower than it could be" in out


def test_without_proc_it_says_so(script):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    hide = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$0" "$@"']
    if subprocess.run([*hide, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("no mount namespaces here")
    out = script(
        """
import warmswap
for call in (warmswap.background, warmswap.status):
    try:
        call()
    except warmswap.PagerError as error:
        print(error)
assert not warmswap.foreground().was_background
""",
        *hide,
    )
    assert out.count("/proc") == 2


def test_a_subinterpreter_is_refused_with_a_reason(script):
    out = script(
        """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
import warmswap
other = interpreters.create()
code = '''
try:
    import warmswap
except ImportError as error:
    print("refused:", error, flush=True)
'''
failure = interpreters.run_string(other, code)
assert failure is None, failure
interpreters.destroy(other)
assert warmswap.status().phase == "foreground"
"""
    )
    assert "refused:" in out and "subinterpreters" in out


def test_other_systems_and_interpreters_are_refused(script):
    out = script(
        """
import importlib, sys
for what in ("platform", "implementation"):
    kept = getattr(sys, what)
    if what == "platform":
        sys.platform = "plan9"
    else:
        sys.implementation = type(kept)(**{**vars(kept), "name": "otherpython"})
    try:
        import warmswap
    except ImportError as error:
        print(error)
    setattr(sys, what, kept)
import warmswap
"""
    )
    assert "this is plan9" in out and "this is otherpython" in out


@pytest.mark.skipif(
    importlib.util.find_spec("mypy") is None, reason="mypy is not installed"
)
def test_the_stubs_are_those_of_the_module(tmp_path):
    for arguments in (["mypy.stubtest", "warmswap._native"], ["mypy", "--strict", "-p", "warmswap"]):
        done = subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, done.stdout
