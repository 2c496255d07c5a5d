"""Background and foreground in one process."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.usefixtures("swap")

MIB = 1 << 20


def test_memory_leaves_and_comes_back_as_it_was(script):
    script(
        """
import random, warmswap
random.seed(1)
MIB = 1 << 20
block = bytes(range(256)) * (64 * MIB // 256)
objects = [{"key": str(i), "value": [i, float(i)]} for i in range(100_000)]
copy = hash(block), hash(str(objects))

result = warmswap.background()
assert result.paged_out_bytes > 60 * MIB, result
assert result.swapped_bytes > 60 * MIB
assert result.resident_after_bytes < result.resident_before_bytes - 60 * MIB
assert result.given_back_share > 0.6, result
assert not result.warnings, result.warnings
assert result.young_objects > 0 and result.near_objects > 0
assert warmswap.status().phase == "background"

back = warmswap.foreground()
assert back.was_background and back.is_unfrozen
assert (hash(bytes(bytearray(block))), hash(str(objects))) == copy
warmswap.launch_done()
assert warmswap.settle(60)
assert warmswap.status().phase == "foreground"
assert warmswap.status().last_return.touched_bytes > 60 * MIB
print(warmswap.status())
"""
    )


def test_what_returns_touch_stays_and_what_they_leave_alone_leaves(script):
    script(
        """
import warmswap
MIB = 1 << 20
used = bytearray(b"u") * (16 * MIB)
unused = bytearray(b"n") * (128 * MIB)
for _ in range(2):
    result = warmswap.background()
    warmswap.foreground()
    assert used.count(b"u") == len(used)
    warmswap.launch_done()
    assert warmswap.settle(60)
result = warmswap.background()
assert result.returns == 2
assert result.kept_learned_bytes >= 15 * MIB, result
assert result.swapped_bytes >= 120 * MIB, result
warmswap.foreground()
warmswap.launch_done()
assert warmswap.settle(60)
assert warmswap.status().last_return.touched_bytes < 8 * MIB
# It learns anew when the use changes.
for _ in range(3):
    warmswap.background()
    warmswap.foreground()
    assert unused.count(b"n") == len(unused)
    warmswap.launch_done()
    warmswap.settle(60)
result = warmswap.background()
assert result.kept_learned_bytes + result.over_budget_bytes > 100 * MIB, result
warmswap.foreground()
warmswap.settle(60)
back = warmswap.status().last_return
assert back.ahead_bytes > 60 * MIB, back
"""
    )


def test_calls_in_any_order_are_harmless(script):
    script(
        """
import warmswap
assert not warmswap.foreground().was_background
warmswap.launch_done()
first = warmswap.background()
second = warmswap.background()
assert second.paged_out_bytes < first.paged_out_bytes
assert warmswap.foreground().was_background
assert not warmswap.foreground().was_background
warmswap.launch_done()
warmswap.launch_done()
assert warmswap.settle(60)
warmswap.background(depth=2**40)
warmswap.foreground()
for bad in ({"depth": -1}, {"keep_share": 2}):
    try:
        warmswap.background(**bad)
    except ValueError:
        continue
    raise AssertionError(bad)
"""
    )


def test_the_collector_is_left_as_it_was(script):
    script(
        """
import gc, weakref, warmswap
class Node:
    pass
# Garbage goes, and what lives is frozen until the return.
node = Node(); node.itself = node
gone = weakref.ref(node); del node
assert warmswap.background().collected == "all"
assert gone() is None and gc.get_freeze_count() > 0 and gc.isenabled()
assert warmswap.foreground(keep_frozen=True).is_unfrozen is False
assert gc.get_freeze_count() > 0
warmswap.launch_done()
assert gc.get_freeze_count() == 0
# A collector that is off stays off.
gc.disable()
assert warmswap.background().collected == "none"
warmswap.foreground()
assert not gc.isenabled()
gc.enable()
# What the program froze stays frozen.
gc.freeze()
count = gc.get_freeze_count()
result = warmswap.background()
assert not result.is_frozen and "froze objects itself" in result.warnings[0]
assert not warmswap.foreground().is_unfrozen
assert gc.get_freeze_count() >= count - 1000
"""
    )


def test_a_finalizer_within_a_call_is_refused_and_one_that_revives_is_fine(script):
    out = script(
        """
import warmswap
alive = []
class Node:
    def __del__(self):
        alive.append(self)
        try:
            warmswap.foreground()
        except warmswap.BusyError as error:
            print(error)
node = Node(); node.itself = node; del node
warmswap.background()
assert warmswap.foreground().was_background
assert alive[0].itself is alive[0]
"""
    )
    assert "within its own call" in out


def test_weak_references_die_as_they_do_without(script):
    script(
        """
import gc, threading, weakref, warmswap
class Big:
    pass
def away():
    warmswap.background(); warmswap.foreground(); warmswap.launch_done(); warmswap.settle(60)
def of_function():
    big = Big(); away()
    return weakref.ref(big)
def of_cell():
    big = Big()
    def inner():
        return big
    away()
    return weakref.ref(inner())
def of_generator():
    def steps():
        big = Big()
        yield weakref.ref(big)
    generator = steps(); ref = next(generator)
    away(); generator.close()
    return ref
def of_thread():
    found, started, leave = [], threading.Event(), threading.Event()
    def work():
        big = Big(); found.append(weakref.ref(big)); started.set(); leave.wait()
    thread = threading.Thread(target=work); thread.start(); started.wait()
    away(); leave.set(); thread.join()
    return found[0]
def of_list():
    kept = [Big()]; ref = weakref.ref(kept[0])
    warmswap.background(keep=kept)
    kept.clear()
    assert ref() is None
    warmswap.foreground(); warmswap.launch_done()
    return ref
gc.disable()
for make in (of_function, of_cell, of_generator, of_thread, of_list):
    assert make()() is None, make.__name__
# And in the background itself.
found = []
def idle():
    big = Big(); found.append(weakref.ref(big)); warmswap.background()
idle()
assert found[0]() is None
"""
    )


def test_objects_that_other_threads_build_are_not_held(script):
    script(
        """
import sys, threading, warmswap
sys.setswitchinterval(1e-5)
errors, done = [], threading.Event()
made = [0, 0]
def work(mine):
    while not done.is_set():
        try:
            assert len(tuple(i for i in range(20_000))) == 20_000
            made[mine] += 1
        except BaseException as error:
            errors.append(error)
            return
threads = [threading.Thread(target=work, args=(mine,)) for mine in range(2)]
for thread in threads: thread.start()
while not errors and min(made) < 200:
    warmswap.background(wait=False); warmswap.foreground()
done.set()
for thread in threads: thread.join()
assert not errors, errors
"""
    )


def test_other_threads_go_on(script):
    script(
        """
import threading, warmswap
stop = threading.Event()
lists = [[] for _ in range(3)]
def work(mine):
    number = 0
    while not stop.is_set():
        mine.append({number: [number]}); number += 1
        if number % 5000 == 0:
            assert all(item[i] == [i] for i, item in enumerate(mine))
            if number >= 20_000:
                mine.clear(); number = 0
threads = [threading.Thread(target=work, args=(mine,)) for mine in lists]
for thread in threads: thread.start()
for _ in range(10):
    warmswap.background()
    warmswap.foreground()
# Two threads at once: one call waits for the other.
def both():
    for _ in range(5):
        warmswap.background(); warmswap.foreground()
callers = [threading.Thread(target=both) for _ in range(2)]
for thread in callers: thread.start()
for thread in callers: thread.join()
stop.set()
for thread in threads: thread.join()
"""
    )


def test_the_child_of_a_fork_is_in_the_foreground(script):
    script(
        """
import gc, os, warmswap
block = bytearray(b"x") * (32 << 20)
warmswap.background()
child = os.fork()
if child == 0:
    ok = warmswap.status().phase == "foreground" and gc.get_freeze_count() == 0
    ok = ok and warmswap.background().is_frozen and warmswap.foreground().was_background
    ok = ok and warmswap.settle(60) and block.count(b"x") == len(block)
    os._exit(0 if ok else 1)
assert os.waitpid(child, 0)[1] == 0
assert warmswap.status().phase == "background"
assert warmswap.foreground().was_background
"""
    )


def test_the_interpreter_ends_in_every_state(script):
    for end in ("", "warmswap.foreground()", "warmswap.foreground(); warmswap.launch_done()"):
        script(
            f"""
import warmswap
block = bytearray(b"x") * (64 << 20)
warmswap.background(wait=False)
{end}
"""
        )


def test_a_page_out_gives_way_to_a_return(script):
    script(
        """
import warmswap
block = bytearray(b"x") * (128 << 20)
result = warmswap.background(wait=False)
assert result.paged_out_bytes == 0
assert warmswap.foreground().was_background
assert warmswap.settle(60)
assert warmswap.status().background is not None
assert block.count(b"x") == len(block)
"""
    )


def test_ctrl_c_ends_a_page_out(script):
    script(
        """
import os, signal, threading, warmswap
# A process in the background of a shell ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
block = bytearray(os.urandom(1 << 20) * 400)
seen = False
# The signal may come before or after the page-out; then it is tried again.
for _ in range(20):
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        warmswap.background()
        timer.join()
    except KeyboardInterrupt:
        seen = True
        break
    warmswap.foreground()
assert seen
assert warmswap.status().phase == "foreground"
warmswap.settle(60)
assert warmswap.background().is_frozen
"""
    )


def test_long_containers_are_not_looked_into():
    from warmswap import _native

    keep = _native.Keep()
    long = [object() for _ in range(100_000)]
    assert keep.add_near([long, [object(), object()]], 1, 1_000_000) == 4
    assert keep.skipped == 1
    # A bound holds, and nothing counts twice.
    assert keep.add_near([[object() for _ in range(5000)]], 2, 1000) == 1000
    assert _native.Keep().add_near([None, None, None], 3, 10) == 1


def test_free_lists_of_modules_are_left_alone(script):
    script(
        """
import asyncio, warmswap
async def wait():
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_result, 1)
    return await future
