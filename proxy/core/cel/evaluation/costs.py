"""Cost of calls in the units of the native cost tracking.

A call costs one unit unless a rule here says otherwise. Rules go by function, or by overload if the
checker found exactly one.
"""

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from proxy.core.cel.errors import EvaluationAborted
from proxy.core.cel.values.kinds import Cidr, IpAddress, NamedFormat, OptionalValue, Value

# The result is None if the call failed.
CostRule: TypeAlias = Callable[[Sequence[Value], Value], int]

_STRING_FACTOR = 0.1
_REGEX_FACTOR = 0.25
_LIST_COST = 10
_OPAQUE_EQUALITY = frozenset(("IpAddress", "Cidr", "Url", "Quantity", "Semver", "NamedFormat"))


def size_of(value: Value) -> int:
    """Return the size of a value as costs count it: one for a value without a size."""
    if isinstance(value, (str, bytes, list, dict)):
        return len(value)
    if isinstance(value, IpAddress):
        return value.bits // 8
    if isinstance(value, Cidr):
        return math.ceil(value.prefix / 8)
    return 1


def _comparison_size(value: Value) -> int:
    if isinstance(value, OptionalValue) and value.has_value:
        return _comparison_size(value.value)
    return size_of(value)


def _scaled(size: int, factor: float = _STRING_FACTOR) -> int:
    return math.ceil(size * factor)


def _traversal(value: Value) -> int:
    if isinstance(value, str):
        return int(len(value.encode("utf-8", "surrogatepass")) * _STRING_FACTOR)
    if isinstance(value, bytes):
        return int(len(value) * _STRING_FACTOR)
    if isinstance(value, list):
        return sum(map(_traversal, value))
    if isinstance(value, dict):
        return sum(_traversal(key) + _traversal(member) for key, member in value.items())
    return 1


def _first(factor: float) -> CostRule:
    return lambda arguments, _: _scaled(size_of(arguments[0]), factor)


def _regex(arguments: Sequence[Value], _: Value) -> int:
    pattern = _scaled(size_of(arguments[1]), _REGEX_FACTOR)
    return _scaled(1 + size_of(arguments[0])) * pattern


def _contains(arguments: Sequence[Value], _: Value) -> int:
    return _scaled(size_of(arguments[0])) * _scaled(size_of(arguments[1]))


def _smaller(arguments: Sequence[Value], _: Value) -> int:
    return _scaled(min(_comparison_size(arguments[0]), _comparison_size(arguments[1])))


def equality_cost(left: Value, right: Value) -> int:
    """Return the cost of `==`; `!=` has no exception for opaque values."""
    if type(left).__name__ in _OPAQUE_EQUALITY:
        return 1
    return _smaller((left, right), None)


def inequality_cost(left: Value, right: Value) -> int:
    """Return the cost of `!=`."""
    return _smaller((left, right), None)


def _joined(arguments: Sequence[Value], _: Value) -> int:
    return _scaled(_comparison_size(arguments[0]) + _comparison_size(arguments[1]))


def _join(_: Sequence[Value], result: Value) -> int:
    return math.ceil(size_of(result) * 2 * _STRING_FACTOR)


def _contains_ip(arguments: Sequence[Value], _: Value) -> int:
    return _scaled(2 * size_of(arguments[0]))


def _contains_ip_text(arguments: Sequence[Value], _: Value) -> int:
    return _scaled(2 * size_of(arguments[0])) + _scaled(size_of(arguments[1]))


def _contains_cidr(arguments: Sequence[Value], _: Value) -> int:
    size = size_of(arguments[0])
    return _scaled(2 * size) + _scaled(size) + 1


def _contains_cidr_text(arguments: Sequence[Value], _: Value) -> int:
    return _contains_cidr(arguments, None) + _scaled(size_of(arguments[1]))


