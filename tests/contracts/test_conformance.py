"""`docs/conformance.md` and the tests agree: nothing is missing on either side."""

import re
import string
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.oracle import deviations as oracle
from tests.parity import deviations as parity
from tests.support.ran import FAILED, PASSED

pytestmark = pytest.mark.timeout(90)  # pytest collects in a process of its own

ROOT = Path(__file__).parents[2]
KEP_TESTS = "tests/e2e/kep"
DOCUMENT = (ROOT / "docs" / "conformance.md").read_text()
TEST_ID = re.compile(r"`(tests/[\w/]+\.py::test_\w+)`")
MODULE = re.compile(r"`(proxy/[\w/]+\.py)`")
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


@pytest.fixture(scope="module")
def collected() -> set[str]:
    """Every test that pytest would run in the files that the map names, without parameters."""
    files = {test.partition("::")[0] for test in TEST_ID.findall(DOCUMENT)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", KEP_TESTS, *sorted(files)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    return {line.partition("[")[0] for line in lines if line.startswith("tests/")}


def test_every_test_that_the_map_names_would_run(collected: set[str]) -> None:
    named = set(TEST_ID.findall(DOCUMENT))

    assert named
    assert named - collected == set()


@pytest.mark.last
def test_every_test_that_the_map_names_has_run(request: pytest.FixtureRequest) -> None:
    named = set(TEST_ID.findall(DOCUMENT))
    if named - {item.nodeid.partition("[")[0] for item in request.session.items}:
        pytest.skip("only a run of all tests can tell")

    assert named - PASSED == set()
    assert named & FAILED == set()


def test_every_test_of_the_kep_is_on_the_map(collected: set[str]) -> None:
    kep = {test for test in collected if test.startswith(KEP_TESTS)}

    assert kep
    assert kep - set(TEST_ID.findall(DOCUMENT)) == set()


def test_every_module_on_the_map_exists() -> None:
    assert [name for name in MODULE.findall(DOCUMENT) if not (ROOT / name).is_file()] == []


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
    assert letters[-1] == "j"


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


def test_a_test_of_a_deviation_stands_at_its_letter(collected: set[str]) -> None:
    for letter, _, row in DEVIATION.findall(DOCUMENT):
        prefix = f"{KEP_TESTS}/test_deviations.py::test_{letter}_"
        own = {test for test in collected if test.startswith(prefix)}
        named = set(TEST_ID.findall(row))

        assert own <= named
        assert all(test.startswith(prefix) for test in named if "test_deviations" in test)
