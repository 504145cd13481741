"""Arguments of functions as Python types.

The overload that was chosen guarantees the type, except where a function takes any type.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from proxy.core.cel.errors import CelEvaluationError, no_such_overload
from proxy.core.cel.values.kinds import Value

Implementation: TypeAlias = Callable[[Sequence[Value]], Value]

# Upstream has no limit for these; without one a short expression could fill the memory.
MAX_ELEMENTS = 1_000_000
MAX_CHARACTERS = 10_000_000


def text_of(value: Value) -> str:
    """Return a text argument."""
    if isinstance(value, str):
        return value
    raise no_such_overload()


def int_of(value: Value) -> int:
    """Return an int argument."""
    if type(value) is int:
        return value
    raise no_such_overload()


def list_argument(value: Value) -> list[Value]:
    """Return a list argument."""
    if isinstance(value, list):
        return value
    raise no_such_overload()


def argument_at(values: Sequence[Value], index: int, default: Value) -> Value:
    """Return an argument that may be left out."""
    return values[index] if index < len(values) else default


def limited_elements(count: int) -> None:
    """Refuse a list that would be too long."""
    if count > MAX_ELEMENTS:
        raise CelEvaluationError(f"list of {count} elements exceeds the limit of {MAX_ELEMENTS}")


def limited_characters(count: int) -> None:
    """Refuse a text that would be too long."""
    if count > MAX_CHARACTERS:
        raise CelEvaluationError(f"text of {count} bytes exceeds the limit of {MAX_CHARACTERS}")
