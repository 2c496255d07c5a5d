"""What can go wrong. A machine without swap is no error: see ``Background.warnings``."""

from __future__ import annotations


class Error(Exception):
    """Base of all errors of this package."""


class PagerError(Error):
    """This process cannot look at its own memory: ``/proc`` is missing, or a sandbox forbids it."""


class BusyError(Error):
    """Called from code that runs within another call, such as a finalizer during its collection."""
