"""Devices of a population, and what they are drawn from."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, Protocol

from . import _engine


class Distribution(Protocol):
    """What a property of devices is drawn from. Its ``repr`` has to say what it is: results are found again by it."""

    def sample(self, rng: random.Random) -> Any:
        """The value for one device."""


@dataclass(frozen=True)
class Choice:
    """One of some values, each as likely as another, or by ``weights``."""

    values: Sequence[Any]
    weights: Optional[Sequence[float]] = None

    def __post_init__(self) -> None:
        if not self.values:
            raise _engine.BadInput("a choice has at least one value")
        if self.weights is not None and (
            len(self.weights) != len(self.values) or min(self.weights) < 0 or sum(self.weights) <= 0
        ):
            raise _engine.BadInput("a choice has a weight for each value, none below 0 and not all of them 0")

    def sample(self, rng: random.Random) -> Any:
        return rng.choices(self.values, self.weights)[0]


@dataclass(frozen=True)
class Uniform:
    """Any number between two, or any whole number where both are whole; both are in it."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise _engine.BadInput(f"a range goes up, not from {self.low} to {self.high}")

    def sample(self, rng: random.Random) -> float:
        if isinstance(self.low, int) and isinstance(self.high, int):
            return rng.randint(self.low, self.high)
        return rng.uniform(self.low, self.high)


@dataclass(frozen=True)
class Devices:
    """What devices are drawn from."""

    memory_gib: Distribution = Choice((2, 4, 4, 6, 12))
    """ezswap, Table 1; ASAP, Table 1 (Pixel 3a); Fleet, section 6; ASAP, Table 1 (Pixel 4); Ariadne, Table 4."""
    available: Distribution = Choice((0.5,))
    """Share of the memory that applications have: 1 of 2 GB, ezswap, section IV-A."""
    flash: Distribution = Choice(("emmc-5.1", "emmc-5.1", "emmc-5.1", "ufs-3.1"))
    """A device of ``warmswap-lab``: ezswap, Table 1 (eMMC 5.0); ASAP, Table 1 (Pixel 3a); Fleet, section 3.2 (20.3 MB/s, as
    ``emmc-5.1`` reads pages); Ariadne, Table 4. Between these is UFS 2.1 (ASAP, Pixel 4), which has no preset."""
    apps: Distribution = Uniform(8, 18)
    """ASAP, Table 2: 8; Ariadne, section 5: 10; ezswap, Table 2: 14; Fleet, Table 3: 18."""
    mix: Distribution = field(default_factory=lambda: Choice(tuple(_engine.profiles())))
    """Statistics of each application: the five of Ariadne's Tables 1 and 3."""
    switches_per_day: Distribution = Uniform(100, 200)
    """More than 100: Ariadne, section 2.3; ASAP, section 1. The upper end is an assumption, in proportion to which figures of a
    day change."""


@dataclass(frozen=True)
class Device:
    """One of them."""

    index: int
    memory_bytes: int
    """What applications have."""
    flash: str
    apps: tuple[str, ...]
    switches_per_day: float
    seed: int
    """That of its trace."""

    @classmethod
    def draw(cls, devices: Devices, seed: int, index: int) -> Device:
        """The device of a number."""

        def rng(name: str) -> random.Random:
            return random.Random(f"{seed} {index} {name}")

        def draw(name: str) -> Any:
            return getattr(devices, name).sample(rng(name))

        mix = rng("mix")
        return cls(
            index=index,
            memory_bytes=int(draw("memory_gib") * draw("available") * 2**30),
            flash=str(draw("flash")),
            apps=tuple(devices.mix.sample(mix) for _ in range(int(draw("apps")))),
            switches_per_day=draw("switches_per_day"),
            seed=rng("trace").getrandbits(63),
        )
