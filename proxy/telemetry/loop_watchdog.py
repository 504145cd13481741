"""The event-loop watchdog: detects that the event loop was blocked, and by which code.

A timer in the loop beats twenty times a second and measures how late each beat is. A thread checks
the beats ten times a second. While a beat is late, it reads which code the loop's thread runs.
This costs nothing per request.

Beats of a process without CPU time are late as well. The location is then arbitrary.
"""

import asyncio
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from types import FrameType

from prometheus_client import CollectorRegistry, Counter

from proxy.telemetry.logs import fields

log = logging.getLogger(__name__)

_BEAT_SECONDS = 0.05
_CHECK_SECONDS = 0.1
# A long block is logged before it ends: a failed liveness probe may end the process first.
_REPORT_AFTER_SECONDS = 5.0
_OWN_PACKAGE = "proxy."
_FRAMES = 3
UNKNOWN = "unknown"


class BlockedLoopMetrics:
    """Metrics of blocks of the event loop: their number and duration."""

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
        """Count a block of this duration."""
        self._count.inc()
        self._seconds.inc(seconds)


class LoopWatchdog:
    """Watches the event loop in which `watch` was called."""

    def __init__(self, counter: BlockedLoopMetrics, clock: Callable[[], float]) -> None:
        """`clock` must be monotonic and safe to call from two threads."""
        self._counter = counter
        self._clock = clock
        self._blocked_seconds = 0.0
        self._beat_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        # The loop appends and the thread pops, each with one atomic call.
        self._ended: deque[float] = deque()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, blocked_seconds: float) -> None:
        """Report blocks longer than this; 0 stops watching."""
        self._blocked_seconds = blocked_seconds
        if not blocked_seconds:
            self.stop()
        elif self._thread is None:
            self._begin()

    def stop(self) -> None:
        """Stop watching; blocks that have ended before are still reported."""
        if self._thread is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        # The thread ends by itself at its next check: the event loop does not wait for it.
        self._stopped.set()
        self._thread = None

    def _begin(self) -> None:
        self._stopped = threading.Event()
        self._beat_at = self._clock()
        self._timer = asyncio.get_running_loop().call_later(_BEAT_SECONDS, self._beat)
        self._thread = threading.Thread(
            target=self._run_thread,
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

    def _run_thread(self, watched_thread: int, stopped: threading.Event) -> None:
        location, is_reported = UNKNOWN, False
        is_last = False
        while not is_last:
            is_last = stopped.wait(_CHECK_SECONDS)
            if self._ended:
                seconds = self._ended.popleft()
                # Logged first: once the count is visible, the log contains its location.
                _report(seconds, location)
                self._counter.loop_blocked(seconds)
                location, is_reported = UNKNOWN, False
            late = self._clock() - self._beat_at - _BEAT_SECONDS
            # Read before the delay counts as a block: the block may end right after that.
            if late > self._blocked_seconds / 2:
                location = _location_of(watched_thread)
            if late > _REPORT_AFTER_SECONDS and not is_reported:
                _report(late, location)
                is_reported = True


def _report(seconds: float, location: str) -> None:
    log.warning("event loop blocked", extra=fields(seconds=round(seconds, 3), location=location))


def _location_of(thread: int) -> str:
    """Return the innermost functions of this package in a thread, each as `module:line name`."""
    frames = list(_frames(sys._current_frames().get(thread)))  # noqa: SLF001 - documented
    own = [
        frame for frame in frames if frame.f_globals.get("__name__", "").startswith(_OWN_PACKAGE)
    ]
    shown = own[:_FRAMES] or frames[:1]
    return " < ".join(map(_describe, shown)) or UNKNOWN


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and its callers."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _describe(frame: FrameType) -> str:
    module = frame.f_globals.get("__name__", UNKNOWN)
    return f"{module}:{frame.f_lineno} {frame.f_code.co_qualname}"
