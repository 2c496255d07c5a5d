"""Reclaim policies in Python."""

from __future__ import annotations

from typing import Iterable, Protocol


class Reclaim(Protocol):
    """Which resident page leaves: the reclaim slot of a scheme, for :func:`warmswap_lab.replay`.

    Pages are numbers. The engine guarantees: ``insert`` only for a page that the policy does not have; ``touch`` and
    ``remove`` only for one that it has; what ``victims`` gives it has no more. A policy that raises, or gives a page that it
    does not have, ends the replay with that exception.

    Two methods more are called where the policy has them: ``launch_begin(app: int, relaunch: bool)``, when an application
    comes to the foreground, and ``hotness(page: int) -> str`` (``"hot"``, ``"warm"`` or ``"cold"``, for pages that are away,
    too), which schemes with chunk sizes by hotness ask for.
    """

    def insert(self, page: int, app: int, touched: bool) -> object:
        """The page came into memory: by a touch of the application, or along with another page."""

    def touch(self, page: int) -> object:
        """The page was touched while it was in memory."""

    def remove(self, page: int) -> object:
        """The page is freed, or leaves by another's decision."""

    def victims(self, want: int, urgent: bool) -> Iterable[int]:
        """At most ``want`` pages, in the order in which they leave. ``urgent``: a touch waits for them."""
