import pytest

from proxy.core.cel.checking.types import (
    INT,
    STRING,
    is_equivalent,
    list_of,
    map_of,
    optional_of,
    parameter,
    parse_type,
    type_of,
    unwrap_optional,
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("int", INT),
        ("map(string, list(<A>))", map_of(STRING, list_of(parameter("A")))),
        ("optional_type(int)", optional_of(INT)),
        ("type(int)", type_of(INT)),
    ],
)
def test_a_type_is_read_from_its_text(text: str, wanted: object) -> None:
    assert parse_type(text) == wanted


def test_an_optional_type_is_unwrapped() -> None:
    assert unwrap_optional(optional_of(INT)) == (INT, True)
    assert unwrap_optional(INT) == (INT, False)


def test_types_are_equivalent_up_to_the_names_of_parameters() -> None:
    assert is_equivalent(list_of(parameter("A")), list_of(parameter("B")))
    assert not is_equivalent(list_of(INT), list_of(STRING))
    assert str(map_of(STRING, list_of(INT))) == "map(string, list(int))"
