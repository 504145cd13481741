"""Contract between `docs/threat-model.md`, its data file and the tests."""

import re

import pytest

from tests.support.doc_references import collected_tests, read_references

pytestmark = pytest.mark.timeout(240)  # pytest collects in a process of its own

DOCUMENT = read_references("threat-model")
REGRESSIONS = {f"R{number}" for number in range(1, 17)}
# Limits that the document must state in these words.
LIMITS = (
    "Direct access to the API server bypasses the proxy",
    "Grants are a union",
    "Grants made for the proxy take effect in kube-apiserver",
    "Permission to exec, mint tokens or create pods in the proxy's namespace gives control of the"
    " cluster",
    "Groups of cluster administrators other than the protected ones",
    "Replicas have separate mode caches",
    "Service-account mode carries no pod or node extras",
)


def test_threats_and_limits_are_numbered_without_a_gap() -> None:
    numbers = [number for number, _ in DOCUMENT.rows]
    threats = [number for number in numbers if number.startswith("T")]
    limits = [number for number in numbers if number.startswith("L")]

    assert threats == [f"T{at}" for at in range(1, len(threats) + 1)]
    assert limits == [f"L{at}" for at in range(1, len(limits) + 1)]
    assert numbers == [*threats, *limits]


def test_every_threat_and_every_limit_names_a_test() -> None:
    assert [number for number, _ in DOCUMENT.rows if not DOCUMENT.tests[number]] == []


def test_no_row_is_left_unnumbered() -> None:
    assert DOCUMENT.rows_without_id() == []


@pytest.mark.parametrize("limit", LIMITS)
def test_what_we_do_not_protect_against_is_said(limit: str) -> None:
    rows = [row for number, row in DOCUMENT.rows if number.startswith("L")]

    assert [row for row in rows if limit in row]


def test_every_known_regression_is_somebodys_threat() -> None:
    named = set(re.findall(r"\bR\d+\b", DOCUMENT.text))

    assert named == REGRESSIONS


def test_every_shown_limit_is_in_the_list() -> None:
    shown = {test for test in collected_tests() if test.startswith("tests/e2e/test_known_limits")}

    assert shown
    assert shown - DOCUMENT.named_tests == set()


def test_every_test_that_it_names_would_run() -> None:
    assert DOCUMENT.named_tests - collected_tests() == set()
