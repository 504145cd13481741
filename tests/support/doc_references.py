"""Documents that map what must hold to the tests that show it, held against the tests."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAPS = ("docs/conformance.md", "docs/protocol.md", "docs/threat-model.md")
TEST_ID = re.compile(r"`(tests/[\w/]+\.py::(?:Test\w+::)?test_\w+)`")
MODULE = re.compile(r"`(proxy/[\w/]+\.py)`")


@cache
def collected_tests() -> frozenset[str]:
    """Return every test that pytest would run, without parameters."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    return frozenset(line.partition("[")[0] for line in lines if line.startswith("tests/"))


def named_tests(text: str) -> set[str]:
    """Return the tests that a text names."""
    return set(TEST_ID.findall(text))


def missing_modules(text: str) -> list[str]:
    """Return the modules that a text names and that do not exist."""
    return [name for name in MODULE.findall(text) if not (ROOT / name).is_file()]


def unshown_tests(passed: set[str]) -> list[str]:
    """Return the tests that a map names and that have not passed."""
    return sorted(named_tests("".join((ROOT / one).read_text() for one in MAPS)) - passed)
