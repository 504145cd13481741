"""Contract between `docs/protocol.md`, its data file, the tests and the removable guards."""

import subprocess
import sys
from collections.abc import Iterable

import pytest

from tests.mutation.guards import GUARDS
from tests.support.doc_references import ROOT, collected_tests, read_references

pytestmark = pytest.mark.timeout(240)  # pytest collects in a process of its own

DOCUMENT = read_references("protocol")
REASON = "No test: "
SECTIONS = {
    "1.1": 15,
    "1.2": 10,
    "1.3": 7,
    "1.4": 5,
    "2.1": 4,
    "2.2": 6,
    "2.3": 3,
    "2.4": 5,
    "2.5": 2,
    "2.6": 3,
    "2.7": 5,
    "3.1": 9,
    "3.2": 6,
    "3.3": 3,
    "3.4": 3,
    "4": 6,
}
REGRESSION_TESTS = ("tests/scenarios/regressions/", "tests/e2e/test_regressions.py")
ITEMS = [f"{section}.{at}" for section, last in SECTIONS.items() for at in range(1, last + 1)]
REGRESSIONS = [f"R{number}" for number in range(1, 17)]
ACCEPTANCE = [f"A{number}" for number in range(1, 11)]


def test_every_number_has_its_row_in_order() -> None:
    assert [number for number, _ in DOCUMENT.rows] == [*ITEMS, *REGRESSIONS, *ACCEPTANCE]


def test_every_row_names_a_test_or_a_reason() -> None:
    untested = [(number, row) for number, row in DOCUMENT.rows if not DOCUMENT.tests[number]]

    assert [number for number, row in untested if REASON not in row] == []
    assert [number for number, _ in untested if number[0] in "RA"] == []


def test_every_test_that_the_map_names_would_run() -> None:
    assert DOCUMENT.named_tests - collected_tests() == set()


def test_every_module_on_the_map_exists() -> None:
    assert DOCUMENT.missing_modules() == []


def numbered(number: int, tests: Iterable[str]) -> set[str]:
    """Return the tests of one regression among these."""
    return {test for test in tests if f"::test_{number:02}_" in test}


@pytest.mark.parametrize("number", range(1, 17))
def test_every_test_of_a_regression_stands_in_its_row(number: int) -> None:
    regressions = {one for one in collected_tests() if one.startswith(REGRESSION_TESTS)}

    own = numbered(number, regressions)

    assert own
    assert own <= set(DOCUMENT.tests[f"R{number}"])


def test_every_regression_has_a_guard_that_can_be_taken_away() -> None:
    assert set(range(1, 17)) <= set(GUARDS)


def test_every_guard_has_tests_that_would_run() -> None:
    """A guard names its tests, or its number is in the names of tests of regressions."""
    collected = collected_tests()
    regressions = {one for one in collected if one.startswith(REGRESSION_TESTS)}
    missing = [
        number
        for number, guard in GUARDS.items()
        if not (set(guard.tests) <= collected if guard.tests else numbered(number, regressions))
    ]

    assert missing == []


def test_every_guard_is_still_where_it_would_be_taken_away() -> None:
    """All at once, in a process of its own. That their loss is noticed: `make mutants`."""
    remove_all = (
        "from tests.mutation.guards import GUARDS\nfor one in GUARDS.values(): one.remove()"
    )

    done = subprocess.run(
        [sys.executable, "-c", remove_all], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
