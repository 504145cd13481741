"""Macros with two variables: the index or key, and the element or value."""

from collections.abc import Callable

from proxy.core.cel.errors import CelCompileError
from proxy.core.cel.syntax.tree import (
    Call,
    Expression,
    Fold,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
)

_TRUE, _FALSE = (Literal(value) for value in (True, False))
_ACCUMULATORS = ("@result", "__result__")


def _variables(call: Call) -> tuple[str, str]:
    names: list[str] = []
    for argument in call.arguments[:2]:
        if not isinstance(argument, Ident):
            raise CelCompileError("argument must be a simple name", argument.offset)
        names.append(argument.name)
    if names[0] == names[1]:
        raise CelCompileError(f"duplicate variable name: {names[0]}", call.arguments[1].offset)
    if not set(_ACCUMULATORS).isdisjoint(names):
        raise CelCompileError("iteration variable overwrites accumulator variable", call.offset)
    return names[0], names[1]


def _fold(
    call: Call, initial: Expression, *, condition: Expression, step: Expression, result: Expression
) -> Fold:
    first, second = _variables(call)
    assert call.target is not None
    return Fold(
        call.target,
        first,
        second,
        _ACCUMULATORS[0],
        initial,
        condition,
        step,
        result,
        call.offset,
    )


def _accumulator(call: Call) -> Ident:
    return Ident(_ACCUMULATORS[0], call.offset)


def _all(call: Call) -> Expression:
    accumulator = _accumulator(call)
    return _fold(
        call,
        _TRUE,
        condition=Call("@not_strictly_false", (accumulator,), offset=call.offset),
        step=Call("_&&_", (accumulator, call.arguments[2]), offset=call.offset),
        result=accumulator,
    )


def _exists(call: Call) -> Expression:
    accumulator = _accumulator(call)
    negated = Call("!_", (accumulator,), offset=call.offset)
    return _fold(
        call,
        _FALSE,
        condition=Call("@not_strictly_false", (negated,), offset=call.offset),
        step=Call("_||_", (accumulator, call.arguments[2]), offset=call.offset),
        result=accumulator,
    )


def _exists_one(call: Call) -> Expression:
    accumulator = _accumulator(call)
    more = Call("_+_", (accumulator, Literal(1)), offset=call.offset)
    return _fold(
        call,
        Literal(0),
        condition=_TRUE,
        step=Call("_?_:_", (call.arguments[2], more, accumulator), offset=call.offset),
        result=Call("_==_", (accumulator, Literal(1)), offset=call.offset),
    )


def _transform(call: Call, initial: Expression, step: Expression) -> Expression:
    accumulator = _accumulator(call)
    for condition in call.arguments[2:-1]:
        step = Call("_?_:_", (condition, step, accumulator), offset=call.offset)
    return _fold(
        call,
        initial,
        condition=_TRUE,
        step=step,
        result=accumulator,
    )


def _transform_list(call: Call) -> Expression:
    added = ListLiteral((call.arguments[-1],), offset=call.offset)
    step = Call("_+_", (_accumulator(call), added), offset=call.offset)
    return _transform(call, ListLiteral(()), step)


def _transform_map(call: Call) -> Expression:
    parts = (_accumulator(call), call.arguments[0], call.arguments[-1])
    return _transform(call, MapLiteral(()), Call("cel.@mapInsert", parts, offset=call.offset))


def _transform_map_entry(call: Call) -> Expression:
    parts = (_accumulator(call), call.arguments[-1])
    return _transform(call, MapLiteral(()), Call("cel.@mapInsert", parts, offset=call.offset))


TWO_VARIABLE_MACROS: dict[tuple[str, int, bool], Callable[[Call], Expression]] = {
    ("all", 3, True): _all,
    ("exists", 3, True): _exists,
    ("existsOne", 3, True): _exists_one,
    ("exists_one", 3, True): _exists_one,
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_map_entry,
    ("transformMapEntry", 4, True): _transform_map_entry,
}
