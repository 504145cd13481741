"""Durations as Go's `time.ParseDuration` parses them."""

import re

from proxy.core.gocompat.quote import LONGEST_SHOWN, MARKER

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


# Every unit with all the digits that count takes less than half of this.
_LONGEST_DURATION = 256


_MOST_DIGITS = 19


_PART = re.compile(rb"(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?P<unit>[^.0-9]*)", re.DOTALL)


def _quoted_byte(byte: int) -> str:
    if byte in b'"\\':
        return "\\" + chr(byte)
    return chr(byte) if 0x20 <= byte < 0x80 else f"\\x{byte:02x}"  # noqa: PLR2004 - ASCII, and DEL


_QUOTED_BYTES = [_quoted_byte(byte) for byte in range(256)]


def parse_duration_error(text: bytes) -> str | None:
    """Return what Go's `time.ParseDuration` says against a text, or None when it is a duration.

    A text that is longer than any client writes is refused unread: each unit costs a step.
    """
    if len(text) > _LONGEST_DURATION:
        return f"time: invalid duration {_quoted(text)}"
    rest = text[1:] if text[:1] in (b"-", b"+") else text
    if rest == b"0":
        return None
    total = position = 0
    fault = "invalid duration" if not rest else None
    # By position: cutting the text after each part would copy a long one as often as it has parts.
    while position < len(rest) and fault is None:
        part = _PART.match(rest, position)
        assert part is not None  # every part of it may be empty
        nanoseconds, fault = _part_of(part)
        total += nanoseconds
        if fault is None and total > _LIMIT:
            fault = "invalid duration"
        position = part.end()
    if fault is None and total == _LIMIT and text[:1] != b"-":
        fault = "invalid duration"
    return None if fault is None else f"time: {fault} {_quoted(text)}"


def _part_of(part: re.Match[bytes]) -> tuple[int, str | None]:
    """Return the nanoseconds of one number with its unit, or what is wrong with it."""
    whole, fraction, unit = part["whole"], part["fraction"] or b"", part["unit"]
    # The number of digits comes first: it bounds what a conversion can cost.
    if not (whole or fraction) or len(whole.lstrip(b"0")) > _MOST_DIGITS:
        return 0, "invalid duration"
    count = int(whole[-_MOST_DIGITS:] or b"0")
    if count > _LIMIT:
        return 0, "invalid duration"
    if not unit:
        return 0, "missing unit in duration"
    if unit not in _NANOSECONDS:
        return 0, f"unknown unit {_quoted(unit)} in duration"
    nanoseconds = count * _NANOSECONDS[unit] + _fraction_of(fraction, _NANOSECONDS[unit])
    return nanoseconds, "invalid duration" if nanoseconds > _LIMIT else None


def _fraction_of(digits: bytes, unit: int) -> int:
    """Return a fraction of a unit, by the same floating-point steps as Go's, rounding included."""
    value, scale = 0, 1.0
    for digit in digits[:_MOST_DIGITS]:
        if value > (_LIMIT - 1) // 10 or value * 10 + digit - 0x30 > _LIMIT:
            break
        value = value * 10 + digit - 0x30
        scale *= 10
    return int(value * (unit / scale))


def _quoted(text: bytes) -> str:
    """Quote as Go's `time` does: byte for byte, which is not as `%q` does. A long text is cut."""
    quoted = "".join([_QUOTED_BYTES[byte] for byte in text[:LONGEST_SHOWN]])
    return f'"{quoted}"' if len(text) <= LONGEST_SHOWN else f'"{quoted}{MARKER}"'
