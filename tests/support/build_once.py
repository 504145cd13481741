"""Things that tests need and that this machine may not have: made once, or reported missing."""

import os
from typing import NoReturn

import pytest

from proxy.sandbox.go_program import build_once

__all__ = ["build_once", "report_missing"]


def report_missing(reason: str) -> NoReturn:
    """Skip the test for this reason, or fail it where CI=true: there nothing may be missing."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
