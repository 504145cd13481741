"""Warnings and errors that repeat: so many in a minute are written, the rest is counted.

Something that goes wrong with every request would else fill a disk, and bury what matters. An event
is a constant text, so it is told apart by that and its logger, whatever its fields say. Lines of
the access log are no warnings and are all written.
"""

import logging
from collections.abc import Callable

_SECONDS = 60.0
_MOST_EVENTS = 1000
# The name under which a record carries its fields, as `logs.py` reads them.
FIELDS = "understudy_fields"


class _Minute:
    """How often one event came since a moment."""

    __slots__ = ("suppressed", "until", "written")

    def __init__(self, until: float, suppressed: int = 0) -> None:
        self.until = until
        self.written = 0
        self.suppressed = suppressed


class Repeats(logging.Filter):
    """Lets a warning or error pass, unless it has come too often."""

    def __init__(self, most_per_minute: int, clock: Callable[[], float]) -> None:
        """0 lets everything pass."""
        super().__init__()
        self._most = most_per_minute
        self._clock = clock
        self._minutes: dict[tuple[str, int, str], _Minute] = {}
        self.suppressed = 0
        """How many lines were not written so far."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether to write a record; the first after a silence says how many were not."""
        if record.levelno < logging.WARNING or not self._most:
            return True
        now = self._clock()
        # A library may have put anything into its text. What is long differs late, if at all.
        key = (record.name, record.levelno, str(record.msg)[:200])
        minute = self._minutes.get(key)
        if minute is None or now >= minute.until:
            minute = self._begin(key, now)
        if minute.written >= self._most:
            minute.suppressed += 1
            self.suppressed += 1
            return False
        minute.written += 1
        if minute.suppressed:
            told = {**getattr(record, FIELDS, {}), "suppressed": minute.suppressed}
            setattr(record, FIELDS, told)
            minute.suppressed = 0
        return True

    def _begin(self, key: tuple[str, int, str], now: float) -> _Minute:
        former = self._minutes.pop(key, None)
        if len(self._minutes) >= _MOST_EVENTS:
            # The one that began first; what it has not told is still counted in the whole.
            del self._minutes[next(iter(self._minutes))]
        minute = _Minute(now + _SECONDS, former.suppressed if former is not None else 0)
        self._minutes[key] = minute
        return minute
