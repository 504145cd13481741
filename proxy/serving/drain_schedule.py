"""The order of a shutdown and its times: pure, the clock's readings are passed in.

1. Announced: everything is served as ever, and each answer is its connection's last. Whoever
   chooses among instances learns meanwhile that we are not ready.
2. Closed: nobody new is accepted, requests on old connections are sent elsewhere, endless answers
   end one after the other, and what is under way is waited for.
3. Over: nothing is left, or the time is. Tunnels end here, for they alone cannot be resumed.
"""

from dataclasses import dataclass

TEARDOWN_SECONDS = 2.0
"""What closing itself may take of the grace period: last bytes, the admin port, the audit file."""

FIRST_REQUEST_SECONDS = 3.0
"""How long a client accepted at the last moment may take to shake hands and ask."""


@dataclass(frozen=True, slots=True)
class DrainTimes:
    """How long each part of a shutdown may take, in seconds."""

    delay_seconds: float
    watch_window_seconds: float
    grace_seconds: float


@dataclass(frozen=True, slots=True)
class ConnectionCounts:
    """Who is there: connections that have never asked, and exchanges under way by their kind."""

    unused: int = 0
    ordinary: int = 0
    streams: int = 0
    tunnels: int = 0


class DrainSchedule:
    """Says what is due when, from the moment of the signal on."""

    def __init__(self, times: DrainTimes, begun: float) -> None:
        self._closes = begun + times.delay_seconds
        self._newcomers_expire = self._closes + FIRST_REQUEST_SECONDS
        self._window_ends = self._closes + times.watch_window_seconds
        self._gives_up = max(self._window_ends, begun + times.grace_seconds - TEARDOWN_SECONDS)
        self._last_look = self._closes
        self._owed = 0.0

    def is_announced(self, now: float) -> bool:
        """Tell whether new clients are still let in."""
        return now < self._closes

    def is_window_over(self, now: float) -> bool:
        """Tell whether the streams that are left have had their time."""
        return now >= self._window_ends

    def is_over(self, now: float, counts: ConnectionCounts) -> bool:
        """Tell whether nobody is waited for any more."""
        if now >= self._gives_up:
            return True
        is_awaiting_newcomers = counts.unused > 0 and now < self._newcomers_expire
        return not (is_awaiting_newcomers or counts.ordinary or counts.streams or counts.tunnels)

    def streams_due(self, now: float, streams: int) -> int:
        """Return how many of the open streams should have ended by now; ask at each look, once.

        Each look owes the share of the open streams that its time is of the time left. While
        nothing else ends them that is the same number in every second of the window; whoever joins
        late is spread over what is left of it. What cannot be ended at this look stays owed.
        """
        left = self._window_ends - self._last_look
        elapsed, self._last_look = now - self._last_look, now
        if elapsed >= left:
            return streams
        self._owed += streams * elapsed / left
        return min(int(self._owed), streams)

    def streams_ended(self, count: int) -> None:
        """Learn how many of those that were due could be ended."""
        self._owed = max(0.0, self._owed - count)
