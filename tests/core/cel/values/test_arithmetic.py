import math

import pytest

from proxy.core.cel.errors import CelEvaluationError
from proxy.core.cel.values.arithmetic import OPERATIONS, negate
from proxy.core.cel.values.kinds import INT_MAX, INT_MIN, UINT_MAX, Duration, Timestamp, Uint


@pytest.mark.parametrize(
    ("operator", "left", "right", "wanted"),
    [
        ("+", 1, 2, 3),
        ("+", 1.5, 1.0, 2.5),
        ("+", Uint(1), Uint(2), Uint(3)),
        ("+", "a", "b", "ab"),
        ("+", b"c", b"d", b"cd"),
        ("+", [1], [2], [1, 2]),
        ("+", Duration(1), Duration(2), Duration(3)),
        ("+", Duration(1), Timestamp(2), Timestamp(3)),
        ("+", Timestamp(2, 60), Duration(1), Timestamp(3, 60)),
        ("-", 1, 2, -1),
        ("-", 1.5, 1.0, 0.5),
        ("-", Uint(2), Uint(1), Uint(1)),
        ("-", Duration(1), Duration(2), Duration(-1)),
        ("-", Timestamp(3), Duration(1), Timestamp(2)),
        ("-", Timestamp(3), Timestamp(1), Duration(2)),
        ("*", 3, 4, 12),
        ("*", 1.5, 2.0, 3.0),
        ("*", Uint(3), Uint(4), Uint(12)),
        ("/", -7, 2, -3),
        ("/", 7, -2, -3),
        ("/", Uint(7), Uint(2), Uint(3)),
        ("/", 1.0, 0.0, math.inf),
        ("/", -1.0, 0.0, -math.inf),
        ("/", 3.0, 2.0, 1.5),
        ("%", -7, 2, -1),
        ("%", 7, -2, 1),
        ("%", Uint(7), Uint(2), Uint(1)),
    ],
)
def test_operations(operator: str, left: object, right: object, wanted: object) -> None:
    assert OPERATIONS[f"_{operator}_"](left, right) == wanted


@pytest.mark.parametrize(
    ("operator", "left", "right", "message"),
    [
        ("+", INT_MAX, 1, "integer overflow"),
        ("-", INT_MIN, 1, "integer overflow"),
        ("*", INT_MAX, 2, "integer overflow"),
        ("/", INT_MIN, -1, "integer overflow"),
        ("%", INT_MIN, -1, "integer overflow"),
        ("/", 1, 0, "division by zero"),
        ("%", 1, 0, "modulus by zero"),
        ("/", Uint(1), Uint(0), "division by zero"),
        ("%", Uint(1), Uint(0), "modulus by zero"),
        ("+", Uint(UINT_MAX), Uint(1), "unsigned integer overflow"),
        ("-", Uint(0), Uint(1), "unsigned integer overflow"),
        ("+", 1, "a", "no such overload"),
        ("+", None, 1, "no such overload: _+_"),
        ("-", "a", "b", "no such overload"),
        ("*", 1, 1.0, "no such overload"),
        ("/", 1, "a", "no such overload"),
        ("%", 1.0, 1.0, "no such overload"),
        ("+", Timestamp(253402300799 * 10**9), Duration(10**9), "timestamp overflow"),
    ],
)
def test_operations_that_fail(operator: str, left: object, right: object, message: str) -> None:
    with pytest.raises(CelEvaluationError) as caught:
        OPERATIONS[f"_{operator}_"](left, right)

    assert caught.value.message == message


def test_zero_by_zero_is_no_number() -> None:
    assert math.isnan(float(str(OPERATIONS["_/_"](0.0, 0.0))))


def test_negation() -> None:
    assert negate(1) == -1
    assert negate(1.5) == -1.5
    assert negate(Duration(1)) == Duration(-1)
    with pytest.raises(CelEvaluationError):
        negate(INT_MIN)
    with pytest.raises(CelEvaluationError):
        negate("a")
