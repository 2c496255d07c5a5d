"""Machines on which little or nothing can be paged out. These come first: they need swap that is not there."""

from __future__ import annotations

import os
import pathlib
import re
import shutil

import pytest
import zram_swap
from conftest import EXCUSED

MEMINFO = pathlib.Path("/proc/meminfo")


@pytest.fixture
def without_swap(script, tmp_path):
    """Runs a script that sees a machine without swap. Where there is swap, a mount namespace hides it."""
    if zram_swap.swap_total_bytes() == 0:
        return script
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("this machine has swap, and hiding it needs root and unshare")
    text, hidden = re.subn(r"(?m)^(Swap(?:Total|Free|Cached): *)\d+", r"\g<1>0", MEMINFO.read_text())
    assert hidden >= 2
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(text)
    hide = f'mount --bind "{meminfo}" {MEMINFO} && exec "$@"'
    return lambda code: script(code, "unshare", "--mount", "sh", "-c", hide, "sh")


def test_without_swap_it_says_so_and_freezes(without_swap):
    out = without_swap(
        """
import gc, warmswap
result = warmswap.background()
print(result)
assert result.paged_out_bytes == 0 and result.is_frozen and gc.get_freeze_count() > 0
assert warmswap.foreground().is_unfrozen and gc.get_freeze_count() == 0
"""
    )
    assert "this machine has no swap" in out


def test_a_full_swap_is_reported(script):
    if zram_swap.swap_total_bytes() > 0:
        pytest.skip(EXCUSED + "this machine has other swap, which would take what ours has no room for")
    reason = zram_swap.why_not()
    if reason:
        pytest.skip(reason)
    with zram_swap.zram_swap(8 << 20):
        out = script(
            """
import os, warmswap
data = os.urandom(64 << 20)
check = hash(data)
result = warmswap.background(keep_share=0)
print(result)
assert result.paged_out_bytes < 16 << 20
warmswap.foreground()
assert hash(bytes(bytearray(data))) == check
"""
        )
    assert "that were to leave stayed: swap is full" in out
