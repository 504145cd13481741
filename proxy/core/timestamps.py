"""Timestamps formatted as text.

A timestamp is a number of nanoseconds since 1970, as the clock returns it. It is converted to a
date only for output. Consecutive timestamps are mostly in the same second, so that text is cached.
"""

from datetime import UTC, datetime

NANOSECONDS_PER_SECOND = 1_000_000_000


class SecondFormatter:
    """Formats timestamps in UTC and caches the text of the last whole second.

    Formatting one without the cache costs as much as the rest of a log line.
    """

    __slots__ = ("_second", "_text")

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def format_second(self, second: int) -> str:
        """Return the text of a whole second since 1970, such as `2026-11-16T16:00:00`."""
        if second != self._second:
            date = datetime.fromtimestamp(second, UTC)
            self._second, self._text = second, date.strftime("%Y-%m-%dT%H:%M:%S")
        return self._text

    def format_milliseconds(self, timestamp: int) -> str:
        """Return the text of a timestamp, such as `2026-11-16T16:00:00.123Z`."""
        second, rest = divmod(timestamp, NANOSECONDS_PER_SECOND)
        text = self._text if second == self._second else self.format_second(second)
        return "%s.%03dZ" % (text, rest // 1_000_000)  # noqa: UP031 - faster
