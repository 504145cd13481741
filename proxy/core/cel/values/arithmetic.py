"""Arithmetic with the overflow rules of 64-bit integers, durations and timestamps."""

import math
from collections.abc import Callable
from typing import TypeAlias

from proxy.core.cel.errors import CelEvaluationError, no_such_overload
from proxy.core.cel.values.kinds import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Duration,
    Timestamp,
    Uint,
    Value,
)

MIN_TIMESTAMP, MAX_TIMESTAMP = -62135596800, 253402300799
SECOND = 1_000_000_000

_Operation: TypeAlias = Callable[[Value, Value], Value]


def checked_int(number: int, what: str = "integer") -> int:
    """Return a number that fits 64 bits with a sign; raises CelEvaluationError."""
    if INT_MIN <= number <= INT_MAX:
        return number
    raise CelEvaluationError(f"{what} overflow")


def checked_uint(number: int) -> Uint:
    """Return a number that fits 64 bits without a sign; raises CelEvaluationError."""
    if 0 <= number <= UINT_MAX:
        return Uint(number)
    raise CelEvaluationError("unsigned integer overflow")


def checked_duration(nanoseconds: int) -> Duration:
    """Return a duration within 64 bits; raises CelEvaluationError."""
    return Duration(checked_int(nanoseconds))


def checked_timestamp(nanoseconds: int, offset_seconds: int) -> Timestamp:
    """Return a timestamp between the years 1 and 9999; raises CelEvaluationError."""
    if MIN_TIMESTAMP <= nanoseconds // SECOND <= MAX_TIMESTAMP:
        return Timestamp(nanoseconds, offset_seconds)
    raise CelEvaluationError("timestamp overflow")


def _quotient(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def add(left: Value, right: Value) -> Value:
    """Return a sum or a concatenation."""
    if type(left) is int and type(right) is int:
        return checked_int(left + right)
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    if isinstance(left, list) and isinstance(right, list):
        return [*left, *right]
    if isinstance(left, float) and isinstance(right, float):
        return left + right
    return _add_rare(left, right)


def _add_rare(left: Value, right: Value) -> Value:
    if isinstance(left, Uint) and isinstance(right, Uint):
        return checked_uint(left.value + right.value)
    if isinstance(left, bytes) and isinstance(right, bytes):
        return left + right
    return _add_times(left, right)


def _add_times(left: Value, right: Value) -> Value:
    if isinstance(left, Duration) and isinstance(right, Duration):
        return checked_duration(left.nanoseconds + right.nanoseconds)
    if isinstance(left, Duration) and isinstance(right, Timestamp):
        left, right = right, left
    if isinstance(left, Timestamp) and isinstance(right, Duration):
        return checked_timestamp(left.nanoseconds + right.nanoseconds, left.offset_seconds)
    raise no_such_overload("_+_" if type(left) not in _ADDED else "")


_ADDED = frozenset((int, str, list, float, Uint, bytes, Duration, Timestamp))


def subtract(left: Value, right: Value) -> Value:
    """Return a difference."""
    if type(left) is int and type(right) is int:
        return checked_int(left - right)
    if isinstance(left, float) and isinstance(right, float):
        return left - right
    if isinstance(left, Uint) and isinstance(right, Uint):
        return checked_uint(left.value - right.value)
    return _subtract_times(left, right)


def _subtract_times(left: Value, right: Value) -> Value:
    if isinstance(left, Duration) and isinstance(right, Duration):
        return checked_duration(left.nanoseconds - right.nanoseconds)
    if isinstance(left, Timestamp) and isinstance(right, Duration):
        return checked_timestamp(left.nanoseconds - right.nanoseconds, left.offset_seconds)
    if isinstance(left, Timestamp) and isinstance(right, Timestamp):
        return checked_duration(left.nanoseconds - right.nanoseconds)
    raise no_such_overload()


def multiply(left: Value, right: Value) -> Value:
    """Return a product."""
    if type(left) is int and type(right) is int:
        return checked_int(left * right)
    if isinstance(left, float) and isinstance(right, float):
        return left * right
    if isinstance(left, Uint) and isinstance(right, Uint):
        return checked_uint(left.value * right.value)
    raise no_such_overload()


def divide(left: Value, right: Value) -> Value:
    """Return a quotient; integers are truncated towards zero."""
    if isinstance(left, float) and isinstance(right, float):
        return _float_quotient(left, right)
    if type(left) is int and type(right) is int:
        _refuse_zero(right, "division by zero")
        return checked_int(_quotient(left, right))
    if isinstance(left, Uint) and isinstance(right, Uint):
        _refuse_zero(right.value, "division by zero")
        return Uint(left.value // right.value)
    raise no_such_overload()


def modulo(left: Value, right: Value) -> Value:
    """Return a remainder, which has the sign of the left operand."""
    if type(left) is int and type(right) is int:
        _refuse_zero(right, "modulus by zero")
        checked_int(_quotient(left, right))
        return left - _quotient(left, right) * right
    if isinstance(left, Uint) and isinstance(right, Uint):
        _refuse_zero(right.value, "modulus by zero")
        return Uint(left.value % right.value)
    raise no_such_overload()


def _refuse_zero(divisor: int, message: str) -> None:
    if divisor == 0:
        raise CelEvaluationError(message)


def _float_quotient(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def negate(operand: Value) -> Value:
    """Return a number or duration with the other sign."""
    if type(operand) is int:
        return checked_int(-operand)
    if isinstance(operand, float):
        return -operand
    if isinstance(operand, Duration):
        return checked_duration(-operand.nanoseconds)
    raise no_such_overload()


OPERATIONS: dict[str, _Operation] = {
    "_+_": add,
    "_-_": subtract,
    "_*_": multiply,
    "_/_": divide,
    "_%_": modulo,
}
