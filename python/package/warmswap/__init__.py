"""A Python process gives its memory back while it is out of sight, and is quick when it returns.

    import warmswap

    warmswap.background()   # out of sight: page out what a return does not need
    warmswap.foreground()   # its user is back: bring back what returns need

In IPython and Jupyter, ``%load_ext warmswap`` does both by itself, and ``warmswap.follow()`` has the daemon say when.

Paging out changes no value: a page that is asked for comes back from swap.
"""

from __future__ import annotations

import sys as _sys

if not _sys.platform.startswith("linux"):
    raise ImportError(
        "warmswap pages memory through Linux's swap; this is {}".format(_sys.platform)
    )
if _sys.implementation.name != "cpython":
    raise ImportError(
        "warmswap knows the objects of CPython; this is {}".format(_sys.implementation.name)
    )

from ._core import background, configure, follow, foreground, launch_done, settle, status
from ._errors import BusyError, Error, PagerError
from ._ipython import load_ipython_extension, unload_ipython_extension
from ._results import Background, Foreground, Return, Status

__all__ = [
    "Background",
    "BusyError",
    "Error",
    "Foreground",
    "PagerError",
    "Return",
    "Status",
    "background",
    "configure",
    "follow",
    "foreground",
    "launch_done",
    "load_ipython_extension",
    "settle",
    "status",
    "unload_ipython_extension",
]
