"""What a client may take, and what all of them share."""

import math
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import Protocol, Self

from proxy.concurrency.rate_limit import address_key
from proxy.core.requestinfo.request_info import DEFAULT_TARGET_BYTES
from proxy.serving.limits.handshakes import HandshakeFailures, HandshakeScheduler
from proxy.serving.limits.unauthenticated_memory import UnauthenticatedMemoryBudget
from proxy.wire.tcp import UNREACHABLE_SECONDS
from proxy.wire.tls_server import MAX_HANDSHAKE_BYTES

ADDRESS, TOTAL = EVICTION_REASONS = ("address", "total")
"""What was full when a connection was closed for a newcomer."""


class Occupant(Protocol):
    """A connection that takes a place."""

    def evict(self) -> None:
        """Close at once: the place is given to a newcomer."""
        ...


class ConnectionLimiter:
    """Counts those who are inside, and turns away who is too many."""

    def __init__(self, *, places: int, places_per_address: int) -> None:
        self._places = places
        self._places_per_address = places_per_address
        self._guests: dict[Occupant, str] = {}
        self._by_origin: Counter[str] = Counter()
        # Least recently active first.
        self._unauthenticated: dict[Occupant, None] = {}
        self._unauthenticated_of: dict[str, dict[Occupant, None]] = {}
        self._turned_away = 0
        self.evictions: Counter[str] = Counter(dict.fromkeys(EVICTION_REASONS, 0))
        """How many connections were closed for a newcomer so far, by reason."""

    def limit(self, *, places: int, places_per_address: int) -> None:
        """Hold newcomers to these limits; whoever is inside stays."""
        self._places = places
        self._places_per_address = places_per_address

    @property
    def active(self) -> int:
        """How many are inside."""
        return len(self._guests)

    @property
    def unauthenticated(self) -> int:
        """How many of them have had no authenticated request."""
        return len(self._unauthenticated)

    def try_acquire(self, guest: Occupant, address: str) -> bool:
        """Tell whether there is a place for the guest, and take it; `left` gives it back."""
        origin = address_key(address)
        if not self._has_room(origin):
            self._turned_away += 1
            return False
        self._guests[guest] = origin
        self._by_origin[origin] += 1
        self._unauthenticated[guest] = None
        self._unauthenticated_of.setdefault(origin, {})[guest] = None
        return True

    def renew(self, guest: Occupant) -> None:
        """Count an unauthenticated guest as the last one that did something."""
        if guest in self._unauthenticated:
            own = self._unauthenticated_of[self._guests[guest]]
            for order in (self._unauthenticated, own):
                del order[guest]
                order[guest] = None

    def mark_authenticated(self, guest: Occupant) -> None:
        """Keep the guest's place from newcomers from now on."""
        if guest in self._unauthenticated:
            self._forget(guest, self._guests[guest])

    def release(self, guest: Occupant) -> None:
        """Give back the guest's place, if it has one."""
        origin = self._guests.pop(guest, None)
        if origin is None:
            return
        if guest in self._unauthenticated:
            self._forget(guest, origin)
        self._by_origin[origin] -= 1
        if not self._by_origin[origin]:
            del self._by_origin[origin]

    def take_rejected_count(self) -> int:
        """Return how many were turned away since the last time of asking."""
        count, self._turned_away = self._turned_away, 0
        return count

    def _has_room(self, origin: str) -> bool:
        if self._by_origin[origin] >= self._places_per_address:
            return self._evict_first(self._unauthenticated_of.get(origin), ADDRESS)
        if len(self._guests) >= self._places:
            return self._evict_first(self._unauthenticated, TOTAL)
        return True

    def _evict_first(self, order: dict[Occupant, None] | None, reason: str) -> bool:
        if not order:
            return False
        guest = next(iter(order))
        self.release(guest)
        self.evictions[reason] += 1
        guest.evict()
        return True

    def _forget(self, guest: Occupant, origin: str) -> None:
        del self._unauthenticated[guest]
        own = self._unauthenticated_of[origin]
        del own[guest]
        if not own:
            del self._unauthenticated_of[origin]


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How long a client may take to say what it wants, and stay, and how many there may be."""

    handshake_seconds: float = 10.0
    handshake_bytes: int = MAX_HANDSHAKE_BYTES
    head_seconds: float = 32.0
    idle_seconds: float = 90.0
    # The same before a connection has had an authenticated request.
    unauthenticated_idle_seconds: float = 10.0
    # In this time the client must take 64 KiB of an ordinary response, or all that is pending.
    response_progress_seconds: float = 60.0
    unreachable_seconds: float = UNREACHABLE_SECONDS
    # After about this long a connection ends with the answer it is giving, or the next one.
    age_seconds: float = math.inf
    header_lines: int = 1200
    header_line_bytes: int = 128 * 1024
    target_bytes: int = DEFAULT_TARGET_BYTES
    connections: int = 10_000
    connections_per_address: int = 5_000
    # Of each turn of the event loop, for handshakes.
    handshake_slice_seconds: float = 0.002


@dataclass(frozen=True, slots=True)
class ListenerState:
    """What every connection of one listener is held to, and what they share."""

    limits: ConnectionLimits
    budget: UnauthenticatedMemoryBudget
    door: ConnectionLimiter
    failures: HandshakeFailures
    handshakes: HandshakeScheduler

    @classmethod
    def of(cls, limits: ConnectionLimits, budget: UnauthenticatedMemoryBudget) -> Self:
        """Return the counters that hold these limits."""
        door = ConnectionLimiter(
            places=limits.connections, places_per_address=limits.connections_per_address
        )
        turns = HandshakeScheduler(limits.handshake_slice_seconds, time.monotonic)
        return cls(limits, budget, door, HandshakeFailures(), turns)

    def current_limits(self, limits: ConnectionLimits) -> "ListenerState":
        """Return other limits for the same clients: the counters go on, and hold these."""
        self.door.limit(
            places=limits.connections, places_per_address=limits.connections_per_address
        )
        self.handshakes.limit(limits.handshake_slice_seconds)
        return replace(self, limits=limits)
