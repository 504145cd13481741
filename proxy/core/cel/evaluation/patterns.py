"""Calls with a constant pattern, which is compiled with the program."""

from collections.abc import Sequence

from proxy.core.cel.errors import CelCompileError, CelEvaluationError, no_such_overload
from proxy.core.cel.evaluation.costs import cost_rule
from proxy.core.cel.evaluation.frame import Frame, Step
from proxy.core.cel.library.arguments import argument_at
from proxy.core.cel.library.regex import Pattern, compile_pattern, find_all
from proxy.core.cel.values.kinds import OptionalValue, Value


def pattern_call(function: str, pattern: str, steps: tuple[Step, ...], offset: int) -> Step:
    """Return `matches`, `find` or `findAll` with its pattern compiled; raises CelCompileError."""
    try:
        compiled = compile_pattern(pattern)
    except CelEvaluationError as error:
        raise CelCompileError(error.message, offset) from error
    rule = cost_rule(function, ("matches",) if function == "matches" else ())
    assert rule is not None
    subject, rest = steps[0], steps[2:]

    def step(frame: Frame) -> Value:
        # An error ends the call before it counts, except that of the last operand.
        values: list[Value] = [subject(frame), pattern]
        try:
            values += [argument(frame) for argument in rest]
        finally:
            frame.cost += rule(values, None)
        return _apply(function, compiled, values)

    return step


def _apply(function: str, pattern: Pattern, values: Sequence[Value]) -> Value:
    text = _plain(values[0])
    if not isinstance(text, str):
        raise no_such_overload()
    if function == "matches":
        return pattern.search(text) is not None
    if function == "find":
        found = pattern.search(text)
        return "" if found is None else found.group()
    limit = _plain(argument_at(values, 2, -1))
    if type(limit) is not int:
        raise no_such_overload()
    return find_all(pattern, text, limit)


def _plain(value: Value) -> Value:
    # A call with a compiled pattern has no guard of types, and the native one looks through these.
    while isinstance(value, OptionalValue) and value.has_value:
        value = value.value
    return value
