"""Connection limits, and the state that the connections of one listener share.

Each connection is one file, and the default limit of open files is low. It is raised as far as the
system allows. If that is not enough, fewer client connections are accepted. Descriptors then always
remain for accepting, for the admin port, for reviews, and for reading credentials and certificates.
"""

import logging
import math
import resource
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import Protocol, Self

from proxy.concurrency.rate_limit import address_key
from proxy.core.requestinfo.request_info import DEFAULT_TARGET_BYTES
from proxy.serving.limits.handshakes import HandshakeFailures
from proxy.serving.limits.unauthenticated_input import UnauthenticatedInputScheduler
from proxy.serving.limits.unauthenticated_memory import UnauthenticatedMemoryBudget
from proxy.telemetry.logs import fields
from proxy.wire.tcp import UNREACHABLE_SECONDS
from proxy.wire.tls_server import MAX_HANDSHAKE_BYTES

log = logging.getLogger(__name__)

ADDRESS, TOTAL = EVICTION_REASONS = ("address", "total")
"""Which limit was reached when a connection was evicted for a new one."""


class EvictableConnection(Protocol):
    """A connection that the limiter counts."""

    def evict(self) -> None:
        """Close immediately to make way for a new connection."""
        ...


class ConnectionLimiter:
    """Counts open connections, and evicts or rejects those above the limits."""

    def __init__(self, *, max_connections: int, max_per_address: int) -> None:
        self._max_connections = max_connections
        self._max_per_address = max_per_address
        self._occupants: dict[EvictableConnection, str] = {}
        self._by_origin: Counter[str] = Counter()
        # Least recently active first.
        self._unauthenticated: dict[EvictableConnection, None] = {}
        self._unauthenticated_by_origin: dict[str, dict[EvictableConnection, None]] = {}
        self._rejected = 0
        self.evictions: Counter[str] = Counter(dict.fromkeys(EVICTION_REASONS, 0))
        """Connections evicted so far, by reason."""

    def set_limits(self, *, places: int, places_per_address: int) -> None:
        """Apply these limits to new connections; open ones stay."""
        self._max_connections = places
        self._max_per_address = places_per_address

    @property
    def active(self) -> int:
        """The number of open connections."""
        return len(self._occupants)

    @property
    def unauthenticated(self) -> int:
        """The number of open connections without an authenticated request."""
        return len(self._unauthenticated)

    def try_acquire(self, occupant: EvictableConnection, address: str) -> bool:
        """Count the connection if the limits allow it, and return whether; see `release`."""
        origin = address_key(address)
        if not self._ensure_capacity(origin):
            self._rejected += 1
            return False
        self._occupants[occupant] = origin
        self._by_origin[origin] += 1
        self._unauthenticated[occupant] = None
        self._unauthenticated_by_origin.setdefault(origin, {})[occupant] = None
        return True

    def mark_active(self, occupant: EvictableConnection) -> None:
        """Mark an unauthenticated connection as the most recently active one."""
        if occupant in self._unauthenticated:
            of_origin = self._unauthenticated_by_origin[self._occupants[occupant]]
            for order in (self._unauthenticated, of_origin):
                del order[occupant]
                order[occupant] = None

    def mark_authenticated(self, occupant: EvictableConnection) -> None:
        """Protect the connection from eviction from now on."""
        if occupant in self._unauthenticated:
            self._remove_unauthenticated(occupant, self._occupants[occupant])

    def release(self, occupant: EvictableConnection) -> None:
        """Stop counting the connection, if it is counted."""
        origin = self._occupants.pop(occupant, None)
        if origin is None:
            return
        if occupant in self._unauthenticated:
            self._remove_unauthenticated(occupant, origin)
        self._by_origin[origin] -= 1
        if not self._by_origin[origin]:
            del self._by_origin[origin]

    def take_rejected_count(self) -> int:
        """Return the connections rejected since the last call, and reset that count."""
        count, self._rejected = self._rejected, 0
        return count

    def _ensure_capacity(self, origin: str) -> bool:
        if self._by_origin[origin] >= self._max_per_address:
            return self._evict_first(self._unauthenticated_by_origin.get(origin), ADDRESS)
        if len(self._occupants) >= self._max_connections:
            return self._evict_first(self._unauthenticated, TOTAL)
        return True

    def _evict_first(self, order: dict[EvictableConnection, None] | None, reason: str) -> bool:
        if not order:
            return False
        occupant = next(iter(order))
        self.release(occupant)
        self.evictions[reason] += 1
        occupant.evict()
        return True

    def _remove_unauthenticated(self, occupant: EvictableConnection, origin: str) -> None:
        del self._unauthenticated[occupant]
        of_origin = self._unauthenticated_by_origin[origin]
        del of_origin[occupant]
        if not of_origin:
            del self._unauthenticated_by_origin[origin]


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of client connections: their number, sizes and times."""

    handshake_seconds: float = 10.0
    handshake_bytes: int = MAX_HANDSHAKE_BYTES
    head_seconds: float = 32.0
    idle_seconds: float = 90.0
    # The same before a connection has had an authenticated request.
    unauthenticated_idle_seconds: float = 10.0
    # In this time the client must read 64 KiB of an ordinary response, or all that is pending.
    response_progress_seconds: float = 60.0
    unreachable_seconds: float = UNREACHABLE_SECONDS
    # After about this time a connection closes with its current response, or with the next one.
    age_seconds: float = math.inf
    header_lines: int = 1200
    header_line_bytes: int = 128 * 1024
    target_bytes: int = DEFAULT_TARGET_BYTES
    connections: int = 10_000
    connections_per_address: int = 5_000
    # The time for input of unauthenticated clients in each iteration of the event loop.
    unauthenticated_slice_seconds: float = 0.001


@dataclass(frozen=True, slots=True)
class ListenerState:
    """The limits and counters that the connections of one listener share."""

    limits: ConnectionLimits
    budget: UnauthenticatedMemoryBudget
    connection_limiter: ConnectionLimiter
    failures: HandshakeFailures
    unauthenticated_input: UnauthenticatedInputScheduler

    @classmethod
    def create(cls, limits: ConnectionLimits, budget: UnauthenticatedMemoryBudget) -> Self:
        """Return new counters with these limits."""
        limiter = ConnectionLimiter(
            max_connections=limits.connections, max_per_address=limits.connections_per_address
        )
        scheduler = UnauthenticatedInputScheduler(
            limits.unauthenticated_slice_seconds, time.monotonic
        )
        return cls(limits, budget, limiter, HandshakeFailures(), scheduler)

    def with_limits(self, limits: ConnectionLimits) -> "ListenerState":
        """Return a copy with other limits; the counters are shared and apply them."""
        self.connection_limiter.set_limits(
            places=limits.connections, places_per_address=limits.connections_per_address
        )
        self.unauthenticated_input.set_slice(limits.unauthenticated_slice_seconds)
        return replace(self, limits=limits)


# Each client may have a connection of its own to the API server.
_FILES_PER_CONNECTION = 2
# Standard streams, the event loop, listening sockets, log and audit files, files being read,
# connections to audit receivers and span collectors, pipes to plugins.
_OTHER_FILES = 128


def fit_open_files(limits: ConnectionLimits, *, reserved: int) -> ConnectionLimits:
    """Raise the open-file limit as needed; return connection limits that fit the result.

    `reserved` is the number of files that other components need: the admin port and reviews.
    """
    reserve = reserved + _OTHER_FILES
    needed = limits.connections * _FILES_PER_CONNECTION + reserve
    allowed = _raise_limit(needed)
    if allowed >= needed:
        return limits
    fitting = max((allowed - reserve) // _FILES_PER_CONNECTION, 1)
    log.warning(
        "client connections reduced",
        extra=fields(
            connections=fitting, wanted=limits.connections, open_files=allowed, needed=needed
        ),
    )
    # The limit per address is scaled as well, so one address cannot use all connections.
    share = limits.connections_per_address * fitting // limits.connections
    return replace(
        limits,
        connections=fitting,
        connections_per_address=min(limits.connections_per_address, max(share, 1)),
    )


def _raise_limit(needed: int) -> int:
    """Raise the soft limit to `needed` if the system allows it; return the resulting limit."""
    allowed, ceiling = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return needed
    if allowed >= needed:
        return allowed
    raised = needed if ceiling == resource.RLIM_INFINITY else min(needed, ceiling)
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, ceiling))
    return raised
