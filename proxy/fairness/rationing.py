"""How much somebody may cost: a bucket of tokens each, refilled at a steady rate.

What is refused is never remembered for long, so without this whoever is refused in a loop would
turn every request into a question to the API server.
"""

from collections.abc import Callable
from dataclasses import dataclass

from cachetools import LRUCache

from proxy.core.errors import TooManyRequests

_REMEMBERED_NAMES = 10_000


@dataclass(frozen=True, slots=True)
class Ration:
    """Questions per second in the long run, and at once after a quiet time."""

    per_second: float = 100.0
    burst: float = 2500.0


class Rationing:
    """One bucket per name."""

    def __init__(self, ration: Ration, clock: Callable[[], float], *, refusal: str) -> None:
        """`refusal` is what somebody with an empty bucket is told."""
        self._ration = ration
        self._clock = clock
        self._refusal = refusal
        # What a bucket held, and when. A forgotten name starts with a full one; to be forgotten
        # it takes ten thousand others.
        self._buckets: LRUCache[str, tuple[float, float]] = LRUCache(_REMEMBERED_NAMES)

    def spend(self, name: str) -> None:
        """Take one token, or refuse with the time after which there is one."""
        level, now = self._level(name)
        if level < 1:
            self._buckets[name] = (level, now)
            raise TooManyRequests(self._refusal, retry_after_seconds=1)
        self._buckets[name] = (level - 1, now)

    def give_back(self, name: str) -> None:
        """Put a token back that was spent for nothing."""
        level, now = self._level(name)
        self._buckets[name] = (min(self._ration.burst, level + 1), now)

    def _level(self, name: str) -> tuple[float, float]:
        now = self._clock()
        level, since = self._buckets.get(name, (self._ration.burst, now))
        return min(self._ration.burst, level + (now - since) * self._ration.per_second), now
