"""A reclaim policy of one's own: SIEVE, in Python, beside the built-in one.

    python own_policy.py traces/mixed.wst

Counts are the same to the last one; time is not: each touch of a resident page is a call.
"""

from __future__ import annotations

import sys
from typing import Iterator, Optional

import warmswap_lab as lab


class Sieve:
    """Pages in the order of their arrival, and a hand that spares what was touched since it last came by."""

    def __init__(self) -> None:
        # A ring of pages, each with the one before and the one after; None closes it.
        self.after: dict[Optional[int], Optional[int]] = {None: None}
        self.before: dict[Optional[int], Optional[int]] = {None: None}
        self.touched: set[int] = set()
        self.hand: Optional[int] = None

    def insert(self, page: int, app: int, touched: bool) -> None:
        newest = self.before[None]
        self.after[newest], self.before[page] = page, newest
        self.after[page], self.before[None] = None, page

    def touch(self, page: int) -> None:
        self.touched.add(page)

    def remove(self, page: int) -> None:
        before, after = self.before.pop(page), self.after.pop(page)
        self.after[before], self.before[after] = after, before
        self.touched.discard(page)
        if self.hand == page:
            self.hand = after

    def victims(self, want: int, urgent: bool) -> Iterator[int]:
        for _ in range(min(want, len(self.after) - 1)):
            while True:
                page = self.hand if self.hand is not None else self.after[None]
                assert page is not None
                self.hand = self.after[page]
                if page not in self.touched:
                    break
                self.touched.discard(page)
            self.remove(page)
            yield page


def main() -> None:
    trace = lab.open(sys.argv[1])
    options = {"scheme": "zram", "budget": "40%", "no_contents": True}
    ours = lab.replay(trace, **options, reclaim=Sieve())
    built_in = lab.replay(trace, **options, set={"reclaim": "sieve"})
    for result in (ours, built_in):
        print(f"{result.data['scheme']}: {result.data['counters']['pool_faults']:,} faults")


if __name__ == "__main__":
    main()
