"""Things made once per machine: kept in our cache directory, safe against two makers at a time."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from proxy.sandbox.binaries import announce_on_stderr
from proxy.sandbox.cache import cache_directory, exclusive


def build_once(name: str, build: Callable[[Path], None]) -> Path:
    """Return the cached directory of that name, made by `build` when it is not there yet.

    `build` fills an empty directory. It gets its name only when it is complete, so a crash or an
    error leaves nothing that a later run would take for finished.
    """
    finished = cache_directory().parent / name
    with exclusive(finished, announce_on_stderr):
        if not finished.is_dir():
            unfinished = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=finished.parent))
            try:
                build(unfinished)
                unfinished.rename(finished)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
    return finished


def report_missing(reason: str) -> NoReturn:
    """Skip the test for this reason, or fail it where CI=true: there nothing may be missing."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
