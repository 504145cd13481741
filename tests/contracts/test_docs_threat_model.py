"""`docs/threat-model.md` and the tests agree: no threat without a test that holds it."""

import re

import pytest

from tests.support.maps import ROOT, collected_tests, named_tests

pytestmark = pytest.mark.timeout(90)  # pytest collects in a process of its own

DOCUMENT = (ROOT / "docs" / "threat-model.md").read_text()
ROW = re.compile(r"^\| ([TL]\d+) \| (.*)$", re.MULTILINE)
REGRESSIONS = {f"R{number}" for number in range(1, 17)}
# What whoever relies on us must have been told, in these words.
LIMITS = (
    "Direct access to the API server bypasses us",
    "Grants are a union",
    "Grants made for the proxy go live natively",
    "Whoever can exec, mint tokens or create pods in our namespace owns the cluster",
    "Groups of cluster administrators other than the protected ones",
    "Replicas differ by mode memory",
    "Service-account mode carries no pod or node extras",
)


def test_threats_and_limits_are_numbered_without_a_gap() -> None:
    numbers = [number for number, _ in ROW.findall(DOCUMENT)]
    threats = [number for number in numbers if number.startswith("T")]
    limits = [number for number in numbers if number.startswith("L")]

    assert threats == [f"T{at}" for at in range(1, len(threats) + 1)]
    assert limits == [f"L{at}" for at in range(1, len(limits) + 1)]
    assert numbers == [*threats, *limits]


def test_every_threat_and_every_limit_names_a_test() -> None:
    assert [number for number, row in ROW.findall(DOCUMENT) if not named_tests(row)] == []


def test_no_row_is_left_unnumbered() -> None:
    naming = [line for line in DOCUMENT.splitlines() if named_tests(line)]

    assert [line for line in naming if not ROW.match(line)] == []


@pytest.mark.parametrize("limit", LIMITS)
def test_what_we_do_not_protect_against_is_said(limit: str) -> None:
    rows = [row for number, row in ROW.findall(DOCUMENT) if number.startswith("L")]

    assert [row for row in rows if limit in row]


def test_every_known_regression_is_somebodys_threat() -> None:
    named = set(re.findall(r"\bR\d+\b", DOCUMENT))

    assert named == REGRESSIONS


def test_every_shown_limit_is_in_the_list() -> None:
    shown = {test for test in collected_tests() if test.startswith("tests/e2e/test_known_limits")}

    assert shown
    assert shown - named_tests(DOCUMENT) == set()


def test_every_test_that_it_names_would_run() -> None:
    assert named_tests(DOCUMENT) - collected_tests() == set()
