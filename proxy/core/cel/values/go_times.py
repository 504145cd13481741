"""Durations and timestamps as Go's time package reads and writes them."""

import re
from datetime import UTC, datetime, timedelta

from proxy.core.cel.values.arithmetic import MAX_TIMESTAMP, MIN_TIMESTAMP, SECOND
from proxy.core.cel.values.go_numbers import format_plain
from proxy.core.cel.values.kinds import INT_MAX, Duration, Timestamp

_UNITS = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,
    "\u03bcs": 1_000,
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_DURATION_PART = re.compile(r"([0-9]*)(?:(\.)([0-9]*))?([^0-9.]+)", re.ASCII)
_MOST_DIGITS = 40
_MOST_HOURS, _MOST_MINUTES = 24, 60
_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    r"(?:(Z)|([+-])([0-9]{2}):([0-9]{2}))",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_duration(text: str) -> Duration | None:
    """Return the duration of a text such as `1h30m`, None if it is not one."""
    negative = text.startswith("-")
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return Duration(0)
    total, position = 0, 0
    while position < len(rest):
        found = _DURATION_PART.match(rest, position)
        part = None if found is None else _duration_part(found)
        if found is None or part is None:
            return None
        total += part
        position = found.end()
    if not rest or total > INT_MAX + negative:
        return None
    return Duration(-total if negative else total)


def _duration_part(found: re.Match[str]) -> int | None:
    whole, _, fraction, unit_text = found.groups()
    unit = _UNITS.get(unit_text)
    if unit is None or not (whole or fraction) or len(whole.lstrip("0")) > _MOST_DIGITS:
        return None
    nanoseconds = int(whole or "0") * unit
    if nanoseconds > INT_MAX + 1:
        return None
    if fraction:
        nanoseconds += _fraction(fraction, unit)
    return nanoseconds


def _fraction(digits: str, unit: int) -> int:
    # The native reader stops adding digits when the number would overflow.
    value, scale = 0, 1.0
    for digit in digits:
        if value > INT_MAX // 10:
            break
        more = value * 10 + int(digit)
        if more > INT_MAX + 1:
            break
        value = more
        scale *= 10
    return int(float(value) * (float(unit) / scale))


def format_duration(duration: Duration) -> str:
    """Return a duration in seconds."""
    return f"{format_plain(seconds(duration))}s"


def seconds(duration: Duration) -> float:
    """Return a duration in seconds as a double."""
    return in_unit(duration, SECOND)


def in_unit(duration: Duration, unit: int) -> float:
    """Return a duration in a unit as a double, rounded as the native division rounds."""
    whole, rest = divmod(abs(duration.nanoseconds), unit)
    number = float(whole) + float(rest) / float(unit)
    return -number if duration.nanoseconds < 0 else number


def parse_timestamp(text: str) -> Timestamp | str:
    """Return the instant of an RFC 3339 text, otherwise why there is none."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return ""
    *numbers, fraction, _, sign, zone_hours, zone_minutes = found.groups()
    year, month, day, hour, minute, second = map(int, numbers)
    offset = int(zone_hours or 0) * 3600 + int(zone_minutes or 0) * 60
    if int(zone_hours or 0) > _MOST_HOURS or int(zone_minutes or 0) > _MOST_MINUTES:
        return ""
    try:
        # The year 0 has no datetime. It is a leap year like 400, which is 146097 days later.
        start = datetime(year or 400, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return ""
    offset = -offset if sign == "-" else offset
    since = int((start - _EPOCH).total_seconds()) - (0 if year else 146097 * 86400) - offset
    if not MIN_TIMESTAMP <= since <= MAX_TIMESTAMP:
        return "timestamp overflow"
    return Timestamp(since * SECOND + int((fraction or "0")[:9].ljust(9, "0")), offset)


def local_time(timestamp: Timestamp, offset_seconds: int) -> datetime:
    """Return the date and time at an offset, without the nanoseconds.

    A date beyond the range of datetime is moved by 400 years, which keeps the calendar.
    """
    since = timestamp.nanoseconds // SECOND + offset_seconds
    if since < MIN_TIMESTAMP:
        since += 146097 * 86400
    elif since > MAX_TIMESTAMP:
        since -= 146097 * 86400
    return _EPOCH + timedelta(seconds=since)


def local_year(timestamp: Timestamp, offset_seconds: int) -> int:
    """Return the year at an offset, which may be 0 or 10000."""
    since = timestamp.nanoseconds // SECOND + offset_seconds
    year = local_time(timestamp, offset_seconds).year
    if since < MIN_TIMESTAMP:
        return year - 400
    return year + 400 if since > MAX_TIMESTAMP else year


def format_timestamp(timestamp: Timestamp) -> str:
    """Return an instant in RFC 3339 at its own offset, without trailing zeros."""
    local = local_time(timestamp, timestamp.offset_seconds)
    text = f"{local_year(timestamp, timestamp.offset_seconds):04d}" + local.strftime(
        "-%m-%dT%H:%M:%S"
    )
    nanoseconds = timestamp.nanoseconds % SECOND
    if nanoseconds:
        text += f".{nanoseconds:09d}".rstrip("0")
    if timestamp.offset_seconds == 0:
        return f"{text}Z"
    minutes = abs(timestamp.offset_seconds) // 60
    sign = "-" if timestamp.offset_seconds < 0 else "+"
    return f"{text}{sign}{minutes // 60:02d}:{minutes % 60:02d}"
