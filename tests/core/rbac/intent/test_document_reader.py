"""Reader of documents: parsed parts, and each problem with its path."""

import pytest

from proxy.core.rbac.intent.document_reader import DocumentReader

NOT_TEXT = "must be a string that is not empty; quote values that look like numbers"


def test_problems_are_collected_in_order() -> None:
    reader = DocumentReader()
    assert reader.problems == []

    reader.error("$.b", "is wrong")
    reader.error("$.a", "is wrong too")

    assert reader.problems == ["$.b: is wrong", "$.a: is wrong too"]


def test_mapping_is_returned_with_a_problem_for_each_unknown_key() -> None:
    reader = DocumentReader()

    assert reader.mapping({"a": 1}, "$", ("a", "b")) == {"a": 1}
    assert reader.problems == []
    assert reader.mapping({"a": 1, "x": 2, 5: 3}, "$.p", ("a", "b")) == {"a": 1, "x": 2, 5: 3}
    assert reader.problems == [
        "$.p.x: is unknown; known keys are a, b",
        "$.p.5: is unknown; known keys are a, b",
    ]


@pytest.mark.parametrize("value", [None, "text", 5, ["a"], True])
def test_value_that_is_no_mapping_is_a_problem(value: object) -> None:
    reader = DocumentReader()

    assert reader.mapping(value, "$.p", ("a", "b")) is None
    assert reader.problems == ["$.p: must be a mapping of a, b"]


def test_each_entry_of_a_list_is_read_with_its_path() -> None:
    reader = DocumentReader()

    assert list(reader.each(["a", "b"], "$.p", lambda entry, path: (entry, path))) == [
        ("a", "$.p[0]"),
        ("b", "$.p[1]"),
    ]
    assert reader.problems == []


def test_entry_that_does_not_parse_is_left_out_and_the_next_one_is_read() -> None:
    reader = DocumentReader()

    def read(entry: object, path: str) -> str | None:
        if isinstance(entry, str):
            return entry
        reader.error(path, "is no text")
        return None

    assert list(reader.each([1, "a", 2, ""], "$", read)) == ["a", ""]
    assert reader.problems == ["$[0]: is no text", "$[2]: is no text"]


@pytest.mark.parametrize("value", [None, "text", [], (), {"a": 1}, 5])
def test_entries_of_an_empty_list_or_no_list_are_a_problem(value: object) -> None:
    reader = DocumentReader()

    assert list(reader.each(value, "$.p", lambda entry, _: entry)) == []
    assert reader.problems == ["$.p: must be a list that is not empty"]


@pytest.mark.parametrize("value", ["a", " ", "0", "*"])
def test_text_is_returned_unchanged(value: str) -> None:
    reader = DocumentReader()

    assert reader.text(value, "$.p") == value
    assert reader.problems == []


@pytest.mark.parametrize("value", [None, "", 5, 1.5, True, ["a"], b"a"])
def test_value_that_is_no_text_is_a_problem(value: object) -> None:
    reader = DocumentReader()

    assert reader.text(value, "$.p") == ""
    assert reader.problems == [f"$.p: {NOT_TEXT}"]


def test_texts_of_a_list_may_be_empty() -> None:
    reader = DocumentReader()

    assert reader.texts([], "$.p") == []
    assert reader.texts(["a", "b"], "$.p") == ["a", "b"]
    assert reader.problems == []


def test_item_of_texts_that_is_no_text_is_a_problem_at_its_position() -> None:
    reader = DocumentReader()

    reader.texts(["a", 5, ""], "$.p")

    assert reader.problems == [f"$.p[1]: {NOT_TEXT}", f"$.p[2]: {NOT_TEXT}"]


@pytest.mark.parametrize("value", [None, "text", 5, {"a": 1}])
def test_texts_of_no_list_are_one_problem(value: object) -> None:
    reader = DocumentReader()

    assert reader.texts(value, "$.p") == []
    assert reader.some_texts(value, "$.q") == []
    assert reader.problems == ["$.p: must be a list of strings", "$.q: must be a list of strings"]


def test_empty_list_is_a_problem_where_some_texts_are_needed() -> None:
    reader = DocumentReader()

    assert reader.some_texts(["a"], "$.p") == ["a"]
    assert reader.problems == []
    assert reader.some_texts([], "$.p") == []
    assert reader.problems == ["$.p: must not be empty"]


@pytest.mark.parametrize("default", [True, False])
def test_flag_is_the_given_value_or_the_default(*, default: bool) -> None:
    reader = DocumentReader()

    assert reader.flag({}, "f", default=default) is default
    assert reader.flag({"f": True}, "f", default=default) is True
    assert reader.flag({"f": False}, "f", default=default) is False
    assert reader.problems == []


@pytest.mark.parametrize("value", ["true", "no", 1, 0, None])
def test_flag_that_is_no_boolean_is_a_problem(value: object) -> None:
    reader = DocumentReader()

    assert reader.flag({"f": value}, "f", default=True) is True
    assert reader.problems == ["$.f: must be true or false"]
