"""`format`: a text with clauses such as `%s` and `%.2f` replaced by arguments.

The form is that of version 2 of the strings library, not the one of the specification: scientific
notation has superscript digits, infinity is `∞`, and fixed-point numbers have grouped digits.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from proxy.core.cel.errors import CelEvaluationError
from proxy.core.cel.library.arguments import (
    Implementation,
    limited_characters,
    list_argument,
    text_of,
)
from proxy.core.cel.values.conversion import to_text
from proxy.core.cel.values.kinds import Duration, Timestamp, TypeName, Uint, Value, type_name
from proxy.core.cel.values.maps import key_value

_SUPERSCRIPTS = str.maketrans("0123456789-+", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺")
_DEFAULT_PRECISION = 6
_LARGEST_PRECISION, _MOST_DIGITS = 10_000, 18
_ASCII, _BASIC_PLANE = 0x80, 0x10000
_TIMES = "\u00d7"
_INFINITIES = ("NaN", "Infinity", "-Infinity")
_CLAUSES = "sdfebxXo"


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause of a format: its letter and precision."""

    letter: str
    precision: int | None


def parse_format(text: str) -> Iterator[str | Clause]:
    """Yield the pieces of a format; raises CelEvaluationError."""
    position = 0
    while position < len(text):
        percent = text.find("%", position)
        if percent < 0:
            yield text[position:]
            return
        yield text[position:percent]
        if text.startswith("%", percent + 1):
            yield "%"
            position = percent + 2
            continue
        clause, position = _clause(text, percent + 1)
        yield clause


def _clause(text: str, position: int) -> tuple[Clause, int]:
    precision: int | None = None
    if text.startswith(".", position):
        end = position + 1
        while end < len(text) and text[end] in "0123456789":
            end += 1
        digits = text[position + 1 : end]
        if not digits or end == len(text) or len(digits) > _MOST_DIGITS:
            raise _unreadable("error while parsing precision")
        precision, position = int(digits), end
    if position >= len(text):
        raise CelEvaluationError("unexpected end of string")
    letter = text[position]
    if letter not in _CLAUSES:
        raise _unreadable(f'unrecognized formatting clause "{letter}"')
    return Clause(letter, precision), position + 1


def _unreadable(detail: str) -> CelEvaluationError:
    return CelEvaluationError(f"could not parse formatting clause: {detail}")


def _format(values: Sequence[Value]) -> Value:
    text, arguments = text_of(values[0]), list_argument(values[1])
    parts: list[str] = []
    used, length = 0, 0
    for piece in parse_format(text):
        part = piece if isinstance(piece, str) else ""
        if isinstance(piece, Clause):
            if used >= len(arguments):
                raise CelEvaluationError(f"index {used} out of range")
            part = _formatted(piece, arguments[used])
            used += 1
        length += len(part)
        limited_characters(length)
        parts.append(part)
    return "".join(parts)


def _formatted(clause: Clause, value: Value) -> str:
    if clause.letter in "fe":
        return _real(clause, value)
    return _WRITERS[clause.letter](value)


def _refused(message: str, value: Value) -> CelEvaluationError:
    return CelEvaluationError(f"error during formatting: {message}, was given {type_name(value)}")


def _text(value: Value) -> str:
    if isinstance(value, list):
        return _list_text(value)
    if isinstance(value, dict):
        return _map_text(value)
    if value is None:
        return "null"
    if isinstance(value, TypeName):
        return value.name
    if isinstance(value, (bool, int, Uint, float, str, bytes, Timestamp, Duration)):
        return to_text(value)
    raise _refused(
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, "
        "types, durations, and timestamps",
        value,
    )


def _list_text(elements: list[Value]) -> str:
    return f"[{', '.join(map(_nested, elements))}]"


def _map_text(mapping: dict[object, Value]) -> str:
    pairs: list[tuple[str, str]] = []
    for stored, value in mapping.items():
        key = key_value(stored)
        if not isinstance(key, (str, bool, int, Uint)):
            raise _refused("no formatting function for map key", key)
        pairs.append(
            (_quoted(to_text(key)) if isinstance(key, str) else to_text(key), _nested(value))
        )
    return "{" + ", ".join([f"{key}:{value}" for key, value in sorted(pairs)]) + "}"


def _nested(value: Value) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bytes):
        return f"b{_quoted(to_text(value))}"
    if isinstance(value, float):
        return _nested_real(value)
    if isinstance(value, (Timestamp, Duration)):
        kind = "timestamp" if isinstance(value, Timestamp) else "duration"
        return f"{kind}({_quoted(to_text(value))})"
    return _text(value)


def _nested_real(value: float) -> str:
    if math.isfinite(value):
        return f"{value:.{_DEFAULT_PRECISION}f}"
    return '"NaN"' if math.isnan(value) else f'"{"+" if value > 0 else "-"}Inf"'


def _quoted(text: str) -> str:
    """Return a text as Go's `%q` writes it."""
    return f'"{"".join(map(_quoted_character, text))}"'


_SHORT = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", '"': '\\"',
}  # fmt: skip


def _quoted_character(character: str) -> str:
    short = _SHORT.get(character)
    if short is not None:
        return short
    if character.isprintable():
        return character
    code = ord(character)
    if code < _ASCII:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < _BASIC_PLANE else f"\\U{code:08x}"


def _decimal(value: Value) -> str:
    if type(value) is int:
        return str(value)
    if isinstance(value, Uint):
        return str(value.value)
    raise _refused("decimal clause can only be used on integers", value)


def _real(clause: Clause, value: Value) -> str:
    kind = "fixed-point" if clause.letter == "f" else "scientific"
    if isinstance(value, str) and value in _INFINITIES:
        value = float(value)
    if not isinstance(value, float):
        raise _refused(f"{kind} clause can only be used on doubles", value)
    precision = _DEFAULT_PRECISION if clause.precision is None else clause.precision
    if precision > _LARGEST_PRECISION:
        raise CelEvaluationError(f"precision {precision} exceeds the limit")
    if not math.isfinite(value):
        text = "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
        return text if clause.letter == "f" else text.rjust(precision)
    if clause.letter == "f":
        return f"{Decimal(value or 0.0):,.{precision}f}"
    return _scientific(value or 0.0)


def _scientific(value: float) -> str:
    # The native printer ignores the precision of a number here, not that of an infinity.
    mantissa, _, exponent = f"{value:.{_DEFAULT_PRECISION}e}".partition("e")
    number = int(exponent)
    digits = f"{'-' if number < 0 else ''}{abs(number):02d}".translate(_SUPERSCRIPTS)
    return f"{mantissa}{_TIMES}10{digits}"


def _in_base(letter: str, message: str) -> Callable[[Value], str]:
    def write(value: Value) -> str:
        if letter == "b" and isinstance(value, bool):
            return "1" if value else "0"
        if type(value) is int:
            return format(value, letter)
        if isinstance(value, Uint):
            return format(value.value, letter)
        if letter in "xX" and isinstance(value, (str, bytes)):
            raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
            return raw.hex().upper() if letter == "X" else raw.hex()
        raise _refused(message, value)

    return write


_HEX = "only integers, byte buffers, and strings can be formatted as hex"
_WRITERS: dict[str, Callable[[Value], str]] = {
    "s": _text,
    "d": _decimal,
    "b": _in_base("b", "only integers and bools can be formatted as binary"),
    "o": _in_base("o", "octal clause can only be used on integers"),
    "x": _in_base("x", _HEX),
    "X": _in_base("X", _HEX),
}
OVERLOADS: dict[str, Implementation] = {"string_format": _format}
