"""`docs/conformance.md` and the tests agree: nothing is missing on either side."""

import re
import string
from types import ModuleType

import pytest

from tests.oracle import deviations as oracle
from tests.parity import deviations as parity
from tests.support.maps import (
    ROOT,
    TEST_ID,
    collected_tests,
    missing_modules,
    named_tests,
)

pytestmark = pytest.mark.timeout(90)  # pytest collects in a process of its own

KEP_TESTS = "tests/e2e/kep"
DOCUMENT = (ROOT / "docs" / "conformance.md").read_text()
DEVIATION = re.compile(r"^\| ([a-z]) \| `([A-Z_]+)` \|(.*)$", re.MULTILINE)
SECTIONS = (
    "Goals",
    "Non-Goals",
    "Proposal",
    "User Stories",
    "Risks and Mitigations",
    "Design Details",
    "Auditing",
    "Test Plan",
    "Graduation Criteria",
    "Upgrade / Downgrade Strategy",
    "Version Skew Strategy",
    "Feature Enablement and Rollback",
    "Rollout, Upgrade and Rollback Planning",
    "Monitoring Requirements",
    "Dependencies",
    "Scalability",
    "Troubleshooting",
    "Where the KEP text and the shipped server differ",
    "Deviations",
)


def test_every_test_that_the_map_names_would_run() -> None:
    named = named_tests(DOCUMENT)

    assert named
    assert named - collected_tests() == set()


def test_every_test_of_the_kep_is_on_the_map() -> None:
    kep = {test for test in collected_tests() if test.startswith(KEP_TESTS)}

    assert kep
    assert kep - named_tests(DOCUMENT) == set()


def test_every_module_on_the_map_exists() -> None:
    assert missing_modules(DOCUMENT) == []


def test_the_map_goes_from_goals_to_troubleshooting() -> None:
    headings = re.findall(r"^#{2,3} (.*)$", DOCUMENT, re.MULTILINE)

    places = [
        next((place for place, heading in enumerate(headings) if section in heading), None)
        for section in SECTIONS
    ]

    assert None not in places
    assert places == sorted(places, key=lambda place: place or 0)


def test_every_clause_names_a_test() -> None:
    rows = [line for line in DOCUMENT.splitlines() if line.startswith("| ")]
    clauses = [
        row for row in rows if not row.startswith(("| ---", "| clause", "| KEP", "| letter"))
    ]

    assert [row for row in clauses if not TEST_ID.search(row)] == []


def test_the_letters_of_deviations_are_an_unbroken_list() -> None:
    letters = [letter for letter, _, _ in DEVIATION.findall(DOCUMENT)]

    assert letters == list(string.ascii_lowercase[: len(letters)])
    assert letters[-1] == "q"


@pytest.mark.parametrize("module", [oracle, parity], ids=["oracle", "parity"])
def test_the_runs_count_deviations_by_the_letters_of_the_map(module: ModuleType) -> None:
    counted = {
        name: value
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str) and len(value) == 1
    }
    on_the_map = {name: letter for letter, name, _ in DEVIATION.findall(DOCUMENT)}

    assert counted
    assert counted.items() <= on_the_map.items()


def test_a_test_of_a_deviation_stands_at_its_letter() -> None:
    for letter, _, row in DEVIATION.findall(DOCUMENT):
        prefix = f"{KEP_TESTS}/test_deviations.py::test_{letter}_"
        own = {test for test in collected_tests() if test.startswith(prefix)}
        named = named_tests(row)

        assert own <= named
        assert all(test.startswith(prefix) for test in named if "test_deviations" in test)
