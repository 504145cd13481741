"""Functions on lists."""

from collections.abc import Sequence
from functools import cmp_to_key
from itertools import pairwise

from proxy.core.cel.errors import CelEvaluationError, no_such_overload
from proxy.core.cel.library.arguments import (
    MAX_ELEMENTS,
    Implementation,
    argument_at,
    int_of,
    limited_elements,
    list_argument,
)
from proxy.core.cel.values.arithmetic import add
from proxy.core.cel.values.equality import compare_equal
from proxy.core.cel.values.kinds import Duration, Uint, Value, type_name
from proxy.core.cel.values.ordering import compare, is_ordered

_KINDS = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_ZEROS: dict[str, Value] = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}


def _slice(values: Sequence[Value]) -> Value:
    source, start, end = list_argument(values[0]), int_of(values[1]), int_of(values[2])
    if start < 0 or end < 0:
        message = "negative indexes not supported"
    elif start > end:
        message = "start index must be less than or equal to end index"
    elif len(source) < end:
        message = f"list is length {len(source)}"
    else:
        return source[start:end]
    raise CelEvaluationError(f"cannot slice({start}, {end}), {message}")


def _flatten(values: Sequence[Value]) -> Value:
    depth = int_of(argument_at(values, 1, 1))
    if not isinstance(values[0], list):
        raise no_such_overload(f"{type_name(values[0])}.flatten")
    if depth < 0:
        raise CelEvaluationError("level must be non-negative")
    source: list[Value] = values[0]
    while depth > 0 and any(isinstance(element, list) for element in source):
        depth -= 1
        limited_elements(sum([len(part) if isinstance(part, list) else 1 for part in source]))
        source = [
            element for part in source for element in (part if isinstance(part, list) else (part,))
        ]
    return list(source)


def _sort(values: Sequence[Value]) -> Value:
    if not isinstance(values[0], list):
        raise no_such_overload("sort")
    return _sorted(values[0], values[0])


def _sort_by(values: Sequence[Value]) -> Value:
    if not isinstance(values[0], list):
        raise no_such_overload("@sortByAssociatedKeys")
    return _sorted(values[0], list_argument(values[1]))


def _sorted(source: list[Value], keys: list[Value]) -> Value:
    if len(source) != len(keys):
        raise CelEvaluationError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list"
        )
    if not source:
        return source
    if not is_ordered(keys[0]):
        raise CelEvaluationError("list elements must be comparable")
    if len(keys) > 1 and any(type(key) is not type(keys[0]) for key in keys):
        raise CelEvaluationError("list elements must have the same type")

    def order(left: int, right: int) -> int:
        return _compared(keys[left], keys[right])

    return [source[index] for index in sorted(range(len(keys)), key=cmp_to_key(order))]


def _range(values: Sequence[Value]) -> Value:
    count = int_of(values[0])
    if count < 0:
        raise CelEvaluationError(f"lists.range: size must be non-negative, got {count}")
    if count > MAX_ELEMENTS:
        raise CelEvaluationError(
            f"lists.range: size {count} exceeds maximum allowed ({MAX_ELEMENTS})"
        )
    return list(range(count))


def _distinct(values: Sequence[Value]) -> Value:
    unique: list[Value] = []
    for element in list_argument(values[0]):
        if not any(compare_equal(element, other) is True for other in unique):
            unique.append(element)
    return unique


def _is_sorted(values: Sequence[Value]) -> Value:
    elements = list_argument(values[0])
    for element in elements:
        if not is_ordered(element):
            raise no_such_overload()
    return all(_compared(one, other) <= 0 for one, other in pairwise(elements))


def _compared(left: Value, right: Value) -> int:
    # The native function ignores the error of a comparison.
    try:
        return compare(left, right)
    except CelEvaluationError:
        return 0


def _extreme(name: str, preferred: int) -> Implementation:
    def choose(values: Sequence[Value]) -> Value:
        elements = list_argument(values[0])
        for element in elements:
            if not is_ordered(element):
                raise no_such_overload()
        if not elements:
            raise CelEvaluationError(f"{name} called on empty list")
        chosen = elements[0]
        for element in elements[1:]:
            if _compared(chosen, element) == preferred:
                chosen = element
        return chosen

    return choose


def _sum(zero: Value) -> Implementation:
    def total(values: Sequence[Value]) -> Value:
        result = zero
        for element in list_argument(values[0]):
            result = add(result, element)
        return result

    return total


def _index_of(values: Sequence[Value]) -> Value:
    for index, element in enumerate(list_argument(values[0])):
        if compare_equal(element, values[1]) is True:
            return index
    return -1


def _last_index_of(values: Sequence[Value]) -> Value:
    elements = list_argument(values[0])
    for index in range(len(elements) - 1, -1, -1):
        if compare_equal(elements[index], values[1]) is True:
            return index
    return -1


def _includes(values: Sequence[Value]) -> Value:
    target, item = values
    if isinstance(target, list):
        return any(compare_equal(element, item) is True for element in target)
    return compare_equal(target, item) is True


SINGLETONS: dict[str, Implementation] = {
    "flatten": _flatten,
    "sort": _sort,
    "@sortByAssociatedKeys": _sort_by,
}
OVERLOADS: dict[str, Implementation] = {
    "list_slice": _slice,
    "lists_range": _range,
    "list_reverse": lambda values: list_argument(values[0])[::-1],
    "list_distinct": _distinct,
    "list_a_index_of_int": _index_of,
    "list_a_last_index_of_int": _last_index_of,
    "list_includes_dyn_dyn": _includes,
    **{f"list_{kind}_is_sorted_bool": _is_sorted for kind in _KINDS},
    **{f"list_{kind}_max_{kind}": _extreme("max", -1) for kind in _KINDS},
    **{f"list_{kind}_min_{kind}": _extreme("min", 1) for kind in _KINDS},
    **{f"list_{kind}_sum_{kind}": _sum(zero) for kind, zero in _ZEROS.items()},
}
