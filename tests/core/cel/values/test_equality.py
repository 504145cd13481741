import pytest

from proxy.core.cel.errors import CelEvaluationError
from proxy.core.cel.values.equality import compare_equal, equal, not_equal
from proxy.core.cel.values.kinds import (
    NONE,
    OptionalValue,
    Quantity,
    Timestamp,
    TypeName,
    Uint,
    Url,
)

NAN = float("nan")


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        (1, 1.0, True), (1, Uint(1), True), (1, "1", False), (1, True, False), (True, True, True),
        (NAN, NAN, False), (1.5, 1.5, True), (-1, Uint(1), False), (-1.0, Uint(1), False),
        (None, None, True), (None, 0, False), ("a", "a", True), (b"b", b"b", True),
        ([1, 2], [1.0, 2], True), ([1], [2], False), ([1], "a", False), ([1], [1, 2], False),
        ({"a": 1}, {"a": 1.0}, True), ({"a": 1}, {"b": 1}, False), ({"a": 1}, [1], False),
        ({"a": 1}, {"a": 2}, False),
        (Timestamp(1, 3600), Timestamp(1), True), (Timestamp(1), 1, False),
        (NONE, NONE, True), (OptionalValue(1), NONE, False),
        (OptionalValue(1), OptionalValue(1.0), True), (NONE, 1, False),
        (TypeName("int"), TypeName("int"), True), (Quantity(1, 3), Quantity(1000, 0), True),
        (Url("a", "", "", "", "a:b"), Url("a", "", "", "", "a:b"), True),
        (9007199254740993, 9007199254740992.0, True),
    ],
)  # fmt: skip
def test_equality(left: object, right: object, *, wanted: bool) -> None:
    assert equal(left, right) is wanted
    assert not_equal(left, right) is not wanted


def test_an_opaque_value_refuses_another_type() -> None:
    with pytest.raises(CelEvaluationError, match="no such overload"):
        equal(Quantity(1, 0), 1)
    assert not_equal(Quantity(1, 0), 1) is True
    assert equal([Quantity(1, 0)], [1]) is True
    assert compare_equal(Quantity(1, 0), Quantity(1, 0, is_computed=True)) is None
    assert compare_equal(Quantity(1, 0, is_computed=True), Quantity(1, 0)) is True
