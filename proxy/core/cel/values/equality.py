"""Equality of values.

Values of different types are unequal, numbers compare across their types. The opaque types of the
libraries are stricter: compared with another type they give an error, which inside a list or map
does not count as unequal. That is how the native environment behaves.
"""

from collections.abc import Callable

from proxy.core.cel.errors import no_such_overload
from proxy.core.cel.values.kinds import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Cidr,
    Duration,
    IpAddress,
    NamedFormat,
    OptionalValue,
    Quantity,
    Semver,
    Timestamp,
    TypeName,
    Uint,
    Url,
    Value,
)
from proxy.core.cel.values.maps import find, key_value

_OPAQUE = (IpAddress, Cidr, Url, Quantity, Semver, NamedFormat)
_SAME_TYPE = frozenset((bool, str, bytes, Duration, TypeName))


def equal(left: Value, right: Value) -> bool:
    """Return whether two values are equal; raises CelEvaluationError for opaque operands."""
    answer = compare_equal(left, right)
    if answer is None:
        raise no_such_overload()
    return answer


def not_equal(left: Value, right: Value) -> bool:
    """Return whether two values are not equal; an opaque left operand counts as unequal."""
    return compare_equal(left, right) is not True


def compare_equal(left: Value, right: Value) -> bool | None:
    """Return whether two values are equal, None where the native comparison gives an error."""
    kind = type(left)
    if kind in _SAME_TYPE:
        return kind is type(right) and left == right
    if left is None or right is None:
        return left is right
    compare = _COMPARISONS.get(kind)
    return _opaque_equal(left, right) if compare is None else compare(left, right)


def _times_equal(left: Value, right: Value) -> bool:
    assert isinstance(left, Timestamp)
    return isinstance(right, Timestamp) and left.nanoseconds == right.nanoseconds


def _opaque_equal(left: Value, right: Value) -> bool | None:
    if type(left) is not type(right) or not isinstance(left, _OPAQUE):
        return None
    if isinstance(left, Quantity) and isinstance(right, Quantity) and right.is_computed:
        # The native sum of two quantities is a pointer, which its own comparison does not accept.
        return None
    if isinstance(left, Url) and isinstance(right, Url):
        return left.text == right.text
    return left == right


def _numbers_equal(left: Value, right: Value) -> bool:
    assert isinstance(left, (int, float, Uint))
    if isinstance(right, bool) or not isinstance(right, (int, float, Uint)):
        return False
    if isinstance(left, float) or isinstance(right, float):
        return _floats_equal(left, right)
    return whole(left) == whole(right)


def whole(number: int | float | Uint) -> int | float:
    """Return the plain number of a value."""
    return number.value if isinstance(number, Uint) else number


def _floats_equal(left: int | float | Uint, right: int | float | Uint) -> bool:
    for number, other in ((left, right), (right, left)):
        if isinstance(number, float) and not isinstance(other, float):
            low, high = (0, UINT_MAX) if isinstance(other, Uint) else (INT_MIN, INT_MAX)
            return low <= number <= float(high) and number == float(whole(other))
    return whole(left) == whole(right)


def _lists_equal(left: Value, right: Value) -> bool:
    assert isinstance(left, list)
    if not isinstance(right, list) or len(left) != len(right):
        return False
    return all(
        compare_equal(one, other) is not False for one, other in zip(left, right, strict=True)
    )


def _maps_equal(left: Value, right: Value) -> bool:
    assert isinstance(left, dict)
    if not isinstance(right, dict) or len(left) != len(right):
        return False
    for stored, value in left.items():
        found, other = find(right, key_value(stored))
        if not found or compare_equal(value, other) is False:
            return False
    return True


def _optionals_equal(left: Value, right: Value) -> bool | None:
    assert isinstance(left, OptionalValue)
    if not isinstance(right, OptionalValue):
        return False
    if not left.has_value or not right.has_value:
        return left.has_value == right.has_value
    if right.value is None and isinstance(left.value, _OPAQUE):
        return None
    return compare_equal(left.value, right.value)


_COMPARISONS: dict[type, Callable[[Value, Value], bool | None]] = {
    int: _numbers_equal,
    float: _numbers_equal,
    Uint: _numbers_equal,
    list: _lists_equal,
    dict: _maps_equal,
    Timestamp: _times_equal,
    OptionalValue: _optionals_equal,
}
