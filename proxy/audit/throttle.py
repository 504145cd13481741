"""So many calls a second in the long run, and some at once after a quiet time."""

from collections.abc import Callable


class Throttle:
    """Says how long the next call has to wait."""

    def __init__(self, per_second: float, burst: int, clock: Callable[[], float]) -> None:
        self._seconds_each = 1 / per_second
        self._burst_seconds = (burst - 1) / per_second
        self._clock = clock
        self._next = clock() - self._burst_seconds

    def delay(self) -> float:
        """Take the next turn, and return how many seconds it is away."""
        now = self._clock()
        turn = max(self._next, now - self._burst_seconds)
        self._next = turn + self._seconds_each
        return max(0.0, turn - now)
