"""Contract between `docs/conformance-5681.md`, its data file and the tests."""

import pytest

from tests.support.doc_references import collected_tests, read_references

pytestmark = pytest.mark.timeout(90)  # pytest collects in a process of its own

DOCUMENT = read_references("conformance-5681")
CLAUSES = (
    *(2, 31, *range(51, 58), *range(65, 69), 79, *range(82, 85), 86, 87, *range(95, 100), 102),
    *(*range(106, 114), 115, 116, *range(119, 129), *range(130, 137), 143, 144, 173, 175, 177),
    *(178, *range(206, 212), 248),
)
OF_THE_MERGED_KEP = (1, 2, 3, 5, 6, 9)


def states() -> dict[str, str]:
    """Return the state of each row."""
    return {row: cells.split(" | ")[1] for row, cells in DOCUMENT.rows}


def test_every_clause_has_one_row() -> None:
    expected = [f"S1-{number:03}" for number in CLAUSES]
    expected += [f"K-{number:03}" for number in OF_THE_MERGED_KEP]

    assert sorted(row for row, _ in DOCUMENT.rows) == sorted(expected)


def test_every_row_that_is_met_has_tests_and_no_other() -> None:
    assert set(states().values()) == {"M", "open", "later"}
    assert [
        row for row, state in states().items() if (state == "M") != bool(DOCUMENT.tests[row])
    ] == []


def test_every_test_that_the_page_names_would_run() -> None:
    assert DOCUMENT.named_tests
    assert DOCUMENT.named_tests - collected_tests() == set()


def test_every_module_on_the_page_exists() -> None:
    assert DOCUMENT.missing_modules() == []
