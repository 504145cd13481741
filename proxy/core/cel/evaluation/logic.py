"""Operators that do not evaluate all their operands, or not strictly.

`&&` and `||` absorb an error if another operand decides, before or after it.
"""

from proxy.core.cel.errors import CelEvaluationError, no_such_overload
from proxy.core.cel.evaluation.frame import Frame, Step
from proxy.core.cel.values.kinds import OptionalValue, Value


def logical(terms: tuple[Step, ...], *, deciding: bool) -> Step:
    """Return `||` if true decides, `&&` if false decides."""
    if len(terms) == len(("left", "right")):
        return _logical_pair(terms[0], terms[1], deciding=deciding)

    def step(frame: Frame) -> Value:
        failure: CelEvaluationError | None = None
        for term in terms:
            try:
                value = term(frame)
            except CelEvaluationError as error:
                failure = failure or error
                continue
            if value is deciding:
                return deciding
            if not isinstance(value, bool):
                failure = failure or no_such_overload()
        if failure is not None:
            raise failure
        return not deciding

    return step


def _logical_pair(left: Step, right: Step, *, deciding: bool) -> Step:
    opposite = not deciding

    def step(frame: Frame) -> Value:
        try:
            value = left(frame)
        except CelEvaluationError as error:
            return _absorb(frame, right, error, deciding=deciding)
        if value is deciding:
            return deciding
        if value is not opposite:
            return _absorb(frame, right, no_such_overload(), deciding=deciding)
        value = right(frame)
        if value is deciding or value is opposite:
            return value
        raise no_such_overload()

    return step


def _absorb(frame: Frame, right: Step, failure: CelEvaluationError, *, deciding: bool) -> bool:
    """Return the deciding value if the right operand has it, otherwise fail as the left one."""
    try:
        value = right(frame)
    except CelEvaluationError:
        value = None
    if value is deciding:
        return deciding
    raise failure


def logical_not(operand: Step) -> Step:
    """Return the negation of a bool."""

    def step(frame: Frame) -> Value:
        frame.cost += 1
        value = operand(frame)
        if value is True:
            return False
        if value is False:
            return True
        raise no_such_overload()

    return step


def not_strictly_false(operand: Step) -> Step:
    """Return false for false, and true for everything else including an error."""

    def step(frame: Frame) -> Value:
        frame.cost += 1
        try:
            return operand(frame) is not False
        except CelEvaluationError:
            return True

    return step


def optional_or(left: Step, right: Step, *, unwrap: bool) -> Step:
    """Return `or`, or `orValue` which unwraps the optional value. Neither has a cost."""

    def step(frame: Frame) -> Value:
        value = left(frame)
        if not isinstance(value, OptionalValue):
            raise no_such_overload()
        if not value.has_value:
            return right(frame)
        return value.value if unwrap else value

    return step
