"""Periodic maintenance of the running proxy: its sweeps, the heartbeat, and freed memory.

glibc keeps freed memory below the last block in use. After a flood of large requests the process
would keep its peak size: docs/decisions/0015 has the figures. The size is checked about once a
second; `malloc_trim` is called only after growth, and rarely.
"""

import asyncio
import ctypes
import itertools
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from proxy.admin.health import EventLoopHeartbeat
from proxy.telemetry.metrics.serving import ServingMetrics

log = logging.getLogger(__name__)

SWEEP_SECONDS = 1.0
_GROWTH_BYTES = 24 * 1024 * 1024
_MIN_TRIM_INTERVAL_SECONDS = 5.0


class Maintenance:
    """Runs tasks about once a second, beats the heartbeat, and trims the heap."""

    def __init__(
        self, heartbeat: EventLoopHeartbeat, counter: ServingMetrics, clock: Callable[[], float]
    ) -> None:
        self._heartbeat = heartbeat
        self._counter = counter
        self._clock = clock

    async def run(self, tasks: Callable[[int], Sequence[Callable[[], None]]]) -> None:
        """Sweep until cancelled; `tasks` returns the tasks of a sweep by its number, from 1."""
        trimmer = None
        with _failure_logged():
            trimmer = await asyncio.to_thread(memory_trimmer, self._clock)
        for sweep in itertools.count(1):
            asleep_since = self._clock()
            await asyncio.sleep(SWEEP_SECONDS)
            self._heartbeat.beat()
            self._counter.loop_lag_observed(self._clock() - asleep_since - SWEEP_SECONDS)
            for task in tasks(sweep):
                with _failure_logged():
                    task()
            if trimmer is not None:
                with _failure_logged():
                    await asyncio.to_thread(trimmer.trim_if_due)


@contextmanager
def _failure_logged() -> Iterator[None]:
    """Log an exception of one maintenance task, and continue.

    Otherwise one exception would end the enforcement of every deadline, and the heartbeat. The
    kubelet would then restart a process that serves requests.
    """
    try:
        yield
    except Exception:
        log.exception("maintenance failed")


class MemoryTrimmer:
    """Trims the heap of this process if it has grown since the last trim."""

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        resident_bytes: Callable[[], int],
        trim: Callable[[], object],
    ) -> None:
        self._clock = clock
        self._resident_bytes = resident_bytes
        self._trim = trim
        self._size = resident_bytes()
        self._trimmed_at = clock()

    def trim_if_due(self) -> None:
        """Return memory to the system if the process has grown; called about once a second."""
        now, size = self._clock(), self._resident_bytes()
        self._size = min(self._size, size)
        if size - self._size < _GROWTH_BYTES or now - self._trimmed_at < _MIN_TRIM_INTERVAL_SECONDS:
            return
        self._trim()
        self._trimmed_at, self._size = now, self._resident_bytes()


def memory_trimmer(clock: Callable[[], float]) -> MemoryTrimmer | None:
    """Return the trimmer of this process, or None if the C library does not support it."""
    statm = Path("/proc/self/statm")
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None  # not glibc
    if not statm.exists():
        return None
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    return MemoryTrimmer(
        clock,
        resident_bytes=lambda: int(statm.read_text().split()[1]) * page_bytes,
        trim=lambda: trim(0),
    )
