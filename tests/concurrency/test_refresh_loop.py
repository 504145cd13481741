"""The refresh loop: its intervals, its pauses, its triggers, and that no failure ends it.

The event loop's clock is virtual: a minute passes at once.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from proxy.concurrency.refresh_loop import Delay, RefreshLoop
from proxy.concurrency.task_set import TaskSet
from tests.support.event_loops import in_virtual_time

EVERY_SECONDS = 60.0
EVERY_MINUTE = Delay(EVERY_SECONDS)
WORK_SECONDS = 2.0


class Refreshed:
    """What a loop refreshes, when, and why."""

    def __init__(self, delay: Delay = EVERY_MINUTE, *, keeps_late: bool = True) -> None:
        self.delay = delay
        self.error: BaseException | None = None
        self.seconds: list[float] = []
        self.triggered: list[bool] = []
        self.failures: list[BaseException] = []
        self.cancelled = 0
        self._started = asyncio.get_running_loop().time()
        self.tasks = TaskSet(self.failures.append)
        self.loop = RefreshLoop(
            lambda: self._refresh(is_triggered=False),
            delay=lambda: self.delay,
            tasks=self.tasks,
            when_triggered=lambda: self._refresh(is_triggered=True),
            keeps_late_triggers=keeps_late,
        )

    @asynccontextmanager
    async def running(self, *, starts_at_once: bool = False) -> AsyncIterator[None]:
        self.running_task = self.tasks.start(self.loop.run(starts_at_once=starts_at_once))
        yield
        await self.tasks.stop()

    async def _refresh(self, *, is_triggered: bool) -> None:
        self.seconds.append(asyncio.get_running_loop().time() - self._started)
        self.triggered.append(is_triggered)
        try:
            await asyncio.sleep(WORK_SECONDS)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error


@in_virtual_time
async def test_it_refreshes_after_each_interval() -> None:
    refreshed = Refreshed()
    async with refreshed.running():
        await asyncio.sleep(130)
    assert refreshed.seconds == [60, 122]
    assert refreshed.triggered == [False, False]


@in_virtual_time
async def test_it_may_start_at_once() -> None:
    refreshed = Refreshed()
    async with refreshed.running(starts_at_once=True):
        await asyncio.sleep(70)
    assert refreshed.seconds == [0, 62]


@in_virtual_time
async def test_the_interval_is_read_again_after_each_refresh() -> None:
    refreshed = Refreshed(Delay(10))
    async with refreshed.running():
        await asyncio.sleep(11)
        refreshed.delay = Delay(100)
        await asyncio.sleep(120)
    assert refreshed.seconds == [10, 112]


@in_virtual_time
async def test_a_trigger_ends_the_interval_and_is_reported_once() -> None:
    refreshed = Refreshed()
    async with refreshed.running():
        await asyncio.sleep(5)
        refreshed.loop.trigger()
        refreshed.loop.trigger()
        assert refreshed.loop.is_triggered
        await asyncio.sleep(65)
    assert (refreshed.seconds, refreshed.triggered) == ([5, 67], [True, False])


@in_virtual_time
async def test_without_an_interval_only_triggers_refresh() -> None:
    refreshed = Refreshed(Delay(None))
    async with refreshed.running():
        await asyncio.sleep(1_000_000)
        assert refreshed.seconds == []
        refreshed.loop.trigger()
        await asyncio.sleep(1)
    assert refreshed.triggered == [True]


@in_virtual_time
async def test_no_trigger_ends_the_pause() -> None:
    refreshed = Refreshed(Delay(EVERY_SECONDS, pause_seconds=5))
    async with refreshed.running(starts_at_once=True):
        await asyncio.sleep(3)
        refreshed.loop.trigger()
        await asyncio.sleep(5)
    assert (refreshed.seconds, refreshed.triggered) == ([0, 7], [False, True])


@in_virtual_time
async def test_a_trigger_during_a_refresh_causes_another_one() -> None:
    """SIGHUP during a reload: the file may have changed after it was read."""
    refreshed = Refreshed()
    async with refreshed.running():
        refreshed.loop.trigger()
        await asyncio.sleep(1)
        refreshed.loop.trigger()
        await asyncio.sleep(10)
    assert (refreshed.seconds, refreshed.triggered) == ([0, 2], [True, True])


@in_virtual_time
@pytest.mark.parametrize("late", [1, 4], ids=["refresh", "pause"])
async def test_late_triggers_may_be_discarded(late: float) -> None:
    refreshed = Refreshed(Delay(EVERY_SECONDS, pause_seconds=5), keeps_late=False)
    async with refreshed.running():
        refreshed.loop.trigger()
        await asyncio.sleep(late)
        refreshed.loop.trigger()
        pending = [refreshed.loop.is_triggered]
        await asyncio.sleep(10)
        pending.append(refreshed.loop.is_triggered)
    assert (refreshed.seconds, pending) == ([0], [True, False])


@in_virtual_time
async def test_a_trigger_during_a_periodic_refresh_is_never_discarded() -> None:
    refreshed = Refreshed(keeps_late=False)
    async with refreshed.running(starts_at_once=True):
        await asyncio.sleep(1)
        refreshed.loop.trigger()
        await asyncio.sleep(2)
    assert (refreshed.seconds, refreshed.triggered) == ([0, 2], [False, True])


@in_virtual_time
@pytest.mark.parametrize(
    "error", [ZeroDivisionError("a bug"), asyncio.CancelledError()], ids=["bug", "cancellation"]
)
async def test_no_error_ends_the_loop_and_an_exception_is_reported(error: BaseException) -> None:
    refreshed = Refreshed()
    refreshed.error = error
    async with refreshed.running():
        await asyncio.sleep(130)
    assert refreshed.seconds == [60, 122]
    is_reported = isinstance(error, Exception)
    assert refreshed.failures == [error] * 2 * is_reported


@in_virtual_time
async def test_a_cancelled_loop_cancels_its_refresh() -> None:
    refreshed = Refreshed()
    async with refreshed.running(starts_at_once=True):
        await asyncio.sleep(1)
        refreshed.running_task.cancel()
        await asyncio.sleep(EVERY_SECONDS * 2)
        assert (refreshed.cancelled, len(refreshed.seconds)) == (1, 1)