def _validate(arguments: Sequence[Value], _: Value) -> int:
    named = arguments[0]
    if not isinstance(named, NamedFormat):
        return 1
    return _scaled(1 + size_of(arguments[1])) * _scaled(named.regex_size, _REGEX_FACTOR)


def _allocated(size: int, factor: float = 1.0) -> int:
    return int(size * (factor if factor >= 0 else 1.0)) + 1 + _LIST_COST


def _output_size(_: Sequence[Value], result: Value) -> int:
    return _allocated(_comparison_size(result))


def _flatten(arguments: Sequence[Value], _: Value) -> int:
    return _allocated(_comparison_size(arguments[0]))


def _flatten_depth(arguments: Sequence[Value], _: Value) -> int:
    depth = arguments[1]
    if type(depth) is not int:
        raise EvaluationAborted("internal error: interface conversion: depth is not an int")
    return _allocated(_comparison_size(arguments[0]), float(depth))


def _self_comparison(value: Value) -> int:
    if not isinstance(value, list):
        raise EvaluationAborted("internal error: interface conversion: value is not a list")
    if not value:
        return _allocated(0)
    factor = 2.0 + (_STRING_FACTOR if isinstance(value[0], (str, bytes)) else 0.0)
    return _allocated(len(value) ** 2, factor)


def _sets(factor: int) -> CostRule:
    return lambda arguments, _: 1 + size_of(arguments[0]) * size_of(arguments[1]) * factor


def _over_list(arguments: Sequence[Value], _: Value) -> int:
    return _traversal(arguments[0])


_BY_FUNCTION: dict[str, CostRule] = {
    **dict.fromkeys(
        ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"), _over_list
    ),
    **dict.fromkeys(
        ("url", "lowerAscii", "upperAscii", "substring", "trim", "cidr", "isIP", "isCIDR",
         "quantity", "isQuantity", "semver", "isSemver"),
        _first(_STRING_FACTOR),
    ),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _first(2 * _STRING_FACTOR)),
    **dict.fromkeys(("find", "findAll"), _regex),
    "join": _join,
    "ip": _first(_STRING_FACTOR),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
}  # fmt: skip
_BY_OVERLOAD: dict[str, CostRule] = {
    **dict.fromkeys(("list_slice", "lists_range", "list_reverse"), _output_size),
    "list_flatten": _flatten,
    "list_flatten_int": _flatten_depth,
    **dict.fromkeys(
        ("starts_with_string", "ends_with_string"),
        lambda arguments, _: _scaled(_comparison_size(arguments[1])),
    ),
    **dict.fromkeys(
        ("string_to_bytes", "bytes_to_string", "strings_quote", "string_format"),
        _first(_STRING_FACTOR),
    ),
    **dict.fromkeys(
        [f"{order}_{kind}" for order in ("less", "less_equals", "greater", "greater_equals")
         for kind in ("string", "bytes")],
        _smaller,
    ),
    "list_distinct": lambda arguments, _: _self_comparison(arguments[0]),
    "in_list": lambda arguments, _: _comparison_size(arguments[1]),
    "add_string": _joined,
    "add_bytes": _joined,
    "matches": _regex,
    "matches_string": _regex,
    "contains_string": _contains,
    "cidr_ip": lambda _, __: 1,
    "cidr_contains_ip_string": _contains_ip_text,
    "cidr_contains_cidr_string": _contains_cidr_text,
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}  # fmt: skip


def cost_rule(function: str, overloads: tuple[str, ...]) -> CostRule | None:
    """Return the rule for a call, None if it always costs one unit."""
    overload = overloads[0] if len(overloads) == 1 else ""
    if overload.endswith("_sort"):
        return lambda arguments, _: _self_comparison(arguments[0])
    if overload.endswith("_sortByAssociatedKeys"):
        return lambda arguments, _: _self_comparison(arguments[1])
    return _BY_OVERLOAD.get(overload) or _BY_FUNCTION.get(function)
