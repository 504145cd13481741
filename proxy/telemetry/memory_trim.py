"""Freed memory, given back to the system after a peak.

glibc keeps what is freed below the last block in use, so after a flood of large requests the
process would stay as large as it was: docs/decisions/0015 has the figures. The size is looked at
about once a second; `malloc_trim` is called only after growth, and seldom.
"""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

_GROWTH_BYTES = 24 * 1024 * 1024
_LEAST_SECONDS = 5.0


class MemoryTrimmer:
    """Trims the heap of this process when it has grown since the last time."""

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
        """Give memory back if the process has grown; called about once a second."""
        now, size = self._clock(), self._resident_bytes()
        self._size = min(self._size, size)
        if size - self._size < _GROWTH_BYTES or now - self._trimmed_at < _LEAST_SECONDS:
            return
        self._trim()
        self._trimmed_at, self._size = now, self._resident_bytes()


def memory_trimmer(clock: Callable[[], float]) -> MemoryTrimmer | None:
    """Return what gives memory of this process back; None where the C library cannot."""
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
