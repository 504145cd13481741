"""Memory held for callers that are not authenticated yet: one bound for all listeners.

A listener opens one `Holding` per connection (or per stream, or per buffered body) and tells it how
many bytes it keeps at the moment: `hold(count)` replaces the earlier count, and `release()` is the
same as `hold(0)`. The bytes of an authenticated request are not counted here: its place in flight
bounds them.

When an address holds more than its share, its largest holding is refused; when all together hold
more than the limit, the largest of all is. The largest and not the newest: a few hoarders could
otherwise keep out every client whose head takes two packets. A holding is one connection and not
one address, because behind a load balancer all clients have one address. Its `refuse` callback must
let go of the memory and tell the client; it may call `hold` or `release` of the same holding, and
it must not raise. Refusals do not nest: what a callback changes is judged when it has returned.

Holdings are ranked in buckets of about an eighth of their size, so the largest is found in constant
time and is the largest to within 13 %.
"""

from collections.abc import Callable
from typing import Protocol

_STEPS_PER_DOUBLING_BITS = 3
ADDRESS, TOTAL = REASONS = ("address", "total")
"""What was full: the share of the address, or the whole budget."""


class RejectionCounter(Protocol):
    """Counts refused holdings."""

    def unauthenticated_rejected(self, reason: str) -> None:
        """Count one holding; `reason` is address or total."""
        ...


class MemoryReservation:
    """The bytes that one connection keeps of a caller who is not authenticated."""

    __slots__ = ("_budget", "bucket", "count", "origin", "reject")

    def __init__(
        self, budget: "UnauthenticatedMemoryBudget", origin: str, refuse: Callable[[], None]
    ) -> None:
        self._budget = budget
        self.origin = origin
        self.reject = refuse
        self.count = 0
        self.bucket = -1

    def resize(self, count: int) -> None:
        """Count this many bytes instead of those before; may refuse this holding or another."""
        if count != self.count:
            self._budget.change(self, count)

    def release(self) -> None:
        """Count nothing any more; may be called at any time."""
        if self.count:
            self._budget.change(self, 0)


class _Ranking:
    """Holdings in buckets by size, and how many bytes they are together."""

    __slots__ = ("_buckets", "_occupied", "held_bytes")

    def __init__(self) -> None:
        self._buckets: dict[int, dict[MemoryReservation, None]] = {}
        # One bit per bucket with a holding in it: the highest one names the largest.
        self._occupied = 0
        self.held_bytes = 0

    def add(self, holding: MemoryReservation, bucket: int) -> None:
        self._buckets.setdefault(bucket, {})[holding] = None
        self._occupied |= 1 << bucket

    def discard(self, holding: MemoryReservation, bucket: int) -> None:
        holdings = self._buckets[bucket]
        del holdings[holding]
        if not holdings:
            del self._buckets[bucket]
            self._occupied &= ~(1 << bucket)

    def largest(self) -> MemoryReservation:
        return next(iter(self._buckets[self._occupied.bit_length() - 1]))


class UnauthenticatedMemoryBudget:
    """Counts what is held, and refuses the largest holding when that is too much."""

    def __init__(
        self, limit_bytes: int, address_percent: int, *, counter: RejectionCounter | None = None
    ) -> None:
        self._counter = counter
        self._all = _Ranking()
        self._by_origin: dict[str, _Ranking] = {}
        self._is_refusing = False
        self.limit_bytes = self._address_bytes = 0
        self.limit(limit_bytes, address_percent)

    @property
    def used_bytes(self) -> int:
        """How many bytes are held now."""
        return self._all.held_bytes

    def limit(self, limit_bytes: int, address_percent: int) -> None:
        """Keep to these limits, from the next bytes on."""
        self.limit_bytes = limit_bytes
        self._address_bytes = limit_bytes * address_percent // 100

    def open(self, origin: str, refuse: Callable[[], None]) -> MemoryReservation:
        """Return a holding of nothing for a connection from this address."""
        return MemoryReservation(self, origin, refuse)

    def change(self, holding: MemoryReservation, count: int) -> None:
        """Count this many bytes for the holding; called by the holding alone."""
        self._rank(holding, count)
        # A callback that holds again runs inside the loop below, which looks at all counts again.
        # A second loop inside it would refuse others for what the first is about to let go.
        if self._is_refusing or self._full(holding.origin) is None:
            return
        self._is_refusing = True
        try:
            self._refuse_the_largest(holding.origin)
        finally:
            self._is_refusing = False

    def _full(self, origin: str) -> tuple[_Ranking, str] | None:
        """Return what holds too much, the address or all together, and how that is called."""
        own = self._by_origin.get(origin)
        if own is not None and own.held_bytes > self._address_bytes:
            return own, ADDRESS
        return (self._all, TOTAL) if self._all.held_bytes > self.limit_bytes else None

    def _refuse_the_largest(self, origin: str) -> None:
        refused: set[MemoryReservation] = set()
        while (full := self._full(origin)) is not None:
            ranking, reason = full
            largest = ranking.largest()
            if largest in refused:
                # It was refused and holds as much as before. Others must not pay for that, and
                # without this a callback that lets nothing go would keep the event loop here.
                return
            refused.add(largest)
            self._refuse(largest, reason)

    def _refuse(self, holding: MemoryReservation, reason: str) -> None:
        self._rank(holding, 0)
        if self._counter is not None:
            self._counter.unauthenticated_rejected(reason)
        holding.reject()

    def _rank(self, holding: MemoryReservation, count: int) -> None:
        own = self._by_origin.get(holding.origin)
        if own is None:
            own = self._by_origin[holding.origin] = _Ranking()
        before, after = holding.bucket, _bucket(count)
        for ranking in (self._all, own):
            ranking.held_bytes += count - holding.count
            if before != after and before >= 0:
                ranking.discard(holding, before)
            if before != after and after >= 0:
                ranking.add(holding, after)
        holding.count, holding.bucket = count, after
        if not own.held_bytes:
            del self._by_origin[holding.origin]


def _bucket(count: int) -> int:
    """Return the rank of a size: eight steps for each doubling, -1 for nothing."""
    if count <= 0:
        return -1
    shift = max(0, count.bit_length() - 1 - _STEPS_PER_DOUBLING_BITS)
    return (shift << _STEPS_PER_DOUBLING_BITS) + (count >> shift)
