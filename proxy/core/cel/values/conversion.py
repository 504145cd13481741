"""Conversions between types."""

import math
from collections.abc import Callable

from proxy.core.cel.errors import CelEvaluationError
from proxy.core.cel.values.arithmetic import (
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    SECOND,
    checked_int,
    checked_timestamp,
    checked_uint,
)
from proxy.core.cel.values.go_numbers import format_general, parse_float, parse_int, parse_uint
from proxy.core.cel.values.go_times import (
    format_duration,
    format_timestamp,
    parse_duration,
    parse_timestamp,
)
from proxy.core.cel.values.kinds import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Duration,
    Timestamp,
    Uint,
    Value,
    type_name,
)

_BOOLS = dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "FALSE", "false", "False"), False
)


def refused(value: Value, wanted: str) -> CelEvaluationError:
    """Return the error of a conversion that is not possible."""
    return CelEvaluationError(f"type conversion error from '{type_name(value)}' to '{wanted}'")


def to_bool(value: Value) -> bool:
    """Return the bool that a bool or a text stands for."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in _BOOLS:
        return _BOOLS[value]
    raise refused(value, "bool")


def to_bytes(value: Value) -> bytes:
    """Return the bytes of a text."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    raise refused(value, "bytes")


def to_double(value: Value) -> float:
    """Return the double that a number or a text stands for."""
    if isinstance(value, float):
        return value
    if isinstance(value, Uint):
        return float(value.value)
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    number = parse_float(value) if isinstance(value, str) else None
    if number is None:
        raise refused(value, "double")
    return number


def to_int(value: Value) -> int:
    """Return the int that a number, a time or a text stands for."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float):
        if not math.isfinite(value) or value <= INT_MIN or value >= INT_MAX:
            raise CelEvaluationError("integer overflow")
        return int(value)
    if isinstance(value, Uint):
        return checked_int(value.value)
    if isinstance(value, Duration):
        return value.nanoseconds
    if isinstance(value, Timestamp):
        return value.nanoseconds // SECOND
    number = parse_int(value) if isinstance(value, str) else None
    if number is None or not INT_MIN <= number <= INT_MAX:
        raise refused(value, "int")
    return number


def to_uint(value: Value) -> Uint:
    """Return the uint that a number or a text stands for."""
    if isinstance(value, Uint):
        return value
    if isinstance(value, float):
        if not math.isfinite(value) or value < 0 or value >= UINT_MAX:
            raise CelEvaluationError("unsigned integer overflow")
        return Uint(int(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return checked_uint(value)
    number = parse_uint(value) if isinstance(value, str) else None
    if number is None or number > UINT_MAX:
        raise refused(value, "uint")
    return Uint(number)


def to_text(value: Value) -> str:
    """Return the text of a scalar."""
    writer = _WRITERS.get(type(value))
    if writer is None:
        raise refused(value, "string")
    return writer(value)


def _bytes_text(value: Value) -> str:
    assert isinstance(value, bytes)
    try:
        return value.decode()
    except UnicodeDecodeError:
        message = "invalid UTF-8 in bytes, cannot convert to string"
        raise CelEvaluationError(message) from None


def _duration_text(value: Value) -> str:
    assert isinstance(value, Duration)
    return format_duration(value)


def _timestamp_text(value: Value) -> str:
    assert isinstance(value, Timestamp)
    return format_timestamp(value)


def _double_text(value: Value) -> str:
    assert isinstance(value, float)
    return format_general(value)


def _uint_text(value: Value) -> str:
    assert isinstance(value, Uint)
    return str(value.value)


_WRITERS: dict[type, Callable[[Value], str]] = {
    str: str,
    bool: lambda value: "true" if value else "false",
    int: str,
    Uint: _uint_text,
    float: _double_text,
    bytes: _bytes_text,
    Duration: _duration_text,
    Timestamp: _timestamp_text,
}


def to_duration(value: Value) -> Duration:
    """Return the duration of a text."""
    if isinstance(value, Duration):
        return value
    duration = parse_duration(value) if isinstance(value, str) else None
    if duration is None:
        raise refused(value, "google.protobuf.Duration")
    return duration


def to_timestamp(value: Value) -> Timestamp:
    """Return the instant of an RFC 3339 text or of seconds since 1970."""
    if isinstance(value, Timestamp):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        if not MIN_TIMESTAMP <= value <= MAX_TIMESTAMP:
            raise CelEvaluationError("timestamp overflow")
        return checked_timestamp(value * SECOND, 0)
    parsed = parse_timestamp(value) if isinstance(value, str) else ""
    if isinstance(parsed, Timestamp):
        return parsed
    raise CelEvaluationError(parsed) if parsed else refused(value, "google.protobuf.Timestamp")
