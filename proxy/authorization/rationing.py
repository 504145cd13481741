"""How many questions one caller may cost: a bucket of tokens each, refilled at a steady rate.

Denials are never remembered, so without this a caller that is denied in a loop would turn every
request into reviews.
"""

from collections.abc import Callable
from dataclasses import dataclass

from cachetools import LRUCache

from proxy.core.errors import TooManyRequests

_REMEMBERED_CALLERS = 10_000


@dataclass(frozen=True, slots=True)
class Ration:
    """Reviews per second in the long run, and at once after a quiet time."""

    per_second: float = 100.0
    burst: float = 2500.0


class Rationing:
    """One bucket per caller name."""

    def __init__(self, ration: Ration, clock: Callable[[], float]) -> None:
        self._ration = ration
        self._clock = clock
        # What a bucket held, and when. A forgotten caller starts with a full one; to be forgotten
        # it takes ten thousand others, each of which had to authenticate.
        self._buckets: LRUCache[str, tuple[float, float]] = LRUCache(_REMEMBERED_CALLERS)

    def spend(self, caller: str) -> None:
        """Take one token, or refuse with the time after which there is one."""
        now = self._clock()
        level, since = self._buckets.get(caller, (self._ration.burst, now))
        level = min(self._ration.burst, level + (now - since) * self._ration.per_second)
        if level < 1:
            self._buckets[caller] = (level, now)
            raise TooManyRequests(
                "too many access reviews for this caller, please try again later",
                retry_after_seconds=1,
            )
        self._buckets[caller] = (level - 1, now)
