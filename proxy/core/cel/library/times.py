"""Parts of timestamps and durations."""

from collections.abc import Callable, Sequence
from datetime import MAXYEAR, MINYEAR, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from proxy.core.cel.errors import CelEvaluationError, no_such_overload
from proxy.core.cel.library.arguments import Implementation, argument_at, text_of
from proxy.core.cel.values.arithmetic import SECOND
from proxy.core.cel.values.go_numbers import parse_int
from proxy.core.cel.values.go_times import in_unit, local_time, local_year
from proxy.core.cel.values.kinds import Duration, Timestamp, Value

_MINUTES = 60


def _offset(timestamp: Timestamp, zone: str) -> int:
    hours_text, colon, minutes_text = zone.partition(":")
    if not colon:
        return _named_offset(timestamp, zone)
    hours, minutes = parse_int(hours_text), parse_int(minutes_text)
    if hours is None or minutes is None:
        bad = hours_text if hours is None else minutes_text
        raise CelEvaluationError(f'strconv.Atoi: parsing "{bad}": invalid syntax')
    if not 0 <= minutes < _MINUTES:
        raise CelEvaluationError(f"timezone offset minutes out of range [0, 59]: {zone}")
    sign = -1 if zone.startswith("-") else 1
    return (hours * _MINUTES + sign * minutes) * 60


def _named_offset(timestamp: Timestamp, zone: str) -> int:
    if zone in ("", "UTC"):
        return 0
    try:
        found = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CelEvaluationError(f"unknown time zone {zone}") from None
    local = local_time(timestamp, 0)
    if not MINYEAR < local.year < MAXYEAR:
        # The calendar repeats after 400 years, and so do the rules of a zone this far away.
        local = local.replace(year=local.year + (400 if local.year == MINYEAR else -400))
    shift = local.astimezone(found).utcoffset()
    return 0 if shift is None else int(shift.total_seconds())


def _part(of: Callable[[datetime, Timestamp, int], int]) -> Implementation:
    def compute(values: Sequence[Value]) -> Value:
        timestamp = values[0]
        if not isinstance(timestamp, Timestamp):
            raise no_such_overload()
        offset = _offset(timestamp, text_of(argument_at(values, 1, "")))
        return of(local_time(timestamp, offset), timestamp, offset)

    return compute


def _duration_part(unit: int) -> Implementation:
    def compute(values: Sequence[Value]) -> Value:
        duration = values[0]
        if not isinstance(duration, Duration):
            raise no_such_overload()
        if unit < SECOND:
            whole = abs(duration.nanoseconds) // unit
            return whole if duration.nanoseconds >= 0 else -whole
        return int(in_unit(duration, unit))

    return compute


_PARTS: dict[str, Callable[[datetime, Timestamp, int], int]] = {
    "year": lambda _, timestamp, offset: local_year(timestamp, offset),
    "month": lambda local, _, __: local.month - 1,
    "day_of_year": lambda local, _, __: local.timetuple().tm_yday - 1,
    "day_of_month": lambda local, _, __: local.day - 1,
    "day_of_month_1_based": lambda local, _, __: local.day,
    "day_of_week": lambda local, _, __: local.isoweekday() % 7,
    "hours": lambda local, _, __: local.hour,
    "minutes": lambda local, _, __: local.minute,
    "seconds": lambda local, _, __: local.second,
    "milliseconds": lambda _, timestamp, __: timestamp.nanoseconds % SECOND // 1_000_000,
}
OVERLOADS: dict[str, Implementation] = {
    **{f"timestamp_to_{name}": _part(of) for name, of in _PARTS.items()},
    **{
        f"timestamp_to_{name}_{'tz' if name == 'seconds' else 'with_tz'}": _part(of)
        for name, of in _PARTS.items()
    },
    "duration_to_hours": _duration_part(3600 * SECOND),
    "duration_to_minutes": _duration_part(60 * SECOND),
    "duration_to_seconds": _duration_part(SECOND),
    "duration_to_milliseconds": _duration_part(1_000_000),
}
