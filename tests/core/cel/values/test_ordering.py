import pytest

from proxy.core.cel.errors import CelEvaluationError
from proxy.core.cel.values.kinds import Duration, Timestamp, Uint
from proxy.core.cel.values.ordering import compare, is_ordered


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        (1, 2, -1), (2, 1.5, 1), (Uint(3), 3, 0), (1.5, Uint(2), -1), (-1.0, Uint(0), -1),
        (1e300, 1, 1), (Uint(1), 1.5, -1), ("a", "b", -1), (b"b", b"a", 1), (False, True, -1),
        (Duration(1), Duration(1), 0), (Timestamp(2), Timestamp(1), 1), (1.0, 1.0, 0),
        ("\uffff", "\U0001f600", -1),
    ],
)  # fmt: skip
def test_order(left: object, right: object, wanted: int) -> None:
    assert compare(left, right) == wanted


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        (1, "a", "no such overload"),
        ("a", 1, "no such overload"),
        ([1], [2], "no such overload: _<_"),
        (float("nan"), 1, "NaN values cannot be ordered"),
        (float("nan"), "a", "NaN values cannot be ordered"),
        (1, float("nan"), "NaN values cannot be ordered"),
        (True, 1, "no such overload"),
    ],
)
def test_what_has_no_order(left: object, right: object, message: str) -> None:
    with pytest.raises(CelEvaluationError) as caught:
        compare(left, right, "_<_")

    assert caught.value.message == message


def test_a_list_is_not_ordered() -> None:
    assert is_ordered(1)
    assert not is_ordered([1])
