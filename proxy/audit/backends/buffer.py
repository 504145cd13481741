"""What one backend has yet to store: events in memory, bounded, and counted when they are lost.

The event loop puts events in and never waits; the backend takes them out in a thread or a task of
its own. Each number has one side that writes it, so neither side needs a lock.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from proxy.telemetry.logs import fields

log = logging.getLogger(__name__)


class BackendMode(StrEnum):
    """What a backend that cannot keep up means for requests; the names are kube-apiserver's."""

    BATCH = "batch"
    """Nothing: events beyond the buffer are lost, and counted."""
    BLOCKING = "blocking"
    """They wait while it is slow. While it fails they go on, as in `batch`."""
    BLOCKING_STRICT = "blocking-strict"
    """They wait while it is slow, and are refused while it fails."""


@dataclass(frozen=True, slots=True)
class BufferLimits:
    """How much may wait to be stored, and what follows when it does."""

    mode: BackendMode
    events: int
    bytes: int


class AuditCounter(Protocol):
    """Counts what becomes of events."""

    def events_stored(self, backend: str, count: int) -> None:
        """Count events that are safe with the backend."""
        ...

    def events_lost(self, backend: str, reason: str, count: int) -> None:
        """Count events that no backend of this name will ever have."""
        ...

    def backend_failed(self, backend: str, reason: str) -> None:
        """Count one attempt that failed; nothing is lost by that alone."""
        ...


class EventBuffer:
    """The events that wait for one backend, in order."""

    def __init__(
        self, name: str, limits: BufferLimits, counter: AuditCounter, wake: Callable[[], None]
    ) -> None:
        """`wake` is called when an event comes and the backend is idle."""
        self.name = name
        self.mode = limits.mode
        self.is_failing = False
        self._limits = limits
        self._counter = counter
        self._wake = wake
        self._waiting: deque[bytes] = deque()
        self._is_idle = False
        self._is_losing = False
        # What ever came in is written by the event loop, what ever went out by the backend.
        self._came = self._came_bytes = 0
        self._went = self._went_bytes = 0

    def __len__(self) -> int:
        """Return how many events are not stored yet, those being stored included."""
        return self._came - self._went

    @property
    def waiting(self) -> int:
        """How many events the backend has not taken yet."""
        return len(self._waiting)

    @property
    def below_high_water(self) -> bool:
        """Tell whether less than half is taken; the rest is for requests that are under way."""
        limits = self._limits
        return (
            2 * (self._came - self._went) < limits.events
            and 2 * (self._came_bytes - self._went_bytes) < limits.bytes
        )

    @property
    def free_slots(self) -> int:
        """How many more events come before there is no room."""
        if not self.below_high_water:
            return 0
        return (self._limits.events + 1) // 2 - len(self)

    def limit(self, limits: BufferLimits) -> None:
        """Hold what comes from now on to these limits; for the event loop alone."""
        self.mode = limits.mode
        self._limits = limits

    def write(self, line: bytes) -> None:
        """Take one event, or count it as lost where there is no place for it; returns at once."""
        came_bytes = self._came_bytes + len(line)
        limits = self._limits
        if self._came - self._went >= limits.events or came_bytes - self._went_bytes > limits.bytes:
            self.drop("buffer-full")
            return
        self._came += 1
        self._came_bytes = came_bytes
        self._waiting.append(line)
        if self._is_idle:
            self._is_idle = False
            self._wake()

    def drop(self, reason: str) -> None:
        """Count one event as lost that never came in; tell the first of a row in the log."""
        self._counter.events_lost(self.name, reason, 1)
        if not self._is_losing:
            self._is_losing = True
            log.error("audit events are being lost", extra=fields(backend=self.name, reason=reason))

    def becomes_idle(self) -> bool:
        """Tell the backend whether it may sleep until it is woken; for the backend alone."""
        # Idle first, and then one more look: an event that comes in between wakes the sleeper.
        self._is_idle = True
        if self._waiting:
            self._is_idle = False
            return False
        return True

    def take(self, *, events: int, size: int) -> deque[bytes]:
        """Return the oldest events, at least one if there is any, up to a number and a size."""
        taken: deque[bytes] = deque()
        if len(self) <= events and self._came_bytes - self._went_bytes <= size:
            # All of them: nearly always. Those that come meanwhile are left for the next time.
            next_one = self._waiting.popleft
            taken.extend([next_one() for _ in range(len(self._waiting))])
            return taken
        while self._waiting and len(taken) < events:
            size -= len(self._waiting[0])
            if size < 0 and taken:
                break
            taken.append(self._waiting.popleft())
        return taken

    def stored(self, count: int, size: int, *, works: bool = True) -> None:
        """Learn that events are safe, and whether the backend works."""
        self._leave(count, size)
        self._counter.events_stored(self.name, count)
        if works and (self.is_failing or self._is_losing):
            self.is_failing = self._is_losing = False
            log.info("audit backend recovered", extra=fields(backend=self.name))

    def discard(self, reason: str, count: int, size: int) -> None:
        """Learn that events are given up."""
        self._leave(count, size)
        self._counter.events_lost(self.name, reason, count)
        log.error("audit events lost", extra=fields(backend=self.name, reason=reason, events=count))

    def discard_all(self, reason: str) -> None:
        """Count all that is not stored as lost; nothing comes after this."""
        if count := len(self):
            self.discard(reason, count, self._came_bytes - self._went_bytes)

    def failed(self, reason: str, why: str) -> None:
        """Learn that an attempt failed; the backend keeps its events and tries again."""
        self._counter.backend_failed(self.name, reason)
        if not self.is_failing:
            self.is_failing = True
            log.error(
                "audit backend failed", extra=fields(backend=self.name, reason=reason, error=why)
            )

    def _leave(self, count: int, size: int) -> None:
        self._went += count
        self._went_bytes += size
