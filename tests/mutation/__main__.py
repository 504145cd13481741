"""`python -m tests.mutation [NUMBER ...]`: take guards away, and see who notices.

First the tests must pass with every guard in place, or their failing would show nothing. Then each
guard is taken away in a process of its own, and a test of its regression must fail.
"""

import re
import subprocess
import sys
from pathlib import Path

from tests.mutation.guards import GUARDS

ROOT = Path(__file__).parents[2]
TESTS = ("tests/scenarios/regressions", "tests/e2e/test_regressions.py")
_PASSED, _FAILED = 0, 1
_SECONDS = 600


def main(numbers: list[int]) -> int:
    """Return 0 if every guard's loss was noticed."""
    chosen = numbers or sorted(GUARDS)
    named = [test for number in chosen for test in GUARDS[number].tests]
    numbered = [number for number in chosen if not GUARDS[number].tests]
    runs = [named] if named else []
    if numbered:
        runs.append(["-k", " or ".join(map(_prefix, numbered)), *TESTS])
    for run in runs:
        whole = _pytest(*run)
        if whole.returncode != _PASSED:
            _say(whole.stdout)
            _say("mutants: the tests fail with every guard in place, so nothing can be shown")
            return 1
    found = [number for number in chosen if _is_noticed(number)]
    _say(f"mutants: {len(found)} of {len(chosen)} found")
    return 0 if found == chosen else 1


def _is_noticed(number: int) -> bool:
    plugin = ("-p", "tests.mutation.plugin", "--without-guard", str(number))
    tests = GUARDS[number].tests
    selected = tests or ("-k", _prefix(number), *TESTS)
    done = _pytest("-x", *plugin, *selected)
    # A test that cannot even start has noticed nothing.
    name = r"\w+" if tests else rf"{_prefix(number)}\w+"
    failed = re.search(rf"^FAILED \S+::({name})", done.stdout, re.MULTILINE)
    is_found = done.returncode == _FAILED and failed is not None
    _say(f"{number:02} {GUARDS[number].name}: {failed[1] if is_found and failed else 'NOT FOUND'}")
    if not is_found:
        _say(done.stdout + done.stderr)
    return is_found


def _prefix(number: int) -> str:
    return f"test_{number:02}_"


def _pytest(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=_SECONDS, check=False
    )


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main([int(argument) for argument in sys.argv[1:]]))
