"""List and map literals, and membership in a constant list."""

from proxy.core.cel.errors import CelEvaluationError, EvaluationAborted
from proxy.core.cel.evaluation.frame import Frame, Step
from proxy.core.cel.values.kinds import (
    NamedFormat,
    OptionalValue,
    Semver,
    Uint,
    Value,
    type_name,
)
from proxy.core.cel.values.maps import find, stored_key

_LIST_COST, _MAP_COST = 10, 30
_PRIMITIVE = frozenset((bool, int, float, str, Uint))


def list_step(elements: tuple[Step, ...], optional: frozenset[int]) -> Step:
    """Return the evaluation of a list; optional elements without a value are left out."""

    def step(frame: Frame) -> Value:
        frame.cost += _LIST_COST
        if not optional:
            return [element(frame) for element in elements]
        values: list[Value] = []
        for index, element in enumerate(elements):
            value = element(frame)
            if index not in optional:
                values.append(value)
            elif not isinstance(value, OptionalValue):
                raise CelEvaluationError(
                    "cannot initialize optional list element from non-optional value "
                    f"{type_name(value)}"
                )
            elif value.has_value:
                values.append(value.value)
        return values

    return step


def map_step(entries: tuple[tuple[Step, Step, bool], ...]) -> Step:
    """Return the evaluation of a map; of equal keys the last one counts."""

    def step(frame: Frame) -> Value:
        frame.cost += _MAP_COST
        values: dict[object, Value] = {}
        for key_of, value_of, optional in entries:
            key = stored_key(key_of(frame))
            value = value_of(frame)
            if optional:
                if not isinstance(value, OptionalValue):
                    raise CelEvaluationError(
                        "cannot initialize optional entry from non-optional value "
                        f"{type_name(value)}"
                    )
                if not value.has_value:
                    values.pop(key, None)
                    continue
                value = value.value
            values[key] = value
        return values

    return step


def membership_step(item: Step, values: list[Value]) -> Step | None:
    """Return the membership test for a constant list of scalars; it has no cost of its own."""
    if not all(type(value) in _PRIMITIVE for value in values):
        return None
    texts = frozenset([value for value in values if isinstance(value, str)])
    others: dict[object, Value] = {
        stored_key(value): None for value in values if not isinstance(value, str)
    }

    def step(frame: Frame) -> Value:
        value = item(frame)
        if type(value) is str:
            return value in texts
        if isinstance(value, (bytes, Semver, NamedFormat)):
            # The native set of constants panics for a value that has no hash.
            raise EvaluationAborted("internal error: runtime error: hash of unhashable type")
        return type(value) in _PRIMITIVE and find(others, value)[0]

    return step
