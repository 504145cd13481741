"""Known values as expressions.

A literal may have a narrower static type than the expression that it replaces, and a constant may
be checked when the residual is compiled. Three styles are tried in this order: plain literals,
literals of type dyn, and values that no check looks at.
"""

import math
from enum import Enum
from typing import TypeAlias

from proxy.core.cel.syntax.tree import (
    Call,
    Expression,
    Ident,
    ListLiteral,
    Literal,
    MapEntry,
    MapLiteral,
)
from proxy.core.cel.values.conversion import to_text
from proxy.core.cel.values.kinds import (
    Duration,
    OptionalValue,
    Timestamp,
    TypeName,
    Uint,
    Value,
)
from proxy.core.cel.values.maps import key_value

# Compiles anywhere, fails at run time and is absorbed like any other error.
ERROR_LITERAL = Call("dyn", (Call("_/_", (Literal(1), Literal(0))),))

_Scalar: TypeAlias = bool | int | Uint | str | bytes
# Beyond it the text of a duration, which is a number of seconds, may lose nanoseconds.
_EXACT_DURATION = 2**50


class LiteralStyle(Enum):
    """How a known value is written into a residual."""

    PLAIN = "plain"
    DYN = "dyn"
    OPAQUE = "opaque"


def render(value: Value, style: LiteralStyle) -> Expression | None:
    """Return an expression for a value, None if there is no exact one."""
    rendered = _render(value, style)
    if value == []:
        # A literal `x in []` is false even where `x` is an error.
        return Call("dyn", (ListLiteral(()),))
    if rendered is None or style is LiteralStyle.PLAIN or isinstance(value, OptionalValue):
        return rendered
    wrapped: Expression = Call("dyn", (rendered,))
    if style is LiteralStyle.DYN:
        return wrapped
    return Call("_[_]", (ListLiteral((wrapped,)), Literal(0)))


def _render(value: Value, style: LiteralStyle) -> Expression | None:
    if value is None or isinstance(value, (bool, int, Uint, str, bytes)):
        return Literal(value)
    if isinstance(value, float):
        return Literal(value) if math.isfinite(value) else _call("double", to_text(value))
    if isinstance(value, list):
        return _list(value, style)
    if isinstance(value, dict):
        return _map(value, style)
    return _render_rare(value, style)


def _render_rare(value: Value, style: LiteralStyle) -> Expression | None:
    if isinstance(value, TypeName):
        return _name(value.name)
    if isinstance(value, Timestamp):
        return _call("timestamp", to_text(value))
    if isinstance(value, Duration) and abs(value.nanoseconds) < _EXACT_DURATION:
        return _call("duration", to_text(value))
    if isinstance(value, OptionalValue):
        return _optional(value, style)
    return None


def _call(function: str, text: str) -> Expression:
    return Call(function, (Literal(text),))


def _name(name: str) -> Expression | None:
    return Ident(name) if name.isidentifier() else None


def _optional(value: OptionalValue, style: LiteralStyle) -> Expression | None:
    if not value.has_value:
        return Call("none", (), Ident("optional"))
    inner = render(value.value, style)
    return None if inner is None else Call("of", (inner,), Ident("optional"))


def _list(values: list[Value], style: LiteralStyle) -> Expression | None:
    elements = [render(value, style) for value in values]
    known = tuple([element for element in elements if element is not None])
    return ListLiteral(known) if len(known) == len(elements) else None


def _map(values: dict[object, Value], style: LiteralStyle) -> Expression | None:
    entries: list[MapEntry] = []
    for stored, value in values.items():
        key, member = render(key_value(stored), style), render(value, style)
        if key is None or member is None:
            return None
        entries.append(MapEntry(key, member))
    return MapLiteral(tuple(entries))