async def waits():
    return sum(await asyncio.gather(*(wait() for _ in range(500))))
for _ in range(3):
    assert asyncio.run(waits()) == 500
    warmswap.background()
    warmswap.foreground()
"""
    )


def test_no_code_of_the_program_runs_while_objects_are_noted():
    from warmswap import _native

    class Meta(type):
        def __getattribute__(cls, name):
            raise AssertionError(name)

    class Trap(metaclass=Meta):
        __slots__ = ("inner",)

        def __getattribute__(self, name):
            raise AssertionError(name)

        def __len__(self):
            raise AssertionError("len")

        def __sizeof__(self):
            raise AssertionError("sizeof")

        def __hash__(self):
            raise AssertionError("hash")

        def __eq__(self, other):
            raise AssertionError("eq")

    class TrapList(list):
        def __len__(self):
            raise AssertionError("len")

        def __iter__(self):
            raise AssertionError("iter")

    trap = object.__new__(Trap)
    keep = _native.Keep()
    assert keep.add_near([trap, TrapList([trap])], 2, 100) >= 2


def test_a_collection_in_the_background_leaves_old_objects_in_swap(script):
    script(
        """
import gc, warmswap
objects = [{number: [number]} for number in range(200_000)]
warmswap.background()
before = warmswap.status().swapped_bytes
for _ in range(20_000):
    garbage = []; garbage.append(garbage)
