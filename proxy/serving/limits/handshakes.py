"""Scheduling of TLS handshakes, and their failure reasons.

A step of a handshake costs up to a third of a millisecond, mostly for its signature. A client
causes one with a packet of 500 bytes. Without a bound, hundreds of steps that arrive together would
run in one iteration of the event loop. Every established connection would wait for all of them.

Handshakes therefore get a time slice of each iteration. Steps that do not fit wait for later
iterations. Addresses are served round-robin, so a flood from one address delays its own handshakes.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable

TIMEOUT, LEFT, ALERT, NOT_TLS, VERSION, CIPHER, CERTIFICATE, EVICTED, OTHER = REASONS = (
    "timeout",
    "left",
    "alert",
    "not-tls",
    "version",
    "cipher",
    "certificate",
    "evicted",
    "other",
)
"""Why a handshake failed, in the order above.

- The client was too slow.
- The client disconnected without an alert.
- The client sent an alert, for example because it does not trust the serving certificate.
- The client does not use TLS.
- There is no common TLS version.
- There is no common cipher.
- The client's certificates are too large, or their key is not accepted.
- The connection was evicted for a new one, or for too much held memory.
- Any other reason.
"""

_REASONS_BY_TEXT = {
    "http request": NOT_TLS,
    "https proxy request": NOT_TLS,
    "wrong version number": NOT_TLS,
    "packet length too long": NOT_TLS,
    "unsupported protocol": VERSION,
    "version too low": VERSION,
    "no shared cipher": CIPHER,
    "no suitable key share": CIPHER,
    "no shared signature algorithms": CIPHER,
    "no suitable signature algorithm": CIPHER,
    "excessive message size": CERTIFICATE,
    "certificate verify failed": CERTIFICATE,
}


class HandshakeFailures:
    """Counts of failed handshakes; every reason starts at zero."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(REASONS, 0))

    def add(self, reason: str) -> None:
        """Count one failed handshake."""
        self.counts[reason] += 1


def failure_reason(error: Exception) -> str:
    """Return the reason for an OpenSSL error, by its text."""
    text = str(error)
    for fragment, reason in _REASONS_BY_TEXT.items():
        if fragment in text:
            return reason
    return ALERT if " alert " in text else OTHER


Step = Callable[[], None]


class QueuedStep:
    """A queued handshake step; cancelling it releases the objects it refers to."""

    __slots__ = ("_step",)

    def __init__(self, step: Step) -> None:
        self._step: Step | None = step

    def cancel(self) -> None:
        """Skip the step; may be called at any time."""
        self._step = None

    def run(self) -> None:
        """Run the step, unless it was cancelled."""
        step, self._step = self._step, None
        if step is not None:
            step()


class HandshakeScheduler:
    """Decides which handshake steps run now, and runs the others later."""

    def __init__(self, slice_seconds: float, clock: Callable[[], float]) -> None:
        """Give handshakes `slice_seconds` of each loop iteration; a step is never divided."""
        self._slice_seconds = slice_seconds
        self._clock = clock
        self._spent_seconds = 0.0
        self._is_scheduled = False
        self._is_running = False
        # In round-robin order. An address is present only while it has a queued step.
        self._queues: dict[str, deque[QueuedStep]] = {}

    def set_slice(self, slice_seconds: float) -> None:
        """Use another slice from now on."""
        self._slice_seconds = slice_seconds

    @property
    def has_time(self) -> bool:
        """Whether a step may run now; a new step never runs before queued ones."""
        return self._is_running or (not self._queues and self._spent_seconds < self._slice_seconds)

    def start_step(self) -> float:
        """Return the start time to pass to `spent`."""
        return self._clock()

    def end_step(self, started: float) -> None:
        """Count the time of one step against this loop iteration."""
        self._spent_seconds += self._clock() - started
        self._schedule()

    def enqueue(self, origin: str, step: Step) -> QueuedStep:
        """Queue a step for a later iteration; the caller accounts for its memory.

        A caller that no longer needs the step cancels it. The queue may be seconds long, and would
        otherwise keep closed connections in memory for that time.
        """
        waiting = QueuedStep(step)
        self._queues.setdefault(origin, deque()).append(waiting)
        self._schedule()
        return waiting

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._run_queued)

    def _run_queued(self) -> None:
        self._is_scheduled = False
        self._spent_seconds = 0.0
        self._is_running = True
        try:
            while self._queues and self._spent_seconds < self._slice_seconds:
                self._run_next()
        finally:
            self._is_running = False
            # Also after a step that raised: nothing else would schedule the remaining steps.
            if self._queues:
                self._schedule()

    def _run_next(self) -> None:
        origin, queue = next(iter(self._queues.items()))
        waiting = queue.popleft()
        del self._queues[origin]
        if queue:
            self._queues[origin] = queue  # after every other address
        waiting.run()
