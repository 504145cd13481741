"""The loop of everything that is refreshed: at an interval, and at once when triggered.

A refresh that fails does not end the loop. Otherwise one error would keep a removed CA trusted, or
an expired credential in use, until the process ends.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from proxy.concurrency.task_set import TaskSet

_Refresh = Callable[[], Coroutine[Any, Any, None]]


class Delay(NamedTuple):
    """The time between two refreshes: a pause, and then an interval."""

    seconds: float | None
    """The interval, which a trigger ends early; None: wait for a trigger."""
    pause_seconds: float = 0.0
    """The pause, which no trigger ends early."""


class RefreshLoop:
    """Repeats a refresh until cancelled.

    A trigger during a refresh or its pause causes another refresh afterwards. Without
    `keeps_late_triggers` it is discarded, if that refresh was triggered as well.
    """

    def __init__(
        self,
        refresh: _Refresh,
        *,
        delay: Callable[[], Delay],
        tasks: TaskSet,
        when_triggered: _Refresh | None = None,
        keeps_late_triggers: bool = True,
    ) -> None:
        """`delay` is called after each refresh; `when_triggered` replaces a triggered refresh."""
        self._refresh = refresh
        self._refresh_on_trigger = when_triggered or refresh
        self._delay = delay
        self._tasks = tasks
        self._keeps_late_triggers = keeps_late_triggers
        self._triggered = asyncio.Event()

    @property
    def is_triggered(self) -> bool:
        """Return whether a trigger is pending."""
        return self._triggered.is_set()

    def trigger(self) -> None:
        """Refresh without waiting for the end of the interval."""
        self._triggered.set()

    async def run(self, *, starts_at_once: bool = False) -> None:
        """Refresh until cancelled; with `starts_at_once` the first time without an interval."""
        is_triggered = False if starts_at_once else await self._wait(self._delay().seconds)
        while True:
            if self._keeps_late_triggers:
                self._triggered.clear()
            await self._run_once(self._refresh_on_trigger if is_triggered else self._refresh)
            delay = self._delay()
            if delay.pause_seconds:
                await asyncio.sleep(delay.pause_seconds)
            if is_triggered and not self._keeps_late_triggers:
                self._triggered.clear()
            is_triggered = await self._wait(delay.seconds)

    async def _run_once(self, refresh: _Refresh) -> None:
        """Run one refresh as a task of its own, so that no exception in it ends the loop."""
        running = self._tasks.start(refresh())
        try:
            await asyncio.wait([running])
        finally:
            running.cancel()

    async def _wait(self, seconds: float | None) -> bool:
        """Wait for the end of the interval, or for a trigger; return whether one is pending."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._triggered.wait()
        return self._triggered.is_set()
