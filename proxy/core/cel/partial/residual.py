"""Partial evaluation of an expression.

For every value of the unknown variables the residual has the outcome of the expression: true, false
or error. It names no known variable, and it compiles where the expression does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from proxy.core.cel.environment import CelEnvironment, CelProgram
from proxy.core.cel.errors import CelCompileError
from proxy.core.cel.partial.reduction import Failed, Known, Open, Reducer
from proxy.core.cel.partial.rendering import ERROR_LITERAL, LiteralStyle
from proxy.core.cel.syntax.parser import parse
from proxy.core.cel.syntax.printer import print_expression
from proxy.core.cel.syntax.tree import Call, Expression, Literal

Outcome: TypeAlias = Known | Failed | Open


@dataclass(frozen=True, slots=True)
class Residual:
    """What is left of a condition.

    A decided residual has the text `true` or `false`, a failed one that of the error literal.
    """

    text: str
    tree: Expression

    @property
    def decided(self) -> bool | None:
        """Return the value if it does not depend on anything unknown."""
        if isinstance(self.tree, Literal) and isinstance(self.tree.value, bool):
            return self.tree.value
        return None

    @property
    def failed(self) -> bool:
        """Return whether the condition is an error whatever is unknown."""
        return self.tree == ERROR_LITERAL


def partially_evaluate(
    environment: CelEnvironment,
    program: CelProgram,
    known: Mapping[str, object],
    unknown: frozenset[str],
) -> Residual:
    """Return the residual of a condition; raises CelCompileError if none can be written."""
    failure: CelCompileError | None = None
    for style in LiteralStyle:
        reducer = Reducer(environment, known, unknown, style)
        tree = _condition(reducer.reduce(program.tree, as_bool=True), environment)
        try:
            environment.compile_tree(tree)
        except CelCompileError as error:
            failure = error
            continue
        residual = Residual(print_expression(tree), tree)
        if parse(residual.text) == tree:
            return residual
        failure = CelCompileError("the residual cannot be printed")
    assert failure is not None
    raise failure


def _condition(outcome: Outcome, environment: CelEnvironment) -> Expression:
    if isinstance(outcome, Known) and isinstance(outcome.value, bool):
        return Literal(outcome.value)
    if not isinstance(outcome, Open):
        return ERROR_LITERAL
    try:
        is_bool = str(environment.compile_tree(outcome.tree).type) == "bool"
    except CelCompileError:
        return outcome.tree
    # `x == true` would turn the error of a value that is no bool into false.
    return outcome.tree if is_bool else Call("_&&_", (outcome.tree, Literal(value=True)))
