"""A queue of deadlines with one fixed timeout and one timer.

All entries have the same timeout, so they are due in insertion order, which a dictionary keeps. A
timer per request would cost as much as the rest of sending it.
"""

import asyncio
import time
from typing import Protocol


class DeadlineListener(Protocol):
    """Notified when its deadline passes."""

    def deadline_passed(self) -> None:
        """Handle the end of the timeout."""
        ...


class DeadlineQueue:
    """The pending listeners, and their deadlines."""

    __slots__ = ("_due", "_is_scheduled", "_timeout_seconds")

    def __init__(self, seconds: float) -> None:
        self._timeout_seconds = seconds
        self._due: dict[DeadlineListener, float] = {}
        self._is_scheduled = False

    def start(self, listener: DeadlineListener) -> None:
        """Notify a listener when the timeout has passed, unless it is stopped before."""
        self._due[listener] = time.monotonic() + self._timeout_seconds
        if not self._is_scheduled:
            self._schedule(self._timeout_seconds)

    def stop(self, listener: DeadlineListener) -> None:
        """Remove a listener, if it is still in the queue."""
        self._due.pop(listener, None)

    def _schedule(self, seconds: float) -> None:
        self._is_scheduled = True
        asyncio.get_running_loop().call_later(seconds, self._notify_due)

    def _notify_due(self) -> None:
        """Notify the listeners that are due, and schedule the timer for the next one."""
        self._is_scheduled = False
        now = time.monotonic()
        try:
            while self._due:
                first, due = next(iter(self._due.items()))
                if due > now:
                    break
                del self._due[first]
                first.deadline_passed()
        finally:
            if self._due and not self._is_scheduled:
                self._schedule(max(0.0, next(iter(self._due.values())) - now))
