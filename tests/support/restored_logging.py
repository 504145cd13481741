"""Logging given back as it was: it is the one thing that all tests of a run share."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_LIBRARIES = ("aiohttp", "asyncio", "kubernetes_asyncio", "urllib3")


@contextmanager
def restored_logging() -> Iterator[None]:
    """Let the log be configured inside, and undo it afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in _LIBRARIES}
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        for name, before in levels.items():
            logging.getLogger(name).setLevel(before)
