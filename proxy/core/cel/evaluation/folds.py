"""Loops over lists and maps, to which macros expand.

The limit of the cost is checked in each round, so a loop ends soon after exceeding it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from proxy.core.cel.errors import CelEvaluationError
from proxy.core.cel.evaluation.frame import Frame, Step
from proxy.core.cel.values.kinds import Value, type_name
from proxy.core.cel.values.maps import key_value


class Pending:
    """A local variable whose value is computed when it is read first."""

    __slots__ = ("compute",)

    def __init__(self, compute: Step) -> None:
        self.compute = compute


@dataclass(frozen=True, slots=True)
class FoldPlan:
    """The parts of a loop, and the slots of its variables; -1 is no slot."""

    source: Step
    initial: Step
    # A constant initial value is copied at the start, any other is computed when it is read.
    initial_is_constant: bool
    # None stands for a condition that is always true.
    condition: Step | None
    step: Step
    result: Step
    accumulator: int
    first: int
    second: int


def local(slot: int) -> Step:
    """Return the value of a local variable, without the cost of reading it."""

    def step(frame: Frame) -> Value:
        value = frame.slots[slot]
        if isinstance(value, Pending):
            value = frame.slots[slot] = _computed(frame, value.compute)
        if isinstance(value, CelEvaluationError):
            raise value
        return value

    return step


def _computed(frame: Frame, compute: Step) -> Value:
    try:
        return compute(frame)
    except CelEvaluationError as error:
        return error


def fold(plan: FoldPlan) -> Step:
    """Return the evaluation of a loop."""

    def step(frame: Frame) -> Value:
        source = plan.source(frame)
        rounds = _pairs(source) if plan.second >= 0 else _singles(source)
        frame.slots[plan.accumulator] = (
            _fresh(plan.initial(frame)) if plan.initial_is_constant else Pending(plan.initial)
        )
        _run(frame, plan, rounds)
        return plan.result(frame)

    return step


def _run(frame: Frame, plan: FoldPlan, rounds: Iterable[tuple[Value, Value]]) -> None:
    slots, condition, body = frame.slots, plan.condition, plan.step
    for first, second in rounds:
        slots[plan.first] = first
        if plan.second >= 0:
            slots[plan.second] = second
        if condition is not None and not _continues(frame, condition):
            return
        try:
            slots[plan.accumulator] = body(frame)
        except CelEvaluationError as error:
            slots[plan.accumulator] = error
        if frame.cost > frame.limit:
            frame.check()


def _continues(frame: Frame, condition: Step) -> bool:
    try:
        return condition(frame) is not False
    except CelEvaluationError:
        return True


def _fresh(value: Value) -> Value:
    # The loop adds to its list or map in place, and the constant belongs to the program.
    if isinstance(value, list):
        return list(value)
    return dict(value) if isinstance(value, dict) else value


def _singles(source: Value) -> Iterable[tuple[Value, Value]]:
    if isinstance(source, list):
        return ((element, None) for element in source)
    if isinstance(source, dict):
        return ((key_value(stored), None) for stored in source)
    raise CelEvaluationError(f"got '{type_name(source)}', expected iterable type")


def _pairs(source: Value) -> Iterable[tuple[Value, Value]]:
    if isinstance(source, list):
        return enumerate(source)
    if isinstance(source, dict):
        return ((key_value(stored), member) for stored, member in source.items())
    raise CelEvaluationError(f"unsupported comprehension range type: {type_name(source)}")


def append_step(accumulator: Step, element: Step, element_cost: int) -> Step:
    """Return `accumulator + [element]` for the list that a loop builds, in place."""

    def step(frame: Frame) -> Value:
        try:
            target = accumulator(frame)
        except CelEvaluationError:
            _computed(frame, element)
            frame.cost += element_cost + 1
            raise
        try:
            value = element(frame)
        finally:
            frame.cost += element_cost + 1
        assert isinstance(target, list)
        target.append(value)
        return target

    return step
