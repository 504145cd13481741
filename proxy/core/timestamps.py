"""Timestamps formatted as text.

A timestamp is a number of nanoseconds since 1970, as the clock returns it. It is converted to a
date only for output. Consecutive timestamps are mostly in the same second, so that text is cached.
"""

from datetime import UTC, datetime

NANOSECONDS_PER_SECOND = 1_000_000_000


class TimestampFormatter:
    """Formats timestamps in UTC and caches the text of the last whole second.

    Formatting one without the cache costs as much as the rest of a log line.
    """

    __slots__ = ("_start", "_text")

    def __init__(self) -> None:
        self._start = -NANOSECONDS_PER_SECOND
        self._text = ""

    def format_milliseconds(self, timestamp: int) -> str:
        """Return the text of a timestamp, such as `2026-11-16T16:00:00.123Z`."""
        rest = timestamp - self._start
        if not 0 <= rest < NANOSECONDS_PER_SECOND:
            rest = self._cache_second(timestamp)
        # A format such as `:03` takes twice as long.
        return f"{self._text}.{str(rest // 1_000_000).zfill(3)}Z"

    def format_microseconds(self, timestamp: int) -> str:
        """Return the text of a timestamp such as `2026-11-16T16:00:00.123456Z`."""
        rest = timestamp - self._start
        if not 0 <= rest < NANOSECONDS_PER_SECOND:
            rest = self._cache_second(timestamp)
        return f"{self._text}.{str(rest // 1000).zfill(6)}Z"

    def _cache_second(self, timestamp: int) -> int:
        """Cache the text of a timestamp's second, and return the nanoseconds within it."""
        second, rest = divmod(timestamp, NANOSECONDS_PER_SECOND)
        date = datetime.fromtimestamp(second, UTC)
        self._start = timestamp - rest
        self._text = date.strftime("%Y-%m-%dT%H:%M:%S")
        return rest
