"""Memory held for unauthenticated requests: one budget for all listeners.

A listener opens one `MemoryReservation` per connection (or per stream, or per buffered body) and
sets its current size. `resize(count)` replaces the earlier size, and `release()` equals
`resize(0)`. The bytes of an authenticated request are not counted here: the limit of requests in
flight bounds them.

When an address exceeds its share, its largest reservation is rejected. When all reservations exceed
the budget, the largest of all is rejected. It is the largest and not the newest: otherwise a few
large ones could keep out every client whose head needs two packets. A reservation belongs to a
connection and not to an address, because behind a load balancer all clients have one address.

The rejection callback must free the memory and respond to the client. It may call `resize` or
`release` of the same reservation, and it must not raise. Rejections do not nest: changes made by a
callback are evaluated after it has returned.

Reservations are ranked in buckets of about an eighth of their size. So the largest is found in
constant time, to within 13 %.
"""

from collections.abc import Callable

_BUCKETS_PER_DOUBLING_BITS = 3
ADDRESS, TOTAL = REASONS = ("address", "total")
"""What was exceeded: the share of the address, or the whole budget."""


# A head that waits for authentication is held as its lines, its token, that token's text, and the
# body of its review: measured in docs/decisions/0015.
_HEAD_COPIES = 4
# The size to which one large read grows the TLS buffer of a connection, for good.
_TLS_BUFFER_BYTES = 96 * 1024


def waiting_bytes(head_bytes: int, bytes_behind: int) -> int:
    """Return the memory that a waiting head and the received bytes behind it take."""
    tls_buffer_bytes = min(head_bytes + bytes_behind, _TLS_BUFFER_BYTES)
    return head_bytes * _HEAD_COPIES + bytes_behind + tls_buffer_bytes


class MemoryReservation:
    """The bytes that one connection holds for an unauthenticated request."""

    __slots__ = ("_budget", "bucket", "origin", "reject", "size_bytes")

    def __init__(
        self, budget: "UnauthenticatedMemoryBudget", origin: str, refuse: Callable[[], None]
    ) -> None:
        self._budget = budget
        self.origin = origin
        self.reject = refuse
        self.size_bytes = 0
        self.bucket = -1

    def resize(self, count: int) -> None:
        """Set the size in bytes; may reject this reservation or another one."""
        if count != self.size_bytes:
            self._budget.resize(self, count)

    def release(self) -> None:
        """Set the size to zero; may be called at any time."""
        if self.size_bytes:
            self._budget.resize(self, 0)


class _Ranking:
    """Reservations in buckets by size, and their total bytes."""

    __slots__ = ("_buckets", "_occupied", "held_bytes")

    def __init__(self) -> None:
        self._buckets: dict[int, dict[MemoryReservation, None]] = {}
        # One bit per non-empty bucket: the highest bit is the bucket of the largest.
        self._occupied = 0
        self.held_bytes = 0

    def add(self, reservation: MemoryReservation, bucket: int) -> None:
        self._buckets.setdefault(bucket, {})[reservation] = None
        self._occupied |= 1 << bucket

    def discard(self, reservation: MemoryReservation, bucket: int) -> None:
        reservations = self._buckets[bucket]
        del reservations[reservation]
        if not reservations:
            del self._buckets[bucket]
            self._occupied &= ~(1 << bucket)

    def largest(self) -> MemoryReservation:
        return next(iter(self._buckets[self._occupied.bit_length() - 1]))


class UnauthenticatedMemoryBudget:
    """Counts the held bytes, and rejects the largest reservation above the limit."""

    def __init__(
        self,
        limit_bytes: int,
        address_percent: int,
        *,
        when_rejected: Callable[[str], None] | None = None,
    ) -> None:
        """`when_rejected` is called with the reason of each rejection: address or total."""
        self._when_rejected = when_rejected
        self._all = _Ranking()
        self._by_origin: dict[str, _Ranking] = {}
        self._is_rejecting = False
        self.limit_bytes = self._address_bytes = 0
        self.set_limits(limit_bytes, address_percent)

    @property
    def used_bytes(self) -> int:
        """The bytes held now."""
        return self._all.held_bytes

    def set_limits(self, limit_bytes: int, address_percent: int) -> None:
        """Apply these limits from the next change on."""
        self.limit_bytes = limit_bytes
        self._address_bytes = limit_bytes * address_percent // 100

    def open(self, origin: str, on_reject: Callable[[], None]) -> MemoryReservation:
        """Return an empty reservation for a connection from this address."""
        return MemoryReservation(self, origin, on_reject)

    def resize(self, reservation: MemoryReservation, count: int) -> None:
        """Set the size of a reservation; called only by the reservation."""
        self._rank(reservation, count)
        # A callback that resizes again runs inside the loop below, which re-evaluates all counts.
        # A nested loop would reject others for memory that the first is about to free.
        if self._is_rejecting or self._exceeded(reservation.origin) is None:
            return
        self._is_rejecting = True
        try:
            self._reject_largest(reservation.origin)
        finally:
            self._is_rejecting = False

    def _exceeded(self, origin: str) -> tuple[_Ranking, str] | None:
        """Return the ranking above its limit, of the address or of all, and the reason."""
        of_origin = self._by_origin.get(origin)
        if of_origin is not None and of_origin.held_bytes > self._address_bytes:
            return of_origin, ADDRESS
        return (self._all, TOTAL) if self._all.held_bytes > self.limit_bytes else None

    def _reject_largest(self, origin: str) -> None:
        rejected: set[MemoryReservation] = set()
        while (exceeded := self._exceeded(origin)) is not None:
            ranking, reason = exceeded
            largest = ranking.largest()
            if largest in rejected:
                # It was rejected and still holds as much as before. Others must not be rejected for
                # that. Without this check a callback that frees nothing would block the loop.
                return
            rejected.add(largest)
            self._reject(largest, reason)

    def _reject(self, reservation: MemoryReservation, reason: str) -> None:
        self._rank(reservation, 0)
        if self._when_rejected is not None:
            self._when_rejected(reason)
        reservation.reject()

    def _rank(self, reservation: MemoryReservation, count: int) -> None:
        of_origin = self._by_origin.get(reservation.origin)
        if of_origin is None:
            of_origin = self._by_origin[reservation.origin] = _Ranking()
        before, after = reservation.bucket, _bucket(count)
        for ranking in (self._all, of_origin):
            ranking.held_bytes += count - reservation.size_bytes
            if before != after and before >= 0:
                ranking.discard(reservation, before)
            if before != after and after >= 0:
                ranking.add(reservation, after)
        reservation.size_bytes, reservation.bucket = count, after
        if not of_origin.held_bytes:
            del self._by_origin[reservation.origin]


def _bucket(count: int) -> int:
    """Return the bucket of a size: eight buckets per doubling, -1 for zero."""
    if count <= 0:
        return -1
    shift = max(0, count.bit_length() - 1 - _BUCKETS_PER_DOUBLING_BITS)
    return (shift << _BUCKETS_PER_DOUBLING_BITS) + (count >> shift)
