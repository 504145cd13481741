"""Sizes for every day, and full sizes for `make soak`: the same test, other numbers."""

import os

import pytest

IS_SOAKING = bool(os.environ.get("UNDERSTUDY_SOAK"))
SOAK_SECONDS = 1800

# For tests that take a size from `sized`; `make soak` runs these alone.
soak = pytest.mark.soak


def sized(usual: int, *, full: int) -> int:
    """Return the usual size, or the full one when soaking."""
    return full if IS_SOAKING else usual
