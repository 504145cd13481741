"""Shares of the event loop for TLS handshakes.

A step of a handshake costs up to a third of a millisecond, mostly for its signature, and a client
causes one with a packet of 500 bytes. Without a bound, hundreds that arrive together are done in
one turn of the loop, and every established connection waits for all of them.

Here handshakes have a slice of each turn. What does not fit waits for the next turns, and the
addresses take turns, so one that floods makes its own handshakes wait.
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
"""The client was too slow; left without a word; refused us (it does not trust our certificate, for
example); does not speak TLS; has no version, or no cipher, in common with us; shows certificates
that are too large, or a key that is not taken; was closed for a newcomer, or because too much
memory was held; anything else."""

_KNOWN = {
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
    """Counts, from zero on for every reason."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(REASONS, 0))

    def add(self, reason: str) -> None:
        """Count one."""
        self.counts[reason] += 1


def failure_reason(error: Exception) -> str:
    """Return the reason in what OpenSSL says."""
    text = str(error)
    for words, reason in _KNOWN.items():
        if words in text:
            return reason
    return ALERT if " alert " in text else OTHER


Step = Callable[[], None]


class WaitingStep:
    """A step that waits for its turn; what it refers to is let go of when it is cancelled."""

    __slots__ = ("_step",)

    def __init__(self, step: Step) -> None:
        self._step: Step | None = step

    def cancel(self) -> None:
        """Do nothing in its turn; may be called at any time."""
        self._step = None

    def run(self) -> None:
        """Do the step, unless it was cancelled."""
        step, self._step = self._step, None
        if step is not None:
            step()


class HandshakeScheduler:
    """Says which step of a handshake is done now, and does the others later."""

    def __init__(self, slice_seconds: float, clock: Callable[[], float]) -> None:
        """`slice_seconds` of each turn of the loop are for handshakes; a step is never divided."""
        self._slice_seconds = slice_seconds
        self._clock = clock
        self._spent_seconds = 0.0
        self._is_due = False
        self._is_turn = False
        # In the order of their turns. An address is in it only while one of its steps waits.
        self._lines: dict[str, deque[WaitingStep]] = {}

    def limit(self, slice_seconds: float) -> None:
        """Use another slice from now on."""
        self._slice_seconds = slice_seconds

    @property
    def has_time(self) -> bool:
        """Whether a step may be done now: before everything that waits, nothing is."""
        return self._is_turn or (not self._lines and self._spent_seconds < self._slice_seconds)

    def started(self) -> float:
        """Return the moment to tell `spent` later."""
        return self._clock()

    def spent(self, started: float) -> None:
        """Count the time of one step against this turn of the loop."""
        self._spent_seconds += self._clock() - started
        self._come_again()

    def wait(self, origin: str, step: Step) -> WaitingStep:
        """Do a step in one of the next turns. What it holds is counted by the caller.

        A caller that does not need it any more cancels it. A line may be seconds long, and would
        keep for so long every connection that has left since.
        """
        waiting = WaitingStep(step)
        self._lines.setdefault(origin, deque()).append(waiting)
        self._come_again()
        return waiting

    def _come_again(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_due = False
        self._spent_seconds = 0.0
        self._is_turn = True
        try:
            while self._lines and self._spent_seconds < self._slice_seconds:
                self._do_next()
        finally:
            self._is_turn = False
            # Also after a step that failed: nothing else would ever wake up those behind it.
            if self._lines:
                self._come_again()

    def _do_next(self) -> None:
        origin, line = next(iter(self._lines.items()))
        waiting = line.popleft()
        del self._lines[origin]
        if line:
            self._lines[origin] = line  # behind every other address
        waiting.run()
