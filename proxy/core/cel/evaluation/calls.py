"""Calls of functions: the overload that fits the arguments at run time, and the cost."""

from collections.abc import Sequence

from proxy.core.cel.checking.declarations import FUNCTIONS, Overload
from proxy.core.cel.checking.types import CelType, TypeKind
from proxy.core.cel.errors import CelEvaluationError, no_such_overload
from proxy.core.cel.evaluation.costs import (
    CostRule,
    cost_rule,
    equality_cost,
    inequality_cost,
)
from proxy.core.cel.evaluation.frame import Frame, Step
from proxy.core.cel.library.registry import OVERLOADS, SINGLETONS, Implementation
from proxy.core.cel.values.equality import equal, not_equal
from proxy.core.cel.values.kinds import Value, type_name
from proxy.core.cel.values.maps import key_value


def call(function: str, overloads: tuple[str, ...], arguments: tuple[Step, ...]) -> Step:
    """Return the evaluation of a strict call."""
    implementation = _implementation(function, overloads)
    rule = cost_rule(function, overloads)
    if _is_variadic(function, overloads):
        return _n_ary(implementation, rule, arguments)
    match arguments:
        case (argument,):
            return _unary(implementation, rule, argument)
        case (left, right):
            return _binary(implementation, rule, (left, right))
        case _:
            return _n_ary(implementation, rule, arguments)


def _is_variadic(function: str, overloads: tuple[str, ...]) -> bool:
    """Return whether the native evaluation ends such a call at the first failing operand."""
    if function == "format":
        return True
    if function in SINGLETONS or len(overloads) == 1:
        return False
    return len([each for each in FUNCTIONS[function] if each.identifier in OVERLOADS]) > 1


def _unary(implementation: Implementation, rule: CostRule | None, argument: Step) -> Step:
    def step(frame: Frame) -> Value:
        try:
            value = argument(frame)
        except CelEvaluationError as error:
            return _failed(frame, rule, (error,), error)
        return _invoke(frame, implementation, rule, (value,))

    return step


def _binary(
    implementation: Implementation, rule: CostRule | None, operands: tuple[Step, Step]
) -> Step:
    left, right = operands

    def step(frame: Frame) -> Value:
        try:
            first = left(frame)
        except CelEvaluationError as error:
            # The native evaluation evaluates the second operand all the same, and counts it.
            return _failed(frame, rule, (error, _evaluated(frame, right)), error)
        try:
            second = right(frame)
        except CelEvaluationError as error:
            return _failed(frame, rule, (first, error), error)
        return _invoke(frame, implementation, rule, (first, second))

    return step


def _evaluated(frame: Frame, step: Step) -> Value:
    try:
        return step(frame)
    except CelEvaluationError as error:
        return error


def _n_ary(
    implementation: Implementation, rule: CostRule | None, arguments: tuple[Step, ...]
) -> Step:
    def step(frame: Frame) -> Value:
        values: list[Value] = []
        for argument in arguments:
            try:
                values.append(argument(frame))
            except CelEvaluationError as error:
                # An error ends the call before it counts, except that of the last operand.
                if len(values) + 1 < len(arguments):
                    raise
                return _failed(frame, rule, (*values, error), error)
        return _invoke(frame, implementation, rule, tuple(values))

    return step


def _invoke(
    frame: Frame,
    implementation: Implementation,
    rule: CostRule | None,
    values: tuple[Value, ...],
) -> Value:
    if rule is None:
        frame.cost += 1
        return implementation(values)
    try:
        result = implementation(values)
    except CelEvaluationError:
        frame.cost += rule(values, None)
        raise
    frame.cost += rule(values, result)
    return result


def _failed(
    frame: Frame, rule: CostRule | None, values: tuple[Value, ...], error: CelEvaluationError
) -> Value:
    frame.cost += 1 if rule is None else rule(values, None)
    raise error


def equality(left: Step, right: Step, *, negated: bool) -> Step:
    """Return `==` or `!=`."""
    compare = not_equal if negated else equal
    cost = inequality_cost if negated else equality_cost

    def step(frame: Frame) -> Value:
        try:
            first = left(frame)
        except CelEvaluationError as error:
            second = _evaluated(frame, right)
            frame.cost += cost(error, second)
            raise
        try:
            second = right(frame)
        except CelEvaluationError as error:
            frame.cost += cost(first, error)
            raise
        if type(first) is str and type(second) is str:
            frame.cost += (min(len(first), len(second)) + 9) // 10
            return (first == second) is not negated
        frame.cost += cost(first, second)
        return compare(first, second)

    return step


def _implementation(function: str, overloads: tuple[str, ...]) -> Implementation:
    singleton = SINGLETONS.get(function)
    if singleton is not None:
        return singleton
    declared = FUNCTIONS[function]
    if len(overloads) == 1:
        declared = tuple([each for each in declared if each.identifier == overloads[0]])
    known = tuple(
        [
            (overload, OVERLOADS[overload.identifier])
            for overload in declared
            if overload.identifier in OVERLOADS
        ]
    )

    def dispatch(values: Sequence[Value]) -> Value:
        for overload, implementation in known:
            if _accepts(overload, values):
                return implementation(values)
        raise no_such_overload(function, *[type_name(value) for value in values])

    return dispatch


def _accepts(overload: Overload, values: Sequence[Value]) -> bool:
    return len(overload.arguments) == len(values) and all(map(_fits, overload.arguments, values))


def _fits(wanted: CelType, value: Value) -> bool:
    """Return whether a value has a type; of a list or map only the first member is looked at."""
    if wanted.kind in (TypeKind.DYN, TypeKind.PARAMETER):
        return True
    if wanted.name != type_name(value):
        return False
    if isinstance(value, list) and value:
        return _fits(wanted.parameters[0], value[0])
    if isinstance(value, dict) and value:
        stored, member = next(iter(value.items()))
        key_type, value_type = wanted.parameters
        return _fits(key_type, key_value(stored)) and _fits(value_type, member)
    return True
