"""Order of values: bool, bytes, text, times, and numbers across their types."""

from proxy.core.cel.errors import CelEvaluationError, no_such_overload
from proxy.core.cel.values.kinds import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Duration,
    Timestamp,
    Uint,
    Value,
)

_NOT_A_NUMBER = "NaN values cannot be ordered"


def is_ordered(value: Value) -> bool:
    """Return whether a value has an order at all."""
    return type(value) in _KINDS


def compare(left: Value, right: Value, function: str = "") -> int:
    """Return -1, 0 or 1; raises CelEvaluationError for operands without a common order."""
    kind = type(left)
    if kind is int and type(right) is int:
        assert isinstance(left, int)
        assert isinstance(right, int)
        return (left > right) - (left < right)
    if kind not in _KINDS:
        raise no_such_overload(function)
    if kind in _NUMBERS:
        return _numbers(left, right)
    if kind is not type(right):
        raise no_such_overload()
    return _same_kind(left, right)


def _same_kind(left: Value, right: Value) -> int:
    if isinstance(left, str) and isinstance(right, str):
        return _sign(left.encode("utf-8", "surrogatepass"), right.encode("utf-8", "surrogatepass"))
    if isinstance(left, bool) and isinstance(right, bool):
        return (left > right) - (left < right)
    if isinstance(left, bytes) and isinstance(right, bytes):
        return _sign(left, right)
    assert isinstance(left, (Duration, Timestamp))
    assert isinstance(right, (Duration, Timestamp))
    return (left.nanoseconds > right.nanoseconds) - (left.nanoseconds < right.nanoseconds)


_NUMBERS = frozenset((int, Uint, float))
_KINDS = frozenset((bool, int, Uint, float, str, bytes, Duration, Timestamp))


def _sign(left: bytes, right: bytes) -> int:
    return (left > right) - (left < right)


def _numbers(left: Value, right: Value) -> int:
    if isinstance(left, float) and left != left:  # noqa: PLR0124 - only NaN differs from itself
        raise CelEvaluationError(_NOT_A_NUMBER)
    if type(right) not in _NUMBERS:
        raise no_such_overload()
    assert isinstance(left, (int, float, Uint))
    assert isinstance(right, (int, float, Uint))
    if isinstance(left, float):
        return _floats(left, right)
    if isinstance(right, float):
        return -_floats(right, left)
    first = left.value if isinstance(left, Uint) else left
    second = right.value if isinstance(right, Uint) else right
    return (first > second) - (first < second)


def _floats(left: float, right: int | float | Uint) -> int:
    if left != left or right != right:  # noqa: PLR0124 - only NaN differs from itself
        raise CelEvaluationError(_NOT_A_NUMBER)
    if isinstance(right, float):
        return (left > right) - (left < right)
    low, high = (0, UINT_MAX) if isinstance(right, Uint) else (INT_MIN, INT_MAX)
    if left < low:
        return -1
    if left > float(high):
        return 1
    # The native comparison rounds the integer to a double.
    other = float(right.value if isinstance(right, Uint) else right)
    return (left > other) - (left < other)
