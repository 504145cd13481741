"""The event-loop watchdog: notices that the event loop was blocked, and where.

A timer in the loop beats twenty times a second and measures how late each beat is. A thread looks
at the beats ten times a second. While a beat is late, it reads which code the loop's thread runs.
Requests pay nothing for this.

A process that gets no CPU is late as well. The location is then wherever it happened to be.
"""

import asyncio
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter

from proxy.telemetry.logs import fields

log = logging.getLogger(__name__)

_BEAT_SECONDS = 0.05
_LOOK_SECONDS = 0.1
# A loop that stays blocked is logged before it ends: a liveness probe may end the process first.
_TOLD_AFTER_SECONDS = 5.0
_OURS = "proxy."
_FRAMES = 3
UNKNOWN = "unknown"


class BlockedLoopCounter(Protocol):
    """Counts the times that the event loop was blocked."""

    def loop_blocked(self, seconds: float) -> None:
        """Count one that lasted for this long."""
        ...


class BlockedLoopMetrics:
    """How often the event loop was blocked, and for how long, on a registry that is passed in."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._count = Counter(
            "understudy_event_loop_blocked_total",
            "Times the event loop was blocked for longer than admin.blockedLoop. The log event "
            "names the code location.",
            registry=registry,
        )
        self._seconds = Counter(
            "understudy_event_loop_blocked_seconds_total",
            "Seconds for which the event loop was blocked, summed over the blocks in "
            "understudy_event_loop_blocked_total.",
            registry=registry,
        )

    def loop_blocked(self, seconds: float) -> None:
        """Count one that lasted for this long."""
        self._count.inc()
        self._seconds.inc(seconds)


class LoopWatchdog:
    """Watches the event loop that `watch` was called in."""

    def __init__(self, counter: BlockedLoopCounter, clock: Callable[[], float]) -> None:
        """`clock` is asked from two threads, and never goes back."""
        self._counter = counter
        self._clock = clock
        self._blocked_seconds = 0.0
        self._beat_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        # Appended to by the loop and emptied by the thread, each by one call that is atomic.
        self._ended: deque[float] = deque()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, blocked_seconds: float) -> None:
        """Report a loop that is blocked for longer than this; 0 watches no more."""
        self._blocked_seconds = blocked_seconds
        if not blocked_seconds:
            self.stop()
        elif self._thread is None:
            self._begin()

    def stop(self) -> None:
        """Watch no more; what has ended before is still reported."""
        if self._thread is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        # The thread ends by itself at its next look: the event loop does not wait for it.
        self._stopped.set()
        self._thread = None

    def _begin(self) -> None:
        self._stopped = threading.Event()
        self._beat_at = self._clock()
        self._timer = asyncio.get_running_loop().call_later(_BEAT_SECONDS, self._beat)
        self._thread = threading.Thread(
            target=self._look_often,
            args=(threading.get_ident(), self._stopped),
            name="event-loop-watchdog",
            daemon=True,
        )
        self._thread.start()

    def _beat(self) -> None:
        now = self._clock()
        late = now - self._beat_at - _BEAT_SECONDS
        if late > self._blocked_seconds:
            self._ended.append(late)
        self._beat_at = now
        self._timer = asyncio.get_running_loop().call_later(_BEAT_SECONDS, self._beat)

    def _look_often(self, watched_thread: int, stopped: threading.Event) -> None:
        location, is_told = UNKNOWN, False
        is_last = False
        while not is_last:
            is_last = stopped.wait(_LOOK_SECONDS)
            if self._ended:
                seconds = self._ended.popleft()
                # Logged first: whatever has seen the count finds its location in the log.
                _tell(seconds, location)
                self._counter.loop_blocked(seconds)
                location, is_told = UNKNOWN, False
            late = self._clock() - self._beat_at - _BEAT_SECONDS
            # Looked at before it counts as blocked: it may end right after that.
            if late > self._blocked_seconds / 2:
                location = _location_of(watched_thread)
            if late > _TOLD_AFTER_SECONDS and not is_told:
                _tell(late, location)
                is_told = True


def _tell(seconds: float, location: str) -> None:
    log.warning("event loop blocked", extra=fields(seconds=round(seconds, 3), location=location))


def _location_of(thread: int) -> str:
    """Return what the thread runs: the innermost functions of ours, each as `module:line name`."""
    frames = list(_frames(sys._current_frames().get(thread)))  # noqa: SLF001 - documented
    ours = [frame for frame in frames if frame.f_globals.get("__name__", "").startswith(_OURS)]
    shown = ours[:_FRAMES] or frames[:1]
    return " < ".join(map(_place, shown)) or UNKNOWN


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and those that called it."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _place(frame: FrameType) -> str:
    module = frame.f_globals.get("__name__", UNKNOWN)
    return f"{module}:{frame.f_lineno} {frame.f_code.co_qualname}"
