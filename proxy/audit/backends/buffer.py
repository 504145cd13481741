"""In-memory buffer of the events that one backend has yet to store; bounded, losses are counted.

The event loop adds events and never waits. The backend removes them in its own thread or task.
Each counter is written by one side only, so neither side needs a lock.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from proxy.telemetry.logs import fields
from proxy.telemetry.metrics.audit import AuditMetrics

log = logging.getLogger(__name__)


class BackendMode(StrEnum):
    """How requests are affected by a backend that cannot keep up; kube-apiserver's mode names."""

    BATCH = "batch"
    """Requests are not affected. Events beyond the buffer are lost, and counted."""
    BLOCKING = "blocking"
    """Requests wait while the backend is slow. While it fails they proceed, as in `batch`."""
    BLOCKING_STRICT = "blocking-strict"
    """Requests wait while the backend is slow, and are rejected while it fails."""


@dataclass(frozen=True, slots=True)
class BufferLimits:
    """The size limits of a buffer, and how requests are affected when it fills up."""

    mode: BackendMode
    events: int
    bytes: int


class EventBuffer:
    """The events that one backend has yet to store, in order."""

    def __init__(
        self, name: str, limits: BufferLimits, metrics: AuditMetrics, wake: Callable[[], None]
    ) -> None:
        """`wake` is called when an event is added while the backend is idle."""
        self.name = name
        self.mode = limits.mode
        self.is_failing = False
        self._limits = limits
        self._metrics = metrics
        self._wake = wake
        self._queued: deque[bytes] = deque()
        self._is_idle = False
        self._is_dropping = False
        # Totals. The event loop writes those of added events, the backend those of removed ones.
        self._added = self._added_bytes = 0
        self._removed = self._removed_bytes = 0

    def __len__(self) -> int:
        """Return the number of events not stored yet, including those being stored."""
        return self._added - self._removed

    @property
    def queued(self) -> int:
        """Return the number of events that the backend has not taken yet."""
        return len(self._queued)

    @property
    def below_high_water(self) -> bool:
        """Return whether less than half is in use; the rest is reserved for requests in flight."""
        limits = self._limits
        return (
            2 * (self._added - self._removed) < limits.events
            and 2 * (self._added_bytes - self._removed_bytes) < limits.bytes
        )

    @property
    def free_slots(self) -> int:
        """Return how many more events fit below the high-water mark."""
        if not self.below_high_water:
            return 0
        return (self._limits.events + 1) // 2 - len(self)

    def set_limits(self, limits: BufferLimits) -> None:
        """Apply these limits to all later events; to be called by the event loop only."""
        self.mode = limits.mode
        self._limits = limits

    def write(self, line: bytes) -> None:
        """Add one event, or count it as lost if the buffer is full; never blocks."""
        added_bytes = self._added_bytes + len(line)
        limits = self._limits
        if (
            self._added - self._removed >= limits.events
            or added_bytes - self._removed_bytes > limits.bytes
        ):
            self.drop("buffer-full")
            return
        self._added += 1
        self._added_bytes = added_bytes
        self._queued.append(line)
        if self._is_idle:
            self._is_idle = False
            self._wake()

    def drop(self, reason: str) -> None:
        """Count one event as lost that was never added; log the first of consecutive losses."""
        self._metrics.events_lost(self.name, reason, 1)
        if not self._is_dropping:
            self._is_dropping = True
            log.error("audit event dropped", extra=fields(backend=self.name, reason=reason))

    def mark_idle(self) -> bool:
        """Return whether the backend may sleep until it is woken; for the backend only."""
        # The flag is set before the check: an event added in between then wakes the backend.
        self._is_idle = True
        if self._queued:
            self._is_idle = False
            return False
        return True

    def take(self, *, events: int, size: int) -> deque[bytes]:
        """Remove and return the oldest events up to a number and a size; at least one if any."""
        taken: deque[bytes] = deque()
        if len(self) <= events and self._added_bytes - self._removed_bytes <= size:
            # The usual case: all of them fit. Events added meanwhile are left for the next call.
            pop_next = self._queued.popleft
            taken.extend([pop_next() for _ in range(len(self._queued))])
            return taken
        while self._queued and len(taken) < events:
            size -= len(self._queued[0])
            if size < 0 and taken:
                break
            taken.append(self._queued.popleft())
        return taken

    def mark_stored(self, count: int, size: int, *, works: bool = True) -> None:
        """Remove and count stored events; `works` is False if the backend failed on others."""
        self._remove(count, size)
        self._metrics.events_stored(self.name, count)
        if works and (self.is_failing or self._is_dropping):
            self.is_failing = self._is_dropping = False
            log.info("audit backend recovered", extra=fields(backend=self.name))

    def discard(self, reason: str, count: int, size: int) -> None:
        """Count events as lost that the backend gives up on."""
        self._remove(count, size)
        self._metrics.events_lost(self.name, reason, count)
        log.error("audit events lost", extra=fields(backend=self.name, reason=reason, events=count))

    def discard_all(self, reason: str) -> None:
        """Count all events not stored yet as lost; no event may be added after this."""
        if count := len(self):
            self.discard(reason, count, self._added_bytes - self._removed_bytes)

    def mark_failed(self, reason: str, why: str) -> None:
        """Record a failed attempt; the backend keeps its events and retries."""
        self._metrics.backend_failed(self.name, reason)
        if not self.is_failing:
            self.is_failing = True
            log.error(
                "audit backend failed", extra=fields(backend=self.name, reason=reason, error=why)
            )

    def _remove(self, count: int, size: int) -> None:
        self._removed += count
        self._removed_bytes += size
