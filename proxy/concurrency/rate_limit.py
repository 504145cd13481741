"""How much somebody may cost: a bucket of tokens each, refilled at a steady rate.

What is refused is never remembered for long, so without this whoever is refused in a loop would
turn every request into a question to the API server.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import IPv6Address

from cachetools import LRUCache

from proxy.core.errors import TooManyRequests


class CallPacer:
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


class FairSemaphore:
    """Lets so many in at a time; who waits longest among the callers' first ones comes next."""

    def __init__(self, places: int) -> None:
        self._free = places
        # In the order of their turns. A caller is in it only while somebody waits in its line.
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def slot(self, caller: str) -> AsyncIterator[None]:
        """Wait for a place and hold it for the time of the context."""
        await self._enter(caller)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, caller: str) -> None:
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(caller, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._leave()  # The place was given in the very moment its owner gave up.
            raise

    def _leave(self) -> None:
        """Give the place to the next in turn, or keep it free if nobody waits."""
        while self._lines:
            caller, line = next(iter(self._lines.items()))
            turn = line.popleft()
            del self._lines[caller]
            if line:
                self._lines[caller] = line  # behind every other caller
            if not turn.cancelled():
                turn.set_result(None)
                return
        self._free += 1


# Whoever has one IPv6 address has its whole network.
_HOST_BITS = 64


def address_key(address: str) -> str:
    """Return what counts as one address. A client of a socket for both IPs is an IPv4 one."""
    if ":" not in address:
        return address
    parsed = IPv6Address(address)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{int(parsed) >> _HOST_BITS:x}"


_REMEMBERED_NAMES = 10_000


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Questions per second in the long run, and at once after a quiet time."""

    per_second: float = 100.0
    burst: float = 2500.0


class KeyedTokenBucket:
    """One bucket per name."""

    def __init__(self, rate_limit: RateLimit, clock: Callable[[], float], *, refusal: str) -> None:
        """`refusal` is what somebody with an empty bucket is told."""
        self._rate_limit = rate_limit
        self._clock = clock
        self._refusal = refusal
        # What a bucket held, and when. A forgotten name starts with a full one; to be forgotten
        # it takes ten thousand others.
        self._buckets: LRUCache[str, tuple[float, float]] = LRUCache(_REMEMBERED_NAMES)

    def take(self, name: str) -> None:
        """Take one token, or refuse with the time after which there is one."""
        level, now = self._level(name)
        if level < 1:
            self._buckets[name] = (level, now)
            raise TooManyRequests(self._refusal, retry_after_seconds=1)
        self._buckets[name] = (level - 1, now)

    def refund(self, name: str) -> None:
        """Put a token back that was spent for nothing."""
        level, now = self._level(name)
        self._buckets[name] = (min(self._rate_limit.burst, level + 1), now)

    def _level(self, name: str) -> tuple[float, float]:
        now = self._clock()
        level, since = self._buckets.get(name, (self._rate_limit.burst, now))
        return min(self._rate_limit.burst, level + (now - since) * self._rate_limit.per_second), now
