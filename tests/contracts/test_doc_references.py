"""Contract between the documents whose rows are backed by tests and their data files."""

from pathlib import Path

import pytest

from tests.support.doc_references import (
    DOCUMENTS,
    TEST_ID,
    DocumentReferences,
    parse_tests,
    read_references,
    unshown_tests,
)

MAX_CELL_CHARACTERS = 200


def test_a_named_test_that_has_not_passed_is_found() -> None:
    named = {test for name in DOCUMENTS for test in read_references(name).named_tests}
    one = min(named)

    assert len(named) > 100
    assert unshown_tests(named) == []
    assert unshown_tests(named - {one}) == [one]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_document_and_data_file_have_the_same_rows_in_the_same_order(name: str) -> None:
    document = read_references(name)

    assert list(document.tests) == [row for row, _ in document.rows]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_row_of_a_table_with_ids_has_one(name: str) -> None:
    assert read_references(name).rows_without_id() == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_tests_are_named_in_the_data_file_only(name: str) -> None:
    assert TEST_ID.findall(read_references(name).text) == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_row_names_each_of_its_tests_once(name: str) -> None:
    tests = read_references(name).tests

    assert [row for row, named in tests.items() if len(named) != len(set(named))] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_table_cell_is_long(name: str) -> None:
    rows = [row for table in read_references(name).tables for row in table]
    cells = [cell.strip() for row in rows for cell in row.strip("|").split(" | ")]

    assert [cell for cell in cells if len(cell) > MAX_CELL_CHARACTERS] == []


def test_row_without_an_id_is_found() -> None:
    text = "| id | threat |\n| --- | --- |\n| T1 | one |\n| two | three |\n"

    document = DocumentReferences(text, {})

    assert document.rows == [("T1", "one")]
    assert document.rows_without_id() == ["| two | three |"]


def test_table_without_ids_needs_none() -> None:
    text = "| what | why |\n| --- | --- |\n| two | three |\n"

    assert DocumentReferences(text, {}).rows_without_id() == []


def test_module_that_does_not_exist_is_found() -> None:
    document = DocumentReferences("`proxy/__main__.py` and `proxy/none.py`", {})

    assert document.missing_modules() == ["proxy/none.py"]


def test_document_is_read_with_its_data_file(tmp_path: Path) -> None:
    (tmp_path / "one.md").write_text("text")
    (tmp_path / "one.tests.yaml").write_text("T1: [a, b]\nT2: []\n")

    assert read_references("one", tmp_path) == DocumentReferences(
        "text", {"T1": ("a", "b"), "T2": ()}
    )


def test_ids_that_yaml_takes_for_numbers_or_booleans_are_text() -> None:
    assert parse_tests("4.10: [a]\nno: [b]\n") == {"4.10": ("a",), "no": ("b",)}


@pytest.mark.parametrize("text", ["", "- a\n", "T1: a\n", "T1:\n", "T1: [a]\nT2: [b]\nT1: [c]\n"])
def test_malformed_data_file_is_an_error(text: str) -> None:
    with pytest.raises((TypeError, ValueError)):
        parse_tests(text)
