"""Waiting, but no longer than a fixed time: one timer for all who wait.

All of them wait equally long, so the order in which they began is the order in which they are due,
and a plain dictionary keeps it. A timer for each would cost as much as the rest of its sending.
"""

import asyncio
import time
from typing import Protocol


class DeadlineListener(Protocol):
    """Somebody who waits for something."""

    def deadline_passed(self) -> None:
        """Hear that it did not come in time."""
        ...


class DeadlineQueue:
    """Who waits, and until when."""

    __slots__ = ("_due", "_is_set", "_seconds")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due: dict[DeadlineListener, float] = {}
        self._is_set = False

    def start(self, one: DeadlineListener) -> None:
        """Let somebody hear when the time is over."""
        self._due[one] = time.monotonic() + self._seconds
        if not self._is_set:
            self._set(self._seconds)

    def stop(self, one: DeadlineListener) -> None:
        """Forget somebody who has got what it waited for, or waits no more."""
        self._due.pop(one, None)

    def _set(self, seconds: float) -> None:
        self._is_set = True
        asyncio.get_running_loop().call_later(seconds, self._ring)

    def _ring(self) -> None:
        """Tell everybody whose time is over, and come again for the first of the others."""
        self._is_set = False
        now = time.monotonic()
        try:
            while self._due:
                first, due = next(iter(self._due.items()))
                if due > now:
                    break
                del self._due[first]
                first.deadline_passed()
        finally:
            if self._due and not self._is_set:
                self._set(max(0.0, next(iter(self._due.values())) - now))
