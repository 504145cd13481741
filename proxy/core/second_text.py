"""Moments as text, most of which are in the same second as the one before."""

from datetime import UTC, datetime, timedelta

_ONE_SECOND = timedelta(seconds=1)
_SECOND_AGO = -_ONE_SECOND
_OFFSET_LENGTH = len("+00:00")


class SecondText:
    """Writes moments in UTC down to the whole second; what is below is the caller's to add.

    Writing a moment anew costs as much as everything else about a log line.
    """

    __slots__ = ("_last", "_second", "_text")

    def __init__(self) -> None:
        self._last = datetime.fromtimestamp(0, UTC)
        self._second = -1
        self._text = ""

    def of(self, moment: datetime) -> str:
        """Return a moment up to its second, as `2026-11-16T16:00:00`."""
        # Less than a second apart and of the same number they are in the same second.
        if moment.second == self._second and _SECOND_AGO < moment - self._last < _ONE_SECOND:
            return self._text
        self._last, self._second = moment, moment.second
        utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
        self._text = utc.isoformat(timespec="seconds")[:-_OFFSET_LENGTH]
        return self._text
