"""Reclaim policies in Python."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from collections import OrderedDict
from typing import Any, Iterable

import pytest

import warmswap_lab as lab

EXAMPLE = pathlib.Path(__file__).resolve().parents[1] / "examples/own_policy.py"
LITTLE: dict[str, Any] = {"scheme": "lru", "budget": "40%", "no_contents": True}


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location("own_policy", EXAMPLE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


class Lru:
    """Exact LRU, and the methods of a broken one in the tests below."""

    def __init__(self) -> None:
        self.pages: OrderedDict[int, None] = OrderedDict()

    def insert(self, page: int, app: int, touched: bool) -> None:
        assert page not in self.pages and app >= 0
        self.pages[page] = None
        self.pages.move_to_end(page, last=touched)

    def touch(self, page: int) -> None:
        self.pages.move_to_end(page)

    def remove(self, page: int) -> None:
        del self.pages[page]

    def victims(self, want: int, urgent: bool) -> Iterable[int]:
        return [self.pages.popitem(last=False)[0] for _ in range(min(want, len(self.pages)))]


def without_name(data: Any) -> Any:
    return {name: value for name, value in data.items() if name != "scheme"}


@pytest.mark.parametrize("options", [{}, {"pressure": "full"}, {"files": True, "touches": "faults"}])
def test_lru_in_python_counts_as_the_built_in_one(small: lab.Trace, options: dict[str, Any]) -> None:
    built_in = lab.replay(small, **LITTLE, **options)
    ours = lab.replay(small, **LITTLE, **options, reclaim=Lru())
    assert ours.data["scheme"] == "lru+reclaim=Lru"
    assert without_name(ours.data) == without_name(built_in.data)
    assert ours.data["counters"]["pool_faults"] > 0


def test_the_examples_sieve_counts_as_the_built_in_one(small: lab.Trace) -> None:
    built_in = lab.replay(small, **LITTLE, set={"reclaim": "sieve"})
    ours = lab.replay(small, **LITTLE, reclaim=example("Sieve")())
    assert without_name(ours.data) == without_name(built_in.data)


def test_a_policy_hears_of_launches_and_says_how_hot_pages_are(small: lab.Trace) -> None:
    class Heard(Lru):
        launches = 0
        asked = 0

        def launch_begin(self, app: int, relaunch: bool) -> None:
            assert isinstance(relaunch, bool)
            self.launches += 1

        def hotness(self, page: int) -> str:
            self.asked += 1
            return "warm"

    policy = Heard()
    lab.replay(small, scheme="ariadne", budget="40%", no_contents=True, reclaim=policy)
    assert policy.launches > 0 and policy.asked > 0


def test_what_a_policy_raises_is_raised_and_the_next_replay_is_whole(small: lab.Trace) -> None:
    class Broken(Lru):
        def touch(self, page: int) -> None:
            raise ZeroDivisionError(f"page {page}")

    with pytest.raises(ZeroDivisionError, match="page"):
        lab.replay(small, **LITTLE, reclaim=Broken())
    assert lab.replay(small, **LITTLE, reclaim=Lru()).data["totals"]["events"] == len(small)


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        ([0, 0], ValueError, "gave it before"),
        ([4_000_000_000], ValueError, "page 4000000000, which is not in memory"),
        ([-1], OverflowError, ""),
        (["a page"], TypeError, ""),
        (7, TypeError, ""),
        (None, TypeError, ""),
    ],
)
def test_nonsense_for_victims_is_reported(small: lab.Trace, wrong: Any, error: type[Exception], words: str) -> None:
    class Broken(Lru):
        def victims(self, want: int, urgent: bool) -> Any:
            first = next(iter(self.pages))
            return [first if page == 0 else page for page in wrong] if isinstance(wrong, list) else wrong

    with pytest.raises(error, match=words or None):
        lab.replay(small, **LITTLE, reclaim=Broken())


def test_more_victims_than_were_asked_for_are_reported(small: lab.Trace) -> None:
    class Broken(Lru):
        def victims(self, want: int, urgent: bool) -> Iterable[int]:
            return super().victims(want + 1, urgent)

    with pytest.raises(ValueError, match="gave more than"):
        lab.replay(small, **LITTLE, reclaim=Broken())


def test_a_policy_that_gives_nothing_up_costs_kills_and_no_hang(small: lab.Trace) -> None:
    class Miser(Lru):
        def victims(self, want: int, urgent: bool) -> Iterable[int]:
            return ()

    data = lab.replay(small, **LITTLE, reclaim=Miser()).data
    assert data["totals"]["events"] == len(small)
    assert data["totals"]["kills"] > 0


def test_what_is_no_policy_is_named(small: lab.Trace) -> None:
    with pytest.raises(TypeError, match=r"object is no reclaim policy: it has no method insert\(\)"):
        lab.replay(small, **LITTLE, reclaim=object())  # type: ignore[arg-type]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="as new as its notes")
def test_notes_of_its_exception_are_kept(small: lab.Trace) -> None:
    class Broken(Lru):
        def victims(self, want: int, urgent: bool) -> Iterable[int]:
            error = RuntimeError("no idea")
            error.add_note(f"wanted {want}")
            raise error

    with pytest.raises(RuntimeError) as raised:
        lab.replay(small, **LITTLE, reclaim=Broken())
    assert raised.value.__notes__[0].startswith("wanted ")
    assert raised.traceback[-1].name == "victims"
