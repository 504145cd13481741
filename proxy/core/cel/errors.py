"""Errors of expressions.

A compile error means that the expression is unusable. An evaluation error belongs to one input and
is absorbed by `&&`, `||`, `all` and `exists`. An exceeded limit is never absorbed.
"""


class CelCompileError(Exception):
    """An expression that does not parse, does not type-check or exceeds a limit of its size."""

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


class CelEvaluationError(Exception):
    """A failed step of an evaluation, as an operand that `&&` and `||` may absorb."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class EvaluationAborted(Exception):
    """The end of a whole evaluation, which no operator absorbs.

    The native evaluation ends so where it panics: for some operands of the wrong type.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class CostLimitExceeded(EvaluationAborted):
    """An evaluation that was stopped because its counted cost exceeded a limit."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


def no_such_overload(function: str = "", *type_names: str) -> CelEvaluationError:
    """Return the error for operands that no overload accepts."""
    if not function:
        return CelEvaluationError("no such overload")
    if not type_names:
        return CelEvaluationError(f"no such overload: {function}")
    return CelEvaluationError(f"no such overload: {function}({', '.join(type_names)})")
