"""Moments as text, most of which are in the same second as the one before.

A moment is a number of nanoseconds since 1970, as the clock tells it: a date is made of it only
where somebody reads it.
"""

from datetime import UTC, datetime

SECOND = 1_000_000_000


class SecondFormatter:
    """Writes moments in UTC down to the whole second; what is below is the caller's to add.

    Writing a moment anew costs as much as everything else about a log line.
    """

    __slots__ = ("_second", "_text")

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def of(self, second: int) -> str:
        """Return a whole second since 1970, as `2026-11-16T16:00:00`."""
        if second != self._second:
            moment = datetime.fromtimestamp(second, UTC)
            self._second, self._text = second, moment.strftime("%Y-%m-%dT%H:%M:%S")
        return self._text

    def with_milliseconds(self, moment: int) -> str:
        """Return a moment, as `2026-11-16T16:00:00.123Z`."""
        second, rest = divmod(moment, SECOND)
        text = self._text if second == self._second else self.of(second)
        return "%s.%03dZ" % (text, rest // 1_000_000)  # noqa: UP031 - quicker
