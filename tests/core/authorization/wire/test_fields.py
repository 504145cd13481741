from collections.abc import Callable

import pytest

from proxy.core.authorization.wire import fields
from proxy.core.authorization.wire.fields import InvalidReview, JSONObject


def test_members_that_are_absent_or_null_are_empty() -> None:
    documents: tuple[JSONObject, ...] = ({}, dict.fromkeys("abcd"))
    for document in documents:
        assert fields.member_text(document, "a", "x") == ""
        assert fields.member_bool(document, "b", "x") is False
        assert fields.member_list(document, "c", "x") is None
        assert fields.member_object(document, "d", "x") is None
        assert fields.member_errors(document, "x") == ()


@pytest.mark.parametrize(
    ("read", "value", "error"),
    [
        (fields.member_text, 1, "x.a: Invalid value: must be a string"),
        (fields.member_bool, 1, "x.a: Invalid value: must be a boolean"),
        (fields.member_bool, "true", "x.a: Invalid value: must be a boolean"),
        (fields.member_list, {}, "x.a: Invalid value: must be a list"),
        (fields.member_object, [], "x.a: Invalid value: must be an object"),
    ],
)
def test_a_member_of_another_type_is_not_valid(
    read: Callable[[JSONObject, str, str], object], value: object, error: str
) -> None:
    with pytest.raises(InvalidReview) as raised:
        read({"a": value}, "a", "x")

    assert str(raised.value) == error


def test_a_list_has_a_size() -> None:
    assert fields.member_list({"a": [1, 2]}, "a", "x", limit=2) == [1, 2]
    with pytest.raises(InvalidReview, match=r"^a: Too many: 3: must have at most 2 items$"):
        fields.member_list({"a": [1, 2, 3]}, "a", "", limit=2)


def test_empty_members_are_left_out_and_false_is_not() -> None:
    document: JSONObject = {"a": "", "b": [], "c": None, "d": False, "e": "x"}

    assert fields.without_empty(document) == {"d": False, "e": "x"}


def test_values_of_errors_are_quoted() -> None:
    with pytest.raises(InvalidReview, match=r'^a: Invalid value: "x\\"": no$'):
        fields.invalid("a", 'x"', "no")
    with pytest.raises(InvalidReview, match=r"^a: Invalid value: \[1\]: no$"):
        fields.invalid("a", [1], "no")
    with pytest.raises(InvalidReview, match=r"^a: Required value$"):
        fields.required("a")
