"""Syntax tree of an expression.

Nodes are compared by structure; the offset in the text does not count. Macros are calls until
`syntax.macros` expands them, because only the unexpanded tree can be printed.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from proxy.core.cel.values.kinds import Uint

Scalar: TypeAlias = bool | int | Uint | float | str | bytes | None


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. The name of its type keeps `1`, `1.0` and `true` apart in comparisons."""

    value: Scalar
    offset: int = field(default=0, compare=False)
    type_name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "type_name", type(self.value).__name__)


@dataclass(frozen=True, slots=True)
class Ident:
    """A variable, a type or the first part of a qualified name."""

    name: str
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Select:
    """A selected field. With `test_only` it is the argument of `has`."""

    operand: "Expression"
    field_name: str
    test_only: bool = False
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function, an operator or a macro; with a target it is a member call."""

    function: str
    arguments: "tuple[Expression, ...]"
    target: "Expression | None" = None
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class ListLiteral:
    """A list. `optional` has the indices of elements written with `?`."""

    elements: "tuple[Expression, ...]"
    optional: frozenset[int] = frozenset()
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class MapEntry:
    """A key with its value; an optional entry is left out if its value is none."""

    key: "Expression"
    value: "Expression"
    optional: bool = False


@dataclass(frozen=True, slots=True)
class MapLiteral:
    """A map."""

    entries: tuple[MapEntry, ...]
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class MessageLiteral:
    """A message, which parses but never compiles: there are no message types."""

    type_name: str
    fields: "tuple[tuple[str, Expression, bool], ...]"
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Fold:
    """An expanded macro: a loop over a range with an accumulator."""

    iteration_range: "Expression"
    variable: str
    second_variable: str
    accumulator: str
    initial: "Expression"
    condition: "Expression"
    step: "Expression"
    result: "Expression"
    offset: int = field(default=0, compare=False)


Expression: TypeAlias = (
    Literal | Ident | Select | Call | ListLiteral | MapLiteral | MessageLiteral | Fold
)


def children(node: Expression) -> tuple[Expression, ...]:
    """Return the direct parts of a node in the order of evaluation."""
    match node:
        case Select():
            return (node.operand,)
        case Call():
            return node.arguments if node.target is None else (node.target, *node.arguments)
        case Fold():
            return (node.iteration_range, node.initial, node.condition, node.step, node.result)
        case _:
            return _parts(node)


def _parts(
    node: Literal | Ident | ListLiteral | MapLiteral | MessageLiteral,
) -> tuple[Expression, ...]:
    match node:
        case ListLiteral():
            return node.elements
        case MapLiteral():
            return tuple(part for entry in node.entries for part in (entry.key, entry.value))
        case MessageLiteral():
            return tuple(value for _, value, _ in node.fields)
        case _:
            return ()
