"""Environments: which variables an expression may use, and what it compiles to.

The three environments share functions and limits and differ in their variables. None of them has
`authorizer`: a condition that uses it does not compile here, so its author is asked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from proxy.core.cel.checking.checker import check
from proxy.core.cel.checking.scope import Scope
from proxy.core.cel.checking.types import BOOL, DYN, CelType
from proxy.core.cel.errors import (
    CelCompileError,
    CelEvaluationError,
    CostLimitExceeded,
    EvaluationAborted,
)
from proxy.core.cel.evaluation.compiler import CompiledTree, compile_tree
from proxy.core.cel.evaluation.frame import Frame
from proxy.core.cel.evaluation.literal_checks import check_literals
from proxy.core.cel.syntax.macros import expand
from proxy.core.cel.syntax.parser import parse
from proxy.core.cel.syntax.tree import Expression
from proxy.core.cel.values.kinds import Value

# Upstream's limit for one evaluation.
EXPRESSION_COST_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True)
class CelOutcome:
    """What an evaluation gave: a value, or an error and why."""

    value: Value
    error: str | None
    cost: int


class CostBudget:
    """The cost that all evaluations of one request may have together."""

    def __init__(self, units: int) -> None:
        self._left = units

    @property
    def left(self) -> int:
        """Return the units that are left."""
        return self._left

    def spend(self, cost: int) -> None:
        """Subtract the cost of an evaluation."""
        self._left = max(0, self._left - cost)


class EvaluationTooLong(Exception):
    """An evaluation that exceeded its slice: repeat it outside the event loop, without a slice."""


@dataclass(frozen=True, slots=True)
class CelProgram:
    """A compiled expression. Evaluations do not influence each other."""

    source: str
    tree: Expression
    type: CelType
    _compiled: CompiledTree = field(repr=False)

    def evaluate(
        self,
        variables: Mapping[str, Value],
        *,
        budget: CostBudget | None = None,
        slice_cost: int | None = None,
    ) -> CelOutcome:
        """Return the outcome for these variables; raises EvaluationTooLong.

        With a `slice_cost` an evaluation that costs more is abandoned, and nothing is subtracted
        from the budget. Evaluations are pure, so the caller may repeat it elsewhere.
        """
        limit = EXPRESSION_COST_LIMIT if budget is None else min(EXPRESSION_COST_LIMIT, budget.left)
        frame_limit = limit if slice_cost is None else min(limit, slice_cost)
        frame = Frame(variables, self._compiled.slots, frame_limit)
        value: Value = None
        error: str | None = None
        try:
            value = self._compiled.step(frame)
            frame.check()
        except CelEvaluationError as failure:
            value, error = None, failure.message
            if frame.cost > frame_limit:
                error = CostLimitExceeded().message
        except EvaluationAborted as failure:
            value, error = None, failure.message
        except RecursionError:
            error = "expression recursion limit exceeded"
        if frame.cost > frame_limit and frame_limit < limit:
            raise EvaluationTooLong
        if budget is not None:
            budget.spend(frame.cost)
        return CelOutcome(value, error, frame.cost)


@dataclass(frozen=True, slots=True)
class CelEnvironment:
    """A set of variables; all of them have the type dyn unless a type is given."""

    variables: Mapping[str, CelType]
    container: str = ""

    def compile(self, source: str) -> CelProgram:
        """Return the program of an expression; raises CelCompileError."""
        return self.compile_tree(parse(source), source)

    def compile_tree(self, tree: Expression, source: str = "") -> CelProgram:
        """Return the program of an unexpanded tree; raises CelCompileError."""
        try:
            checked = check(expand(tree), Scope(dict(self.variables), self.container))
            check_literals(checked)
            return CelProgram(source, tree, checked.type, compile_tree(checked))
        except RecursionError as error:
            raise CelCompileError("expression recursion limit exceeded") from error

    def compile_condition(self, source: str) -> CelProgram:
        """Return the program of an expression whose type is bool; raises CelCompileError."""
        program = self.compile(source)
        if program.type != BOOL:
            raise CelCompileError(f"must evaluate to bool but got {program.type}")
        return program


def _dyn(*names: str) -> CelEnvironment:
    return CelEnvironment(dict.fromkeys(names, DYN))


# The project's own policies: `request` has the attributes of the request.
POLICY_ENVIRONMENT = _dyn(
    "request",
    "impersonatedRequest",
    "object",
    "oldObject",
    "options",
    "operation",
    "namespaceObject",
)
# Conditions that came over the wire: `request` is an AdmissionRequest.
CONDITION_ENVIRONMENT = _dyn("request", "object", "oldObject", "namespaceObject")
# Match conditions of webhook authorizers: `request` is a SubjectAccessReviewSpec.
MATCH_CONDITION_ENVIRONMENT = _dyn("request")
