"""Phases of a shutdown and their times. Pure: times are passed in.

1. Announced: requests are served as usual, and each response is its connection's last. Meanwhile
   load balancers see that this instance is not ready.
2. Closed: no connection is accepted. Requests on open connections are rejected with a retry.
   Streams end one by one, and exchanges in progress are waited for.
3. Over: no exchange is left, or the grace period has ended. Tunnels end here, because they alone
   cannot be resumed.
"""

from dataclasses import dataclass

TEARDOWN_SECONDS = 2.0
"""The part of the grace period for teardown: last bytes, the admin port, the audit file."""

FIRST_REQUEST_SECONDS = 3.0
"""The time for the handshake and first request of a client that was accepted last."""


@dataclass(frozen=True, slots=True)
class DrainTimes:
    """The time for each phase of a shutdown, in seconds."""

    delay_seconds: float
    watch_window_seconds: float
    grace_seconds: float


@dataclass(frozen=True, slots=True)
class ConnectionCounts:
    """Connections without a request so far, and exchanges in progress by kind."""

    unused: int = 0
    ordinary: int = 0
    streams: int = 0
    tunnels: int = 0


class DrainSchedule:
    """Computes what is due at a given time after the shutdown signal."""

    def __init__(self, times: DrainTimes, started_at: float) -> None:
        self._closes_at = started_at + times.delay_seconds
        self._first_requests_expire = self._closes_at + FIRST_REQUEST_SECONDS
        self._window_ends_at = self._closes_at + times.watch_window_seconds
        self._deadline = max(
            self._window_ends_at, started_at + times.grace_seconds - TEARDOWN_SECONDS
        )
        self._last_check = self._closes_at
        self._due = 0.0

    def is_accepting(self, now: float) -> bool:
        """Return whether new connections are still accepted."""
        return now < self._closes_at

    def is_window_over(self, now: float) -> bool:
        """Return whether the time for ending streams is over."""
        return now >= self._window_ends_at

    def is_over(self, now: float, counts: ConnectionCounts) -> bool:
        """Return whether no exchange is waited for any more."""
        if now >= self._deadline:
            return True
        is_awaiting_first_requests = counts.unused > 0 and now < self._first_requests_expire
        return not (
            is_awaiting_first_requests or counts.ordinary or counts.streams or counts.tunnels
        )

    def streams_due(self, now: float, streams: int) -> int:
        """Return how many open streams should have ended by now; call once per check.

        Each check adds a share of the open streams: the elapsed time divided by the time left.
        Unless streams end otherwise, that is the same number in every second of the window. Streams
        that start late are spread over the rest of it. Streams that cannot end now stay due.
        """
        left = self._window_ends_at - self._last_check
        elapsed, self._last_check = now - self._last_check, now
        if elapsed >= left:
            return streams
        self._due += streams * elapsed / left
        return min(int(self._due), streams)

    def streams_ended(self, count: int) -> None:
        """Record how many of the due streams were ended."""
        self._due = max(0.0, self._due - count)
