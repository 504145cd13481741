"""Heap trimming: returns freed memory to the operating system after a peak.

glibc keeps freed memory below the last block in use. After a flood of large requests the process
would keep its peak size: docs/decisions/0015 has the figures. The size is checked about once a
second; `malloc_trim` is called only after growth, and rarely.
"""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

_GROWTH_BYTES = 24 * 1024 * 1024
_MIN_INTERVAL_SECONDS = 5.0


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
        if size - self._size < _GROWTH_BYTES or now - self._trimmed_at < _MIN_INTERVAL_SECONDS:
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
