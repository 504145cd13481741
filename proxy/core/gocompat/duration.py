"""Durations as Go's `time.ParseDuration` parses them."""

import re

from proxy.core.gocompat.quote import MAX_SHOWN_LENGTH, TRUNCATION_MARKER

_NANOSECONDS = {
    b"ns": 1,
    b"us": 10**3,
    "\u00b5s".encode(): 10**3,  # micro sign
    "\u03bcs".encode(): 10**3,  # Greek letter mu
    b"ms": 10**6,
    b"s": 10**9,
    b"m": 60 * 10**9,
    b"h": 3600 * 10**9,
}


_LIMIT = 2**63


# All units with all significant digits take less than half of this.
_MAX_DURATION_LENGTH = 256


_MAX_DIGITS = 19


_PART = re.compile(rb"(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?P<unit>[^.0-9]*)", re.DOTALL)


def _quoted_byte(byte: int) -> str:
    if byte in b'"\\':
        return "\\" + chr(byte)
    return chr(byte) if 0x20 <= byte < 0x80 else f"\\x{byte:02x}"  # noqa: PLR2004 - ASCII, and DEL


_QUOTED_BYTES = [_quoted_byte(byte) for byte in range(256)]


def parse_duration_error(text: bytes) -> str | None:
    """Return the error text of Go's `time.ParseDuration`, or None if a text is a duration.

    A text that is longer than any client writes is rejected unparsed, because each unit costs time.
    """
    if len(text) > _MAX_DURATION_LENGTH:
        return f"time: invalid duration {_quoted(text)}"
    rest = text[1:] if text[:1] in (b"-", b"+") else text
    if rest == b"0":
        return None
    total = position = 0
    error = "invalid duration" if not rest else None
    # By position: slicing after each part would copy a long text once per part.
    while position < len(rest) and error is None:
        part = _PART.match(rest, position)
        assert part is not None  # the pattern matches the empty string
        nanoseconds, error = _parse_part(part)
        total += nanoseconds
        if error is None and total > _LIMIT:
            error = "invalid duration"
        position = part.end()
    if error is None and total == _LIMIT and text[:1] != b"-":
        error = "invalid duration"
    return None if error is None else f"time: {error} {_quoted(text)}"


def _parse_part(part: re.Match[bytes]) -> tuple[int, str | None]:
    """Return the nanoseconds of one number with its unit, or its error."""
    whole, fraction, unit = part["whole"], part["fraction"] or b"", part["unit"]
    # The number of digits is checked first: it bounds the cost of the conversion.
    if not (whole or fraction) or len(whole.lstrip(b"0")) > _MAX_DIGITS:
        return 0, "invalid duration"
    count = int(whole[-_MAX_DIGITS:] or b"0")
    if count > _LIMIT:
        return 0, "invalid duration"
    if not unit:
        return 0, "missing unit in duration"
    if unit not in _NANOSECONDS:
        return 0, f"unknown unit {_quoted(unit)} in duration"
    nanoseconds = count * _NANOSECONDS[unit] + _parse_fraction(fraction, _NANOSECONDS[unit])
    return nanoseconds, "invalid duration" if nanoseconds > _LIMIT else None


def _parse_fraction(digits: bytes, unit: int) -> int:
    """Return a fraction of a unit, by the same floating-point steps as Go, rounding included."""
    value, scale = 0, 1.0
    for digit in digits[:_MAX_DIGITS]:
        if value > (_LIMIT - 1) // 10 or value * 10 + digit - 0x30 > _LIMIT:
            break
        value = value * 10 + digit - 0x30
        scale *= 10
    return int(value * (unit / scale))


def _quoted(text: bytes) -> str:
    """Quote as Go's `time` does: byte for byte, unlike `%q`. A long text is truncated."""
    quoted = "".join([_QUOTED_BYTES[byte] for byte in text[:MAX_SHOWN_LENGTH]])
    return f'"{quoted}"' if len(text) <= MAX_SHOWN_LENGTH else f'"{quoted}{TRUNCATION_MARKER}"'
