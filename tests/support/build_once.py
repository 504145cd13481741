"""Things that tests need and that this machine may not have: made once, or reported missing."""

import os
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

from proxy.sandbox.programs.go_program import DEFAULT_VARIANT, GoVariant, go_program


def built_by_go(
    name: str,
    source: Path,
    *,
    package: str = ".",
    tags: str = "",
    variant: GoVariant = DEFAULT_VARIANT,
) -> Path:
    """Return a program, built once for its sources; skip or fail the test if Go cannot."""
    try:
        return go_program(name, source, package=package, tags=tags, variant=variant)
    except (OSError, subprocess.SubprocessError) as error:
        details = getattr(error, "stderr", None) or error
        report_missing(f"{name} cannot be built with Go: {details}")


def report_missing(reason: str) -> NoReturn:
    """Skip the test for this reason, or fail it where CI=true: there nothing may be missing."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
