"""Sets as lists, and optional values."""

from collections.abc import Sequence

from proxy.core.cel.errors import CelEvaluationError, no_such_overload
from proxy.core.cel.library.arguments import Implementation, list_argument
from proxy.core.cel.values.equality import compare_equal
from proxy.core.cel.values.kinds import (
    NONE,
    Duration,
    OptionalValue,
    Timestamp,
    Uint,
    Value,
)

_FIRST_YEAR = Timestamp(-62135596800 * 1_000_000_000)


def _is_in(item: Value, elements: list[Value]) -> bool:
    return any(compare_equal(item, element) is True for element in elements)


def _contains(values: Sequence[Value]) -> bool:
    whole, part = list_argument(values[0]), list_argument(values[1])
    return all(_is_in(item, whole) for item in part)


def _intersects(values: Sequence[Value]) -> Value:
    left, right = list_argument(values[0]), list_argument(values[1])
    return any(_is_in(item, right) for item in left)


def _equivalent(values: Sequence[Value]) -> Value:
    return _contains(values) and _contains((values[1], values[0]))


def _optional(value: Value) -> OptionalValue:
    if isinstance(value, OptionalValue):
        return value
    raise no_such_overload()


def _value(values: Sequence[Value]) -> Value:
    optional = _optional(values[0])
    if not optional.has_value:
        raise CelEvaluationError("optional.none() dereference")
    return optional.value


def _of_non_zero(values: Sequence[Value]) -> Value:
    value = values[0]
    if value is None or _is_zero(value):
        return NONE
    return OptionalValue(value)


def _is_zero(value: Value) -> bool:
    if isinstance(value, (bool, int, float, str, bytes, list, dict)):
        return not value
    if isinstance(value, OptionalValue):
        return not value.has_value or _is_zero(value.value) or value.value is None
    return value in (Uint(0), Duration(0)) or (
        isinstance(value, Timestamp) and value.nanoseconds == _FIRST_YEAR.nanoseconds
    )


def _unwrap(values: Sequence[Value]) -> Value:
    unwrapped: list[Value] = []
    for element in list_argument(values[0]):
        if not isinstance(element, OptionalValue):
            raise CelEvaluationError("value is not optional")
        if element.has_value:
            unwrapped.append(element.value)
    return unwrapped


def _end(index: int) -> Implementation:
    def choose(values: Sequence[Value]) -> Value:
        elements = list_argument(values[0])
        return OptionalValue(elements[index]) if elements else NONE

    return choose


OVERLOADS: dict[str, Implementation] = {
    "list_sets_contains_list": _contains,
    "list_sets_intersects_list": _intersects,
    "list_sets_equivalent_list": _equivalent,
    "optional_none": lambda _: NONE,
    "optional_of": lambda values: OptionalValue(values[0]),
    "optional_ofNonZeroValue": _of_non_zero,
    "optional_value": _value,
    "optional_hasValue": lambda values: _optional(values[0]).has_value,
    "optional_unwrap": _unwrap,
    "optional_unwrapOpt": _unwrap,
    "list_first": _end(0),
    "list_last": _end(-1),
}
