"""Kubernetes quantities, such as `1.5Gi` or `100m`."""

import re
from collections.abc import Callable, Sequence

from proxy.core.cel.errors import CelEvaluationError, no_such_overload
from proxy.core.cel.library.arguments import Implementation, int_of, text_of
from proxy.core.cel.values.kinds import INT_MAX, INT_MIN, Quantity, Value

_TEXT = re.compile(r"([+-]?)0*([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)", re.ASCII)
_DECIMAL = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]{1,9})", re.ASCII)
_NANO, _TWO = -9, 2
_MOST_DIGITS = 18
# Upstream has no limit; a comparison would compute the power of ten.
_LARGEST_EXPONENT = 1000
_WRONG = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


def parse_quantity(text: str) -> Quantity:
    """Return the quantity of a text; raises CelEvaluationError."""
    found = _TEXT.fullmatch(text)
    if found is None or not text:
        raise CelEvaluationError(_WRONG)
    sign, whole, fraction, suffix = found.groups()
    whole, fraction = whole or "0", fraction or ""
    base, exponent = _suffix(suffix)
    if abs(exponent) > _LARGEST_EXPONENT or len(whole) + len(fraction) > _LARGEST_EXPONENT:
        raise CelEvaluationError("quantity is out of range")
    quick = _quick(whole, fraction, base, exponent)
    value, scale, is_decimal = quick or (*_exact(whole, fraction, base, exponent), True)
    return Quantity(-value if sign == "-" else value, scale, is_decimal=is_decimal)


def _suffix(suffix: str) -> tuple[int, int]:
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix]
    if suffix in _BINARY:
        return 2, _BINARY[suffix]
    found = _EXPONENT.fullmatch(suffix)
    if found is None:
        raise CelEvaluationError("unable to parse quantity's suffix")
    return 10, int(found[1])


def _quick(whole: str, fraction: str, base: int, exponent: int) -> tuple[int, int, bool] | None:
    """Return value and power of ten where the native code needs no big numbers."""
    digits = len(whole) + len(fraction)
    if base != _TWO:
        factor, scale, spare = 1, exponent - len(fraction), _MOST_DIGITS - digits
    else:
        factor, scale = 2**exponent, 0
        spare = 15 - len(whole) - exponent * 3 // 10 - 1 if not fraction else -1
    value = int(whole + fraction) * factor
    if spare < 0 or scale < _NANO or value > INT_MAX:
        return None
    return value, scale, False


def _exact(whole: str, fraction: str, base: int, exponent: int) -> tuple[int, int]:
    """Return nanounits, rounded away from zero."""
    value, scale = int(whole + fraction), -len(fraction)
    if base == _TWO:
        value *= 2**exponent
    else:
        scale += exponent
    if value == 0:
        return 0, scale
    if scale >= _NANO:
        value *= 10 ** (scale - _NANO)
    else:
        value = -(-value // 10 ** (_NANO - scale))
    if base == _TWO:
        value = min(value, INT_MAX * 10**9)
    return value, _NANO


def _compared(left: Quantity, right: Quantity) -> int:
    scale = min(left.scale, right.scale)
    first = left.value * int(10 ** (left.scale - scale))
    second = right.value * int(10 ** (right.scale - scale))
    return (first > second) - (first < second)


def _of(value: Value) -> Quantity:
    if isinstance(value, Quantity):
        return value
    raise no_such_overload()


def _sum(left: Quantity, right: Quantity, sign: int) -> Quantity:
    value = sign * right.value
    is_decimal = left.is_decimal or right.is_decimal
    if value == -INT_MIN and left.value >= 0 and not is_decimal and left.scale == right.scale:
        # The native subtraction negates within 64 bits, where this number has no negative.
        value = INT_MIN
    if not is_decimal and (left.value == 0 or value == 0):
        only, scale = (left.value, left.scale) if value == 0 else (value, right.scale)
        return Quantity(only, scale, is_computed=True)
    scale = min(left.scale, right.scale)
    parts = (left.value * 10 ** (left.scale - scale), value * 10 ** (right.scale - scale))
    total = sum(parts)
    fits = all(INT_MIN <= number <= INT_MAX for number in (*parts, total))
    return Quantity(total, scale, is_decimal=is_decimal or not fits, is_computed=True)


def _add(sign: int) -> Implementation:
    return lambda values: _sum(_of(values[0]), _of(values[1]), sign)


def _add_int(sign: int) -> Implementation:
    return lambda values: _sum(_of(values[0]), Quantity(int_of(values[1]), 0), sign)


def _compare(answer: Callable[[int], Value]) -> Implementation:
    return lambda values: answer(_compared(_of(values[0]), _of(values[1])))


def _integer(quantity: Quantity) -> int | None:
    if quantity.is_decimal or quantity.scale < 0:
        return None
    number = quantity.value * 10**quantity.scale
    return number if INT_MIN <= number <= INT_MAX else None


def _as_integer(values: Sequence[Value]) -> Value:
    number = _integer(_of(values[0]))
    if number is None:
        raise CelEvaluationError("cannot convert value to integer")
    return number


def _as_float(values: Sequence[Value]) -> Value:
    quantity = _of(values[0])
    if quantity.scale == 0:
        return float(quantity.value)
    try:
        return float(quantity.value) * float(f"1e{quantity.scale}")
    except OverflowError:
        return float("inf") if quantity.value > 0 else float("-inf")


def _sign(values: Sequence[Value]) -> Value:
    value = _of(values[0]).value
    return (value > 0) - (value < 0)


def _is(values: Sequence[Value]) -> Value:
    try:
        parse_quantity(text_of(values[0]))
    except CelEvaluationError:
        return False
    return True


OVERLOADS: dict[str, Implementation] = {
    "string_to_quantity": lambda values: parse_quantity(text_of(values[0])),
    "is_quantity_string": _is,
    "quantity_sign": _sign,
    "quantity_compare_to": _compare(lambda order: order),
    "quantity_is_greater_than": _compare(lambda order: order > 0),
    "quantity_is_less_than": _compare(lambda order: order < 0),
    "quantity_get_float": _as_float,
    "quantity_get_int": _as_integer,
    "quantity_is_integer": lambda values: _integer(_of(values[0])) is not None,
    "quantity_add": _add(1),
    "quantity_sub": _add(-1),
    "quantity_add_int": _add_int(1),
    "quantity_sub_int": _add_int(-1),
}
