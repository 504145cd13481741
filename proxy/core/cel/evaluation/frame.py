"""The state of one evaluation: variables, local slots and the cost so far."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from proxy.core.cel.errors import CostLimitExceeded
from proxy.core.cel.values.kinds import Value


class Frame:
    """One evaluation of one program."""

    __slots__ = ("cost", "limit", "slots", "variables")

    def __init__(self, variables: Mapping[str, Value], slots: int, limit: int) -> None:
        self.variables = variables
        # A slot holds a value, or the error that computing it gave.
        self.slots: list[Value] = [None] * slots
        self.cost = 0
        self.limit = limit

    def check(self) -> None:
        """Stop the evaluation if its cost exceeds the limit."""
        if self.cost > self.limit:
            raise CostLimitExceeded


# Computes a value or raises CelEvaluationError, and adds its cost to the frame.
Step: TypeAlias = Callable[[Frame], Value]
