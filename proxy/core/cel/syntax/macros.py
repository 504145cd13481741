"""Macros: calls that stand for a loop, a presence test or a choice.

`expand` returns the tree that is checked and evaluated. The unexpanded tree stays the one that is
printed and partially evaluated.
"""

from collections.abc import Callable
from typing import TypeAlias

from proxy.core.cel.errors import CelCompileError
from proxy.core.cel.syntax.tree import (
    Call,
    Expression,
    Fold,
    Ident,
    ListLiteral,
    Literal,
    MapEntry,
    MapLiteral,
    MessageLiteral,
    Select,
)
from proxy.core.cel.syntax.two_variable_macros import TWO_VARIABLE_MACROS

ACCUMULATOR = "@result"
# The name of the accumulator in older releases, still refused as the name of a variable.
_OLD_ACCUMULATOR = "__result__"
_SORT_INPUT = "@__sortBy_input__"
UNUSED = "#unused"

_TRUE, _FALSE = (Literal(value) for value in (True, False))

Expander: TypeAlias = Callable[[Call], Expression]


def expand(tree: Expression) -> Expression:
    """Return the tree with each macro replaced; raises CelCompileError for malformed arguments."""
    match tree:
        case Select():
            return Select(expand(tree.operand), tree.field_name, tree.test_only, tree.offset)
        case Call():
            return _expand_call(tree)
        case ListLiteral():
            elements = tuple([expand(element) for element in tree.elements])
            return ListLiteral(elements, tree.optional, tree.offset)
        case MapLiteral():
            return _expand_map(tree)
        case _:
            return tree


def _expand_map(tree: MapLiteral) -> Expression:
    entries = [
        MapEntry(expand(entry.key), expand(entry.value), entry.optional) for entry in tree.entries
    ]
    return MapLiteral(tuple(entries), tree.offset)


def is_macro(call: Call) -> bool:
    """Return whether a call is written like a macro."""
    return (call.function, len(call.arguments), call.target is not None) in _MACROS


def _expand_call(call: Call) -> Expression:
    arguments = tuple([expand(argument) for argument in call.arguments])
    target = None if call.target is None else expand(call.target)
    expanded = Call(call.function, arguments, target, call.offset)
    macro = _MACROS.get((call.function, len(arguments), target is not None))
    return expanded if macro is None else macro(expanded)


def _has(call: Call) -> Expression:
    argument = call.arguments[0]
    if not isinstance(argument, Select):
        raise CelCompileError("invalid argument to has() macro", argument.offset)
    return Select(argument.operand, argument.field_name, test_only=True, offset=call.offset)


def _variable(argument: Expression, message: str) -> str:
    if not isinstance(argument, Ident):
        raise CelCompileError(message, argument.offset)
    if argument.name in (ACCUMULATOR, _OLD_ACCUMULATOR):
        raise CelCompileError("iteration variable overwrites accumulator variable", argument.offset)
    return argument.name


def _fold(call: Call, name: str, parts: tuple[Expression, Expression, Expression]) -> Fold:
    assert call.target is not None
    initial, condition, step = parts
    accumulator = Ident(ACCUMULATOR, call.offset)
    return Fold(
        call.target, name, "", ACCUMULATOR, initial, condition, step, accumulator, call.offset
    )


def _all(call: Call) -> Expression:
    name = _variable(call.arguments[0], "argument must be a simple name")
    accumulator = Ident(ACCUMULATOR, call.offset)
    condition = Call("@not_strictly_false", (accumulator,), offset=call.offset)
    step = Call("_&&_", (accumulator, call.arguments[1]), offset=call.offset)
    return _fold(call, name, (_TRUE, condition, step))


def _exists(call: Call) -> Expression:
    name = _variable(call.arguments[0], "argument must be a simple name")
    accumulator = Ident(ACCUMULATOR, call.offset)
    negated = Call("!_", (accumulator,), offset=call.offset)
    condition = Call("@not_strictly_false", (negated,), offset=call.offset)
    step = Call("_||_", (accumulator, call.arguments[1]), offset=call.offset)
    return _fold(call, name, (_FALSE, condition, step))


def _exists_one(call: Call) -> Expression:
    name = _variable(call.arguments[0], "argument must be a simple name")
    assert call.target is not None
    accumulator = Ident(ACCUMULATOR, call.offset)
    more = Call("_+_", (accumulator, Literal(1)), offset=call.offset)
    step = Call("_?_:_", (call.arguments[1], more, accumulator), offset=call.offset)
    result = Call("_==_", (accumulator, Literal(1)), offset=call.offset)
    return Fold(
        call.target, name, "", ACCUMULATOR, Literal(0), _TRUE, step, result, call.offset
    )  # fmt: skip


def _map(call: Call) -> Expression:
    name = _variable(call.arguments[0], "argument is not an identifier")
    accumulator = Ident(ACCUMULATOR, call.offset)
    added = ListLiteral((call.arguments[-1],), offset=call.offset)
    step: Expression = Call("_+_", (accumulator, added), offset=call.offset)
    for condition in call.arguments[1:-1]:
        step = Call("_?_:_", (condition, step, accumulator), offset=call.offset)
    return _fold(call, name, (ListLiteral(()), _TRUE, step))


def _filter(call: Call) -> Expression:
    name = _variable(call.arguments[0], "argument is not an identifier")
    accumulator = Ident(ACCUMULATOR, call.offset)
    added = ListLiteral((call.arguments[0],), offset=call.offset)
    step = Call("_+_", (accumulator, added), offset=call.offset)
    chosen = Call("_?_:_", (call.arguments[1], step, accumulator), offset=call.offset)
    return _fold(call, name, (ListLiteral(()), _TRUE, chosen))


def bind(name: str, value: Expression, result: Expression) -> Fold:
    """Return a loop over nothing whose accumulator is a local variable."""
    return Fold(
        ListLiteral(()), UNUSED, "", name, value, _FALSE, Ident(name), result, result.offset
    )  # fmt: skip


def _optional_map(call: Call) -> Expression:
    return _optional(call, "optMap")


def _optional_flat_map(call: Call) -> Expression:
    return _optional(call, "optFlatMap")


def _optional(call: Call, function: str) -> Expression:
    argument, body = call.arguments
    if not isinstance(argument, Ident):
        raise CelCompileError(
            f"{function}() variable name must be a simple identifier", argument.offset
        )
    bound: Expression = bind(argument.name, Call("value", (), call.target), body)
    if function == "optMap":
        bound = Call("optional.of", (bound,), offset=call.offset)
    has_value = Call("hasValue", (), call.target, call.offset)
    return Call("_?_:_", (has_value, bound, Call("optional.none", ())), offset=call.offset)


def _sort_by(call: Call) -> Expression:
    if isinstance(call.target, (Literal, MapLiteral, MessageLiteral)) or call.target is None:
        raise CelCompileError(
            "sortBy can only be applied to a list, identifier, comprehension, call or select "
            "expression",
            call.offset,
        )
    source = Ident(_SORT_INPUT, call.offset)
    keys = _map(Call("map", call.arguments, source, call.offset))
    return bind(
        _SORT_INPUT, call.target, Call("@sortByAssociatedKeys", (keys,), source, call.offset)
    )


_MACROS: dict[tuple[str, int, bool], Expander] = {
    ("has", 1, False): _has,
    ("all", 2, True): _all,
    ("exists", 2, True): _exists,
    ("exists_one", 2, True): _exists_one,
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
    ("optMap", 2, True): _optional_map,
    ("optFlatMap", 2, True): _optional_flat_map,
    ("sortBy", 2, True): _sort_by,
} | TWO_VARIABLE_MACROS
