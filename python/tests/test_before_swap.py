"""Machines on which little or nothing can be paged out. These come first: they need swap that is not there."""

from __future__ import annotations

import pytest
import zram_swap


@pytest.fixture
def no_swap():
    if zram_swap.swap_total_bytes() > 0:
        pytest.skip("this machine has swap")


def test_without_swap_it_says_so_and_freezes(no_swap, script):
    out = script(
        """
import gc, warmswap
result = warmswap.background()
print(result)
assert result.paged_out_bytes == 0 and result.is_frozen and gc.get_freeze_count() > 0
assert warmswap.foreground().is_unfrozen and gc.get_freeze_count() == 0
"""
    )
    assert "this machine has no swap" in out


def test_a_full_swap_is_reported(no_swap, script):
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