gc.collect()
assert before > 40 << 20
assert before - warmswap.status().swapped_bytes < before // 20
# Nor does a return bring them back, or the next background.
for _ in range(2):
    warmswap.foreground()
    warmswap.launch_done()
    warmswap.settle(60)
    assert before - warmswap.status().swapped_bytes < before // 20
    warmswap.background()
    assert before - warmswap.status().swapped_bytes < before // 20
"""
    )


def test_data_that_is_to_stay_does(script):
    pytest.importorskip("pandas", reason="pandas is not installed")
    script(
        """
import numpy as np, pandas as pd, warmswap
from warmswap._data import data_named, data_ranges, words
MIB = 1 << 20
rows = 1 << 20
frame = pd.DataFrame({name: np.arange(rows) + index for index, name in enumerate("abcdefgh")})
frame["kind"] = pd.Categorical.from_codes(np.arange(rows) % 4, list("wxyz"))
frame["maybe"] = pd.array(np.arange(rows) % 7, dtype="Int64")
cells = [words("%time 1\\nprint(frame['b'].sum(), frame.kind.value_counts(), nothing)")]
series = data_named(globals(), cells)
assert sorted(one.name for one in series) == ["b", "kind"]
lengths = sorted(length for _, length in data_ranges(series))
assert lengths == [rows, 8 * rows], lengths
assert sorted(l for _, l in data_ranges([frame.maybe])) == [rows, 8 * rows]
back = np.arange(8)[::-2]
assert data_ranges([back]) == [(back.ctypes.data - 48, 56)]
assert data_ranges([np.empty(0), "text", None, 3]) == []
assert words("this is no Python") == frozenset()
assert data_named(globals(), [words("frame.sum()")]) == []

result = warmswap.background(keep=series, keep_share=0.5)
assert result.kept_data_bytes >= 8 * MIB, result
assert result.swapped_bytes > 50 * MIB
warmswap.foreground()
assert int(frame["b"].sum()) == (rows - 1) * rows // 2 + rows
warmswap.launch_done()
warmswap.settle(60)
assert warmswap.status().last_return.touched_bytes < 8 * MIB
"""
    )
