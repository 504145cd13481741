"""Rate limits, and fair concurrency between callers.

Denials are not cached for long. Without a rate limit a caller that is denied in a loop would turn
every request into a review at the API server.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import IPv6Address

from cachetools import LRUCache

from proxy.core.errors import TooManyRequests


class FairSemaphore:
    """Bounds concurrency, and serves waiting callers round-robin, each in FIFO order."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        # In round-robin order. A caller has an entry only while it has waiters.
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def slot(self, caller: str) -> AsyncIterator[None]:
        """Acquire a slot, and hold it for the duration of the context."""
        await self._acquire(caller)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, caller: str) -> None:
        if self._free:
            self._free -= 1
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(caller, deque()).append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                self._release()  # The slot was granted just before the cancellation.
            raise

    def _release(self) -> None:
        """Pass the slot to the next waiter, or free it if there is none."""
        while self._queues:
            caller, queue = next(iter(self._queues.items()))
            waiter = queue.popleft()
            del self._queues[caller]
            if queue:
                self._queues[caller] = queue  # move behind every other caller
            if not waiter.cancelled():
                waiter.set_result(None)
                return
        self._free += 1


# A client with one IPv6 address usually controls its whole /64 network.
_IPV6_HOST_BITS = 64


def address_key(address: str) -> str:
    """Return the key of an address: IPv6 by /64 network, IPv4-mapped addresses as IPv4."""
    if ":" not in address:
        return address
    parsed = IPv6Address(address)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{int(parsed) >> _IPV6_HOST_BITS:x}"


_MAX_BUCKETS = 10_000
_TOO_MANY = "too many requests, please try again later"


@dataclass(frozen=True, slots=True)
class RateLimit:
    """The sustained rate per second, and the burst."""

    per_second: float = 100.0
    burst: float = 2500.0


class KeyedTokenBucket:
    """One token bucket per name, refilled at a steady rate."""

    def __init__(
        self, rate_limit: RateLimit, clock: Callable[[], float], *, rejection: str = _TOO_MANY
    ) -> None:
        """`rejection` is the message of the 429 for an empty bucket."""
        self._rate_limit = rate_limit
        self._clock = clock
        self._rejection = rejection
        # The level of a bucket, and when it was set. An evicted name starts with a full bucket,
        # but its eviction takes ten thousand other names.
        self._buckets: LRUCache[str, tuple[float, float]] = LRUCache(_MAX_BUCKETS)

    def take(self, name: str) -> None:
        """Take one token, or raise TooManyRequests with Retry-After."""
        level, now = self._level(name)
        if level < 1:
            self._buckets[name] = (level, now)
            raise TooManyRequests(self._rejection, retry_after_seconds=1)
        self._buckets[name] = (level - 1, now)

    def reserve(self, name: str) -> float:
        """Take one token in advance, and return the seconds until the bucket has it."""
        level, now = self._level(name)
        self._buckets[name] = (level - 1, now)
        return max(0.0, (1 - level) / self._rate_limit.per_second)

    def refund(self, name: str) -> None:
        """Return a token whose request turned out not to count."""
        level, now = self._level(name)
        self._buckets[name] = (min(self._rate_limit.burst, level + 1), now)

    def _level(self, name: str) -> tuple[float, float]:
        now = self._clock()
        level, since = self._buckets.get(name, (self._rate_limit.burst, now))
        return min(self._rate_limit.burst, level + (now - since) * self._rate_limit.per_second), now
