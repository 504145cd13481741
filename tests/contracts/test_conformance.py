"""Contract between `docs/conformance.md`, its data file and the tests."""

import re
import string
from types import ModuleType

import pytest

from tests.go_oracle import deviations as oracle
from tests.parity import deviations as parity
from tests.support.doc_references import collected_tests, read_references

pytestmark = pytest.mark.timeout(240)  # pytest collects in a process of its own

KEP_TESTS = "tests/e2e/kep"
DOCUMENT = read_references("conformance")
DEVIATION = re.compile(r"^\| ([a-z]) \| `([A-Z_]+)` \|", re.MULTILINE)
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
    named = DOCUMENT.named_tests

    assert named
    assert named - collected_tests() == set()


def test_every_test_of_the_kep_is_on_the_map() -> None:
    kep = {test for test in collected_tests() if test.startswith(KEP_TESTS)}

    assert kep
    assert kep - DOCUMENT.named_tests == set()


def test_every_module_on_the_map_exists() -> None:
    assert DOCUMENT.missing_modules() == []


def test_the_map_goes_from_goals_to_troubleshooting() -> None:
    headings = re.findall(r"^#{2,3} (.*)$", DOCUMENT.text, re.MULTILINE)

    places = [
        next((place for place, heading in enumerate(headings) if section in heading), None)
        for section in SECTIONS
    ]

    assert None not in places
    assert places == sorted(places, key=lambda place: place or 0)


def test_every_clause_names_a_test() -> None:
    assert [table[0] for table in DOCUMENT.tables if not table[0].startswith("| id |")] == []
    assert DOCUMENT.rows_without_id() == []
    assert [row for row, _ in DOCUMENT.rows if not DOCUMENT.tests[row]] == []


def test_the_letters_of_deviations_are_an_unbroken_list() -> None:
    letters = [letter for letter, _ in DEVIATION.findall(DOCUMENT.text)]

    assert letters == list(string.ascii_lowercase[: len(letters)])
    assert letters[-1] == "r"


@pytest.mark.parametrize("module", [oracle, parity], ids=["oracle", "parity"])
def test_the_runs_count_deviations_by_the_letters_of_the_map(module: ModuleType) -> None:
    counted = {
        name: value
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str) and len(value) == 1
    }
    on_the_map = {name: letter for letter, name in DEVIATION.findall(DOCUMENT.text)}

    assert counted
    assert counted.items() <= on_the_map.items()


def test_a_test_of_a_deviation_stands_at_its_letter() -> None:
    for letter, _ in DEVIATION.findall(DOCUMENT.text):
        prefix = f"{KEP_TESTS}/test_deviations.py::test_{letter}_"
        own = {test for test in collected_tests() if test.startswith(prefix)}
        named = DOCUMENT.tests[letter]

        assert own <= set(named)
        assert all(test.startswith(prefix) for test in named if "test_deviations" in test)
