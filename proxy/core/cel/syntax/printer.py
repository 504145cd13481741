"""Printer: a syntax tree as text, so that parsing the text gives the same tree again."""

from collections.abc import Callable
from typing import TypeGuard

from proxy.core.cel.syntax.tree import (
    Call,
    Expression,
    Fold,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    MessageLiteral,
    Select,
)
from proxy.core.cel.values.kinds import Uint

_CHOICE, _OR, _AND, _RELATION, _SUM, _PRODUCT, _UNARY, _MEMBER = range(8)
_BINARY = {
    "_||_": _OR, "_&&_": _AND,
    "_<_": _RELATION, "_<=_": _RELATION, "_>_": _RELATION, "_>=_": _RELATION,
    "_==_": _RELATION, "_!=_": _RELATION, "@in": _RELATION,
    "_+_": _SUM, "_-_": _SUM, "_*_": _PRODUCT, "_/_": _PRODUCT, "_%_": _PRODUCT,
}  # fmt: skip
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_FIRST_PRINTABLE, _DELETE = 0x20, 0x7F
_IDENTIFIER_CHARACTERS = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
)
_KEYWORDS = frozenset(("in", "true", "false", "null"))


def print_expression(tree: Expression) -> str:
    """Return the text of an unexpanded tree."""
    match tree:
        case Literal():
            return _literal(tree)
        case Ident():
            return tree.name
        case Select():
            return f"{_inner(tree.operand, _MEMBER)}.{_field(tree.field_name)}"
        case Call():
            return _call(tree)
        case Fold():
            raise ValueError("an expanded macro cannot be printed")
        case _:
            return _aggregate(tree)


def _aggregate(tree: ListLiteral | MapLiteral | MessageLiteral) -> str:
    if isinstance(tree, MapLiteral):
        return f"{{{', '.join(_entries(tree))}}}"
    if isinstance(tree, ListLiteral):
        parts = [
            ("?" if index in tree.optional else "") + print_expression(element)
            for index, element in enumerate(tree.elements)
        ]
        return f"[{', '.join(parts)}]"
    fields = [
        f"{'?' if optional else ''}{_field(name)}: {print_expression(value)}"
        for name, value, optional in tree.fields
    ]
    return f"{tree.type_name}{{{', '.join(fields)}}}"


def _entries(tree: MapLiteral) -> list[str]:
    return [
        f"{'?' if entry.optional else ''}{print_expression(entry.key)}: "
        f"{print_expression(entry.value)}"
        for entry in tree.entries
    ]


def _call(call: Call) -> str:
    special = _SPECIAL.get(call.function)
    if special is not None and call.target is None:
        return special(call)
    if call.function in _BINARY and call.target is None:
        return _binary(call)
    arguments = ", ".join([print_expression(argument) for argument in call.arguments])
    if call.target is None:
        return f"{call.function}({arguments})"
    return f"{_inner(call.target, _MEMBER)}.{call.function}({arguments})"


def _binary(call: Call) -> str:
    level = _BINARY[call.function]
    operator = f" {'in' if call.function == '@in' else call.function.strip('_')} "
    if level in (_OR, _AND):
        # A chain is one call with many terms, so an equal call inside it was in parentheses.
        return operator.join([_inner(term, level + 1) for term in call.arguments])
    left, right = call.arguments
    return f"{_inner(left, level)}{operator}{_inner(right, level + 1)}"


def _choice(call: Call) -> str:
    condition, chosen, other = call.arguments
    return f"{_inner(condition, _OR)} ? {_inner(chosen, _OR)} : {_inner(other, _CHOICE)}"


def _unary(call: Call) -> str:
    operand = call.arguments[0]
    text = _inner(operand, _MEMBER)
    is_number = isinstance(operand, Literal) and operand.type_name in ("int", "float")
    # `-(1)` is a negation, `-1` a literal. After two signs the parser would drop both.
    if not text.startswith("(") and (is_number or _starts_with_number(operand)):
        text = f"({text})"
    return f"{call.function[0]}{text}"


def _starts_with_number(tree: Expression) -> bool:
    while True:
        match tree:
            case Literal():
                return tree.type_name in ("int", "float")
            case Select():
                tree = tree.operand
            case Call() if tree.target is not None:
                tree = tree.target
            case Call() if tree.function in ("_[_]", "_[?_]", "_?._"):
                tree = tree.arguments[0]
            case _:
                return False


def _index(call: Call) -> str:
    mark = "?" if call.function == "_[?_]" else ""
    return f"{_inner(call.arguments[0], _MEMBER)}[{mark}{print_expression(call.arguments[1])}]"


def _optional_select(call: Call) -> str:
    name = call.arguments[1]
    assert isinstance(name, Literal)
    return f"{_inner(call.arguments[0], _MEMBER)}.?{_field(str(name.value))}"


def _level(tree: Expression) -> int:
    if isinstance(tree, Literal):
        # A literal with a sign needs parentheses before a selection.
        negative = isinstance(tree.value, (int, float)) and _literal(tree).startswith("-")
        return _UNARY if negative else _MEMBER
    if not isinstance(tree, Call) or tree.target is not None:
        return _MEMBER
    if tree.function == "_?_:_":
        return _CHOICE
    if tree.function in ("!_", "-_"):
        return _UNARY
    return _BINARY.get(tree.function, _MEMBER)


def _inner(tree: Expression, level: int) -> str:
    text = print_expression(tree)
    return text if _level(tree) >= level else f"({text})"


def _field(name: str) -> str:
    plain = (
        name not in _KEYWORDS and not name[:1].isdigit() and _IDENTIFIER_CHARACTERS.issuperset(name)
    )
    return name if plain else f"`{name}`"


def _literal(literal: Literal) -> str:
    value = literal.value
    if isinstance(value, str):
        return f'"{"".join([_character(character) for character in value])}"'
    if isinstance(value, bytes):
        return f'b"{"".join([_byte(byte) for byte in value])}"'
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Uint):
        return f"{value.value}u"
    return {None: "null", True: "true", False: "false"}[value] if _is_keyword(value) else str(value)


def _is_keyword(value: object) -> TypeGuard[bool | None]:
    return value is None or isinstance(value, bool)


def _character(character: str) -> str:
    escaped = _ESCAPES.get(character)
    if escaped is not None:
        return escaped
    if ord(character) < _FIRST_PRINTABLE or ord(character) == _DELETE:
        return f"\\x{ord(character):02x}"
    return character


def _byte(byte: int) -> str:
    if _FIRST_PRINTABLE <= byte < _DELETE and byte not in b'"\\':
        return chr(byte)
    return f"\\x{byte:02x}"


_SPECIAL: dict[str, Callable[[Call], str]] = {
    "_?_:_": _choice,
    "!_": _unary,
    "-_": _unary,
    "_[_]": _index,
    "_[?_]": _index,
    "_?._": _optional_select,
}
