"""Numbers as Go's strconv and fmt read and write them."""

import math
import re
from decimal import Decimal

_INT = re.compile(r"[+-]?[0-9]+", re.ASCII)
_UINT = re.compile(r"[0-9]+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:[0-9_]+\.?[0-9_]*|\.[0-9_]+)(?:[eE][+-]?[0-9_]+)?", re.ASCII)
_HEXADECIMAL = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F_]+\.?[0-9a-fA-F_]*|\.[0-9a-fA-F_]+)[pP][+-]?[0-9_]+", re.ASCII
)
_SPECIAL = {"nan": math.nan, "inf": math.inf, "infinity": math.inf}
# Longer digits are out of range anyway; the limit keeps int() from quadratic work.
_MOST_DIGITS = 400
# Exponents from which `%g` writes a plain number, and up to which.
_LOWEST_PLAIN, _HIGHEST_PLAIN = -4, 6


def parse_int(text: str) -> int | None:
    """Return the number of a decimal text, None if it is not one."""
    if len(text) > _MOST_DIGITS:
        text = text[:1] + text[1:].lstrip("0")
    return int(text) if len(text) <= _MOST_DIGITS and _INT.fullmatch(text) else None


def parse_uint(text: str) -> int | None:
    """Return the number of a decimal text without a sign, None if it is not one."""
    return parse_int(text) if _UINT.fullmatch(text) else None


def parse_float(text: str) -> float | None:
    """Return the double of a text, None if it is not one or too large."""
    sign = -1.0 if text.startswith("-") else 1.0
    special = _SPECIAL.get(text.lower().lstrip("+-") if text[1:2] not in ("+", "-") else "")
    if special is not None and (special == special or text[:1] not in "+-"):  # noqa: PLR0124
        return sign * special
    if _HEXADECIMAL.fullmatch(text):
        return _finite_hexadecimal(text)
    if not _DECIMAL.fullmatch(text):
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return None if math.isinf(number) else number


def _finite_hexadecimal(text: str) -> float | None:
    if "_" in text and not re.fullmatch(r"[+-]?0[xX](?:_?[0-9a-fA-F])+\.?[0-9a-fA-F]*[pP].*", text):
        return None
    try:
        return float.fromhex(text.replace("_", ""))
    except OverflowError:
        return None


def format_general(number: float) -> str:
    """Return a double as `%g` writes it, in as few digits as needed."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(number)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    point = len(digits) + exponent
    prefix = "-" if sign else ""
    if number == 0:
        return f"{prefix}0"
    if point - 1 < _LOWEST_PLAIN or point - 1 >= _HIGHEST_PLAIN:
        mantissa = text[0] + (f".{text[1:]}" if len(text) > 1 else "")
        return f"{prefix}{mantissa}e{'-' if point < 1 else '+'}{abs(point - 1):02d}"
    return prefix + _plain(text, point)


def format_plain(number: float) -> str:
    """Return a finite double without an exponent, in as few digits as needed."""
    return format(Decimal(repr(number)), "f").removesuffix(".0")


def _plain(digits: str, point: int) -> str:
    if point <= 0:
        return f"0.{'0' * -point}{digits}"
    if len(digits) <= point:
        return digits + "0" * (point - len(digits))
    return f"{digits[:point]}.{digits[point:]}"
