"""Checks of literals after the types are known: homogeneous aggregates, patterns and formats."""

from collections.abc import Sequence

from proxy.core.cel.checking.checker import CheckedTree
from proxy.core.cel.checking.types import CelType, TypeKind, is_equivalent, unwrap_optional
from proxy.core.cel.errors import CelCompileError, CelEvaluationError
from proxy.core.cel.library.regex import compile_pattern
from proxy.core.cel.library.text_format import Clause, parse_format
from proxy.core.cel.syntax.tree import (
    Call,
    Expression,
    ListLiteral,
    Literal,
    MapLiteral,
    children,
)

_INTEGERS = ("int", "uint")
_ACCEPTED = {
    "d": _INTEGERS,
    "f": ("double", "string"),
    "e": ("double", "string"),
    "b": (*_INTEGERS, "bool"),
    "x": (*_INTEGERS, "string", "bytes"),
    "X": (*_INTEGERS, "string", "bytes"),
    "o": _INTEGERS,
    "s": (*_INTEGERS, "list", "map", "double", "bool", "string", "google.protobuf.Timestamp",
          "bytes", "google.protobuf.Duration", "type", "null_type"),
}  # fmt: skip


def check_literals(checked: CheckedTree) -> None:
    """Refuse an expression with a literal that the native validators refuse."""
    todo: list[tuple[Expression, bool]] = [(checked.tree, False)]
    while todo:
        node, exempt = todo.pop()
        if not exempt and isinstance(node, ListLiteral):
            _check_list(checked, node)
        elif not exempt and isinstance(node, MapLiteral):
            _check_map(checked, node)
        elif isinstance(node, Call):
            _check_call(checked, node)
            exempt = exempt or node.function == "format"
        todo.extend([(child, exempt) for child in children(node)])


def _unwrapped(given: CelType, offset: int) -> CelType:
    inner, is_optional = unwrap_optional(given)
    if not is_optional:
        # The native validator panics, so no API server accepts such an expression.
        raise CelCompileError(f"expected an optional value but found '{given}'", offset)
    return inner


def _same(wanted: CelType, given: CelType, offset: int) -> None:
    if not is_equivalent(wanted, given):
        raise CelCompileError(f"expected type '{wanted}' but found '{given}'", offset)


def _check_list(checked: CheckedTree, node: ListLiteral) -> None:
    first: CelType | None = None
    for index, element in enumerate(node.elements):
        given = checked.types[id(element)]
        if index in node.optional:
            given = _unwrapped(given, element.offset)
        first = first or given
        _same(first, given, element.offset)


def _check_map(checked: CheckedTree, node: MapLiteral) -> None:
    keys: CelType | None = None
    values: CelType | None = None
    for entry in node.entries:
        key, value = checked.types[id(entry.key)], checked.types[id(entry.value)]
        if entry.optional:
            value = _unwrapped(value, entry.value.offset)
        keys, values = keys or key, values or value
        _same(keys, key, entry.key.offset)
        _same(values, value, entry.value.offset)


def _check_call(checked: CheckedTree, node: Call) -> None:
    if node.function == "matches" and node.arguments:
        # Of a global call the native validator takes the text for the pattern.
        pattern = node.arguments[0]
        if isinstance(pattern, Literal) and isinstance(pattern.value, str):
            _check_pattern(pattern.value, pattern.offset)
    if node.function == "format" and isinstance(node.target, Literal):
        text, arguments = node.target.value, node.arguments
        if isinstance(text, str) and len(arguments) == 1 and isinstance(arguments[0], ListLiteral):
            _check_format(checked, text, arguments[0].elements, node.offset)


def _check_pattern(pattern: str, offset: int) -> None:
    try:
        compile_pattern(pattern)
    except CelEvaluationError as error:
        raise CelCompileError("invalid matches argument", offset) from error


def _check_format(
    checked: CheckedTree, text: str, arguments: Sequence[Expression], offset: int
) -> None:
    try:
        clauses = [piece for piece in parse_format(text) if isinstance(piece, Clause)]
    except CelEvaluationError as error:
        raise CelCompileError(error.message, offset) from error
    if len(clauses) > len(arguments):
        raise CelCompileError(f"index {len(arguments)} out of range", offset)
    for clause, argument in zip(clauses, arguments, strict=False):
        _check_argument(checked, clause, argument)
    if len(arguments) > len(clauses):
        raise CelCompileError(
            "too many arguments supplied to string.format "
            f"(expected {len(clauses)}, got {len(arguments)})",
            offset,
        )


def _check_argument(checked: CheckedTree, clause: Clause, argument: Expression) -> None:
    given = checked.types[id(argument)]
    if given.kind is not TypeKind.DYN and given.name not in _ACCEPTED[clause.letter]:
        raise CelCompileError(
            f"error during formatting: clause %{clause.letter} cannot be used on {given.name}",
            argument.offset,
        )
    if clause.letter == "s" and isinstance(argument, (ListLiteral, MapLiteral)):
        for part in children(argument):
            _check_argument(checked, clause, part)
