"""Attributes: a variable or value with the selections that follow it.

One attribute costs one unit, and each selection one more. A branch of a choice that is an attribute
costs only its selections, because the native evaluation counts it that way.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from proxy.core.cel.errors import CelEvaluationError, no_such_overload
from proxy.core.cel.evaluation.frame import Frame, Step
from proxy.core.cel.values.access import is_key, select, select_if_present
from proxy.core.cel.values.kinds import NONE, OptionalValue, Value


@dataclass(frozen=True, slots=True)
class Qualifier:
    """One selection: by a constant key or by a key that is computed."""

    key: Value = None
    computed: Step | None = None
    is_optional: bool = False
    is_test: bool = False


@dataclass(frozen=True, slots=True)
class PathAttribute:
    """A root and its selections. The root adds no cost if it is a variable."""

    root: Step
    qualifiers: tuple[Qualifier, ...] = ()
    # The name of a variable of the environment, for the fast path.
    variable: str = ""
    is_test: bool = False


@dataclass(frozen=True, slots=True)
class ChoiceAttribute:
    """A choice between two attributes; what is selected from it is selected from both."""

    condition: Step
    chosen: "Attribute"
    other: "Attribute"
    is_test: bool = False


Attribute: TypeAlias = PathAttribute | ChoiceAttribute
# How to select what may be absent, how to select what must be there, and which of them to use.
_Selection: TypeAlias = tuple[
    Callable[[Frame, Value], tuple[bool, Value]], Callable[[Frame, Value], Value], bool
]


def qualified(attribute: Attribute, qualifier: Qualifier) -> Attribute:
    """Return an attribute with one more selection."""
    is_test = attribute.is_test or qualifier.is_test
    if isinstance(attribute, PathAttribute):
        qualifiers = (*attribute.qualifiers, qualifier)
        return replace(attribute, qualifiers=qualifiers, is_test=is_test)
    return replace(
        attribute,
        chosen=qualified(attribute.chosen, qualifier),
        other=qualified(attribute.other, qualifier),
        is_test=is_test,
    )


def attribute_step(attribute: Attribute) -> Step:
    """Return the evaluation of an attribute as a value of its own."""
    if isinstance(attribute, PathAttribute) and attribute.variable and _is_plain(attribute):
        return _plain_path(attribute)
    resolve = resolver(attribute)
    own_cost = int(isinstance(attribute, PathAttribute)) - int(attribute.is_test)
    if attribute.is_test:
        return _test_step(resolve, own_cost)
    if own_cost == 0:
        return resolve

    def step(frame: Frame) -> Value:
        frame.cost += 1
        return resolve(frame)

    return step


def _test_step(resolve: Step, own_cost: int) -> Step:
    def step(frame: Frame) -> Value:
        frame.cost += own_cost
        value = resolve(frame)
        return value.has_value if isinstance(value, OptionalValue) else value

    return step


def _is_plain(attribute: PathAttribute) -> bool:
    return not attribute.is_test and all(
        qualifier.computed is None and not qualifier.is_optional and type(qualifier.key) is str
        for qualifier in attribute.qualifiers
    )


def _plain_path(attribute: PathAttribute) -> Step:
    """Return the fast path for fields of a variable: same outcome and cost as the general way."""
    name = attribute.variable
    keys = tuple([qualifier.key for qualifier in attribute.qualifiers])
    cost = len(keys) + 1
    general = resolver(attribute)

    def step(frame: Frame) -> Value:
        try:
            value = frame.variables[name]
            for key in keys:
                value = value[key]  # type: ignore[index] # what is no dict fails below
                if type(value) is OptionalValue:
                    break
            else:
                frame.cost += cost
                return value
        except (KeyError, TypeError, IndexError):
            pass
        frame.cost += 1
        return general(frame)

    if len(keys) != 1:
        return step
    only = keys[0]

    def short_step(frame: Frame) -> Value:
        source = frame.variables.get(name)
        if type(source) is dict and only in source:
            frame.cost += 2
            return source[only]
        frame.cost += 1
        return general(frame)

    return short_step


def resolver(attribute: Attribute) -> Step:
    """Return the evaluation of an attribute without the cost of the attribute itself."""
    if isinstance(attribute, ChoiceAttribute):
        return _choice(attribute)
    root = attribute.root
    if not attribute.qualifiers:
        return root
    steps = tuple(
        [
            (_present(qualifier), _plain(qualifier), qualifier.is_optional)
            for qualifier in attribute.qualifiers
        ]
    )

    def resolve(frame: Frame) -> Value:
        value = root(frame)
        if isinstance(value, OptionalValue):
            return _follow(frame, value.value, steps) if value.has_value else value
        for index, (_, always, is_optional) in enumerate(steps):
            if is_optional:
                return _follow(frame, value, steps[index:])
            value = always(frame, value)
        return value

    return resolve


def _follow(frame: Frame, value: Value, steps: tuple[_Selection, ...]) -> Value:
    """Return an optional value: after one optional selection all are optional."""
    for if_present, _, _ in steps:
        present, value = if_present(frame, value)
        if not present:
            return NONE
    return OptionalValue(value)


def _choice(attribute: ChoiceAttribute) -> Step:
    condition = attribute.condition
    chosen, other = resolver(attribute.chosen), resolver(attribute.other)

    def resolve(frame: Frame) -> Value:
        value = condition(frame)
        if value is True:
            return chosen(frame)
        if value is False:
            return other(frame)
        raise no_such_overload()

    return resolve


def _key(qualifier: Qualifier) -> Callable[[Frame], Value]:
    computed = qualifier.computed
    if computed is None:
        return lambda _: qualifier.key

    def compute(frame: Frame) -> Value:
        key = computed(frame)
        if not is_key(key):
            raise CelEvaluationError(f"invalid qualifier type: {type(key).__name__}")
        return key

    return compute


def _plain(qualifier: Qualifier) -> Callable[[Frame, Value], Value]:
    if qualifier.is_test:
        return lambda frame, source: _tested(frame, source, qualifier.key)
    key_of = _key(qualifier)

    def apply(frame: Frame, source: Value) -> Value:
        frame.cost += 1
        return select(source, key_of(frame))

    return apply


def _tested(frame: Frame, source: Value, key: Value) -> bool:
    frame.cost += 1
    return select_if_present(source, key)[0]


def _present(qualifier: Qualifier) -> Callable[[Frame, Value], tuple[bool, Value]]:
    key_of = _key(qualifier)

    def apply(frame: Frame, source: Value) -> tuple[bool, Value]:
        present, value = select_if_present(source, key_of(frame))
        if present:
            frame.cost += 1
        return present, value

    return apply
