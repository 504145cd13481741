"""Operators, conversions and functions of the standard library."""

from collections.abc import Callable, Sequence

from proxy.core.cel.errors import CelEvaluationError, no_such_overload
from proxy.core.cel.library.arguments import Implementation, limited_elements, text_of
from proxy.core.cel.library.regex import compile_pattern
from proxy.core.cel.values import conversion
from proxy.core.cel.values.access import contains, shown
from proxy.core.cel.values.arithmetic import OPERATIONS, negate
from proxy.core.cel.values.equality import compare_equal
from proxy.core.cel.values.kinds import TypeName, Value, type_name
from proxy.core.cel.values.maps import key_value, stored_key
from proxy.core.cel.values.ordering import compare


def _operation(operate: Callable[[Value, Value], Value]) -> Implementation:
    return lambda values: operate(values[0], values[1])


def _sum(values: Sequence[Value]) -> Value:
    left, right = values
    if isinstance(left, list) and isinstance(right, list):
        limited_elements(len(left) + len(right))
    return OPERATIONS["_+_"](left, right)


def _relation(function: str, accepted: frozenset[int]) -> Implementation:
    return lambda values: compare(values[0], values[1], function) in accepted


def _in(values: Sequence[Value]) -> Value:
    item, container = values
    if isinstance(container, list):
        return any(compare_equal(item, element) is True for element in container)
    found = contains(container, item)
    if found is None:
        raise no_such_overload()
    return found


def _size(values: Sequence[Value]) -> Value:
    value = values[0]
    if isinstance(value, (str, bytes, list, dict)):
        return len(value)
    raise no_such_overload("size")


def _text_test(test: Callable[[str, str], bool]) -> Implementation:
    return lambda values: test(text_of(values[0]), text_of(values[1]))


def _matches(values: Sequence[Value]) -> Value:
    if not isinstance(values[0], str):
        raise no_such_overload("matches")
    return compile_pattern(text_of(values[1])).search(values[0]) is not None


def _conversion(convert: Callable[[Value], Value]) -> Implementation:
    return lambda values: convert(values[0])


def _insert(values: Sequence[Value]) -> Value:
    # Only macros call it, and the map is the one that the loop builds.
    target = values[0]
    assert isinstance(target, dict)
    added = values[1]
    for value in values[2:]:
        added = {stored_key(values[1]): value}
    if not isinstance(added, dict):
        raise no_such_overload("cel.@mapInsert", *map(type_name, values))
    for stored, value in added.items():
        if stored in target:
            key = shown(key_value(stored))
            raise CelEvaluationError(f"insert failed: key {key} already exists")
        target[stored] = value
    return target


SINGLETONS: dict[str, Implementation] = {
    **{function: _operation(operate) for function, operate in OPERATIONS.items()},
    "_+_": _sum,
    "-_": lambda values: negate(values[0]),
    "_<_": _relation("_<_", frozenset((-1,))),
    "_<=_": _relation("_<=_", frozenset((-1, 0))),
    "_>_": _relation("_>_", frozenset((1,))),
    "_>=_": _relation("_>=_", frozenset((0, 1))),
    "@in": _in,
    "size": _size,
    "type": lambda values: TypeName(type_name(values[0])),
    "dyn": lambda values: values[0],
    "contains": _text_test(lambda text, part: part in text),
    "startsWith": _text_test(lambda text, part: text.startswith(part)),
    "endsWith": _text_test(lambda text, part: text.endswith(part)),
    "matches": _matches,
    "cel.@mapInsert": _insert,
}
_CONVERSIONS: dict[str, tuple[Callable[[Value], Value], tuple[str, ...]]] = {
    "bool": (conversion.to_bool, ("bool_to_bool", "string_to_bool")),
    "bytes": (conversion.to_bytes, ("bytes_to_bytes", "string_to_bytes")),
    "double": (
        conversion.to_double,
        ("double_to_double", "int64_to_double", "string_to_double", "uint64_to_double"),
    ),
    "duration": (conversion.to_duration, ("duration_to_duration", "string_to_duration")),
    "int": (
        conversion.to_int,
        ("int64_to_int64", "double_to_int64", "duration_to_int64", "string_to_int64",
         "timestamp_to_int64", "uint64_to_int64"),
    ),
    "string": (
        conversion.to_text,
        ("string_to_string", "bool_to_string", "bytes_to_string", "double_to_string",
         "duration_to_string", "int64_to_string", "timestamp_to_string", "uint64_to_string"),
    ),
    "timestamp": (
        conversion.to_timestamp,
        ("timestamp_to_timestamp", "int64_to_timestamp", "string_to_timestamp"),
    ),
    "uint": (
        conversion.to_uint,
        ("uint64_to_uint64", "double_to_uint64", "int64_to_uint64", "string_to_uint64"),
    ),
}  # fmt: skip
OVERLOADS: dict[str, Implementation] = {
    overload: _conversion(convert)
    for convert, overloads in _CONVERSIONS.values()
    for overload in overloads
}
